"""What a process that runs or makes generated code may do: file system, network, system calls, limits, environment.

Standard library only, as the processes to be confined import it at their start. Each part of the kernel that is
missing is left out and named (:func:`tuner.evaluators.sandbox.support.probe`), never passed over in silence.
"""

from __future__ import annotations

__all__: list[str] = []
