"""The spec: from a YAML file to a checked :class:`tuner.core.types.Task` and its space, and first specs from sources.

May not compile candidates or decide what to try; it asks clang only for a kernel's signature.
"""
