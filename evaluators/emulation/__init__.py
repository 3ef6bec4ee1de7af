"""CUDA kernels on the host's processor: whether one is right, before a GPU is paid for. Never how fast it is."""

from tuner.evaluators.emulation.emulator import Emulator

__all__ = ["Emulator"]
