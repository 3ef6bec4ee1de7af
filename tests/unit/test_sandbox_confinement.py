"""What confined processes can reach: real ones, asked through /proc or from the inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuner.core.types import (
    Build,
    BuildRequest,
    Kernel,
    Resolved,
    Source,
    Status,
    Variant,
)
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.sandbox.environment import worker_environment
from tuner.evaluators.sandbox.support import Support, probe
from tuner.spec.load import load_spec

SECRET = "sk-this-is-a-secret-0123456789"

INSIDE = """
import json, os, socket, sys
from tuner.evaluators.sandbox.confine import confine_builder
read, write, other = sys.argv[1:]
confine_builder(read=[read], write=[write])

def attempt(action):
    try:
        action()
        return "ok"
    except OSError as error:
        return type(error).__name__

print(json.dumps({
    "read": attempt(lambda: open(read + "/file").read()),
    "write to read": attempt(lambda: open(read + "/new", "w")),
    "write": attempt(lambda: open(write + "/new", "w").write("x")),
    "read other": attempt(lambda: open(other + "/file").read()),
    "write other": attempt(lambda: open(other + "/new", "w")),
    "list other": attempt(lambda: os.listdir(other)),
    "remove other": attempt(lambda: os.unlink(other + "/file")),
    "password file": attempt(lambda: open("/etc/passwd").read()),
    "system": attempt(lambda: os.listdir("/usr")),
    "null": attempt(lambda: open("/dev/null", "w").write("x")),
    "internet socket": attempt(lambda: socket.socket(socket.AF_INET)),
    "local socket": attempt(lambda: socket.socket(socket.AF_UNIX)),
    "signal": attempt(lambda: os.kill(os.getppid(), 0)),
}))
"""


@pytest.mark.skipif(bool(probe().missing), reason="the kernel lacks a part of the sandbox")
def test_builder_reaches_its_folders_and_nothing_else(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("read", "write", "other")]
    for folder in folders:
        folder.mkdir()
        (folder / "file").write_text("x")
    done = subprocess.run(
        [sys.executable, "-c", INSIDE, *map(str, folders)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    allowed = {name for name, result in found.items() if result == "ok"}
    # Signals to the outside are kept away from version 6 of Landlock on.
    assert allowed - {"signal"} == {"read", "write", "system", "null"}
    assert (found["signal"] == "ok") == (probe().landlock < 6)


@pytest.fixture(scope="module")
def compiler() -> Iterator[HostCompiler]:
    with HostCompiler(find_toolchain()) as made:
        yield made


def built(compiler: HostCompiler, text: str, folder: Path, *, flags: tuple[str, ...] = ()) -> Build:
    variant = Variant(files=(Source(name="f.c", text=text),))
    kernel = Kernel(name="f", entry="f", language="c", variant=variant, folder=str(folder))
    resolved = Resolved(macros={}, scalars={}, flags=flags, pipeline=None)
    return compiler.build(kernel, [BuildRequest(trial=1, variant=variant, resolved=resolved)])[0]


def test_source_includes_what_lies_beside_it(compiler: HostCompiler, tmp_path: Path) -> None:
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "term.h").write_text("#define TERM 1\n")
    text = '#include "factor.h"\n#include "term.h"\nvoid f(int *a) { a[0] = FACTOR + TERM; }\n'
    build = built(compiler, text, tmp_path, flags=("-Imore",))
    assert build.status is Status.OK, build.message


@pytest.mark.skipif(not probe().landlock, reason="the kernel has no Landlock")
@pytest.mark.parametrize(
    "text",
    [
        '#include "{secret}"\nvoid f(int *a) {{ a[0] = 1; }}\n',
        '__asm__(".section .rodata\\n.incbin \\"{secret}\\"\\n.text");\nvoid f(int *a) {{ a[0] = 1; }}\n',
        'void f(char *a) {{ static const char s[] = {{\n#embed "{secret}"\n}}; for (unsigned i = 0; i < sizeof s; i++)'
        " a[i] = s[i]; }}\n",
    ],
)
def test_source_cannot_take_other_files_along(
    compiler: HostCompiler, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    secret = tmp_path_factory.mktemp("home") / "secret.h"
    secret.write_text(f"/* {SECRET} */\n")
    build = built(compiler, text.format(secret=secret), tmp_path)
    assert build.status is Status.BUILD_ERROR
    assert SECRET.encode() not in build.code


@pytest.fixture
def evaluation(scale_spec: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[HostEvaluation]:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    (spec,) = load_spec(scale_spec())
    made = HostBackend().prepare(spec.task_with(seed=1), workers=1)
    resolved = spec.space(None).resolve(spec.space(None).default())
    (build,) = made.build([BuildRequest(trial=0, variant=spec.task.kernel.variant, resolved=resolved)])
    assert made.set_baseline(build, resolved).status is Status.OK
    session = made.open(build, resolved, purpose="search", number=0)
    assert session.verify().status is Status.OK
    yield made
    session.close()
    made.close()


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [n for child in children for n in (int(child), *descendants(int(child)))]


def workers() -> list[int]:
    found = descendants(os.getpid())
    names = {n: Path(f"/proc/{n}/cmdline").read_bytes() for n in found}
    return [n for n, words in names.items() if b"tuner.evaluators.host" in words]


def test_every_worker_is_confined_and_knows_no_secret(evaluation: HostEvaluation) -> None:
    found = workers()
    # A zygote and a worker that compiles, a zygote and a process that runs.
    assert len(found) >= 4
    for pid in found:
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == ("2" if probe().seccomp else "0")
        if os.geteuid() == 0:
            assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
            if probe().namespaces:
                assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look at another user's descriptors")
def test_candidate_has_its_channel_and_nothing_else(evaluation: HostEvaluation) -> None:
    users = {p: int(Path(f"/proc/{p}/status").read_text().split("Uid:")[1].split()[0]) for p in workers()}
    (pid,) = [p for p, user in users.items() if user >= 0x7000_0000]
    targets = {n: os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
    assert sorted(t for n, t in targets.items() if int(n) < 3) == ["/dev/null"] * 3
    (channel,) = [t for n, t in targets.items() if int(n) >= 3]
    assert channel.startswith("socket:")


@pytest.mark.skipif(not probe().landlock, reason="the kernel has no Landlock")
def test_folder_on_the_import_path_is_not_a_folder_to_include_from(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "secret.h").write_text(f"/* {SECRET} */\n")
    monkeypatch.syspath_prepend(str(home))
    text = f'__asm__(".section .rodata\\n.incbin \\"{home}/secret.h\\"\\n.text");\nvoid f(int *a) {{ a[0] = 1; }}\n'
    with HostCompiler(find_toolchain()) as fresh:
        assert built(fresh, text, tmp_path).status is Status.BUILD_ERROR
        assert built(
            fresh, f'#include "{home}/secret.h"\nvoid f(int *a) {{ a[0] = 1; }}\n', tmp_path
        ).status is (Status.BUILD_ERROR)


def test_worker_environment_is_an_allow_list() -> None:
    variables = {"HOME": "/h", "AWS_SECRET_ACCESS_KEY": SECRET, "OPENAI_API_KEY": SECRET, "LANG": "C"}
    assert worker_environment(environment=variables) == {"HOME": "/h", "LANG": "C"}
    assert worker_environment("LANG", environment=variables) == {"LANG": "C"}
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        worker_environment("OPENAI_API_KEY", environment=variables)


def test_what_a_machine_lacks() -> None:
    assert len(Support(landlock=0, seccomp=False, namespaces="").missing) == 3
    assert Support(landlock=4, seccomp=True, namespaces="").missing == ()


def test_limits_that_the_machine_has_set_lower_are_kept() -> None:
    """As `ulimit -v` of a cluster does: only root may raise them."""
    script = (
        "import resource, subprocess, sys\n"
        "from tuner.evaluators.sandbox.confine import set_limits\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "set_limits({resource.RLIMIT_FSIZE: 1 << 30, resource.RLIMIT_CORE: 0}, process=child.pid)\n"
        "print(*resource.prlimit(child.pid, resource.RLIMIT_FSIZE))\n"
        "child.communicate(b'')\n"
        "set_limits({resource.RLIMIT_CORE: 0}, process=child.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == [str(1 << 20), str(1 << 20)], done.stderr
