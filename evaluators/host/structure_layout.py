"""How the structures that a function takes are laid out: asked of the compiler, behind the source as given.

An array whose initial values are sizes and offsets is compiled and read from the object; nothing runs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tuner.core.canonical import digest_json
from tuner.core.errors import BaselineError
from tuner.core.passing import Layout, Passed, structures
from tuner.core.types import Kernel, Resolved, Source, Status, Variant
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.flags import sort_flags
from tuner.evaluators.host.objects import Object
from tuner.evaluators.sandbox.compiler_runs import first_error
from tuner.spaces.source.parse import function_nodes, node_text, parse_file

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Layouts", "asked_layout"]

_IN_REGISTERS = 16
"""Bytes of the largest structure that may be passed in registers. Source: System V ABI for AMD64, 3.2.3."""
_REGISTER = re.compile(r"(?:(i\d+|ptr)|(?:float|double|half|<\d x (?:float|half)>))(?: noundef)? %\d+")
_WIDE = re.compile(r"i128|<[48] x float>")

_NAME = "tuner_asked_layout"
_REFERENCE = """
template <class T> struct NAME_refers { static constexpr long value = 0; };
template <class T> struct NAME_refers<T &> { static constexpr long value = 1; };
template <class T> struct NAME_refers<T &&> { static constexpr long value = 1; };
template <int I, class R, class... A> constexpr long NAME_reference(R (*)(A...))
{
    return NAME_refers<__type_pack_element<I, A...>>::value;
}
template <int I, class T, bool = __is_abstract(T)> struct NAME_holds { T a; };
template <int I, class T> struct NAME_holds<I, T, true> : T { };
"""
_WORDS = (
    "sizeof struct class const constexpr static template typename extern bool int long char true "
    "__is_abstract __type_pack_element __typeof__ __builtin_offsetof _Static_assert static_assert "
    "unsigned signed short float double void return if for auto operator _Bool _Float16 _Complex __asm__ "
    "A I R T a at value type "
    "__attribute__ __aligned__ __alignof__ __builtin_memcpy __builtin_memcmp __builtin_memset __builtin_trap"
)
_TAKEN_BACK = "\n\n" + "".join(f"#undef {word}\n" for word in _WORDS.split())
"""What a candidate made macros of would not mean what it says, in our text that follows."""
_DUMPED = "*** Dumping AST Record Layout\n"
_MEMBER = re.compile(r"^ *(\d+(?::\S+)?) \| ( +)(.*)$")
_UNNAMED = re.compile(r" at [^)]*\)")
_DIRECTIVE = re.compile(
    r"^[ \t]*(?:#|%:)[ \t]*(?!pragma[ \t]+(?:omp|unroll|clang loop|GCC unroll|GCC ivdep)\b).*|.*_Pragma.*",
    re.MULTILINE,
)
_STRUCTURE = re.compile(r"\s*(?:typedef\s+|static\s+|inline\s+)*(?:struct|union|class|enum)\b")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict|restrict)\b")


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
    offered = [one for one in kernel.passed if (one.members or one.kind) and one.by_value]
    asked = [text for _, text in questions]
    asked += [text for one in offered for text in _how(kernel, one)]
    values, members = _compiled(frontend, kernel, resolved, asked)
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
    return Layout(
        sizes=sizes,
        offsets=offsets,
        references=frozenset(references),
        alignments=alignments,
        members=members,
        registers=_registers(
            frontend,
            kernel,
            resolved,
            [o for o in offered if o.name in alignments and sizes[o.name] <= _IN_REGISTERS],
        ),
    )


def _registers(
    frontend: front.FrontEnd, kernel: Kernel, resolved: Resolved, copied: Sequence[Passed]
) -> dict[str, tuple[str, ...]]:
    """What clang passes small structures in, said by the text of functions that take them; none that it does not."""
    if not copied:
        return {}
    name = _free_name(kernel)
    before = 'extern "C" ' if kernel.language == "c++" else ""
    lines = [f"{before}void {name}_takes{i}({one.kind} a);" for i, one in enumerate(copied)]
    lines += [f"{before}void {name}_takes{i}({one.kind} a) {{ }}" for i, one in enumerate(copied)]
    text, _ = _asked(frontend, kernel, resolved, "\n".join(lines), ("-O0", "-w", "-S", "-emit-llvm"))
    found: dict[str, tuple[str, ...]] = {}
    for i, one in enumerate(copied):
        taken = re.search(rf"^define [^\n]*@{name}_takes{i}\((.*?)\)[^)\n]*\{{$", text.decode(), re.MULTILINE)
        parts = taken[1].split(", ") if taken else []
        kinds = [None if _WIDE.search(part) else _REGISTER.fullmatch(part) for part in parts]
        if kinds and all(kinds):
            found[one.name] = tuple("whole" if kind and kind[1] else "real" for kind in kinds)
    return found


def _free_name(kernel: Kernel) -> str:
    name = _NAME
    while any(name in file.text for file in kernel.variant.files):
        name += "_"
    return name


def _asked(
    frontend: front.FrontEnd, kernel: Kernel, resolved: Resolved, text: str, given: Sequence[str]
) -> tuple[bytes, str]:
    """What is compiled of a kernel's source with a question behind it, and what the compiler printed.

    Raises:
        BaselineError: it does not compile.
    """
    first, *others = kernel.variant.files
    # An empty line ends a comment that a backslash goes on with.
    question = Source(name=first.name, text=f"{first.text}{_TAKEN_BACK}{text}\n")
    source = front.Source.of(replace(kernel, wrapper=""), Variant(files=(question, *others)))
    flags = sort_flags(resolved.flags, folder=kernel.folder)
    flags = replace(flags, given=(*flags.given, *given))
    status, output, code, printed = frontend.object_and_text_of(source, flags, resolved.macros)
    if status is not Status.OK:
        said = first_error(output)
        raise BaselineError(
            f"the structures of {kernel.wrapped} cannot be looked at: {said}",
            "correct the source or the members",
        )
    return code, printed


def _how(kernel: Kernel, one: Passed) -> tuple[str, str, str]:
    """Alignment of a structure that is no pointer, whether it is copied as bytes are, and whether it is a reference."""
    alignment = f"(long)__alignof__({one.kind})"
    if kernel.language == "c":
        return alignment, "1", "0"
    place = kernel.passed.index(one)
    return (
        alignment,
        f"(long)__is_trivially_copyable({one.kind})",
        f"NAME_reference<{place}>(&{kernel.wrapped})",
    )


class Layouts:
    """Layouts under each setting, kept.

    Args:
        frontend: that compiles the question.
    """

    def __init__(self, frontend: front.FrontEnd) -> None:
        self._frontend = frontend
        self._known: dict[str, Layout] = {}

    def kept(self, kernel: Kernel, variant: Variant, resolved: Resolved) -> Kernel:
        """The kernel, so that a variant of it that lays its structures out otherwise does not compile.

        An application goes on passing what it was compiled with.

        Raises:
            BaselineError: the source as given does not compile under this setting.
        """
        if not kernel.passed or variant.digest == kernel.variant.digest:
            return kernel
        if _beside_functions(variant, kernel.language) == _beside_functions(kernel.variant, kernel.language):
            # What stands in functions alone changes no structure that is passed to one.
            return replace(kernel, wrapper=f"{_TAKEN_BACK}{kernel.wrapper}")
        given = self._layout(kernel, resolved)
        try:
            own = self._layout(replace(kernel, variant=variant), resolved)
        except BaselineError:
            # Nor does it behind the wrapper, and the message is about that.
            own = given
        difference = _difference(given, own)
        refused = f'{_word(kernel)}(0, "{difference}");\n' if difference else ""
        return replace(kernel, wrapper=f"{_TAKEN_BACK}{refused}{kernel.wrapper}")

    def _layout(self, kernel: Kernel, resolved: Resolved) -> Layout:
        headers = [[header.name, header.text] for header in kernel.headers]
        setting = [sorted(resolved.macros.items()), list(resolved.flags)]
        key = digest_json([kernel.folder, kernel.wrapper, kernel.variant.digest, headers, *setting])
        if key not in self._known:
            self._known[key] = asked_layout(self._frontend, kernel, resolved)
        return self._known[key]


@lru_cache(maxsize=256)
def _of_text(text: str, language: str) -> str:
    """A file without its functions, but with what directives in them may change behind them."""
    data, at, kept = text.encode(), 0, list[str]()
    for _, node in sorted(function_nodes(parse_file(data, language)), key=lambda pair: pair[1].start_byte):
        if node.start_byte >= at and _is_one(node):
            kept += [data[at : node.start_byte].decode(), *_DIRECTIVE.findall(node_text(node))]
            at = node.end_byte
    return " ".join("\n".join([*kept, data[at:].decode()]).split())


def _is_one(node: Node) -> bool:
    """Whether it is a function for certain and no part of a class; a macro makes a structure look like a function."""
    inside = node.parent is not None and node.parent.type == "field_declaration_list"
    return not inside and not _STRUCTURE.match(node_text(node))


def _beside_functions(variant: Variant, language: str) -> list[tuple[str, str]]:
    return [(file.name, _of_text(file.text, language)) for file in variant.files]


def _difference(given: Layout, own: Layout) -> str:
    """What a structure has elsewhere, or otherwise, than in the source as given."""
    for name, place in given.offsets.items():
        if own.offsets[name] != place:
            return f"{name} has another place than in the source as given"
    for name, size in given.sizes.items():
        if own.sizes[name] != size:
            return f"{name} has another size than in the source as given"
    if own.members != given.members:
        pairs = zip(given.members, own.members, strict=False)
        moved = next((mine for mine, other in pairs if mine != other), given.members[-1])
        if moved.startswith("align"):
            return "a structure is aligned otherwise than in the source as given"
        name = moved.rpartition(" ")[2]
        return f"{name} of a structure is not what it is in the source as given, or not where"
    return "" if own.references == given.references else "a reference is none any more"


def _word(kernel: Kernel) -> str:
    return "static_assert" if kernel.language == "c++" else "_Static_assert"


def _questions(passed: Sequence[Passed]) -> Iterator[tuple[tuple[str, bool], str]]:
    """Name and whether its size is asked (else its place), with the expression."""
    kinds: dict[str, str] = {}
    for one in passed:
        if one.kind and one.argument is not None:
            yield (one.name, True), f"(long)sizeof({one.kind})"
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
) -> tuple[list[int], tuple[str, ...]]:
    """The values of constants, and what the compiler says of the structures' members."""
    plus = kernel.language == "c++"
    name = _free_name(kernel)
    kinds = dict.fromkeys(text for (_, is_size), text in _questions(kernel.passed) if is_size)
    held = [text.removeprefix("(long)sizeof(")[:-1] for text in kinds]
    before = (
        [_REFERENCE] if plus else [f"struct NAME_holds{i} {{ {kind} a; }};" for i, kind in enumerate(held)]
    )
    shown = [
        f"(long)sizeof({f'NAME_holds<{i}, {kind}>' if plus else f'struct NAME_holds{i}'})"
        for i, kind in enumerate(held)
    ]
    array = f"const long NAME[] = {{{', '.join([*asked, *shown])}}};"
    if plus:
        array = f'extern "C" {{ extern const long NAME[]; {array} }}'
    text = "\n".join([*before, array]).replace("NAME", name)
    code, printed = _asked(
        frontend, kernel, resolved, text, ("-O0", "-w", "-Xclang", "-fdump-record-layouts")
    )
    found = Object(code)
    (symbol,) = (s for s in found.symbols if s.name == name)
    data = found.sections[symbol.section].data[symbol.value : symbol.value + 8 * len(asked)]
    return list(struct.unpack(f"<{len(asked)}q", data)), tuple(_members(printed, f"{name}_holds"))


def _members(printed: str, holder: str) -> Iterator[str]:
    """Place, depth, type and name of each member of the structures in these holders."""
    for record in printed.split(_DUMPED)[1:]:
        first, *lines = record.split("\n")
        if holder in first:
            for line in lines:
                if (at := line.find("align=")) >= 0:
                    yield line[at:].strip(" ,]")
                elif found := _MEMBER.match(line):
                    what = _QUALIFIERS.sub("", _UNNAMED.sub(")", found[3]))
                    yield f"{found[1]}{found[2]}{' '.join(what.replace('*', ' * ').split())}"
