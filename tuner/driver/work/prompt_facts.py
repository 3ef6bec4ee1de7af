"""What a prompt says of a run: the kernel, the machine, versions with their numbers, and what earlier replies came to.

May not choose what is asked or write a prompt's sentences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core import statistics
from tuner.core.dtypes import members_of
from tuner.core.expressions import parse
from tuner.core.types import BASELINE, Argument, ArgumentRole, Initial, Launch, Status, Task
from tuner.driver.state.exchanges import Call
from tuner.driver.state.lineage import ORIGINAL, VariantState
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.search.llm.prompt import Earlier, Version, without_guards
from tuner.spaces.source.edits import Applied
from tuner.spaces.space import Space

__all__ = [
    "best_score",
    "earlier",
    "has_float_outputs",
    "kernel_lines",
    "machine_lines",
    "other_lines",
    "outcome_of",
    "title",
    "version",
    "without_folders",
]

_MACHINE = ("device", "cpu", "features", "arch", "target")
_MORE_MACHINE = ("caches", "gpu", "opencl")
_MOST_EARLIER = 24
_MOST_VERSIONS = 8
_MOST_OPERATORS = 6
_MOST_CHOICES = 24
_MOST_TITLE = 200
_COMPARABLE = math.log(3)
"""Log time by which a version may be behind the best to be named."""
_LOOPS = "assembly"
"""Of the backend's remarks, the one that is text of several lines."""

_VECTORISER = "loops"
"""The one that names lines of the first source."""


def has_float_outputs(task: Task) -> bool:
    """Whether rounding can change what the kernel has to compute."""
    outputs = (
        a for a in task.arguments if a.is_array and a.role in (ArgumentRole.OUTPUT, ArgumentRole.INOUT)
    )
    kinds = [kind for a in outputs for kind in members_of(a.dtype).values()]
    return any("float" in kind for kind in [*kinds, task.kernel.returns or ""])


def kernel_lines(task: Task) -> list[str]:
    """What the kernel is called with, the sizes, and when a result counts as right."""
    lines = [f"Language: {task.kernel.language}; function: {task.kernel.function}"]
    for argument in task.arguments:
        if argument.passing == "address":
            lines.append(
                f"Argument {argument.name}: leads to structures of the application, which may overlap"
            )
        if argument.passing in ("address", "memory"):
            continue
        lines.append(_argument_line(argument))
    if any(a.is_array for a in task.own_arguments):
        # Recorded arrays lie where they lay in the application, one within the other too.
        apart = all(a.address is None and a.passing not in ("address", "memory") for a in task.arguments)
        apart_text = "Arrays of different arguments do not overlap" if apart else "Arrays may overlap"
        lines.append(f"{apart_text}; they begin at multiples of their element's size, no more")
    sizes = "; ".join(_sizes(p.sizes) for p in task.problems)
    threads = f"threads: {task.measure.threads}; " if task.backend == "host" else ""
    lines.append(f"Timed with: {sizes or 'one size'}; {threads}{task.measure.cache} caches")
    if task.launch is not None:
        grid, block = (", ".join(e.text for e in part) for part in (task.launch.grid, task.launch.block))
        lines.append(f"Launched with blocks [{grid}] of threads [{block}]")
    further = "; ".join(_sizes(p.sizes) for p in task.verify.problems)
    if further:
        lines.append(f"Verified with these sizes too: {further}")
    if task.verify.assume:
        given = ", ".join(e.text for e in task.verify.assume)
        lines.append(f"Verified with any other sizes that satisfy: {given}")
    if has_float_outputs(task):
        lines.append(
            f"Floating-point outputs may differ by {task.verify.rtol:g} of the value plus {task.verify.atol:g} of the "
            "output's root mean square; integers have to be the same"
        )
        if task.verify.nonfinite == "excluded":
            lines.append("Inputs are finite numbers")
    return lines


def machine_lines(task: Task, start: Mapping[str, Any], flags: Sequence[str]) -> list[str]:
    """The processor or device with its numbers, how the code is compiled, and what the machine does at best.

    Args:
        task: of the run.
        start: the body of its first event.
        flags: of the baseline.
    """
    environment: Mapping[str, Any] = start["environment"]["backend"]
    lines = [f"{k}: {environment[k]}" for k in _MACHINE if environment.get(k)]
    on = sorted(f[1:] for f in str(environment.get("cpu_features", "")).split(",") if f.startswith("+"))
    if on:
        lines += ["instruction sets: " + " ".join(on[i : i + 60]) for i in range(0, len(on), 60)]
    for group in _MORE_MACHINE:
        values = environment.get(group)
        if isinstance(values, Mapping):
            numbers = (f"{n} {v:g}" for n, v in sorted(values.items()) if type(v) in (int, float))
            lines.append(f"{group}: {', '.join(numbers)}")
    kernel = task.kernel
    if kernel.compiler is not None:
        lines.append(f"Compiler: {kernel.compiler.version}; write no pragmas of others")
    elif isinstance(environment.get("llvm"), Mapping):
        version = environment["llvm"]["version"]
        lines.append(f"Compiler: clang {version}")
    if flags:
        lines.append(f"Flags: {' '.join(flags)}")
    if task.backend == "host" and has_float_outputs(task):
        lines.append(
            _contraction(flags, gcc=kernel.compiler is not None and "gcc" in kernel.compiler.version.lower())
        )
    if kernel.openmp:
        lines.append(
            "OpenMP: directives are honoured, by a team that is there already; results have to be right for any number "
            "of threads"
        )
    return lines + _light(start.get("light"))


def version(state: RunState, applied: Applied, number: int, space: Space) -> Version:
    """A version with all that is known of it.

    Args:
        state: of the run.
        applied: its program and tunables.
        number: of the variant.
        space: of the source as given.
    """
    own = state.variants[number]
    best = state.trials[BASELINE if own.best is None else own.best]
    features: Mapping[str, float] = (best.build or {}).get("features", {})
    remarks = {n: without_folders(t) for n, t in state.exchanges.remarks.get(number, {}).items()}
    loops = remarks.pop(_LOOPS, "")
    if _VECTORISER in remarks:
        remarks[_VECTORISER] = _quoted(remarks[_VECTORISER], applied.variant.files[0].text)
    names = {p.name for p in applied.parameters}
    texts = (*applied.variant.files, *applied.program.entry.headers)
    words = {w for one in texts for w in re.findall(r"\w+", without_guards(one.text, names))}
    launched = _launch_names(applied.program.launch)
    known = (*applied.parameters, *space.parameters)
    tunables = [p for p in known if (p.macro and p.name in words) or p.name in launched]
    shown = {p.name for p in tunables}
    rules = [*applied.constraints, *(c.text for c in space.constraints)]
    return Version(
        program=applied.program,
        name="the source as given" if number == ORIGINAL else f"version {number}",
        times=_times(state, best),
        idea="" if number == ORIGINAL else _maker(state, own),
        tunables=[
            f"{p.name} in {_choices(p.values)}, best {best.proposal.configuration.get(p.name, p.default)}"
            for p in tunables
        ],
        names=names,
        constraints=[text for text in rules if parse(text).names & shown],
        features=features,
        counters=_counters(best),
        remarks=remarks,
        loops=loops,
    )


def other_lines(state: RunState, shown: Sequence[int | None]) -> list[str]:
    """The best other versions that are not far behind, one line each: time and where they come from."""
    most = best_score(state) + _COMPARABLE
    known = [
        v
        for v in state.variants.values()
        if v.score is not None
        and v.score <= most
        and v.purpose == "propose"
        and v.number not in (ORIGINAL, *shown)
    ]
    known.sort(key=lambda v: (v.score or 0.0, v.number))
    return [
        f"version {v.number}: {_ratio(v.score)} of the time of the source as given; {_maker(state, v)}"
        for v in known[:_MOST_VERSIONS]
    ]


def earlier(state: RunState) -> list[Earlier]:
    """The last requests with what became of them, the oldest first; without lists of ideas and unanswered ones."""
    calls = [c for c in state.exchanges.calls if not _listed(c) and (c.reply is None or c.answered)]
    found = []
    for call in calls[-_MOST_EARLIER:]:
        waiting = "being written by another request now" if call.reply is None else outcome_of(state, call)
        found.append(Earlier(purpose=call.purpose.value, idea=_idea(state, call), outcome=waiting))
    return found


def _listed(call: Call) -> bool:
    """Whether a reply was a list of ideas."""
    return call.read and call.variant is None and not call.problems


def outcome_of(state: RunState, call: Call) -> str:
    """What became of a reply, one line."""
    if call.variant is None:
        return f"could not be used: {'; '.join(call.problems)}" if call.read else "not looked at yet"
    variant = state.variants[call.variant]
    if variant.score is None:
        return _failure(state, variant) if variant.finished else "being tried now"
    behind = variant.score - best_score(state)
    place = "the best so far" if behind <= 0 else f"{math.exp(behind):.3g} times the time of the best"
    parent = state.variants[call.parent].score or 0.0
    against = math.exp(parent - variant.score)
    return (
        f"works: version {variant.number}, {_ratio(variant.score)} of the time of the source as given, "
        f"{against:.3g} times as fast as the version that it started from, {place}"
    )


def best_score(state: RunState) -> float:
    """Log time of the best version over that of the source as given."""
    return min((v.score for v in state.variants.values() if v.score is not None), default=0.0)


def without_folders(text: str) -> str:
    """A message without the folders of files: they are nobody's business."""
    return re.sub(r"(?<![\w.])/(?:[^\s/:'\"]+/)+", "", text)


def _quoted(remark: str, text: str) -> str:
    """What a compiler says of lines, with the lines themselves in the place of numbers, which a model does not see."""
    lines = text.splitlines()

    def quoted(found: re.Match[str]) -> str:
        number = int(found[1]) - 1
        return (
            f"`{lines[number].strip()}`:" if 0 <= number < len(lines) and lines[number].strip() else found[0]
        )

    return re.sub(r"\bline (\d+):", quoted, remark)


def _failure(state: RunState, variant: VariantState) -> str:
    trial = state.trials[variant.finished[0]]
    status = Status.LOST if trial.status is None else trial.status
    return f"{status.value.replace('_', ' ')}: {without_folders(trial.message) or 'no more is known'}"


def _idea(state: RunState, call: Call) -> str:
    """What a reply says that it does, or the idea that it was to write."""
    if call.summary or call.idea is None:
        return call.summary
    return title(state.exchanges.ideas[call.idea].text)


def title(idea: str) -> str:
    """The beginning of an idea: enough to know it by."""
    return idea if len(idea) <= _MOST_TITLE else idea[: _MOST_TITLE - 4] + " ..."


def _maker(state: RunState, variant: VariantState) -> str:
    """Where a version comes from, in words."""
    last = state.exchanges.chain_of.get(variant.number)
    if last is not None:
        return _idea(state, state.exchanges.calls[last]) or "written by a model"
    operators = list(dict.fromkeys(str(e["op"]).replace("_", " ") for e in variant.edits))
    more = ", ..." if len(operators) > _MOST_OPERATORS else ""
    return "made by transformations: " + ", ".join(operators[:_MOST_OPERATORS]) + more


def _argument_line(argument: Argument) -> str:
    shape = " by pointer" if argument.by_pointer else ""
    if argument.shape is not None and not argument.by_pointer:
        shape = f" [{', '.join(e.text for e in argument.shape)}]"
    value = "" if argument.value is None else f" = {argument.value.text}"
    if argument.value is not None and not argument.value.names and not argument.is_array:
        value += " in all of these calls, though it stays a parameter"
    filled = argument.is_array and argument.role.value != "output" and not argument.by_pointer
    values = f", values {_values(argument.initial)}" if filled else ""
    return f"Argument {argument.name}: {argument.dtype}{shape}{value}, {argument.role.value}{values}"


def _values(initial: Initial) -> str:
    def text(value: Any) -> str:
        return str(getattr(value, "text", value))

    options = {n: v for n, v in initial.options.items() if isinstance(v, int | float) or hasattr(v, "text")}
    if initial.kind == "randint":
        return f"whole numbers from {text(options.get('low', 0))} to below {text(options.get('high', 'its limit'))}"
    given = ", ".join(f"{n} {text(v)}" for n, v in sorted(options.items()))
    return initial.kind + (f" ({given})" if given else "")


def _launch_names(launch: Launch | None) -> set[str]:
    """What a launch's geometry is computed from."""
    return set() if launch is None else {n for e in (*launch.grid, *launch.block) for n in e.names}


def _choices(values: Sequence[Any]) -> str:
    if len(values) <= _MOST_CHOICES:
        return str(list(values))
    return f"{len(values)} values from {values[0]} to {values[-1]}"


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{n} = {v}" for n, v in sizes.items())


def _contraction(flags: Sequence[str], *, gcc: bool) -> str:
    words = set(flags)
    if "-ffp-contract=off" in words:
        return "The compiler does not contract a * b + c"
    if gcc or words & {"-ffp-contract=fast", "-ffast-math", "-Ofast"}:
        return "The compiler contracts a * b + c to one fused operation wherever it can"
    return (
        "The compiler contracts a * b + c to one fused operation where both stand in one expression, so an explicit "
        "fused operation there gives the same result"
    )


def _light(light: Mapping[str, Any] | None) -> list[str]:
    """The least time that this machine needs for the traffic and the operations of a call."""
    if light is None or not light["problems"]:
        return []
    lines = []
    for number, one in enumerate(light["problems"]):
        text = (
            f"Bound for size {number + 1}: {one['bytes']:.3g} bytes at {one['bandwidth_bytes_per_s'] / 1e9:.3g} GB/s, "
            f"the rate at which this machine walks over arrays of that size"
        )
        if one["operations"]:
            text += f", or {one['operations']:.3g} operations at {one['operations_per_s'] / 1e9:.3g} Gflop/s"
        lines.append(f"{text}: {_seconds(one['bound_s'])} a call at least")
    rate = max(float(one["operations_per_s"]) for one in light["problems"])
    lines.append(f"Peak of fused multiply-adds: {rate / 1e9:.3g} Gflop/s with the threads above")
    if light.get("clock_hz"):
        lines.append(f"Clock of a processor at work: {light['clock_hz'] / 1e9:.3g} GHz")
    return lines


def _times(state: RunState, trial: TrialState) -> list[str]:
    """A version's time for each size beside the baseline's."""
    lines = []
    for problem in range(len(state.settings.weights)):
        base = state.trials[BASELINE].times_s(problem)
        own = trial.times_s(problem)
        if not base or not own:
            continue
        given_s, own_s = statistics.median(base), statistics.median(own)
        text = f"Time of a call, size {problem + 1}: {_seconds(own_s)}{_cycles(state, own_s)}"
        if trial.number != BASELINE:
            text += f"; the source as given {_seconds(given_s)}"
        lines.append(text)
    if trial.score is not None and trial.number != BASELINE:
        lines.append(f"That is {_ratio(trial.score)} of the time of the source as given")
    return lines


def _counters(trial: TrialState) -> dict[str, float]:
    """The mean over a trial's batches of what the processor counted; empty where it counts nothing."""
    found: dict[str, list[float]] = {}
    for measured in (m for one in trial.rounds for m in one):
        for name, value in measured["notes"].get("counters", {}).items():
            found.setdefault(name, []).append(float(value))
    return {name: sum(values) / len(values) for name, values in found.items()}


def _cycles(state: RunState, value_s: float) -> str:
    """How many cycles of a processor a time is; empty where its clock is not known."""
    clock_hz = ((state.start or {}).get("light") or {}).get("clock_hz")
    return f" ({value_s * clock_hz:.3g} cycles)" if clock_hz else ""


def _seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value / 1e-9:.4g} ns"


def _ratio(score: float | None) -> str:
    return f"{math.exp(score or 0.0):.3g}"
