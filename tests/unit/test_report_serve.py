"""The live page's server: what it shows, to whom, and what becomes of it while records grow, break and go away."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import made_runs as made
import pytest

from tuner.core.errors import MachineError, RecordError, UsageError
from tuner.recorders.record import Event, RunRecord
from tuner.report.gallery import Gallery
from tuner.report.server import ReportServer

WAIT_S = 300.0
"""For an answer that will come: the first look at a run imports and reckons for seconds where nothing else runs."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = made.simulated_run(tmp_path_factory.mktemp("serve"), evolve=True, evaluations=16)
    return path


@contextmanager
def serving(place: Path) -> Iterator[ReportServer]:
    server = ReportServer(Gallery(place), port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(
    server: ReportServer, path: str, *, method: str = "GET", host: str | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{server.port}")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def data(server: ReportServer, name: str, seen: str = "") -> tuple[int, Any]:
    status, body, _ = ask(server, f"/data/{name}?seen={seen}")
    return status, json.loads(body) if status == 200 else body.decode()


@pytest.mark.integration
def test_the_page_and_the_data(run: Path) -> None:
    """The page asks for nothing but this server, and the data are the report's."""
    with serving(run) as server:
        status, page, headers = ask(server, "/")
        assert status == 200
        assert "connect-src 'self'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert b"<!doctype html>" in page
        status, found = data(server, run.name)
        assert status == 200
        assert found["answer"]["improved"]
        assert found["result"]["kernel"] == "product"


@pytest.mark.integration
def test_nothing_new_is_said_in_no_words(run: Path) -> None:
    """A reader that has the newest gets no data; when the audit is done there is something new."""
    with serving(run) as server:
        _, found = data(server, run.name)
        deadline = time.monotonic() + WAIT_S
        while found["audit"] is None and time.monotonic() < deadline:
            status, newer = data(server, run.name, found["stamp"])
            found = newer if status == 200 else found
            time.sleep(0.05)
        assert found["audit"]["clean"] is True
        assert data(server, run.name, found["stamp"]) == (204, "")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
def test_other_names_for_this_machine_are_refused(run: Path, host: str) -> None:
    """A name that someone makes point to loopback is not this server's."""
    with serving(run) as server:
        named = host.format(port=server.port) or "-"
        assert ask(server, f"/data/{run.name}", host=named)[0] == 403
        assert ask(server, "/", host=named)[0] == 403
        assert ask(server, "/", host=f"LOCALHOST:{server.port}")[0] == 200


def test_pages_from_elsewhere_get_no_data(run: Path) -> None:
    """What a browser sends for another site's page is refused; no header lets one read the answer."""
    with serving(run) as server:
        for site in ("cross-site", "same-site"):
            assert ask(server, f"/data/{run.name}", Sec_Fetch_Site=site)[0] == 403
            assert ask(server, "/runs", Sec_Fetch_Site=site)[0] == 403
        status, _, headers = ask(server, f"/data/{run.name}", Sec_Fetch_Site="same-origin")
        assert status == 200
        assert "Access-Control-Allow-Origin" not in headers
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_it_is_for_reading_only(run: Path) -> None:
    """No other method is known, and the record's bytes stay what they are."""
    before = run.read_bytes()
    with serving(run) as server:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            assert ask(server, "/", method=method)[0] == 501
        status, body, headers = ask(server, "/", method="HEAD")
        assert (status, body) == (200, b"")
        assert int(headers["Content-Length"]) > 10_000
        data(server, run.name)
    assert run.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fetc%2Fpasswd", "/etc/passwd", "", "other.run", "%00", "x" * 3000]
)
def test_only_what_stands_there_is_shown(run: Path, name: str) -> None:
    """A path leads nowhere else."""
    with serving(run.parent) as server:
        assert ask(server, f"/data/{name}")[0] == 404
        assert ask(server, f"/{name}x")[0] == 404


@pytest.mark.integration
def test_a_growing_record_is_shown_as_it_grows(run: Path, tmp_path: Path) -> None:
    """A writer holds the record open and appends; each look shows what is committed by then."""
    with RunRecord.read(run) as source:
        events = list(source.events())
    half = len(events) // 2
    record = made.rewritten(run, tmp_path / "live.run", lambda kind, body: body, first=half, close=False)
    try:
        with serving(tmp_path) as server:
            _, first = data(server, "live.run")
            assert (first["seq"], first["ended"]) == (half, False)
            assert first["audit"] is None
            assert data(server, "live.run", first["stamp"])[0] == 204
            with RunRecord.read(run) as source:
                for event in events[half:]:
                    blobs = {n: source.blob(n) for n in made._references(dict(event.body))}
                    record.append([Event(kind=event.kind, body=event.body, trial=event.trial)], blobs)
            _, last = data(server, "live.run", first["stamp"])
            assert (last["seq"], last["ended"]) == (len(events), True)
    finally:
        record.close()


def test_runs_come_and_go(run: Path, tmp_path: Path) -> None:
    """A folder's runs are listed newest first, also those that begin later; one that goes away is no more."""
    with serving(tmp_path) as server:
        assert json.loads(ask(server, "/runs")[1]) == []
        shutil.copy(run, tmp_path / "one.run")
        assert json.loads(ask(server, "/runs")[1]) == ["one.run"]
        assert data(server, "one.run")[0] == 200
        (tmp_path / "one.run").unlink()
        assert data(server, "one.run")[0] == 404


def test_another_run_may_take_the_name(run: Path, tmp_path: Path) -> None:
    """A record goes when its baseline fails, and the next run has its name: the page shows that one from its start."""
    target = tmp_path / "same.run"
    with serving(tmp_path) as server:
        made.rewritten(run, target, lambda kind, body: body, first=30)
        _, before = data(server, "same.run")
        for path in tmp_path.glob("same.run*"):
            path.unlink()

        def renamed(kind: str, body: dict[str, Any]) -> dict[str, Any]:
            return {**body, "name": "other"} if kind == "start" else body

        made.rewritten(run, target, renamed, first=20)
        status, after = data(server, "same.run", before["stamp"])
        assert (status, after["seq"], after["result"]["kernel"]) == (200, 20, "other")
        assert len(after["trials"]["number"]) < len(before["trials"]["number"])


def test_a_record_that_has_not_begun_is_waited_for(tmp_path: Path) -> None:
    """Created, but with no event yet."""
    with RunRecord.create(tmp_path / "new.run"), serving(tmp_path) as server:
        assert data(server, "new.run") == (204, "")


def test_a_damaged_record_is_said_to_be_one(run: Path, tmp_path: Path) -> None:
    """The page gets one line, and the other runs are shown."""
    shutil.copy(run, tmp_path / "good.run")
    (tmp_path / "bad.run").write_text("this is no record")
    with serving(tmp_path) as server:
        status, said = data(server, "bad.run")
        assert status == 500
        assert "bad.run" in said
        assert "\n" not in said
        assert data(server, "good.run")[0] == 200


@pytest.mark.integration
def test_several_readers_at_once(run: Path, tmp_path: Path) -> None:
    """Four threads ask for two runs; all get whole answers."""
    for name in ("a.run", "b.run"):
        shutil.copy(run, tmp_path / name)
    found: list[int] = []
    with serving(tmp_path) as server:

        def read(name: str) -> None:
            status, answer = data(server, name)
            found.append(answer["seq"] if status == 200 else status)

        threads = [threading.Thread(target=read, args=("ab"[i % 2] + ".run",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with RunRecord.read(run) as record:
        assert found == [record.head.seq] * 4


def test_unservable_folders_are_reported(run: Path, tmp_path: Path) -> None:
    """Nothing there, no record, a port that is taken."""
    with pytest.raises(UsageError, match="nothing at"):
        Gallery(tmp_path / "none")
    (tmp_path / "x.run").write_text("x")
    with pytest.raises(RecordError):
        Gallery(tmp_path / "x.run")
    with serving(run) as server, pytest.raises(MachineError, match="--port"):
        ReportServer(Gallery(run), port=server.port)


@pytest.mark.integration
def test_the_command_says_where_and_ends_when_told(run: Path) -> None:
    """As a service manager ends it; ``pages.served`` has Ctrl-C."""
    command = [str(Path(sys.executable).with_name("tuner")), "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert "http://127.0.0.1:" in line
            port = int(line.split("http://127.0.0.1:")[1].split("/")[0])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
            connection.request("GET", "/runs")
            assert json.loads(connection.getresponse().read()) == [run.name]
            connection.close()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=WAIT_S)
            assert process.returncode == 0
            assert out == ""
            assert "Traceback" not in err
        finally:
            process.kill()
