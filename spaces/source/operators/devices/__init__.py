"""Operators on kernels of OpenCL and CUDA: what an item does, how many there are, what a group shares."""
