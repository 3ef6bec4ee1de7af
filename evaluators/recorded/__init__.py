"""The backend ``recorded``: answers from a file of measurements that others, or an earlier run, made."""
