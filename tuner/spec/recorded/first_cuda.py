"""The first spec of a recorded CUDA kernel: compiler options that keep to its numerics; the launch stays as recorded.

May not run anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from tuner.evaluators.cuda.flags import check_flags
from tuner.evaluators.cuda.nvrtc import find_headers
from tuner.recorders.recordings.format import Recording
from tuner.spec.recorded.first import EVOLVED, option_words, quoted
from tuner.spec.recorded.included import include_folders, with_headers

__all__ = ["write_cuda_spec"]

_BUILT_IN = re.compile(
    r"cuda/std/|cooperative_groups|cuda_fp16|cuda_bf16|cuda_fp8|mma\.h|curand|vector_types"
)
_APPLICATIONS_OWN = re.compile(
    r"--?(arch|gpu-architecture)(=|$)|-I|--include-path|--?(dlto|rdc|relocatable-device-code|device-as-default)"
    r"|--?(std=c\+\+03|ewp|extensible-whole-program|no-cache|time|pch)"
)
_OTHER_NAMES = {"--device-as-default-execution-space": "--default-device"}
_TAKES_WORD = ("-arch", "--gpu-architecture", "-I", "--include-path")
_GROUPS = {
    "registers": ["", "-maxrregcount=32", "-maxrregcount=64", "-maxrregcount=128"],
    "loads": ["", "-Xptxas -dlcm=cg"],
    "vectors": ["", "--extra-device-vectorization"],
}


def write_cuda_spec(
    recordings: Sequence[Recording],
    *,
    name: str,
    pattern: str,
    base: Path,
    evaluations: int = 60,
) -> tuple[str, str]:
    """Source and spec of one kernel; as for OpenCL (:func:`write_spec`), but NVRTC has some of the headers."""
    first = recordings[0]
    options = _options(first)
    text = with_headers(
        first.text,
        include_folders(first.options, base),
        base=base,
        entry=first.entry,
        left=_brought_by_nvrtc(),
    )
    lines = [
        f"# Recorded from an application: {len(recordings)} of its launches of {first.entry} on {first.device}.",
        f"kernel: {{source: {quoted(name + '.cu')}, entry: {quoted(first.entry)}}}",
        "target: native",
        f"workload: {quoted(pattern)}",
        "# The launch stays as it was recorded: a kernel may know its blocks in ways that nobody can see.",
        "space:",
    ]
    used = [word for word in shlex.split(options) if word.startswith("-")]
    free = {
        group: choices
        for group, choices in _GROUPS.items()
        if not any(word.split("=")[0] in " ".join(choices) for word in used)
    }
    if not free:
        lines.append(EVOLVED)
    lines.append("  flags:")
    if options:
        lines.append(f"    recorded: [{quoted(options)}]            # as the application builds it")
    lines += [f"    {group}: {choices}" for group, choices in free.items()]
    lines += [
        "  passes: off              # {} tunes LLVM's passes as well, where clang takes the source",
        "verify: {reference: recording}",
        f"search: {{budget: {{evaluations: {evaluations}}}}}",
    ]
    return text, "\n".join(lines) + "\n"


def _brought_by_nvrtc() -> Callable[[str], bool]:
    folders = find_headers()
    return lambda name: bool(_BUILT_IN.match(name)) or any(Path(folder, name).is_file() for folder in folders)


def _options(recording: Recording) -> str:
    kept: list[str] = []
    skip = False
    for word in option_words(recording):
        # The architecture is the target's, and nothing is included from the application's folders.
        if skip or _APPLICATIONS_OWN.match(word):
            skip = not skip and word in _TAKES_WORD
        else:
            kept.append(_OTHER_NAMES.get(word, word))
    check_flags(kept)
    return shlex.join(kept)
