"""Device code by pass pipelines: clang's IR, LLVM's passes, another target's code; needs no device.

What the CUDA and the OpenCL backend share. May not know a driver, nor load or run what it makes.
"""
