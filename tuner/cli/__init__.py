"""The command line. May not decide anything about a run: it parses, calls :mod:`tuner.api` and prints."""
