"""The CUDA backend: kernels compiled by NVRTC, run and timed through the driver, or checked with no GPU in reach.

:class:`tuner.evaluators.cuda.backend.CudaBackend` is the way in. Nothing here is imported before it is needed.
"""
