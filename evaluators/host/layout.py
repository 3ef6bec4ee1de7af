"""Where buffers lie: in their memory files, in the child's address space, and in the tables that tell it so.

Pure arithmetic: no memory is made here, and neither NumPy nor a process is needed.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = [
    "PAGE",
    "VARIABLE_ALIGN",
    "Buffer",
    "BundleLayout",
    "EntryLayout",
    "Region",
    "Span",
    "lay_out",
    "variable_place",
]

PAGE = mmap.PAGESIZE
LINE = 64

READ, WRITE = 1, 2
MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS, MAP_POPULATE = 0x01, 0x02, 0x20, 0x8000

INPUTS, OUTPUTS = 0, 1
"""Numbers of the two memory files of a bundle in the order in which a child receives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """One array of one entry: ``role`` is ``input``, ``output``, ``inout``, ``scratch`` or ``return``.

    ``variable``: the kernel does not get its address, but has a variable for it, at whose place a call sees its pages.
    ``place``: the address at which a call sees them; 0 for any.
    """

    name: str
    role: str
    size_bytes: int
    variable: bool = False
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A run of whole pages: in a memory file (``None``: the child's own) and in the child's address space.

    Attributes:
        file: which memory file, :data:`INPUTS`, :data:`OUTPUTS` or ``None``.
        offset: where it begins in the file, bytes.
        at: where it begins in the address space, bytes after the bundle's base.
        size_bytes: a multiple of the page size.
        writable: in the child.
    """

    file: int | None
    offset: int
    at: int
    size_bytes: int
    writable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A buffer with its place. ``skip`` is how far into ``span`` its first byte lies.

    ``golden`` is, for ``inout``, the sealed copy that the buffer is restored from; it begins at its span's start.
    """

    buffer: Buffer
    span: Span
    skip: int
    golden: Span | None = None

    @property
    def at(self) -> int:
        """First byte, after the bundle's base."""
        return self.span.at + self.skip

    @property
    def offset(self) -> int:
        """First byte in its memory file."""
        return self.span.offset + self.skip


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryLayout:
    """One call's buffers. Entries with equal ``inputs`` share the pages of their inputs and goldens."""

    regions: tuple[Region, ...]
    inputs: int

    def region(self, name: str) -> Region:
        """The region of one argument."""
        return next(r for r in self.regions if r.buffer.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLayout:
    """All entries of a bundle: two memory files and one stretch of address space."""

    entries: tuple[EntryLayout, ...]
    input_bytes: int
    output_bytes: int
    space_bytes: int
    spans: tuple[Span, ...] = field(default=())

    def rows(self, base: int) -> list[int]:
        """Mappings for ``tuner_attach``: six words for each span."""
        table: list[int] = []
        for span in self.spans:
            protection = READ | (WRITE if span.writable else 0)
            if span.file is None:
                flags, file, offset = MAP_PRIVATE | MAP_ANONYMOUS, -1, 0
            else:
                flags, file, offset = MAP_SHARED, span.file, span.offset
            table += [base + span.at, span.size_bytes, protection, flags | MAP_POPULATE, file, offset]
        return table

    def find(self, offset: int) -> tuple[int, Region, int] | None:
        """The buffer nearest to an address, for messages.

        Args:
            offset: bytes after the bundle's base.

        Returns:
            The entry's number, the region, and the distance: 0 inside, negative bytes before the first byte,
            positive bytes from the end on (1 is the first byte past it). ``None`` outside of the bundle.
        """
        if not 0 <= offset < self.space_bytes:
            return None
        best: tuple[int, Region, int] | None = None
        for number, entry in enumerate(self.entries):
            for region in entry.regions:
                end = region.at + region.buffer.size_bytes
                away = offset - region.at if offset < region.at else max(0, offset - end + 1)
                if best is None or abs(away) < abs(best[2]):
                    best = (number, region, away)
        return best


VARIABLE_ALIGN = 64
"""No variable may need to begin at a multiple of more bytes."""


def variable_place(size: int) -> tuple[int, int]:
    """Bytes of the pages of a variable, the end of which it lies against, and how far into them it begins."""
    room = _pages(size) - size
    return _pages(size), room - room % VARIABLE_ALIGN


def _pages(size: int) -> int:
    return max(1, -(-size // PAGE)) * PAGE


@dataclass(slots=True)
class _Pen:
    """Hands out pages of the files and of the address space, a guard page after each span."""

    files: list[int] = field(default_factory=lambda: [0, 0])
    at: int = PAGE
    spans: list[Span] = field(default_factory=list)

    def span(self, file: int | None, size: int, *, writable: bool) -> Span:
        offset = 0
        if file is not None:
            offset = self.files[file]
            self.files[file] += size
        span = Span(file=file, offset=offset, at=self.at, size_bytes=size, writable=writable)
        self.at += size + PAGE
        self.spans.append(span)
        return span


def _skip(placement: str, buffer: Buffer, stagger: int, align: int) -> int:
    """Bytes between the start of the pages and the first byte of the buffer."""
    if buffer.place:
        return buffer.place % PAGE
    if buffer.variable:
        return variable_place(buffer.size_bytes)[1]
    if placement == "end":
        room = _pages(buffer.size_bytes) - buffer.size_bytes
        return room - room % align
    if placement == "start":
        return 0
    step = max(LINE, align)
    return stagger % (PAGE // step) * step


def lay_out(
    entries: Sequence[Sequence[Buffer]],
    placements: Sequence[str],
    *,
    shift: int = 0,
    copies: int = 1,
    align: int = 1,
) -> BundleLayout:
    """Places the buffers of several entries.

    Args:
        entries: the buffers of each entry, in call order.
        placements: for each entry ``"end"`` (the last byte lies against a guard page), ``"start"`` (the first byte
            does) or ``"stagger"`` (both guard pages stay, and buffers begin at different cache lines of a page,
            so that neither loads and stores nor sets compete for the same ways of a cache).
        shift: changes the stagger.
        copies: how many entries to make of each, equal in inputs, each with outputs of its own.
        align: every buffer begins at a multiple of this many bytes (a power of two, a page at most).
    """
    pen = _Pen()
    made: list[EntryLayout] = []
    shared: dict[tuple[int, str], Span] = {}
    for copy in range(copies):
        for number, (buffers, placement) in enumerate(zip(entries, placements, strict=True)):
            regions = []
            for index, buffer in enumerate(buffers):
                stagger = shift + 7 * index + 2 * (number + copy * len(entries))
                if buffer.role == "input":
                    stagger = shift + 7 * index + 2 * number
                regions.append(
                    _place(
                        pen, shared, (number, buffer.name), buffer, _skip(placement, buffer, stagger, align)
                    )
                )
            made.append(EntryLayout(regions=tuple(regions), inputs=number))
    return BundleLayout(
        entries=tuple(made),
        input_bytes=pen.files[INPUTS],
        output_bytes=pen.files[OUTPUTS],
        space_bytes=pen.at,
        spans=tuple(pen.spans),
    )


def _place(
    pen: _Pen,
    shared: dict[tuple[int, str], Span],
    key: tuple[int, str],
    buffer: Buffer,
    skip: int,
) -> Region:
    size = _pages(skip + buffer.size_bytes)
    if buffer.role == "input":
        if key not in shared:
            shared[key] = pen.span(INPUTS, size, writable=False)
        return Region(buffer=buffer, span=shared[key], skip=skip)
    golden = None
    if buffer.role == "inout":
        if key not in shared:
            shared[key] = pen.span(INPUTS, _pages(buffer.size_bytes), writable=False)
        golden = shared[key]
    file = None if buffer.role == "scratch" and not buffer.variable else OUTPUTS
    return Region(buffer=buffer, span=pen.span(file, size, writable=True), skip=skip, golden=golden)
