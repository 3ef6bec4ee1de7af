"""The catalogue of passes for device code: the host's, less what does not run there.

Every pass that a search might use is run alone on a small kernel and turned into the target's code: some ask for a
target machine that the LLVM in use cannot give, others leave IR that the target's code generator does not take. Kept
for later runs. May not decide which passes are useful.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tuner.core.canonical import digest_json
from tuner.core.errors import SpecError
from tuner.core.types import Status
from tuner.evaluators.host.catalogue import alone, pass_catalogue
from tuner.evaluators.host.compile_pool import Outcome
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.toolchain import cache_folder, find_toolchain, write_fact
from tuner.spaces.catalogue import Catalogue

__all__ = ["probed_catalogue"]

_FORMAT = 2
_PREFIX = "function(sroa,early-cse,simplifycfg,loop-simplify,lcssa)"


def probed_catalogue(
    name: str,
    depends_on: Any,
    compile_sample: Callable[[Sequence[str]], Sequence[Outcome]],
) -> Catalogue:
    """The passes of the LLVM in use that run on a target's code.

    Args:
        name: of the target, for the file's name.
        depends_on: what the result holds for, plain JSON: parts with versions, the sample's text.
        compile_sample: compiles the sample with each of some pipelines; only called where nothing is kept.

    Raises:
        MachineError: LLVM does not list its passes, or a part is missing.
    """
    with HostCompiler(find_toolchain()) as compiler:
        host = pass_catalogue(compiler)
    key = digest_json([_FORMAT, _PREFIX, depends_on, host.to_json()])
    path = cache_folder() / f"{name}-passes-{key[:16]}.json"
    try:
        return Catalogue.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, SpecError):
        pass
    passes = host.usable
    outcomes = compile_sample([f"{_PREFIX},{alone(p, host)}" for p in passes])
    broken = {p.name for p, o in zip(passes, outcomes, strict=True) if o.status is not Status.OK}
    catalogue = replace(host, broken=host.broken | broken)
    write_fact(path, json.dumps(catalogue.to_json()))
    return catalogue
