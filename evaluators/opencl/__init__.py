"""The OpenCL backend: kernels on any OpenCL device, in worker processes only.

The tuner's own process never loads pyopencl: PoCL brings an LLVM of its own, and its kernels are native code.
"""
