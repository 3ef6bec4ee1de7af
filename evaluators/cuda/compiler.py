"""From candidates to cubins with their static features, several at once; needs no GPU.

May not load or run what it makes. A candidate's failure is a status.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from tuner.core.canonical import digest, digest_json
from tuner.core.errors import MachineError, SpecError
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Task
from tuner.evaluators.cuda.agreement import disagreement, variable_trouble
from tuner.evaluators.cuda.cubin import Resources
from tuner.evaluators.cuda.device_passes import DevicePasses
from tuner.evaluators.cuda.flags import VALUE_CHANGING, include_folders, short_names
from tuner.evaluators.cuda.jobs import behind, entry_expression, for_device, job_of
from tuner.evaluators.cuda.layouts import Layouts, NoLayout, widened
from tuner.evaluators.cuda.limits import Architecture, Usage, architecture, occupancy, over_limit
from tuner.evaluators.cuda.messages import one_line
from tuner.evaluators.cuda.nvrtc import OWN_HEADERS, find_headers, find_library
from tuner.evaluators.cuda.parcels import Layout, assertions
from tuner.evaluators.device_code.pipelines import OWN_PIPELINE, chosen_pipeline
from tuner.evaluators.host.compile_pool import CompilePool, Job, Outcome
from tuner.spaces.launch import Geometry, geometry

__all__ = ["CudaCompiler", "Made", "check_architecture", "entry_expression", "geometry_of", "nvrtc_library"]

_TIMEOUT_S = 30.0
_WORKER = "tuner.evaluators.cuda.compile_worker"
_INSTALL = "pip install 'remix-tuner[cuda]'"


def nvrtc_library() -> str:
    """Path of libnvrtc.

    Raises:
        MachineError: there is none.
    """
    path = find_library()
    if not path:
        raise MachineError("there is no NVRTC, which compiles CUDA", _INSTALL)
    return path


def check_architecture(name: str, known: Sequence[str], version: str) -> None:
    """Raises ``SpecError`` for an architecture that this NVRTC does not compile for."""
    architecture(name)
    if name.rstrip("af") not in known:
        raise SpecError(
            f"target {name} is not known to NVRTC {version}", "it compiles for " + ", ".join(known)
        )


def geometry_of(task: Task, resolved: Resolved, sizes: Mapping[str, int]) -> Geometry:
    """The launch of a configuration on one problem size.

    Raises:
        SpecError: it cannot be computed, or no launch can be so.
    """
    return geometry(resolved.launch_of(task), {**resolved.macros, **resolved.scalars}, sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a device needs of a build beside its cubin.

    Attributes:
        symbol: of the kernel in the cubin.
        usage: for limits and occupancy.
        layouts: of the structures that it takes by value, by the parameters' names.
        variables: symbols of those that arguments are copied into, by their names in the source.
    """

    symbol: str
    usage: Usage
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Text that goes with a build to where it runs."""
        layouts = {name: layout.to_json() for name, layout in self.layouts.items()}
        own = {"symbol": self.symbol, "usage": asdict(self.usage), "variables": dict(self.variables)}
        return json.dumps({**own, "layouts": layouts})

    @classmethod
    def from_json(cls, text: str) -> Made:
        """The inverse of :meth:`to_json`."""
        found = json.loads(text)
        layouts = {n: Layout.from_json(value) for n, value in found.get("layouts", {}).items()}
        return cls(
            symbol=found["symbol"],
            usage=Usage(**found["usage"]),
            layouts=layouts,
            variables=found.get("variables", {}),
        )


class CudaCompiler:
    """Compile workers for one task; a context manager.

    Args:
        arch: what to compile for, ``sm_90``.
        workers: how many candidates are compiled at once.
        limits: of the device, where one is there; else the table's.
        timeout_s: wall time for one candidate.
        read: folders of headers that the workers may read.

    Raises:
        MachineError: there is no NVRTC.
        SpecError: an architecture that it does not know.
    """

    def __init__(
        self,
        arch: str,
        *,
        workers: int = 1,
        limits: Architecture | None = None,
        timeout_s: float = _TIMEOUT_S,
        read: Sequence[str] = (),
    ) -> None:
        self.arch = arch
        self._workers = max(1, workers)
        self._passes: DevicePasses | None = None
        self.limits = limits or architecture(arch)
        self.library = nvrtc_library()
        self._headers = (*find_headers(), OWN_HEADERS)
        self._timeout_s = timeout_s
        self._readable = {*map(str, self._headers), *read}
        self._pool = self._start()
        self.version = str(self._pool.host["version"])
        self._made: dict[str, Made] = {}
        self._layouts = Layouts(arch, self._headers)
        try:
            check_architecture(arch, self._pool.host["architectures"], self.version)
        except SpecError:
            self.close()
            raise

    def _start(self) -> CompilePool:
        try:
            return CompilePool(
                self.library,
                workers=self._workers,
                timeout_s=self._timeout_s,
                program=_WORKER,
                read=sorted(self._readable),
            )
        except MachineError as error:
            raise MachineError(f"NVRTC cannot be used: {self.library}", _INSTALL) from error

    def _let_read(self, task: Task, requests: Sequence[BuildRequest]) -> None:
        """Workers that may read what the candidates' flags name; a worker's rights cannot grow, so others are begun."""
        wanted: set[str] = set()
        for request in requests:
            try:
                wanted |= set(include_folders(request.resolved.flags, folder=task.kernel.folder))
            except SpecError:
                # The candidate that has it fails by it.
                continue
        if not wanted <= self._readable:
            self._readable |= wanted
            self._pool.close()
            self._pool = self._start()

    def close(self) -> None:
        """Ends the workers; safe to call twice."""
        self._pool.close()
        if self._passes is not None:
            self._passes.close()

    def __enter__(self) -> CudaCompiler:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def build(self, task: Task, requests: Sequence[BuildRequest], *, wide: bool = False) -> list[Build]:
        """Compiles candidates; one build for each, in order.

        Args:
            task: what is tuned.
            requests: the candidates.
            wide: they take float64 where the task says float32.

        Raises:
            MachineError: one has a pass pipeline and there is nothing here that runs it.
        """
        asked = self._ready(task, requests, wide=wide)
        fine = [(request, found) for request, found in asked if not isinstance(found, NoLayout)]
        jobs = [
            None
            if chosen_pipeline(r.resolved.pipeline)
            else job_of(task, r.variant, r.resolved, arch=self.arch, headers=self._headers)
            for r, _ in fine
        ]
        own = iter(self._pool.run([j for j in jobs if isinstance(j, Job)]))
        work = [(r, p) for r, _ in fine if (p := chosen_pipeline(r.resolved.pipeline))]
        by_llvm = iter(self.passes.compile(task, work) if work else ())
        made = iter(
            job
            if isinstance(job, Build)
            else self._build(task, request.resolved, next(own if job else by_llvm), layouts, wide=wide)
            for (request, layouts), job in zip(fine, jobs, strict=True)
        )
        return [found.build if isinstance(found, NoLayout) else next(made) for _, found in asked]

    def layouts(self, task: Task, resolved: Resolved) -> Mapping[str, Layout] | NoLayout:
        """How the kernel as given lays out what it takes by value, by the parameters' names."""
        request = BuildRequest(trial=BASELINE, variant=task.kernel.variant, resolved=resolved)
        ((_, found),) = self._ready(task, [request], wide=False)
        return found

    def _ready(
        self, task: Task, requests: Sequence[BuildRequest], *, wide: bool
    ) -> list[tuple[BuildRequest, Mapping[str, Layout] | NoLayout]]:
        """Each candidate as it is compiled, with the layouts that it has to keep to."""
        self._let_read(task, requests)
        layouts = self._layouts.find(self._pool, task, [r.resolved for r in requests], wide=wide)
        ready = []
        for request, found in zip(requests, layouts, strict=True):
            plain = for_device(task, request)
            if not isinstance(found, NoLayout):
                plain = replace(plain, variant=behind(plain.variant, assertions(task, found)))
            ready.append((plain, found))
        return ready

    @property
    def passes(self) -> DevicePasses:
        """Runs pass pipelines; started when first needed.

        Raises:
            MachineError: there is nothing here that runs them.
        """
        if self._passes is None:
            self._passes = DevicePasses(self.arch, workers=self._workers)
        return self._passes

    def build_by_llvm(self, task: Task, request: BuildRequest, pipeline: str = OWN_PIPELINE) -> Build:
        """One candidate through LLVM whatever its pipeline is; by default with LLVM's own O3.

        Raises:
            MachineError: as :attr:`passes`.
        """
        ((ready, layouts),) = self._ready(task, [request], wide=False)
        if isinstance(layouts, NoLayout):
            return layouts.build
        (outcome,) = self.passes.compile(task, [(ready, pipeline)])
        return self._build(task, request.resolved, outcome, layouts, wide=False)

    def build_double(self, task: Task, resolved: Resolved) -> Build:
        """The kernel as given with ``double`` in the place of ``float``, for a reference; its failure is no error.

        Works by macros in front of the source. Flags that may change values are left out.
        """
        kept = tuple(f for f in resolved.flags if not VALUE_CHANGING.match(f))
        setting = replace(resolved, flags=kept, pipeline=None)
        request = BuildRequest(trial=BASELINE, variant=widened(task.kernel.variant), resolved=setting)
        (build,) = self.build(task, [request], wide=True)
        return build

    def made(self, build: Build) -> Made:
        """What was learnt of a build, here or where it was made."""
        if build.digest not in self._made:
            self._made[build.digest] = Made.from_json(build.artifacts["made"])
        return self._made[build.digest]

    def adopt(self, cubin: bytes, like: Build) -> Build:
        """A build of a cubin that another compiler made of the same kernel, for comparisons."""
        name = digest(cubin)
        made = self._made[name] = self.made(like)
        plain = {"made": made.to_json()}
        return replace(like, code=cubin, digest=name, key=name, features={}, seconds={}, artifacts=plain)

    def _build(
        self,
        task: Task,
        resolved: Resolved,
        outcome: Outcome,
        layouts: Mapping[str, Layout],
        *,
        wide: bool,
    ) -> Build:
        if outcome.status is not Status.OK:
            return Build(status=outcome.status, message=outcome.message)
        if "failed" in outcome.header:
            log = str(outcome.header["failed"])
            return Build(
                status=Status.BUILD_ERROR,
                message=one_line(log, task.kernel.entry, short_names(tuple(resolved.macros))),
                artifacts={"log": log},
            )
        header = outcome.header
        cubin, ptx = outcome.blobs
        wrong = disagreement(task, header["parameters"], layouts, wide=wide)
        rooms = {name: size for name, (_, size) in header["variables"].items()}
        status, trouble = variable_trouble(task, resolved, rooms, wide=wide)
        if wrong or trouble:
            return Build(status=Status.BUILD_ERROR if wrong else status, message=wrong or trouble)
        found: Mapping[str, int] = header["resources"]
        usage = Resources(**found).usage
        try:
            shapes = [geometry_of(task, resolved, p.sizes) for p in task.problems]
        except SpecError as error:
            return Build(status=Status.BUILD_ERROR, message=str(error))
        for shape in shapes:
            why = over_limit(usage, shape, self.limits)
            if why:
                return Build(status=Status.OUT_OF_RESOURCES, message=why, seconds=dict(header["seconds"]))
        name, symbols = digest(cubin), {own: symbol for own, (symbol, _) in header["variables"].items()}
        launches = [[list(shape.grid), list(shape.block), shape.shared_bytes] for shape in shapes]
        scalars = dict(sorted(resolved.scalars.items()))
        made = self._made[name] = Made(
            symbol=str(header["symbol"]), usage=usage, layouts=layouts, variables=symbols
        )
        return Build(
            status=Status.OK,
            code=cubin,
            digest=name,
            key=digest_json([header["key"], self.arch, launches, scalars]),
            features=_features(found, header["mix"], usage, shapes[0], self.limits),
            seconds=dict(header["seconds"]),
            artifacts={"ptx": ptx.decode(), "log": str(header["log"]), "made": made.to_json()},
        )


def _features(
    found: Mapping[str, int],
    mix: Mapping[str, float],
    usage: Usage,
    shape: Geometry,
    arch: Architecture | None,
) -> dict[str, float]:
    """Static features; occupancy is that of the first problem's launch."""
    features = {
        "registers_count": float(found["registers"]),
        "spill_bytes": float(found["spill_bytes"]),
        "local_bytes": float(found["local_bytes"]),
        "static_shared_bytes": float(found["shared_bytes"]),
        "shared_bytes": float(found["shared_bytes"] + shape.shared_bytes),
        "constant_bytes": float(found["constant_bytes"]),
        "code_bytes": float(found["code_bytes"]),
        "block_threads_count": float(shape.threads),
        "grid_blocks_count": float(shape.grid[0] * shape.grid[1] * shape.grid[2]),
        **mix,
    }
    if arch is not None:
        full = occupancy(usage, shape, arch)
        features |= {"occupancy_share": full.share, "resident_blocks_count": float(full.blocks)}
    return features
