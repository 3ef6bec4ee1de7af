"""Signed records: made by a key, checked by every replay, and any change is said in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tuner import api
from tuner.core.errors import UsageError
from tuner.core.types import Resolved
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.driver.work.engine import Interruption
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend


def seconds(resolved: Resolved) -> float:
    return 1e-3 / int(resolved.macros["WIDTH"])


@pytest.fixture
def run(scale_spec: Callable[..., Path], tmp_path: Path) -> Path:
    (spec,) = load_spec(scale_spec())
    begin(spec, tmp_path / "a.run", Options(seed=1, workers=1), backend=SimulatedBackend(seconds=seconds))
    return tmp_path / "a.run"


def signature_path(record: Path) -> Path:
    """Beside the record, by its name."""
    return record.with_name(f"{record.name}.sig")


def pem(key: object, folder: Path, *, kind: object = forms.PrivateFormat.PKCS8, secret: bytes = b"") -> Path:
    encryption = forms.BestAvailableEncryption(secret) if secret else forms.NoEncryption()
    path = folder / "key.pem"
    path.write_bytes(key.private_bytes(forms.Encoding.PEM, kind, encryption))  # type: ignore[attr-defined]
    return path


@pytest.mark.parametrize("kind", [forms.PrivateFormat.PKCS8, forms.PrivateFormat.OpenSSH])
def test_signed_record_is_said_to_be_so(run: Path, tmp_path: Path, kind: object) -> None:
    before = run.read_bytes()
    signed = api.replay(run, sign=pem(Ed25519PrivateKey.generate(), tmp_path, kind=kind))
    assert signed.clean
    assert run.read_bytes() == before
    again = api.replay(run)
    assert again.clean
    assert again.signed_by == signed.signed_by
    assert again.to_json()["signed_by"].startswith("SHA256:")


def test_unsigned_record_is_clean_without_a_signer(run: Path) -> None:
    report = audit(run)
    assert (report.clean, report.signed_by) == (True, None)


def test_signature_that_was_changed_is_a_difference(run: Path, tmp_path: Path) -> None:
    api.replay(run, sign=pem(Ed25519PrivateKey.generate(), tmp_path))
    path = signature_path(run)
    value = json.loads(path.read_text())
    changed = {field: value | {field: _other(value[field])} for field in value if field in SIGNED}
    assert set(changed) == SIGNED
    for text in ("nonsense", *map(json.dumps, changed.values())):
        path.write_text(text)
        report = audit(run)
        assert not report.clean, text
        assert len(report.differences) == 1
        assert "sign" in report.differences[0]


SIGNED = {"public_key", "head", "events", "signature", "algorithm"}


def _other(old: str | int) -> str | int:
    return old + 1 if isinstance(old, int) else ("0" if old[0] != "0" else "1") + old[1:]


def test_signature_of_another_record_is_a_difference(
    run: Path, scale_spec: Callable[..., Path], tmp_path: Path
) -> None:
    (spec,) = load_spec(scale_spec())
    other = tmp_path / "b.run"
    begin(spec, other, Options(seed=2, workers=1), backend=SimulatedBackend(seconds=seconds))
    api.replay(other, sign=pem(Ed25519PrivateKey.generate(), tmp_path))
    signature_path(other).rename(signature_path(run))
    (difference,) = audit(run).differences
    assert "events that end in" in difference


def test_record_with_a_difference_is_not_signed(run: Path, tmp_path: Path) -> None:
    data = bytearray(run.read_bytes())
    data[len(data) // 2] ^= 1
    run.write_bytes(bytes(data))
    report = api.replay(run, sign=pem(Ed25519PrivateKey.generate(), tmp_path))
    assert not report.clean
    assert not signature_path(run).exists()


def test_unfinished_record_is_not_signed(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    (spec,) = load_spec(scale_spec())
    interruption = Interruption()
    interruption.set()
    backend = SimulatedBackend(seconds=seconds)
    begin(spec, tmp_path / "a.run", Options(workers=1), backend=backend, interruption=interruption)
    with pytest.raises(UsageError, match="is not signed: its run has not ended"):
        api.replay(tmp_path / "a.run", sign=pem(Ed25519PrivateKey.generate(), tmp_path))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: f / "none.pem", "cannot be read: No such file"),
        (lambda f: pem(generate_private_key(SECP256R1()), f), "is no Ed25519 key"),
        (lambda f: pem(Ed25519PrivateKey.generate(), f, secret=b"x"), "has a passphrase"),
        (lambda f: [f.joinpath("text").write_text("hello"), f / "text"][1], "holds no private key"),
    ],
)
def test_key_that_cannot_be_used_is_one_line(
    run: Path, tmp_path: Path, make: Callable[[Path], Path], words: str
) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        api.replay(run, sign=make(tmp_path))
    assert "\n" not in str(caught.value)
    assert not signature_path(run).exists()


@pytest.mark.integration
def test_missing_package_is_one_line_with_the_command(run: Path, tmp_path: Path) -> None:
    key = pem(Ed25519PrivateKey.generate(), tmp_path)
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from tuner.cli.main import main; main(['replay', *sys.argv[1:]])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(run), "--sign", str(key)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: signatures need the package cryptography; pip install 'remix-tuner[sign]'\n"
    )
