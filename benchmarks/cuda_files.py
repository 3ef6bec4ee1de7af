"""How many CUDA files of others compile for a device: as they are, and without their host code.

    python benchmarks/cuda_files.py FOLDER [--files 250] [--seed 1]
    python benchmarks/cuda_files.py FOLDER --check [--kernels 250] [--faults] [--seed 1]

FOLDER holds checkouts of any public projects. Of each file with a kernel one kernel is compiled by NVRTC for sm_90,
with the headers that it includes in quotes and no flags, so what needs a project's own flags or folders of headers
fails. With ``--check`` a first spec is written for each kernel and checked under emulation as it is, with nobody
looking through it; ``--faults`` plants faults in those that pass. Needs the extra ``cuda``, no GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _cuda_checks import checked, kernels_in, print_counts

from tuner.core.errors import TunerError
from tuner.core.types import Source, Variant
from tuner.evaluators.cuda.device_part import device_variant
from tuner.evaluators.cuda.nvrtc import OWN_HEADERS, Nvrtc, NvrtcError, find_headers, find_library
from tuner.spec.first.cuda_files import cuda_files
from tuner.spec.reading.cuda_kernels import CudaKernel, kernels_of

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_MOST_HEADERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What NVRTC says of one file: empty where it compiles."""

    file: str
    kernel: str
    whole: str
    cut: str


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=250)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--kernels", type=int, default=250)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if not find_library():
        raise SystemExit("there is no NVRTC: pip install 'remix-tuner[cuda]'")
    files = sorted(given.folder.rglob("*.cu"))
    if given.check:
        check(files, given.kernels, faults=given.faults, seed=given.seed)
        return
    random.Random(given.seed).shuffle(files)
    with multiprocessing.Pool(1, maxtasksperchild=20) as pool:
        found = [made for made in pool.imap(tried, files[: given.files]) if made is not None]
    for made in found:
        if made.cut:
            print(f"{made.file}: {made.kernel}: {made.cut[:160]}")
    counts = Counter((not made.whole, not made.cut) for made in found)
    print(f"{len(found)} files with kernels")
    print(f"compile as they are: {counts[True, True] + counts[True, False]}")
    print(f"compile without host code: {counts[True, True] + counts[False, True]}")
    print(f"compile only as they are: {counts[True, False]}")


def check(files: Sequence[Path], count: int, *, faults: bool, seed: int) -> None:
    """Prints how far each kernel comes, then the counts."""
    kernels = kernels_in(files)
    random.Random(seed).shuffle(kernels)
    found = []
    for path, kernel in kernels[:count]:
        found.append(checked(path, kernel, faults=faults))
        told = " ".join(part for part in (found[-1].message[:160], found[-1].faults) if part)
        print(f"{path}: {kernel}: {found[-1].stage}{': ' if told else ''}{told}", flush=True)
    print_counts(found)


def tried(path: Path) -> Tried | None:
    """One file; ``None`` where it has no kernel or cannot be read."""
    files = read(path)
    try:
        kernels = kernels_of(cuda_files(path, None, ()).tree)
    except TunerError:
        return None
    if not kernels:
        return None
    # A template needs arguments that only its author knows.
    kernel = next((k for k in kernels if not k.template), kernels[0])
    name = entry(kernel)
    whole = Variant(files=tuple(Source(name=n, text=t) for n, t in files.items()))
    cut = device_variant(whole, entry=name)
    return Tried(
        file=str(path), kernel=name, whole=compiled(path, whole, name), cut=compiled(path, cut, name)
    )


def read(path: Path) -> Mapping[str, str]:
    """A file, first, and what it and its headers include in quotes, by the name under which it is included."""
    files: dict[str, str] = {}
    waiting = [(path, path.name)]
    while waiting and len(files) < _MOST_HEADERS:
        file, name = waiting.pop(0)
        if name in files:
            continue
        try:
            files[name] = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for included in _INCLUDE.findall(files[name]):
            places = (file.parent / included, path.parent / included)
            waiting += [(p, included) for p in places if p.is_file()][:1]
    return files


def entry(kernel: CudaKernel) -> str:
    """A name expression; types of a template become ``float``, numbers 16."""
    arguments = ["float" if p.startswith(("typename", "class")) else "16" for p in kernel.template]
    name = "::".join([*kernel.scope, kernel.name])
    return f"{name}<{', '.join(arguments)}>" if arguments else name


def compiled(path: Path, variant: Variant, name: str) -> str:
    """NVRTC's first error; empty where there is none."""
    options = ["-arch=sm_90", *(f"-I{f}" for f in (*find_headers(), OWN_HEADERS, str(path.parent)))]
    first, *others = variant.files
    try:
        Nvrtc(find_library()).compile(
            first.text,
            name=first.name,
            headers={f.name: f.text for f in others},
            entries=[name],
            options=options,
        )
    except NvrtcError as error:
        return next((line for line in str(error).split("\n") if "error" in line), str(error))
    return ""


if __name__ == "__main__":
    main()
