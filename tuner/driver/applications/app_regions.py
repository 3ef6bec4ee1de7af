"""``tuner app list`` and ``init``: builds an application in a copy, runs it, and says where its time goes.

May not record or tune.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.core.errors import UsageError
from tuner.driver.applications.builds import PLAIN, Rebuilt, tree_with
from tuner.driver.applications.generated_headers import with_generated
from tuner.driver.applications.hot_regions import HotRegions, hot_regions
from tuner.driver.applications.included_files import Inclusions, is_source
from tuner.driver.applications.listing import Listing, list_built
from tuner.driver.applications.trees import WORK_FOLDER, Tree
from tuner.driver.applications.watched_builds import build_watched
from tuner.driver.applications.whole_runs import (
    compared_files,
    doubts_of,
    run_once,
    shown_names,
    with_varying,
)
from tuner.spec.applications import ApplicationFile, Region
from tuner.spec.first.compile_commands import Compiled

__all__ = ["Examined", "as_it_is", "built_by", "examine_application", "sources_below"]

_LEAST_SHARE = 0.05
"""Of the processor time, for a region to be named."""
MOST_REGIONS = 8
_MOST_RUNS = 3
_ENOUGH_S = 1.0
_STARTING = (
    "its standard input is empty (-- sh -c './app < FILE' gives it one), its environment is that of tuner, and what "
    "lies beside --tree can be read alone"
)
_MOST_NAMES = 100_000
"""Characters of the names of all sources: one word of an environment has 128 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """An application that was built and run as it is.

    Attributes:
        wall_s: of each run.
        run_s: of the fastest, undisturbed.
        listing: of its functions, sampled in one more run.
        hot: its regions.
        doubts: what a person should know of its runs.
        compiled: how the build compiles its sources; without those of which nothing was seen.
        varies: lines that it prints otherwise each time, with ``*`` for what is not compared.
    """

    wall_s: tuple[float, ...]
    run_s: float
    listing: Listing
    hot: HotRegions
    doubts: tuple[str, ...]
    compiled: Mapping[Path, Compiled] = field(repr=False)
    varies: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``."""
        return {
            "schema_version": 1,
            "wall_s": list(self.wall_s),
            "processor_s": self.listing.ran.processor_s,
            "samples": self.listing.samples,
            "regions": [region_json(one) for one in self.hot.regions],
            "varies": list(self.varies),
            "notes": [*self.doubts, *self.hot.unread],
        }


def region_json(region: Region) -> dict[str, Any]:
    """A region as plain JSON."""
    return {
        "source": str(region.source),
        "loops": list(region.loops),
        "function": region.function or region.within or None,
        "share": region.share,
        "at_most": region.most,
    }


def built_by(application: ApplicationFile) -> Rebuilt:
    """How an application is built, run and judged.

    Raises:
        UsageError: its folders are not there, or it does not run below that of its sources.
    """
    for folder in (application.tree, application.folder):
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}", f"correct tree and folder in {application.path}")
    if not application.folder.is_relative_to(application.tree):
        raise UsageError(
            f"{application.folder} is not below {application.tree}, of which copies are made",
            "name a larger folder with --tree",
        )
    return Rebuilt(
        folder=application.tree,
        build=application.build,
        command=application.command,
        here=application.folder,
        check=application.check,
        rtol=application.rtol,
        varies=application.varies,
    )


def sources_below(folder: Path) -> list[Path]:
    """Sources in C and C++, as many as a build can be watched for, and the files that these include."""
    found: list[Path] = []
    names: dict[str, None] = {}
    for path in sorted(folder.rglob("*")):
        if WORK_FOLDER in path.parts or not is_source(path) or not path.is_file():
            continue
        names[path.name] = None
        if sum(map(len, names)) > _MOST_NAMES:
            break
        found.append(path)
    return [*found, *(path for path in Inclusions(folder).files() if path not in found)] if found else []


def as_it_is(
    application: Rebuilt, sources: Sequence[Path], headers: Path
) -> tuple[dict[Path, Compiled], float]:
    """How a build compiles sources, and how many seconds the application runs, by a build and a run in a copy.

    Args:
        application: how it is built.
        sources: of it.
        headers: folder for those that the build makes.

    Raises:
        UsageError: the build fails.
        MachineError: commands cannot be run in copies here.
    """
    with tempfile.TemporaryDirectory(prefix="tuner-app-") as name:
        scratch = Path(name)
        with tree_with(application, scratch / "copy", _anew(application, sources)) as tree:
            seen = with_generated(build_watched(tree, application, PLAIN, sources, scratch), tree, headers)
            return seen, _run_s(tree, application)


def _unoptimised(regions: Sequence[Region], seen: Mapping[Path, Compiled]) -> Iterator[str]:
    """Sources of regions that the build compiles to slow code: what is gained over that says little."""
    for source in dict.fromkeys(region.source for region in regions):
        compiled = seen.get(source)
        if compiled is not None and not compiled.optimised:
            told = f"{source.name} is compiled without optimisation: a gain over that says little"
            yield f"{told}, build it with -O2 or -O3"


def _run_s(tree: Tree, application: Rebuilt) -> float:
    """Of the fastest of a few runs where one is short: what else the machine does counts for more there."""
    runs = [tree.run(application.command, folder=application.here)]
    while len(runs) < _MOST_RUNS and sum(run.wall_s for run in runs) < _ENOUGH_S:
        runs.append(tree.run(application.command, folder=application.here))
    return min(run.undisturbed_s for run in runs)


def _anew(application: Rebuilt, sources: Sequence[Path]) -> dict[str, bytes]:
    """The sources themselves by their paths, as new ones, so that the build compiles them."""
    folder = application.folder.resolve()
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sources}


def examine_application(
    application: ApplicationFile, headers: Path, *, note: Callable[[str], None] = lambda _: None
) -> Examined:
    """Builds an application in a copy of its folder, runs it three times, and finds its hot regions.

    Args:
        application: its file.
        headers: folder for those that the build makes.
        note: told of the progress.

    Raises:
        UsageError: the build fails; it prints something else in each run, or fails its check; it fails
            before anything is hot.
        MachineError: commands cannot be run in copies here.
    """
    rebuilt = built_by(application)
    sources = sources_below(rebuilt.folder)
    if not sources:
        raise UsageError(f"no source in C or C++ lies below {rebuilt.folder}", "name its folder with --tree")
    with tempfile.TemporaryDirectory(prefix="tuner-app-") as name:
        scratch = Path(name)
        with tree_with(rebuilt, scratch / "copy", _anew(rebuilt, sources)) as tree:
            note(f"building it in a copy of {rebuilt.folder}")
            seen = build_watched(tree, rebuilt, PLAIN, sources, scratch)
            seen = with_generated(seen, tree, headers)
            note("running it twice, to see whether its results stay the same")
            first, again = run_once(tree, rebuilt), run_once(tree, rebuilt)
            rebuilt = with_varying(again, first, rebuilt, note)
            if files := compared_files(first, rebuilt):
                note(f"its results are what it prints and what it writes into {shown_names(files)}")
            note("running it once more, to see where its time goes")
            listing = list_built(rebuilt.command, tree, rebuilt.here)
        doubts = doubts_of(first, rebuilt)
        hot = hot_regions(listing, rebuilt.folder, seen, least=_LEAST_SHARE, most=MOST_REGIONS)
    if first.status != 0 and not hot.regions:
        raise UsageError(doubts[0], _STARTING)
    return Examined(
        wall_s=(first.wall_s, again.wall_s),
        run_s=min(first.undisturbed_s, again.undisturbed_s),
        listing=listing,
        hot=hot,
        doubts=(*doubts, *_unoptimised(hot.regions, seen)),
        compiled=seen,
        varies=rebuilt.varies,
    )
