"""Sums in other orders that are refused, and faults that pass, over many sets of inputs: what the tolerance is worth.

Run it as ``python benchmarks/rounding.py --seeds 60``. Each row is a sum of floats of some length and distribution.
Honest versions add the same numbers in another order, the others leave one out or count one twice. A version is refused
when it fails the search's verification, or that of one of four processes that confirm.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

from tuner.core.types import BASELINE, BuildRequest, Source, Status, Variant
from tuner.evaluators import registry as backends
from tuner.spec.load import load_spec

BODY = "float s = 0; for (int i = 0; i < n; i++) s += x[i]; return s;"
LANES = (
    "float s[W]; for (int j = 0; j < W; j++) s[j] = 0; int i = 0;"
    "for (; i + W <= n; i += W) for (int j = 0; j < W; j++) s[j] += x[i + j];"
    "float all = 0; for (; i < n; i++) all += x[i]; for (int j = 0; j < W; j++) all += s[j]; return all;"
)
HONEST = {
    "4 lanes": LANES.replace("W", "4"),
    "32 lanes": LANES.replace("W", "32"),
    "backwards": "float s = 0; for (int i = n - 1; i >= 0; i--) s += x[i]; return s;",
    "in blocks": (
        "float s = 0; for (int b = 0; b < n; b += 256) { float t = 0; int end = b + 256 < n ? b + 256 : n;"
        "for (int i = b; i < end; i++) t += x[i]; s += t; } return s;"
    ),
}
FAULTS = {
    "one left out": BODY.replace("i < n", "i < n - 1"),
    "one twice": BODY.replace("return s", "return s + x[n / 2]"),
}
SPEC = """
kernel: {{source: k.c, entry: sum, returns: float32}}
problem: {{n: {n}}}
arguments:
  - {{name: x, dtype: float32, shape: [n], init: {init}}}
  - {{name: n, dtype: int32, value: n}}
space: {{}}
verify: {{numerics: reassociate, problems: [{{n: 67}}]}}
"""
INITIAL = {"normal": "normal", "uniform": "{uniform: [0, 1]}"}
CONFIRMING = 4


def variant(body: str) -> Variant:
    """The source of a version."""
    return Variant(files=(Source(name="k.c", text=f"float sum(const float *x, int n) {{ {body} }}\n"),))


def refused(folder: Path, seed: int) -> dict[str, bool] | None:
    """Which versions are refused, by name; none where the baseline itself does not verify."""
    (spec,) = load_spec(folder / "k.yaml")
    task = spec.task_with(seed=seed)
    backend = backends.given(None, task.backend)
    space = spec.space(None)
    resolved = space.resolve(space.default())
    evaluation = backend.prepare(task, workers=1)
    found = {}
    try:
        (base,) = evaluation.build([BuildRequest(trial=BASELINE, variant=variant(BODY), resolved=resolved)])
        if evaluation.set_baseline(base, resolved).status is not Status.OK:
            return None
        for name, body in {**HONEST, **FAULTS}.items():
            request = BuildRequest(trial=BASELINE, variant=variant(body), resolved=resolved)
            (build,) = evaluation.build([request])
            looks = [("search", 0), *(("confirm", i) for i in range(CONFIRMING))]
            found[name] = False
            for purpose, process in looks:
                session = evaluation.open(build, resolved, purpose=purpose, number=process)
                try:
                    wrong = session.verify().status is not Status.OK
                finally:
                    session.close()
                if wrong:
                    found[name] = True
                    break
        return found
    finally:
        evaluation.close()


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--lengths", type=float, nargs="+", default=[1e3, 1e5, 1e7])
    options = parser.parse_args()
    names = [*HONEST, *FAULTS]
    print("| terms | values |", " | ".join(names), "|")
    for length in map(int, options.lengths):
        for kind, init in INITIAL.items():
            counts = dict.fromkeys(names, 0)
            ran = 0
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "k.c").write_text(variant(BODY).files[0].text)
                (folder / "k.yaml").write_text(SPEC.format(n=length, init=init))
                for seed in range(options.seeds):
                    found = refused(folder, seed)
                    if found is None:
                        continue
                    ran += 1
                    for each, wrong in found.items():
                        counts[each] += wrong
            print(
                f"| 1e{math.log10(length):.0f} | {kind} | "
                + " | ".join(f"{counts[n]} of {ran}" for n in names),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
