"""The signature and syntax tree of a C or C++ function or an OpenCL kernel, as clang sees them.

Asks clang to parse, never for machine code. May not know the spec: it compares nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files as package_files
from pathlib import Path, PurePath

from tuner.core.errors import BaselineError
from tuner.core.source_text import source_text
from tuner.core.types import Source, Value, Variant
from tuner.evaluators.host.exposing import exposed
from tuner.evaluators.host.frontend import macro_flags
from tuner.evaluators.host.search_words import search_words
from tuner.evaluators.host.toolchain import Toolchain, find_toolchain
from tuner.spec.reading.answers import EMPTY, Question, not_accepted, trees_of
from tuner.spec.reading.c_types import (
    ENUMERATIONS,
    CType,
    c_type,
    is_alias,
    parameter_type,
    stood_for,
    unaliased,
    width_of,
)
from tuner.spec.reading.device_headers import CUDA_WORDS, INCLUDED, SEARCHED, precompiled
from tuner.spec.reading.made_nodes import template_arguments, with_arguments
from tuner.spec.reading.methods import methods_of, scopes_of, with_this
from tuner.spec.reading.nodes import Node, body_of, parameter_nodes, plain_type

__all__ = ["LANGUAGES", "Function", "SourceReader"]

_MAX_TREE = 256 << 20
_PROBE = "tuner_type_probe_"
_LINES = "tuner.probes"  # no name of a declaration: what has no name has its file's in the one that clang looks for
_ERROR = re.compile(r"^([^:\n]+):(\d+):\d+: (fatal )?error: (.*)$", re.MULTILINE)
_NAMELESS = "12_GLOBAL__N_1"  # a namespace without a name in a symbol

LANGUAGES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".c++": "c++", ".C": "c++"}
"""Of C and C++ by the ends of names; headers are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function's definition.

    Attributes:
        name: without namespaces.
        parameters: names (empty where left out) and types, in order.
        returns: ``None`` for void.
        hidden: whether other files cannot call it (``static``, a namespace without a name).
        template: whether it is a template.
        defined: whether it has a body.
        kernel: whether it is marked as an entry of a device program.
        tree: clang's node.
    """

    name: str
    parameters: tuple[tuple[str, CType], ...]
    returns: CType | None
    hidden: bool = False
    template: bool = False
    defined: bool = True
    kernel: bool = False
    tree: Node = field(default_factory=dict, repr=False)

    @property
    def qualified(self) -> str:
        """The name with the namespaces that the function is in (Itanium C++ ABI, 5.1.3: nested names)."""
        parts = scopes_of(self.tree)
        known = parts and parts[-1] == self.name and not self.nameless
        return "::".join(parts) if known else self.name

    def with_names(self) -> Function:
        """The function with a name for every parameter."""
        parameters = tuple((n or f"argument{i + 1}", t) for i, (n, t) in enumerate(self.parameters))
        return replace(self, parameters=parameters)

    @property
    def variadic(self) -> bool:
        """Whether it takes a list of arguments of any length."""
        return bool(self.tree.get("variadic"))

    @property
    def nameless(self) -> bool:
        """Whether a namespace without a name is around it."""
        return _NAMELESS in str(self.tree.get("mangledName", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReader:
    """Sources that clang is asked about; questions raise ``MachineError`` where there is none or it is silent.

    Attributes:
        files: the first holds the functions; they are written to a folder of their own to be read.
        language: ``c``, ``c++``, ``opencl`` or ``cuda``, of which what clang does not know is passed over.
        folder: where files and include folders are looked up.
        include: folders of headers.
        macros: defined for the whole source.
        flags: further front-end flags.
        empty: headers of a device's compiler, which have nothing in them here.
        toolchain: found when left out.
    """

    files: tuple[Source, ...]
    language: str
    folder: str = ""
    include: tuple[str, ...] = ()
    macros: Mapping[str, Value] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    toolchain: Toolchain | None = None

    def at(self, index: int) -> SourceReader | None:
        """The same with another of its files as the first; ``None`` for a header."""
        language = LANGUAGES.get(PurePath(self.files[index].name).suffix) if index else self.language
        if language is None:
            return None
        chosen, rest = self.files[index], (f for i, f in enumerate(self.files) if i != index)
        return replace(self, files=(chosen, *rest), language=language)

    def with_text(self, text: str) -> SourceReader:
        """The same with another text of the first file."""
        return replace(self, files=(replace(self.files[0], text=text), *self.files[1:]))

    def with_flags(self, flags: Sequence[str]) -> SourceReader:
        """The same with further flags."""
        return replace(self, flags=(*self.flags, *flags))

    def defined(self, name: str) -> list[Function]:
        """Those of :meth:`functions` that have a body."""
        return [function for function in self.functions(name) if function.defined]

    def with_missing_headers(self) -> SourceReader:
        """The same with headers that are nowhere as empty ones: clang gives up where it cannot find one."""
        _, output, _ = self._run(["-M", "-MG"], "", action=())
        names = (PurePath(name) for name in output.replace("\\\n", " ").split()[2:])
        # Names as they are included; those of files that are there have a folder before them.
        deepest = EMPTY.count("/") + 1
        empty = {str(n) for n in names if not n.is_absolute() and n.parts.count("..") <= deepest}
        return replace(self, empty=tuple(sorted({*self.empty, *empty})))

    def exposing(self, entry: str) -> SourceReader:
        """The same sources with a static entry as it is built; OpenCL's kernels are none."""
        if self.language not in ("c", "c++"):
            return self
        return replace(self, files=exposed(Variant(files=self.files), entry, self.language).files)

    def functions(self, name: str, *, included: bool = False) -> list[Function]:
        """All functions of that name that the first file defines or declares; qualified names narrow the choice.

        Args:
            name: of the function.
            included: those of headers as well.

        Raises:
            BaselineError: the source does not compile.
        """
        return [self.resolved(function) for function in self.named(name, included=included)]

    def named(self, name: str, *, included: bool = False) -> list[Function]:
        """As :meth:`functions`, with the names that the source has for types."""
        scope, _, last = name.rpartition("::")
        trees = list(self.trees(name))
        if scope.endswith(">"):
            # What asks for its address makes it, where nothing else does.
            made = self.trees(scope.partition("<")[0], extra=f"\n\nstatic auto tuner_instance_ = &{name};\n")
            trees = list(methods_of(made, scope))
        # Methods say so where their class declares them.
        static = {tree["id"] for tree in trees if tree.get("storageClass") == "static"}
        objects = (
            t if t.get("previousDecl") in static else with_this(t, "::".join(scopes_of(t)[:-1]))
            for t in trees
        )
        read = (_function(tree, included=included) for tree in objects)
        return [f for f in read if f is not None and f.name == last]

    def instances(self, name: str) -> dict[str, Function]:
        """Instances of a template that the first file makes, explicitly or by a use, by their template arguments.

        Args:
            name: of the template, without namespaces.

        Raises:
            BaselineError: the source does not compile.
        """
        inside = (t.get("inner", []) for t in self.trees(name) if t.get("kind") == "FunctionTemplateDecl")
        made = (t for trees in inside for t in trees if "TemplateInstantiationPattern" in t and body_of(t))
        found = {template_arguments(t): _function(with_arguments(t), included=False) for t in made}
        return {a: self.resolved(f) for a, f in found.items() if a and f is not None and f.name == name}

    def types(self, expressions: Sequence[str]) -> list[CType | str]:
        """The types of expressions as the end of the first file would see them; what clang says of one that has none.

        Raises:
            BaselineError: the source does not compile.
        """
        lines = [f"extern __typeof__({each}) {_PROBE}{i}_;" for i, each in enumerate(expressions)]
        trees, wrong = self.probed(_PROBE, lines)
        # What is written is the question itself.
        kinds = tuple(("", c_type({"qualType": plain_type(tree)})) for tree in trees.values())
        function = self.resolved(Function(name="", parameters=kinds, returns=None))
        found = dict(zip(trees, (kind for _, kind in function.parameters), strict=True))
        return [found.get(i) or wrong[i] for i in range(len(expressions))]

    def resolved(self, function: Function) -> Function:
        """The function with the types that names of its parameters' types stand for."""
        known: dict[str, tuple[str, int]] = {}
        while True:
            kinds = [t for _, t in function.parameters]
            kinds += [] if function.returns is None else [function.returns]
            # An array's name stands for one whose elements may have a name too.
            aliases = {t.base for t in kinds if is_alias(t)}
            fresh = sorted(aliases - known.keys())
            # What stands for nothing else stands for itself.
            known |= {**{name: (name, 1) for name in fresh}, **self._resolve(fresh)}
            if all(known[name][0] == name for name in aliases):
                return function
            function = replace(
                function,
                parameters=tuple((n, unaliased(t, known)) for n, t in function.parameters),
                returns=None if function.returns is None else unaliased(function.returns, known),
            )

    def llvm(self) -> str:
        """LLVM's text of the first file, as it is without any optimisation.

        Raises:
            BaselineError: the source does not compile.
        """
        status, output, errors = self._run(["-S", "-emit-llvm", "-O0", "-o", "-"], "", action=())
        if status != 0:
            raise not_accepted(errors, self._first)
        return output

    def layouts(self, extra: str) -> str:
        """What clang prints of the structures of the first file, laid out in memory; empty where it does not compile.

        Args:
            extra: text behind the first file's.
        """
        status, output, _ = self._run(["-Xclang", "-fdump-record-layouts-canonical"], extra)
        return output if status == 0 or self.language == "cuda" else ""

    def preprocessed(self, *words: str) -> tuple[str, str, BaselineError | None]:
        """What the preprocessor prints of the first file, what it warns of, and where it fails.

        Args:
            words: further options of it.
        """
        status, output, errors = self._run(words, "", action=("-E",), warns=True)
        return output, errors, None if status == 0 else not_accepted(errors, self._first)

    def trees(self, name: str, *, extra: str = "") -> Iterator[Node]:
        """The declarations whose names have ``name`` in them.

        Args:
            name: with what goes before it.
            extra: text behind the first file's; where that does not compile with it there are none.

        Raises:
            BaselineError: the source does not compile.
        """
        status, output, errors = self._run(_dump(name), extra)
        if status == 0:
            yield from trees_of(output)
        elif not extra:
            raise not_accepted(errors, self._first)

    def probed(
        self, name: str, probes: Sequence[str], *, before: str = "", after: str = ""
    ) -> tuple[dict[int, Node], dict[int, str]]:
        """What lines at the end of the first file declare, each by itself: trees, and what clang says of wrong ones.

        Args:
            name: how the names that are declared begin; the line's number from 0 and ``_`` follow.
            probes: the lines.
            before: text that opens the scope that they are to be in.
            after: text that closes it.

        Raises:
            BaselineError: the source does not compile; of CUDA what is wrong is passed over.
        """
        if not probes:
            return {}, {}
        # An empty line ends a comment that a backslash goes on with.
        lines = "\n".join(probes)
        extra = f'\n\n{before}\n#line 1 "{_LINES}"\n{lines}\n{after}\n'
        _, output, errors = self._run(_dump(name), extra)
        said = _ERROR.findall(errors)
        if self.language != "cuda" and any(file != _LINES for file, *_ in said):
            raise not_accepted(errors, self._first)
        # Nothing is said of what is wrong behind a fatal one.
        fatal = next((what for *_, kind, what in said if kind), "")
        wrong = {
            int(line) - 1: what for file, line, _, what in reversed(said) if file == _LINES and not fatal
        }
        numbers = {f"{name}{i}_": i for i in range(len(probes)) if not fatal and i not in wrong}
        found = {numbers[t["name"]]: t for t in trees_of(output) if t.get("name") in numbers}
        other = fatal or "a type that clang does not know"
        return found, wrong | {i: other for i in range(len(probes)) if i not in found and i not in wrong}

    def whole_tree(self) -> tuple[str, str]:
        """Clang's tree of everything as JSON, errors passed over, and what it says of those.

        Raises:
            BaselineError: the tree is too large.
        """
        return self._run(["-Xclang", "-ast-dump=json"], "")[1:]

    def _resolve(self, aliases: list[str]) -> dict[str, tuple[str, int]]:
        """Type and vector width that aliases stand for; those that the file's end cannot name are left out."""
        plus = self.language in ("c++", "cuda")
        kind = "tuner_number_< {} >::tuner_is" if plus else "{}"
        lines = [f"extern {kind.format(alias)} {_PROBE}{i}_;" for i, alias in enumerate(aliases)]
        trees = self.probed(_PROBE, lines, before=ENUMERATIONS if plus else "")[0]
        return {aliases[i]: (stood_for(t := plain_type(tree)), width_of(t)) for i, tree in trees.items()}

    @property
    def _first(self) -> str:
        return PurePath(self.files[0].name).name

    def _run(
        self,
        words: Sequence[str],
        extra: str,
        *,
        action: Sequence[str] = ("-fsyntax-only",),
        warns: bool = False,
    ) -> tuple[int, str, str]:
        toolchain = self.toolchain or find_toolchain()
        clang = str(toolchain.clang)
        whole = self.language == "cuda" and "-E" not in action
        command = [*([] if warns else ["-w"]), "-fno-color-diagnostics"]
        given = [*self.flags, *macro_flags(self.macros)]
        if whole:
            command += CUDA_WORDS
            command += precompiled(clang, given) if action else INCLUDED
        command += given
        folders = [str(Path(self.folder) / folder) for folder in self.include]
        searched = search_words([*folders, self.folder] if self.folder else folders, self.folder)
        if self.empty:
            searched += ["-idirafter", EMPTY]
        if self.language in ("c", "c++"):
            searched += ["-idirafter", str(package_files("tuner.evaluators.host").joinpath("include"))]
        elif whole:
            searched += SEARCHED
        elif self.language == "opencl" and not any(flag.startswith("-cl-std=") for flag in self.flags):
            command += ["-cl-std=CL3.0", "-cl-ext=+all"]
        command += ["-x", "cl" if self.language == "opencl" else self.language]
        status, output, errors = Question(
            clang=clang,
            asks=(*action, *words),
            words=tuple(command),
            folders=tuple(searched),
            files=self.files,
            empty=self.empty,
            extra=extra,
        ).answer()
        if len(output) > _MAX_TREE:
            raise BaselineError(
                "the source's headers are too large to look through", "leave out what is not needed"
            )
        return status, source_text(output), errors.decode("utf-8", "replace")


def _dump(name: str) -> list[str]:
    return ["-ferror-limit=0", "-Xclang", "-ast-dump=json", "-Xclang", f"-ast-dump-filter={name}"]


def _function(tree: Node, *, included: bool) -> Function | None:
    template = tree.get("kind") == "FunctionTemplateDecl"
    if template:
        tree = next((c for c in tree.get("inner", []) if c.get("kind") == "FunctionDecl"), {})
    if tree.get("kind") not in ("FunctionDecl", "CXXMethodDecl"):
        return None
    place = tree.get("loc", {})
    if "includedFrom" in place.get("expansionLoc", place) and not included:
        return None
    parameters = tuple((str(c.get("name", "")), parameter_type(c["type"])) for c in parameter_nodes(tree))
    result = tree["type"]["qualType"].split("(")[0].strip()
    return Function(
        name=str(tree.get("name", "")),
        parameters=parameters,
        returns=None if result == "void" else c_type({"qualType": result}),
        hidden=tree.get("storageClass") == "static" or _NAMELESS in str(tree.get("mangledName", "")),
        template=template,
        defined=bool(body_of(tree)),
        kernel=any(c.get("kind") in _KERNEL_MARKS for c in tree.get("inner", [])),
        tree=tree,
    )


_KERNEL_MARKS = ("DeviceKernelAttr", "OpenCLKernelAttr")
