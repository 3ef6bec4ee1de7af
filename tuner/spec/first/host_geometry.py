"""What a first spec takes from the host's own launch: sizes, values, shapes, blocks, and small sizes to verify with.

What is not told stays with the writer's own guess. May not run anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from tuner.core.dtypes import numpy_dtype
from tuner.spec.first.host_arithmetic import Call, Node, Op, names_of, operation, replaced, shown
from tuner.spec.first.host_code import Frame, HostCode, called_name
from tuner.spec.first.host_values import HostValues
from tuner.spec.first.small_sizes import evaluated, small_sizes
from tuner.spec.reading.c_types import DTYPES
from tuner.spec.reading.cuda_kernels import CudaKernel, Parameter
from tuner.spec.reading.nodes import Node as TreeNode
from tuner.spec.reading.nodes import plain_type
from tuner.spec.reading.record_layouts import record_layouts
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.source_trees import SourceTree
from tuner.spec.reading.trees import inner_nodes

__all__ = ["Trail", "host_launches", "launched"]

_MOST_FIXED = 64
_USUAL = 1024
_LARGEST = 512
_WIDE = re.compile(r"\breinterpret_cast\s*<|\b\w*128\w*\s*[(<]|\(\s*(?:float|int|uint|double)[24]\s*\*\s*\)")
"""Elements that are read several at once."""
_BLOCK = ("BLOCK_X", "BLOCK_Y", "BLOCK_Z")


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

    grid: tuple[Node, ...]
    block: tuple[Node, ...]
    shared: Node | None
    values: tuple[Node | None, ...]
    sizes_bytes: tuple[Node | None, ...]
    variables: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launch in a spec's words.

    Attributes:
        sizes: names with the host's values; ``None`` where it does not say.
        small: for each of them one to verify with.
        values: of scalar arguments that are no sizes.
        shapes: elements of arrays.
        unsure: arrays whose elements hang on numbers that neither the host's code nor the kernel's arguments tell.
        grid: blocks by axis; empty where not known.
        block: threads by axis, as names or numbers; ``None`` for one that is not known.
        follows: for each axis, whether the grid is reckoned from the block and shared memory can be.
        shared: dynamic shared memory, bytes; empty where not known.
    """

    sizes: Mapping[str, int | None]
    small: Mapping[str, int]
    values: Mapping[str, str]
    shapes: Mapping[str, str]
    unsure: frozenset[str]
    grid: tuple[str, ...]
    block: tuple[str | None, ...]
    follows: tuple[bool, ...]
    shared: str


def launched(
    kernel: CudaKernel,
    trees: Iterable[SourceTree],
    *,
    kept: Mapping[str, int],
    fixed: Collection[str],
    trails: Mapping[int, Sequence[Trail]],
) -> Launched | None:
    """The kernel's first launch whose geometry is told, in the first source that has one.

    Args:
        kernel: launched.
        trees: of sources that may launch it.
        kept: macros that the spec will tune, with any values.
        fixed: constants that are numbers, because the kernel itself uses them.
        trails: the members that stand for a structure, by the structure's place among the arguments.

    Raises:
        BaselineError: clang's tree is too large.
        MachineError: there is no clang, or it does not answer.
    """
    for tree in trees:
        for found in host_launches(tree, kernel.name, kept=kept, fixed=fixed, trails=trails):
            if len(found.values) <= len(kernel.parameters) and found.grid and found.block:
                return _Reader(kernel, found, list(kept)).read()
    return None


def host_launches(
    tree: SourceTree,
    kernel: str,
    *,
    kept: Mapping[str, int],
    fixed: Collection[str],
    trails: Mapping[int, Sequence[Trail]],
) -> Iterator[HostLaunch]:
    """The launches in one source of the kernel with a name, in order; the rest is as of :func:`launched`."""
    code = HostCode(tree.with_constants(kept))
    sizes = _sizes(tree.reader)
    for node, frame in code.uses('"CUDAKernelCallExpr"', "CUDAKernelCallExpr"):
        callee, geometry, *arguments = inner_nodes(node)
        if called_name(callee) == kernel and len(inner_nodes(geometry)) > 2:
            yield _launch(HostValues(code, kept, fixed, sizes), geometry, arguments, frame, trails)


def _launch(
    host: HostValues,
    geometry: TreeNode,
    arguments: Sequence[TreeNode],
    frame: Frame,
    trails: Mapping[int, Sequence[Trail]],
) -> HostLaunch:
    grid, block, *rest = inner_nodes(geometry)[1:]
    values: list[Node | None] = []
    sizes: list[Node | None] = []
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


@dataclass(slots=True)
class _Reader:
    kernel: CudaKernel
    launch: HostLaunch
    kept: Sequence[str]
    called: dict[Node, str] = field(default_factory=dict)
    """Arguments by what the host passes for them."""

    def read(self) -> Launched | None:
        scalars = [
            (p, v) for p, v in zip(self.kernel.parameters, self.launch.values, strict=False) if not p.pointer
        ]
        self._call(scalars)
        while True:
            block, grid, shared = self._geometry()
            shapes = {p.name: node for p, node in self._extents()}
            used = set().union(*(names_of(node) for node in (*grid, *shapes.values())))
            apart = [node for node in self.called if isinstance(node, Op) and used & set(names_of(node))]
            if not apart:
                break
            # What counts by itself, too, is no part of one size.
            self.called = {node: name for node, name in self.called.items() if node not in apart}
        sizes = self._sizes(used, scalars)
        known = {*sizes, *self.kept, *_BLOCK[: len(block)]}
        if not all(set(names_of(node)) <= known for node in grid):
            return None
        shapes = {name: node for name, node in shapes.items() if set(names_of(node)) <= known}
        small = self._small(sizes, grid, tuple(shapes.values()))
        usual = {n: d or _USUAL for n, d in sizes.items()}
        blocks = evaluated(grid, usual)
        if small is None or blocks is None or min(blocks) < 1:
            return None
        shapes = {name: node for name, node in shapes.items() if _somewhere(node, usual, small)}
        shapes = {name: _whole_elements(node, usual) for name, node in shapes.items()}
        passed = {p.name for p in self.kernel.parameters}
        unknown = {name for name, value in sizes.items() if value is None} - passed
        return Launched(
            sizes=sizes,
            small=small,
            values=dict(self._values(scalars, sizes)),
            shapes={name: shown(node) for name, node in shapes.items()},
            unsure=frozenset(name for name, node in shapes.items() if unknown & set(names_of(node))),
            grid=tuple(map(shown, grid)),
            block=tuple(None if b is None else shown(b) for b in block),
            follows=self._follows(len(block), grid, shared),
            shared=shown(shared) if shared is not None and set(names_of(shared)) <= known else "",
        )

    def _geometry(self) -> tuple[list[Node | None], list[Node], Node | None]:
        """Threads, blocks, bytes of shared memory; a block's own variable becomes its name."""
        block: list[Node | None] = []
        renamed: dict[Node, str] = {}
        own: list[dict[Node, str]] = [{}, {}, {}]
        for axis, (name, node) in enumerate(zip(_BLOCK, self.launch.block, strict=False)):
            value = self._numbers(node)
            block.append(value if isinstance(value, int) or set(names_of(value)) <= set(self.kept) else None)
            if not (isinstance(value, str) and value in self.kept):
                own[axis] = {node: name, value: name}
            renamed = {**own[axis], **renamed}
        grid = [
            # Blocks as wide as they are high: each axis of the grid is divided by its own.
            self._put(replaced(node, partial(_over, renamed={**renamed, **own[axis]})))
            for axis, node in enumerate(self.launch.grid[: len(own)])
        ]
        if self.launch.shared is None:
            return block, grid, None
        shared = replaced(
            self.launch.shared, lambda part: renamed.get(part) if isinstance(part, str) else None
        )
        return block, grid, self._put(shared)

    @staticmethod
    def _follows(count: int, grid: Sequence[Node], shared: Node | None) -> tuple[bool, ...]:
        """Of each axis, whether a block of another size is launched right, too."""
        if isinstance(shared, int) and shared:
            return (False,) * count
        return tuple(any(name in set(names_of(node)) for node in grid) for name in _BLOCK[:count])

    def _call(self, scalars: Sequence[tuple[Parameter, Node | None]]) -> None:
        passed = [(p.name, v) for p, v in scalars if v is not None and p.whole]
        for name, value in passed:
            if isinstance(value, str) and value in self.launch.variables:
                self.called.setdefault(value, name)
        alone = {*self.called, *self.kept}
        for name, value in passed:
            # `n = width * height` becomes a size of its own where neither of its parts is one.
            names = set(names_of(value))
            if isinstance(value, Op) and names and not alone & names:
                self.called.setdefault(value, name)

    def _numbers(self, node: Node) -> Node:
        """With every variable as its value, where it has one."""
        return replaced(node, lambda part: self.launch.variables.get(part) if isinstance(part, str) else None)

    def _put(self, node: Node) -> Node:
        """In the spec's names: variables as the arguments that they are passed for, small ones as numbers."""

        def change(part: Node) -> Node | None:
            if part in self.called:
                return self.called[part]
            if not isinstance(part, str) or part in self.kept:
                return None
            value = self.launch.variables.get(part)
            return value if value is not None and value <= _MOST_FIXED else None

        return replaced(node, change)

    def _extents(self) -> Iterator[tuple[Parameter, Node]]:
        for parameter, size in zip(self.kernel.parameters, self.launch.sizes_bytes, strict=False):
            if parameter.pointer and size is not None and parameter.dtype:
                element = numpy_dtype(parameter.dtype).itemsize * parameter.lanes
                exact = size // element if isinstance(size, int) else _exactly(size, element)
                yield parameter, self._put(Op("//", size, element) if exact is None else exact)

    def _sizes(
        self, used: set[str], scalars: Sequence[tuple[Parameter, Node | None]]
    ) -> dict[str, int | None]:
        """What the grid, the arrays or a bound in the kernel hang on."""
        found: dict[str, int | None] = {}
        host = {ours: theirs for theirs, ours in self.called.items()}
        for parameter, value in scalars:
            name = parameter.name
            if name in host and (name in used or self._bounds(name)):
                known = self._numbers(host[name])
                if not isinstance(known, int) or known > 0:
                    found[name] = known if isinstance(known, int) else None
            elif isinstance(value, int) and value > _MOST_FIXED and self._bounds(name) and parameter.whole:
                found[name] = value
        for name in sorted(used - set(found)):
            assigned = self.launch.variables.get(name)
            positive = assigned is None or assigned > 0
            if name in self.launch.variables and name not in self.called and positive:
                found[name] = assigned
        return found

    def _bounds(self, name: str) -> bool:
        """Whether something is compared with it."""
        return (
            re.search(rf"[<>]=?\s*\(?\s*{name}\b|\b{name}\b\s*[-+]?\s*\d*\s*[<>]", self.kernel.body)
            is not None
        )

    def _values(
        self, scalars: Sequence[tuple[Parameter, Node | None]], sizes: Mapping[str, int | None]
    ) -> Iterator[tuple[str, str]]:
        for parameter, value in scalars:
            if value is None or parameter.name in sizes:
                continue
            node = self._put(value)
            if parameter.dtype.startswith("float"):
                node = self._numbers(node)
                node = node.left if isinstance(node, Op) and node.sign == "/" and node.right == 1 else node
            else:
                node = replaced(node, lambda n: self._lone(n, sizes))
            if set(names_of(node)) <= set(sizes):
                yield parameter.name, shown(node)

    def _lone(self, node: Node, sizes: Mapping[str, int | None]) -> Node | None:
        if not isinstance(node, str) or node in sizes:
            return None
        host: dict[str, Node] = {ours: theirs for theirs, ours in self.called.items()}
        known = self._numbers(host.get(node, node))
        return known if isinstance(known, int) else None

    def _small(
        self, sizes: Mapping[str, int | None], grid: Sequence[Node], arrays: Sequence[Node]
    ) -> dict[str, int] | None:
        own = {p.name for p in self.kernel.parameters}
        free = [
            n for n in sizes if n in own and self._bounds(n) and not any(_floored(node, n) for node in grid)
        ]
        known = map(self._numbers, self.launch.block)
        block = {name: n if isinstance(n, int) else 64 for name, n in zip(_BLOCK, known, strict=False)}
        if len(block) == 1 and any(_BLOCK[0] in set(names_of(node)) for node in grid):
            # The largest that the spec will try has to leave a block, too.
            block = {_BLOCK[0]: max(block[_BLOCK[0]], _LARGEST)}
        wide = _WIDE.search(self.kernel.body) is not None
        return small_sizes(sizes, free=free, wide=wide, grid=grid, block=block, arrays=arrays)


def _somewhere(shape: Node, *sizes: Mapping[str, int]) -> bool:
    """Whether an array has elements, with each of some sizes."""
    counts = [evaluated([shape], given) for given in sizes]
    return all(elements is not None and elements[0] >= 1 for elements in counts)


def _whole_elements(shape: Node, usual: Mapping[str, int]) -> Node:
    """Rounded up where a product with a fraction may be no whole number."""
    counts = [evaluated([shape], given) or [0.0] for given in (usual, {n: d | 1 for n, d in usual.items()})]
    return shape if all(elements[0].is_integer() for elements in counts) else Call("ceil", (shape,))


def _over(part: Node, *, renamed: Mapping[Node, str]) -> Node | None:
    """A block's size in the place of the number that something is divided by."""
    if isinstance(part, Op) and part.sign in ("/", "//") and part.right in renamed and part.right != 1:
        return Op(part.sign, part.left, renamed[part.right])
    if isinstance(part, Call) and part.name == "ceil" and isinstance(part.given[0], Op):
        inner = _over(part.given[0], renamed=renamed)
        return None if inner is None else Call("ceil", (inner,))
    return renamed.get(part) if isinstance(part, str) else None


def _floored(node: Node, name: str) -> bool:
    """Whether a division that drops the rest has the name in it."""
    if isinstance(node, Op):
        own = node.sign == "//" and name in set(names_of(node.left))
        return own or _floored(node.left, name) or _floored(node.right, name)
    return isinstance(node, Call) and any(_floored(part, name) for part in node.given)


def _exactly(size: Node, element: int) -> Node | None:
    """A product divided by a number that is in it."""
    if isinstance(size, int):
        return None if size % element else size // element
    if isinstance(size, Op) and size.sign == "*":
        both = ((size.left, size.right), (size.right, size.left))
        for inner, other in sorted(both, key=lambda each: not isinstance(each[0], int)):
            made = _exactly(inner, element)
            if made is not None:
                return operation("*", *((other, made) if isinstance(made, int) else (made, other)))
    return None
