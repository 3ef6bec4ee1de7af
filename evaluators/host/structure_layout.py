"""How the structures that a function takes are laid out: asked of the compiler, behind the source as given.

An array whose initial values are sizes and offsets is compiled and read from the object; nothing runs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuner.core.canonical import digest_json
from tuner.core.errors import BaselineError
from tuner.core.passing import Layout, Passed, structures
from tuner.core.types import Kernel, Resolved, Source, Status, Variant
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.flags import sort_flags
from tuner.evaluators.host.objects import Object

__all__ = ["Layouts", "asked_layout"]

_NAME = "tuner_asked_layout"
_REFERENCE = """
template <class T> struct tuner_refers { static constexpr long value = 0; };
template <class T> struct tuner_refers<T &> { static constexpr long value = 1; };
template <class T> struct tuner_refers<T &&> { static constexpr long value = 1; };
template <int I, class R, class... A> constexpr long tuner_reference(R (*)(A...))
{
    return tuner_refers<__type_pack_element<I, A...>>::value;
}
"""


def asked_layout(frontend: front.FrontEnd, kernel: Kernel, resolved: Resolved) -> Layout:
    """The layout of a kernel's structures, in the source as given.

    Args:
        frontend: that compiles it.
        kernel: with ``passed``.
        resolved: flags and macros to compile with.

    Raises:
        BaselineError: the source does not compile with the question behind it.
    """
    questions = list(_questions(kernel.passed))
    offered = [one for one in kernel.passed if one.members and one.by_value]
    asked = [text for _, text in questions]
    asked += [text for one in offered for text in _how(kernel, one)]
    values = _compiled(frontend, kernel, resolved, asked)
    sizes: dict[str, int] = {}
    offsets: dict[str, int] = {}
    for ((name, is_size), _), value in zip(questions, values, strict=False):
        (sizes if is_size else offsets)[name] = value
    references, alignments = set[str](), dict[str, int]()
    for one, *(alignment, plain, refers) in zip(
        offered, *(values[len(questions) + i :: 3] for i in range(3)), strict=True
    ):
        if refers:
            references.add(one.name)
        elif plain:
            alignments[one.name] = alignment
    return Layout(sizes=sizes, offsets=offsets, references=frozenset(references), alignments=alignments)


def _how(kernel: Kernel, one: Passed) -> tuple[str, str, str]:
    """Alignment of a structure that is no pointer, whether it is copied as bytes are, and whether it is a reference."""
    alignment = f"(long)__alignof__({one.kind})"
    if kernel.language == "c":
        return alignment, "1", "0"
    place = kernel.passed.index(one)
    return (
        alignment,
        f"(long)__is_trivially_copyable({one.kind})",
        f"tuner_reference<{place}>(&{kernel.wrapped})",
    )


class Layouts:
    """Layouts under each setting, kept.

    Args:
        frontend: that compiles the question.
    """

    def __init__(self, frontend: front.FrontEnd) -> None:
        self._frontend = frontend
        self._known: dict[str, str] = {}

    def kept(self, kernel: Kernel, variant: Variant, resolved: Resolved) -> Kernel:
        """The kernel, so that a variant of it that lays its structures out otherwise does not compile.

        An application goes on passing what it was compiled with.

        Raises:
            BaselineError: the source as given does not compile under this setting.
        """
        if not kernel.passed or variant.digest == kernel.variant.digest:
            return kernel
        headers = [[header.name, header.text] for header in kernel.headers]
        setting = [sorted(resolved.macros.items()), list(resolved.flags)]
        key = digest_json([kernel.folder, kernel.wrapper, kernel.variant.digest, headers, *setting])
        if key not in self._known:
            self._known[key] = _assertions(kernel, asked_layout(self._frontend, kernel, resolved))
        return replace(kernel, wrapper=kernel.wrapper + self._known[key])


def _assertions(kernel: Kernel, layout: Layout) -> str:
    word = "static_assert" if kernel.language == "c++" else "_Static_assert"
    lines = [
        f'{word}({text} == {(layout.sizes if is_size else layout.offsets)[name]}, "{_said(name, is_size)}");'
        for (name, is_size), text in _questions(kernel.passed)
    ]
    return "\n" + "\n".join(lines) + "\n"


def _said(name: str, is_size: bool) -> str:
    return f"{name} has another {'size' if is_size else 'place'} than in the source as given"


def _questions(passed: Sequence[Passed]) -> Iterator[tuple[tuple[str, bool], str]]:
    """Name and whether its size is asked (else its place), with the expression."""
    kinds: dict[str, str] = {}
    for one in structures(passed):
        kind = kinds.get(one.name, one.kind)
        yield (one.name, True), f"(long)sizeof({kind})"
        for member in one.reached:
            path = member.name.removeprefix(f"{one.name}.")
            if member.members:
                kinds[member.name] = member.kind or f"__typeof__(*(({kind} *)0)->{path})"
            yield (member.name, False), f"(long)__builtin_offsetof({kind}, {path})"


def _compiled(
    frontend: front.FrontEnd, kernel: Kernel, resolved: Resolved, asked: Sequence[str]
) -> list[int]:
    array = f"const long {_NAME}[] = {{{', '.join(asked)}}};"
    if kernel.language == "c++":
        array = f'{_REFERENCE}extern "C" {{ extern const long {_NAME}[]; {array} }}'
    first, *others = kernel.variant.files
    # An empty line ends a comment that a backslash goes on with.
    question = Source(name=first.name, text=f"{first.text}\n\n{array}\n")
    source = front.Source.of(replace(kernel, wrapper=""), Variant(files=(question, *others)))
    flags = sort_flags(resolved.flags, folder=kernel.folder)
    status, output, code = frontend.object_of(source, flags, resolved.macros)
    if status is not Status.OK:
        said = front.first_error(output)
        raise BaselineError(
            f"the structures of {kernel.wrapped} cannot be looked at: {said}",
            "correct the source or the members",
        )
    found = Object(code)
    (symbol,) = (s for s in found.symbols if s.name == _NAME)
    data = found.sections[symbol.section].data[symbol.value : symbol.value + 8 * len(asked)]
    return list(struct.unpack(f"<{len(asked)}q", data))
