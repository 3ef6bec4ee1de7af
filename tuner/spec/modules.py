"""Kernels whose source is a SPIR-V module: their signature, and what a spec cannot ask of them.

Looks at the module alone; may not ask a compiler or a device.
"""

from __future__ import annotations

from tuner.core.types import Task
from tuner.evaluators.opencl.module import Parameter, entry_point, module_bytes
from tuner.spec.agreement import check_signature
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.signature import Function
from tuner.spec.tunables import Tunables
from tuner.spec.yaml_places import View

__all__ = ["check_module", "module_functions"]


def module_functions(text: str, entry: str) -> list[Function]:
    """The kernel of that name.

    Args:
        text: of the module, see :func:`tuner.evaluators.opencl.module.module_text`.
        entry: its name.

    Raises:
        BaselineError: the text is no module, or has no such kernel.
    """
    found = entry_point(module_bytes(text), entry)
    kinds = [(parameter.name, _kind(parameter)) for parameter in found.parameters]
    names = [name if name.isidentifier() else "" for name, _ in kinds]
    # Names of which there are several say nothing.
    named = [name if names.count(name) == 1 else "" for name in names]
    parameters = tuple(
        (name or f"argument{i}", kind) for i, (name, (_, kind)) in enumerate(zip(named, kinds, strict=True))
    )
    return [Function(name=entry, parameters=parameters, returns=None, kernel=True)]


def _kind(parameter: Parameter) -> CType:
    base = parameter.base or ("void" if parameter.pointer else "a structure")
    words = [
        *(["__local"] if parameter.local else ["__global"] if parameter.pointer else []),
        *(["const"] if parameter.pointer and parameter.constant else []),
        base if parameter.width == 1 else f"{base}{parameter.width}",
    ]
    return CType(
        text=" ".join(words) + (" *" if parameter.pointer else ""),
        base=base,
        pointer=parameter.pointer,
        constant=parameter.constant,
        local=parameter.local,
        width=parameter.width,
    )


def check_module(task: Task, tunables: Tunables, view: View) -> None:
    """The module has the kernel, with the spec's arguments, and nothing is asked that only a source can give.

    Raises:
        SpecError: it does not, or a parameter is to be defined in it.
        BaselineError: it cannot be read.
    """
    for parameter in tunables.parameters:
        if parameter.macro:
            raise view.error(
                ("space", "parameters", parameter.name),
                f"{parameter.name} cannot be defined in a module: it is compiled already",
                "write macro: false where the launch or an argument uses it",
            )
    if len(task.kernel.variant.files) > 1:
        raise view.error(("kernel", "sources"), "a module stands alone", "remove sources", key=True)
    with view.at(("kernel", "entry")):
        (function,) = module_functions(task.kernel.variant.files[0].text, task.kernel.entry)
    shared = task.launch is not None and task.launch.shared_bytes is not None
    check_signature(function, "opencl", task.arguments, None, view, shared=shared)
