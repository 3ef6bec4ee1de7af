"""Where LLVM is found, and what its catalogue of passes says."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tuner.core.errors import MachineError
from tuner.core.types import Status
from tuner.evaluators.host.catalogue import pass_catalogue
from tuner.evaluators.host.compile_pool import Job, Outcome
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.toolchain import cache_folder, find_toolchain


def test_the_wheels_are_found_and_remembered(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    first = find_toolchain(environment)
    assert first.major >= 17
    assert Path(first.clang).is_file()
    assert Path(first.library).is_file()
    kept = tmp_path / "remix-tuner" / "toolchains.json"
    assert first.digest in kept.read_text()
    assert find_toolchain(environment) == first
    kept.write_text("[not what it was")
    assert find_toolchain(environment) == first


MOVED = """
import sys
from importlib import metadata
from pathlib import Path
from tuner.evaluators.host.toolchain import find_toolchain

def no_wheel(name):
    raise metadata.PackageNotFoundError(name)

def installed(folder, version):
    for name, text in (("bin/clang", f"#!/bin/sh\\necho clang version {version}"), ("lib/libLLVM.so", version)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

metadata.distribution, top = no_wheel, Path(sys.argv[1])
sys.prefix = str(top / "here")
installed(top / "here", "23.1.4")
print(find_toolchain().version, find_toolchain().version)
(top / "here").rename(top / "away")
installed(top / "there", "24.0.1")
sys.prefix = str(top / "there")
print(find_toolchain().version)
"""


def test_an_llvm_that_was_found_is_looked_for_again_where_it_has_gone(tmp_path: Path) -> None:
    """An upgrade while a notebook is open."""
    done = subprocess.run(
        [sys.executable, "-c", MOVED, str(tmp_path)],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["23.1.4", "23.1.4", "24.0.1"], done.stderr


def test_a_named_llvm_wins(tmp_path: Path) -> None:
    found = find_toolchain()
    for folder, path in (("bin", found.clang), ("lib", found.library)):
        (tmp_path / folder).mkdir()
        os.symlink(path, tmp_path / folder / Path(path).name)
    named = find_toolchain({"TUNER_LLVM": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert named.version == found.version


def test_a_named_folder_without_llvm_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no clang in") as caught:
        find_toolchain({"TUNER_LLVM": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert "TUNER_LLVM" in caught.value.hint


def test_an_llvm_that_lacks_a_library_of_the_system_says_which(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    clang = tmp_path / "bin" / "clang"
    said = "clang: error while loading shared libraries: libatomic.so.1: cannot open shared object file"
    clang.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 127\n")
    clang.chmod(0o755)
    (tmp_path / "lib" / "libLLVM.so").write_bytes(b"")
    with pytest.raises(MachineError, match=r"has no libatomic\.so\.1") as error:
        find_toolchain({"TUNER_LLVM": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert "apt install libatomic1" in error.value.hint


def test_an_old_llvm_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    clang = tmp_path / "bin" / "clang"
    clang.write_text("#!/bin/sh\necho 'clang version 16.0.6'\n")
    clang.chmod(0o755)
    (tmp_path / "lib" / "libLLVM.so").write_bytes(b"")
    with pytest.raises(MachineError, match="too old"):
        find_toolchain({"TUNER_LLVM": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})


def test_the_cache_can_be_unwritable(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert find_toolchain({"XDG_CACHE_HOME": str(blocked)}).version
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/remix-tuner")


@pytest.mark.integration
def test_the_catalogue_is_read_probed_and_kept(tmp_path: Path) -> None:
    with HostCompiler(find_toolchain(), workers=2) as compiler:
        catalogue = pass_catalogue(compiler, folder=tmp_path)
        names = {p.name for p in catalogue.usable}
        assert {"licm", "gvn", "loop-vectorize", "sroa"} <= names
        assert catalogue.broken.isdisjoint(names)
        assert "loop-mssa(licm" in catalogue.o3
        (kept,) = tmp_path.iterdir()
        assert pass_catalogue(compiler, folder=tmp_path) == catalogue
        text = kept.read_text()
        kept.write_text(text[: len(text) // 2])
        assert pass_catalogue(compiler, folder=tmp_path) == catalogue
        assert json.loads(kept.read_text()) == json.loads(text)


@pytest.mark.integration
def test_passes_whose_probe_others_killed_are_probed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalogue that is kept without them would do without them for good."""
    with HostCompiler(find_toolchain(), workers=2) as compiler:
        run = compiler.pool.run

        def killed(jobs: Sequence[Job], *, timeout_s: float | None = None) -> list[Outcome]:
            outcomes = run(jobs, timeout_s=timeout_s)
            return outcomes if len(jobs) == 1 else [Outcome(status=Status.LOST), *outcomes[1:]]

        with monkeypatch.context() as patch:
            patch.setattr(compiler.pool, "run", killed)
            without = pass_catalogue(compiler, folder=tmp_path)
        whole = pass_catalogue(compiler, folder=tmp_path)
    assert len(without.broken - whole.broken) == 1
    assert len(list(tmp_path.iterdir())) == 1
