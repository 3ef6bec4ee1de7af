"""Loads specs: from a file with all checks, or from a run record, which needs neither file system nor compiler.

The way in for every other part. May not compile candidates.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tuner.core.canonical import canonical_json, digest_json
from tuner.core.errors import Place, SpecError
from tuner.core.types import Task
from tuner.evaluators.opencl.module import SPIRV
from tuner.spaces.source.outlined import OUTLINED, Outlined
from tuner.spaces.space import Space
from tuner.spec.build_compilers import COMPILER, check_choices, compiler_of, without_passes
from tuner.spec.data_file_checks import check_data_files, file_digest
from tuner.spec.doubts import doubts
from tuner.spec.imported import with_imported
from tuner.spec.inputs import make_inputs, make_task
from tuner.spec.kernels import kernel_names, kernel_views
from tuner.spec.loops import outlined_of, with_outlined
from tuner.spec.machine import check_live, choose_backend, passes_lacking
from tuner.spec.messages import to_spec_error
from tuner.spec.models import LlmModel, SpecModel
from tuner.spec.modules import module_functions
from tuner.spec.parcels import make_parcels, with_inside
from tuner.spec.preprocessed import PREPROCESSED, with_preprocessed
from tuner.spec.python_functions import check_python_function
from tuner.spec.reading.cuda_kernels import cuda_functions
from tuner.spec.reading.device_programs import DEVICE
from tuner.spec.reading.signature import SourceReader
from tuner.spec.recorded.calls import read_calls
from tuner.spec.recorded.workload import (
    DERIVED,
    FUNCTIONS,
    Workload,
    from_text,
    read_workload,
)
from tuner.spec.sections import (
    NOT_YET,
    check_models,
    evolves,
    make_compare,
    make_kernel,
    make_notices,
    make_objectives,
    make_variables,
    make_wrapper,
    refuse_unbuilt,
)
from tuner.spec.sources import (
    Reader,
    Sources,
    folder_reader,
    language_of,
    mapping_reader,
    out_of_reach,
    read_sources,
)
from tuner.spec.structured import parts
from tuner.spec.tunables import (
    Tunables,
    flag_words,
    make_parameters,
    make_tunables,
    with_sizes_in_flags,
)
from tuner.spec.yaml_places import Path as KeyPath
from tuner.spec.yaml_places import View, read_yaml, suggestion

__all__ = ["LoadedSpec", "load_recorded", "load_spec"]

_MADE = (PREPROCESSED, OUTLINED, COMPILER)
"""Files of a record that a compiler makes of the others, or says of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How to search and for how long; ``None`` is without that limit.

    Attributes:
        strategy: a searcher's name.
        seed: of the run.
        evaluations: builds or runs that may be started.
        minutes: of active time.
        usd, tokens, calls: for LLM calls; nothing else spends them.
        cost_model: ``auto`` or ``off``.
        stop: ``converged`` or ``budget``.
        ablate: ``auto``, ``full`` or ``off``.
        proposers: of variants, by name.
        llm: models to ask for variants; ``None`` where none is.
    """

    strategy: str
    seed: int
    evaluations: int | None = None
    minutes: float | None = None
    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    cost_model: str = "auto"
    stop: str = "converged"
    ablate: str = "auto"
    proposers: tuple[str, ...] = ("remix",)
    llm: LlmModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSpec:
    """One kernel's spec, checked.

    Attributes:
        path: of the file; for a recorded spec where it was.
        name: the kernel's, fit for file names; different for all kernels of a file.
        index: which of the file's kernels.
        text: the whole file, as it was read.
        files: texts of all sources, headers and Python files read, by names relative to the spec; for data files
            their SHA-256 under ``NAME.sha256``.
        digest: equal for specs that say the same about the same files; comments do not count.
        task: everything that is not tuned.
        search: how to search.
        compare: commands of other compilers to time.
        objectives: what is made small, time first.
        evolves: whether variants of the source are searched.
        notices: what the spec asks for and does not get in this version.
        loop: the loop that is the kernel, where it is one.
    """

    path: str
    name: str
    index: int
    text: str = field(repr=False)
    files: Mapping[str, str] = field(repr=False)
    digest: str
    task: Task
    search: SearchSettings
    compare: tuple[tuple[str, ...], ...]
    objectives: tuple[str, ...]
    tunables: Tunables = field(repr=False)
    evolves: bool = False
    notices: tuple[str, ...] = ()
    loop: Outlined | None = None

    @property
    def wants_passes(self) -> bool:
        """Whether pass pipelines are tuned, where the backend has any."""
        return self.tunables.passes is not None

    def space(self, catalogue: Mapping[str, Any] | None) -> Space:
        """The space to search.

        Args:
            catalogue: the passes of the backend's compiler, ``None`` where it has none.

        Raises:
            SpecError: no valid configuration; passes that the compiler lacks.
        """
        return self.tunables.space(catalogue)

    def task_with(self, *, seed: int) -> Task:
        """The task with the seed of a run."""
        return replace(self.task, seed=seed)


def _refuse_undecoded(folder: Path) -> None:
    """Paths stand in keys and in the record, which are UTF-8."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise SpecError(
            f"the folder {os.fsencode(folder)!r} has a name that is not UTF-8 in this locale",
            "rename it, or set LC_ALL=C.UTF-8",
        ) from None


def load_spec(path: str | Path, *, text: str | None = None) -> list[LoadedSpec]:
    """Loads a file with everything checked that needs no candidate to be built.

    Args:
        path: of the YAML file.
        text: what it is to hold, where it is not written yet.

    Returns:
        One spec, or one for each of the file's ``kernels``.

    Raises:
        SpecError: any mistake, with its place.
        BaselineError: clang does not accept the source.
        MachineError: there is no clang.
    """
    place = Path(path)
    if text is None:
        text = _read_spec(place)
    folder = place.resolve().parent
    _refuse_undecoded(folder)
    loader = _Loader(text=text, path=str(place), folder=str(folder), read=folder_reader(folder))
    return loader.load_all()


def _read_spec(place: Path) -> str:
    if language_of(place.name) not in (None, "recorded") and place.is_file():
        raise SpecError(f"{place} is a source and no spec", f"tuner init {place} writes a first spec for it")
    try:
        return place.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        beside = [p.name for p in place.parent.glob("*.y*ml")] if place.parent.is_dir() else []
        hint = suggestion(place.name, beside, "check the path")
        raise SpecError(f"there is no file {place}", hint) from None
    except UnicodeDecodeError:
        raise SpecError(
            "the file is not UTF-8 text", "name a YAML spec", place=Place(file=str(place))
        ) from None
    except OSError as error:
        raise SpecError(f"{place} cannot be read: {error.strerror}", "name a readable YAML spec") from None


def load_recorded(text: str, files: Mapping[str, str], *, folder: str, index: int = 0) -> LoadedSpec:
    """The spec that a run was made with, from its record alone.

    Args:
        text: the spec's text.
        files: as :attr:`LoadedSpec.files`.
        folder: where the spec was; nothing is read there.
        index: which of the file's kernels.

    Raises:
        SpecError: the record does not hold together.
    """
    path = str(Path(folder) / "recorded.yaml")
    loader = _Loader(text=text, path=path, folder=folder, read=mapping_reader(files), recorded=files)
    loaded = loader.load_all(only=index)
    if not loaded:
        raise SpecError(f"the recorded spec has no kernel {index}", "the record is damaged")
    return loaded[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loader:
    """One file being loaded; with ``recorded`` files this machine's own and its compiler are not looked at."""

    text: str
    path: str
    folder: str
    read: Reader
    recorded: Mapping[str, str] | None = None

    @property
    def live(self) -> bool:
        """Whether this machine is looked at."""
        return self.recorded is None

    def load_all(self, only: int | None = None) -> list[LoadedSpec]:
        document = read_yaml(self.text, self.path)
        views = kernel_views(document)
        models = [self._model(view) for view in views]
        names = kernel_names(models)
        return [
            self._load(view, model, names[i], i)
            for i, (view, model) in enumerate(zip(views, models, strict=True))
            if only is None or i == only
        ]

    def _model(self, view: View) -> SpecModel:
        try:
            return SpecModel.model_validate(view.data)
        except ValidationError as error:
            raise to_spec_error(error, view, SpecModel) from None

    def _load(self, view: View, model: SpecModel, name: str, index: int) -> LoadedSpec:
        refuse_unbuilt(model, view)
        check_models(model, view)
        model = with_sizes_in_flags(model, view)
        sources = read_sources(model.kernel, view, self.read, self.folder if self.live else "")
        backend = choose_backend(model, sources.language, view, live=self.live)
        compiler = compiler_of(model, sources.language, backend, view, self.recorded)
        if compiler is not None:
            model = without_passes(model)
        loop = outlined_of(model, sources, self.folder, view, self.recorded, compiler=compiler)
        if loop is not None:
            model, sources = with_outlined(model, sources, loop)
        if self.live and backend == "host":
            self._check_reach(sources, view)
        parcels = make_parcels(model, backend, view)
        inputs = make_inputs(model, sources, self._workload(model, sources, view), view)
        if parcels:
            inputs = replace(inputs, arguments=with_inside(inputs.arguments, model))
        workload = inputs.workload
        tunables = make_tunables(model, inputs.parameters, inputs.arguments, inputs.problems, view)
        if sources.language == "recorded":
            tunables = replace(tunables, measured=sources.variant.files[0].text)
        passless = passes_lacking(backend, model.target, sources.language, tunables) if self.live else ()
        if passless or not self.live:
            tunables = replace(tunables, passes_asked=False)
        files = {**sources.files, **self._further_files(model, view), **(self.recorded or {})}
        if self.live:
            paths = [part.path for part in parts(model.arguments or [], view)]
            problems = (*inputs.problems, *inputs.further)
            check_data_files(inputs.arguments, paths, problems, Path(self.folder), view)
        if workload is not None:
            files[DERIVED] = workload.text
        if compiler is not None:
            files[COMPILER] = canonical_json(compiler.to_json())
            if self.live:
                check_choices(compiler, tunables.flags, view)
        if loop is not None:
            files[OUTLINED] = canonical_json(loop.to_json())
        wrapper = make_wrapper(model, sources, backend, inputs.arguments, view)
        variables = make_variables(model, backend, inputs.arguments, view)
        kernel = make_kernel(model, sources, name, self.folder, wrapper, parcels=parcels, variables=variables)
        kernel = replace(kernel, compiler=compiler)
        task = make_task(model, kernel, backend, inputs, tunables, view)
        found = check_live(model, task, tunables, view) if self.live else ()
        if evolves(model, sources.language):
            task, unseen = with_preprocessed(task, tunables, files, live=self.live)
            found = (*found, *unseen)
        return LoadedSpec(
            path=self.path,
            name=name,
            index=index,
            text=self.text,
            files=files,
            digest=digest_json(
                {"spec": _plain(view.data), "files": {n: t for n, t in files.items() if n not in _MADE}}
            ),
            task=task,
            loop=loop,
            search=_search_settings(model),
            compare=make_compare(model, view),
            objectives=make_objectives(model, view),
            tunables=tunables,
            evolves=evolves(model, sources.language),
            notices=(
                *make_notices(model, sources.language),
                *(sources.notices if self.live else ()),
                *passless,
                *(workload.notices if workload else ()),
                *(doubts(task, tunables) if self.live else ()),
                *found,
            ),
        )

    def _check_reach(self, sources: Sources, view: View) -> None:
        for name in out_of_reach(sources, Path(self.folder)):
            hint = f"name its folder as well, so that they may: include: [{posixpath.dirname(name)}]"
            message = f"{name} is included and lies in a folder that compilers may not read"
            raise view.error(("kernel", "source"), message, hint)

    def _workload(self, model: SpecModel, sources: Sources, view: View) -> Workload | None:
        """What the recordings say, where the spec names any."""
        if self.recorded is not None:
            derived = self.recorded.get(DERIVED)
            return None if derived is None else from_text(derived, origin=self.path)
        if model.workload is None:
            return None
        if sources.language in FUNCTIONS:
            return read_calls(model, view, Path(self.folder))
        if sources.language == SPIRV:
            text = sources.variant.files[0].text
            return read_workload(model, view, Path(self.folder), lambda entry: module_functions(text, entry))
        if sources.language not in DEVICE:
            hint = "give arguments instead"
            raise view.error(("workload",), f"recordings of {sources.language} are {NOT_YET}", hint, key=True)
        flags = [f for choices in model.space.flags.values() for f in flag_words(choices[0])]
        reader = SourceReader(
            files=sources.variant.files,
            language=sources.language,
            folder=self.folder,
            include=sources.include,
            macros={p.name: p.default for p in make_parameters(model, view) if p.macro},
            flags=tuple(f for f in flags if f.startswith(("-D", "-cl-std="))),
        )
        if sources.language == "cuda":
            return read_workload(
                model, view, Path(self.folder), partial(cuda_functions, reader.with_missing_headers())
            )
        return read_workload(model, view, Path(self.folder), reader.functions)

    def _further_files(self, model: SpecModel, view: View) -> dict[str, str]:
        """Python files and digests of data files that the results depend on."""
        if not self.live:
            return {}
        files: dict[str, str] = {}
        reference = model.verify.reference
        if reference.kind == "python":
            path: KeyPath = ("verify", "reference", "python")
            text = check_python_function(reference.file, reference.function, view, path, self.read)
            files |= with_imported(reference.file, text, self.read)
        for part in parts(model.arguments or [], view):
            argument = part.given
            if argument.init is None:
                continue
            options = argument.init.options
            path = (*part.path, "init", argument.init.kind)
            if argument.init.kind == "python":
                file, function = options["file"], options["function"]
                text = check_python_function(file, function, view, path, self.read)
                files |= with_imported(file, text, self.read)
            if argument.init.kind == "file":
                files[f"{options['path']}.sha256"] = file_digest(
                    Path(self.folder, options["path"]), view, path
                )
        return files


def _search_settings(model: SpecModel) -> SearchSettings:
    search = model.search
    return SearchSettings(
        strategy=search.strategy,
        seed=search.seed,
        cost_model=search.cost_model,
        stop=search.stop,
        ablate=search.ablate,
        proposers=tuple(search.proposers),
        llm=search.llm,
        **search.budget.model_dump(),
    )


def _plain(value: Any) -> Any:
    """The data as JSON can hold it: infinities in places where any text may stand become text."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return repr(value)
    return value
