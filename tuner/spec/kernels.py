"""Several kernels in one file: the keys of each, and its name.

May not look at anything but the file's own data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.core.errors import SpecError
from tuner.spec.models import SpecModel
from tuner.spec.yaml_places import Document, View

__all__ = ["kernel_names", "kernel_views"]


def kernel_views(document: Document) -> list[View]:
    """The kernels of a file: the file itself, or the entries of ``kernels`` over the common keys."""
    data = document.data
    if not isinstance(data, dict):
        shown = "a list" if isinstance(data, list) else "no mapping"
        raise SpecError(f"the file is {shown}", "begin with `kernel:`", place=document.place(()))
    if "kernels" not in data:
        return [View(document=document, data=data)]
    entries = data["kernels"]
    if "kernel" in data:
        place = document.place(("kernels",), key=True)
        raise SpecError("both kernel and kernels are given", "keep one", place=place)
    if not isinstance(entries, list) or not entries:
        hint = "a list of mappings, each with its own `kernel`"
        raise SpecError("kernels is no list with entries", hint, place=document.place(("kernels",), key=True))
    common = {key: value for key, value in data.items() if key != "kernels"}
    views = []
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            hint = "a mapping with its own `kernel`"
            raise SpecError(f"kernels[{i}] is no mapping", hint, place=document.place(("kernels", i)))
        views.append(View(document=document, data={**common, **entry}, own=("kernels", i)))
    return views


def kernel_names(models: Sequence[SpecModel]) -> list[str]:
    """A name for each kernel: its entry, with a number where two are called the same."""
    called = [k.entry if k.loop is None else f"{k.entry}_loop{k.loop}" for k in (m.kernel for m in models)]
    plain = [re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_.-") or "kernel" for name in called]
    taken: set[str] = set()
    names = []
    for name in plain:
        free, number = name, 2
        while free in taken:
            free, number = f"{name}-{number}", number + 1
        taken.add(free)
        names.append(free)
    return names
