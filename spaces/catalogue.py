"""The passes of one LLVM: what its own listing says, and which of them a search may use. May not run LLVM."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tuner.core.errors import SpecError
from tuner.spaces.pipeline import Leaf, Node, Pipeline

__all__ = ["Catalogue", "PassInfo", "wrappers"]

_SECTIONS = {
    "module passes": "module",
    "cgscc passes": "cgscc",
    "function passes": "function",
    "loopnest passes": "loop",
    "loop passes": "loop",
}

_NEEDS_MSSA = frozenset({"licm", "lnicm"})
"""They end the process when run in ``loop(…)``; the listing does not tell."""

_LEAVES = frozenset({"require", "invalidate", "default"})
_LEVELS = ("<O0>", "<O1>", "<O2>", "<O3>", "<Os>", "<Oz>")
"""What ``default`` takes, as LLVM writes it."""

_DEPTH = {"module": 0, "cgscc": 1, "function": 2, "loop": 3, "loop-mssa": 3}

_TWOFOLD = frozenset({"verify", "print", "guard-widening"})
"""Names that LLVM has at several levels."""

_EXCLUDED: tuple[tuple[str, str], ...] = (
    (
        r"no-op-.*|invalidate|annotation-remarks|transform-warning|recompute-globalsaa|extra-.*-passes",
        "changes nothing",
    ),
    (
        r"print.*|view-.*|dot-.*|.*verif.*|lint|.*debugify|trigger-.*|instcount|kernel-info|count-visits"
        r"|aa-eval|pa-eval|func-properties-stats|helloworld|normalize|instnamer|mir-.*|metarenamer"
        r"|inliner-ml-advisor-.*|inliner-wrapper.*",
        "a tool for developers of LLVM",
    ),
    (
        r"dfsan|.*[ah]san|.*[mnt]san|tsan-.*|tysan|rtsan|sancov-.*|sanmd-.*|bounds-checking|safe-stack|kcfi"
        r"|stack-protector|cfguard|alloc-token|lower-allow-check|jmc-.*|ee-instrument|instrumentor"
        r"|cross-dso-cfi|.*type-?tests|move-auto-init|memprof.*",
        "instrumentation or hardening",
    ),
    (
        r"coro-.*|objc-.*|.*-eh-prepare|.*gc-.*|.*-gc|place-safepoints|.*guard.*|.*widenable.*",
        "another language",
    ),
    (r"dxil.*|hipstdpar-.*|amdgpu.*|nvvm.*|spirv.*|openmp-.*|indirectbr-expand", "another kind of target"),
    (
        r".*pgo.*|.*prof.*|.*gcov.*|.*pseudo-probe.*|.*-discriminators|static-data-.*|ctx-.*|pgo-.*",
        "needs a profile or makes one",
    ),
    (
        r".*lto.*|function-import|embed-bitcode|wholeprogramdevirt|assign-guid|name-anon-globals"
        r"|noinline-nonprevailing|default|.*-pre-link|globalsplit|rel-lookup-table-converter",
        "a whole pipeline, or link time",
    ),
    (
        r"internalize|strip.*|.*-extract|extract-.*|global-merge.*|rewrite-symbols|canonicalize-aliases"
        r"|lower-(ifunc|emutls|global-dtors|invoke|atomic|comment-string)|forceattrs|expand-variadics"
        r"|hotcoldsplit|iroutliner|elim-avail-extern|partial-inliner|declare-.*|redundant-dbg-.*|deadargelim"
        r"|annotation2metadata",
        "changes symbols, the interface, atomicity or debug data",
    ),
    (
        r"codegenprepare|atomic-expand|expand-(reductions|ir-insts|large-.*|fp)|interleaved-access"
        r"|complex-deinterleaving|hardware-loops|pre-isel-.*|typepromotion|inline-asm-prepare|select-optimize"
        r"|scalarize-masked-mem-intrin|replace-with-veclib|.*machine-function.*|structurizecfg",
        "code generation runs it where it is wanted",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassInfo:
    """One pass.

    Attributes:
        name: without parameters.
        level: ``module``, ``cgscc``, ``function``, ``loop``, or ``loop-mssa`` for a loop pass that must have
            MemorySSA.
        options: what may stand between its angle brackets, as listed: ``name``, ``no-name``, ``name=N``.
        unused: why a search does not use it; empty when it does.
    """

    name: str
    level: str
    options: tuple[str, ...] = ()
    unused: str = ""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The passes that LLVM knows, and its O3 spelt out.

    Attributes:
        version: LLVM's version, for people.
        passes: by name, in LLVM's order.
        o3: the text of the flattened ``default<O3>``; may be empty.
        broken: passes that crash or hang this LLVM; a search leaves them alone.
    """

    version: str
    passes: Mapping[str, PassInfo]
    o3: str
    broken: frozenset[str] = frozenset()

    @classmethod
    def from_listing(cls, listing: str, o3: str, version: str, broken: Collection[str] = ()) -> Catalogue:
        """Reads what ``opt --print-passes`` and ``-print-pipeline-passes`` print.

        Raises:
            SpecError: no pass is listed, or the O3 text is not a pipeline.
        """
        passes: dict[str, PassInfo] = {}
        level = ""
        for line in listing.splitlines():
            text = line.strip()
            if text.endswith(":") and not line.startswith(" "):
                level = _SECTIONS.get(text[:-1].lower().removesuffix(" with params"), "")
            elif level and text and line.startswith(" "):
                name, _, rest = text.partition("<")
                options = _options("<" + rest) if rest else ()
                if name in passes:
                    # The same name at two levels or with and without parameters: the first level stands.
                    options = passes[name].options or options
                    passes[name] = _info(name, passes[name].level, options)
                else:
                    passes[name] = _info(name, level, options)
        if not passes:
            raise SpecError("the listing of passes is empty", "expected the output of opt --print-passes")
        o3 = o3.strip()
        if o3:
            Pipeline.parse(o3)
        return cls(version=version, passes=passes, o3=o3, broken=frozenset(broken))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_json` reads it."""
        return {
            "version": self.version,
            "passes": [[p.name, p.level, list(p.options), p.unused] for p in self.passes.values()],
            "o3": self.o3,
            "broken": sorted(self.broken),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Catalogue:
        """The inverse of :meth:`to_json`.

        Raises:
            SpecError: something else.
        """
        try:
            passes = {
                str(name): PassInfo(
                    name=str(name), level=str(level), options=tuple(map(str, options)), unused=str(unused)
                )
                for name, level, options, unused in value["passes"]
            }
            return cls(
                version=str(value["version"]),
                passes=passes,
                o3=str(value["o3"]),
                broken=frozenset(map(str, value["broken"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"not a catalogue of passes ({error})", "made by Catalogue.to_json") from None

    @cached_property
    def usable(self) -> tuple[PassInfo, ...]:
        """The passes that a search may put in."""
        return tuple(p for p in self.passes.values() if not p.unused and p.name not in self.broken)

    @cached_property
    def mssa(self) -> frozenset[str]:
        """Loop passes that may stand in ``loop-mssa(…)``: those that must, and those that O3 puts there.

        Others may fail to preserve MemorySSA, which ends the process.
        """
        return _NEEDS_MSSA | {leaf.node.name for leaf in self._o3_leaves if leaf.level == "loop-mssa"}

    @cached_property
    def forms(self) -> Mapping[str, tuple[str, ...]]:
        """By pass the parameter texts that O3 gives it: known to work, where the bare name may not be."""
        found: dict[str, dict[str, None]] = {}
        for leaf in self._o3_leaves:
            found.setdefault(leaf.node.name, {})[leaf.node.params] = None
        return {name: tuple(texts) for name, texts in found.items()}

    @cached_property
    def _o3_leaves(self) -> tuple[Leaf, ...]:
        return tuple(Pipeline.parse(self.o3).leaves()) if self.o3 else ()

    def may_change(self, name: str) -> bool:
        """Whether a search may delete, move or replace a pass of this name."""
        info = self.passes.get(name)
        return info is not None and not info.unused

    def explain(self, pipeline: Pipeline) -> str:
        """Why a pipeline cannot work: an unknown pass or one at the wrong level; empty when nothing is seen."""
        pipeline = self.explicit(pipeline)
        for leaf in pipeline.leaves():
            name = leaf.node.name
            if name in _LEAVES:
                if name == "default" and leaf.node.params not in _LEVELS:
                    return f"{leaf.node.head!r} is no level; they are {', '.join(_LEVELS)}"
                continue
            info = self.passes.get(name)
            if info is None:
                level = f"; the level is written default<{name}>" if re.fullmatch(r"O[0-3sz]", name) else ""
                return f"unknown pass {name!r}{level}"
            if info.level == "loop-mssa" and leaf.level != "loop-mssa":
                return f"{name!r} needs loop-mssa(…) around it"
            # LLVM wraps a pass by itself where a higher level stands, never the other way round.
            if _DEPTH[info.level] < _DEPTH[leaf.level] and name not in _TWOFOLD:
                return f"{name!r} is a {info.level} pass and cannot stand in {leaf.level}(…)"
        return ""

    def explicit(self, pipeline: Pipeline) -> Pipeline:
        """With the containers that LLVM adds by itself when the first pass is not a module pass."""
        if not pipeline.nodes:
            return pipeline
        first = pipeline.nodes[0]
        if first.children is not None:
            level = {"function": "module", "cgscc": "module", "module": "module"}.get(first.name)
            level = level or ("function" if first.name.startswith("loop") else "module")
        else:
            info = self.passes.get(first.name)
            level = "module" if info is None else info.level
        nodes = pipeline.nodes
        for head in wrappers("module", level):
            nodes = (Node(head, "", nodes),)
        return Pipeline(nodes)


def wrappers(outer: str, level: str) -> tuple[str, ...]:
    """The containers that a pass of some level needs inside an outer level, innermost first."""
    if level == outer or (level == "loop" and outer == "loop-mssa"):
        return ()
    if level in ("loop", "loop-mssa"):
        return (level,) if outer == "function" else (level, "function")
    return (level,)


def _info(name: str, level: str, options: tuple[str, ...]) -> PassInfo:
    unused = next((reason for pattern, reason in _EXCLUDED if re.fullmatch(pattern, name)), "")
    if name in _NEEDS_MSSA:
        level = "loop-mssa"
    return PassInfo(name=name, level=level, options=options, unused=unused)


def _options(params: str) -> tuple[str, ...]:
    inner = params[1:-1] if params.endswith(">") else params[1:]
    return tuple(part for part in inner.split(";") if part)
