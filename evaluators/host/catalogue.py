"""The catalogue of passes of this LLVM: read from it, tried once, kept for later runs.

Every pass that a search might use is run alone on a small sample; those that end, block or do not exist in this
build are listed as broken. May not decide which passes are useful: :mod:`tuner.spaces.catalogue` does.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from tuner.core.canonical import digest_json
from tuner.core.errors import MachineError, SpecError
from tuner.core.types import Source, Status, Variant
from tuner.evaluators.host.compile_pool import Job
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.flags import Flags
from tuner.evaluators.host.frontend import Source as FrontSource
from tuner.evaluators.host.llvm_library import MachineOptions, PassOptions
from tuner.evaluators.host.toolchain import cache_folder, write_fact
from tuner.spaces.catalogue import Catalogue, PassInfo, wrappers

__all__ = ["alone", "pass_catalogue"]

_FORMAT = 1
_LISTING_BYTES = 4 << 20
_PROBE_TIMEOUT_S = 5.0
_TOOL_TIMEOUT_S = 60.0
_PREFIX = "function(sroa,early-cse,simplifycfg,loop-simplify,lcssa)"
_SAMPLE = """
static float total(const float *x, int n) {
  float s = 0;
  for (int i = 0; i < n; i++) s += x[i] > 0 ? x[i] : -x[i];
  return s;
}
void probe(const float *restrict a, const float *restrict b, float *restrict c, int *h, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      float s = 0;
      for (int k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j];
      c[i * n + j] = s + total(a, n);
    }
  for (int i = 0; i < n; i++) switch (h[i] & 7) {
      case 0: h[0]++; break;
      case 1: h[1] += i; break;
      case 2: __builtin_memcpy(c, a, 64); break;
      default: h[2] = h[i] / 3;
    }
}
"""


def pass_catalogue(compiler: HostCompiler, *, folder: Path | None = None) -> Catalogue:
    """The passes of the compiler's LLVM.

    Args:
        compiler: gives LLVM and the target.
        folder: where the catalogue is kept between runs; the user's cache folder where left out.

    Raises:
        MachineError: when LLVM does not list its passes.
    """
    environment = compiler.environment()
    key = digest_json([_FORMAT, environment["llvm_digest"], environment["cpu"], _SAMPLE])
    path = (folder or cache_folder()) / f"passes-{key[:16]}.json"
    try:
        return Catalogue.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, SpecError):
        pass
    bitcode = _sample(compiler)
    listing, o3 = _listing(compiler), _flattened(compiler)
    if o3 and compiler.pool.run([_job(compiler, bitcode, o3)])[0].status is not Status.OK:
        o3 = ""  # Some versions print passes under names that they do not read.
    catalogue = Catalogue.from_listing(listing, o3, compiler.toolchain.version)
    outcomes = _probed(compiler, catalogue, bitcode)
    broken = frozenset(name for name, status in outcomes.items() if status is not Status.OK)
    catalogue = replace(catalogue, broken=broken)
    # What others killed may be found to work the next time.
    if Status.LOST not in outcomes.values():
        write_fact(path, json.dumps(catalogue.to_json()))
    return catalogue


def _listing(compiler: HostCompiler) -> str:
    job = Job(header={"op": "list", "what": "passes"}, log_bytes=_LISTING_BYTES)
    outcome = compiler.pool.run([job])[0]
    if outcome.status is Status.OK and outcome.header["found"]:
        return outcome.blobs[0].decode("utf-8", "replace")
    beside = Path(compiler.toolchain.clang).with_name("opt")
    try:
        done = subprocess.run(
            [str(beside), "--print-passes"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_TOOL_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(
            "this libLLVM does not list its passes", f"install LLVM's opt as {beside}, or use the wheels"
        ) from error
    return done.stdout


def _flattened(compiler: HostCompiler) -> str:
    """``default<O3>`` pass by pass, as clang prints it; empty where it does not."""
    with tempfile.TemporaryDirectory(prefix="tuner-passes-") as folder:
        (Path(folder) / "empty.c").write_text("void empty(void) {}\n", encoding="utf-8")
        words = ["-O3", f"-march={compiler.target}", "-mllvm", "-print-pipeline-passes", "-c", "empty.c"]
        try:
            done = subprocess.run(
                [compiler.toolchain.clang, *words, "-o", "out.o"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
                timeout=_TOOL_TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
    return done.stdout.strip()


def _sample(compiler: HostCompiler) -> bytes:
    variant = Variant(files=(Source(name="probe.c", text=_SAMPLE),))
    unit = compiler.front.compile([(FrontSource(variant=variant, language="c"), Flags(), {})])[0]
    if unit.status is not Status.OK:
        raise MachineError(f"clang does not compile the sample: {unit.message}", "reinstall clang")
    return unit.modules[0]


def _probed(compiler: HostCompiler, catalogue: Catalogue, bitcode: bytes) -> dict[str, Status]:
    passes = catalogue.usable
    jobs = [_job(compiler, bitcode, f"{_PREFIX},{alone(p, catalogue)}") for p in passes]
    outcomes = compiler.pool.run(jobs, timeout_s=_PROBE_TIMEOUT_S)
    return {p.name: o.status for p, o in zip(passes, outcomes, strict=True)}


def alone(info: PassInfo, catalogue: Catalogue) -> str:
    """The pipeline of one pass with what it has to stand in."""
    text = info.name + next(iter(catalogue.forms.get(info.name, ("",))))
    level = "loop-mssa" if info.name in catalogue.mssa else info.level
    for head in wrappers("module", level):
        text = f"{head}({text})"
    return text


def _job(compiler: HostCompiler, bitcode: bytes, pipeline: str) -> Job:
    target = "" if compiler.target == "native" else compiler.target
    header = {
        "op": "compile",
        "pipeline": pipeline,
        "machine": asdict(MachineOptions(cpu=target, level=1)),
        "passes": asdict(PassOptions()),
        "texts": False,
    }
    return Job(header=header, modules=(bitcode,))
