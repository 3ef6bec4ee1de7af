"""How host code launches a kernel: `<<<grid, block, shared>>>` with what its variables stand for, by clang's tree.

Guesses, for first specs; may not run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from tuner.core.dtypes import numpy_dtype
from tuner.spec.first.host_arithmetic import Node as Value
from tuner.spec.first.host_code import Frame, HostCode, called_name
from tuner.spec.first.host_values import HostValues
from tuner.spec.reading.c_types import DTYPES
from tuner.spec.reading.nodes import Node, plain_type
from tuner.spec.reading.record_layouts import record_layouts
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.source_trees import SourceTree
from tuner.spec.reading.trees import inner_nodes

__all__ = ["HostLaunch", "Trail", "host_launches"]

Trail = tuple[str, ...]
"""Names of a member and of those around it, from the outermost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLaunch:
    """One launch; an axis, a value or a number of bytes that is not known is ``None``.

    Attributes:
        grid: blocks by axis, x first; empty where the code does not tell.
        block: threads by axis.
        shared: dynamic shared memory, bytes.
        values: of each argument in order, a structure's members in its place.
        sizes_bytes: of the allocation that each argument points to.
        variables: the host's variables that these name, with their values where a number is assigned.
    """

    grid: tuple[Value, ...]
    block: tuple[Value, ...]
    shared: Value | None
    values: tuple[Value | None, ...]
    sizes_bytes: tuple[Value | None, ...]
    variables: Mapping[str, int | None] = field(default_factory=dict)


def host_launches(
    tree: SourceTree,
    kernel: str,
    *,
    kept: Mapping[str, int],
    fixed: Collection[str],
    trails: Mapping[int, Sequence[Trail]],
) -> Iterator[HostLaunch]:
    """The launches of a kernel in a source, in order.

    Args:
        tree: of the source.
        kernel: its name.
        kept: macros that stay as they are, because the spec tunes them, with any values.
        fixed: constants that are numbers, because the kernel itself uses them.
        trails: members of a structure that are wanted in its place, by the place of the argument.

    Raises:
        BaselineError: clang's tree is too large.
        MachineError: there is no clang, or it does not answer.
    """
    code = HostCode(tree.with_constants(kept))
    sizes = _sizes(tree.reader)
    for node, frame in code.uses('"CUDAKernelCallExpr"', "CUDAKernelCallExpr"):
        callee, geometry, *arguments = inner_nodes(node)
        if called_name(callee) == kernel and len(inner_nodes(geometry)) > 2:
            yield _launch(HostValues(code, kept, fixed, sizes), geometry, arguments, frame, trails)


def _launch(
    host: HostValues,
    geometry: Node,
    arguments: Sequence[Node],
    frame: Frame,
    trails: Mapping[int, Sequence[Trail]],
) -> HostLaunch:
    grid, block, *rest = inner_nodes(geometry)[1:]
    values: list[Value | None] = []
    sizes: list[Value | None] = []
    for place, argument in enumerate(arguments):
        if place in trails:
            values += [host.member(argument, members, frame) for members in trails[place]]
            sizes += [host.bytes_of(argument, frame, members) for members in trails[place]]
        else:
            values.append(host.value(argument, frame))
            sizes.append(host.bytes_of(argument, frame) if "*" in plain_type(argument) else None)
    return HostLaunch(
        grid=host.dimensions(grid, frame),
        block=host.dimensions(block, frame),
        shared=host.value(rest[0], frame) if rest else 0,
        values=tuple(values),
        sizes_bytes=tuple(sizes),
        variables=host.variables,
    )


def _sizes(reader: SourceReader) -> Callable[[str], int | None]:
    """Bytes of types, asked of clang where they are structures."""

    @cache
    def size(kind: str) -> int | None:
        plain = kind.removeprefix("const ")
        if "*" in plain:
            return 8
        if plain in DTYPES:
            return numpy_dtype(DTYPES[plain][0]).itemsize
        found = record_layouts(reader, [plain]).get(plain)
        return found.size if found else None

    return size
