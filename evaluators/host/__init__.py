"""The host backend: compiles candidates with LLVM in worker processes, runs them in sandboxed children.

Importing the package loads nothing: each part is imported by its own name, as the worker processes need few of
them and start often.
"""
