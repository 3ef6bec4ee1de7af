"""Recordings in specs: arguments and problems of a task from what was recorded, and first specs of recorded kernels."""
