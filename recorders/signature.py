"""Signatures of closed run records: Ed25519 over the head of the chain and the number of events.

A signature stands in a file of its own beside the record, which stays as it was closed. It says who vouches for this
chain, not that the chain is right: that is the audit's to say. Needs the package ``cryptography`` only when a key or
a signature is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.canonical import canonical_json
from tuner.core.errors import MachineError, RecordError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["Signature", "SignatureError", "read_signature", "sign", "signature_path", "verify"]

_ALGORITHM = "ed25519"
_PURPOSE = "remix-tuner run record"
_LARGEST_BYTES = 1 << 16
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


class SignatureError(Exception):
    """A signature that does not hold; the text says why in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a signature file says.

    Attributes:
        public_key: 32 bytes in hexadecimal.
        head: the last event's hash in hexadecimal.
        events: their number.
        value: 64 bytes in hexadecimal.
    """

    public_key: str
    head: str
    events: int
    value: str

    @property
    def fingerprint(self) -> str:
        """Of the public key, to compare with the signer's."""
        return "SHA256:" + hashlib.sha256(bytes.fromhex(self.public_key)).hexdigest()[:32]


def signature_path(record: Path) -> Path:
    """Where a record's signature stands."""
    return record.with_name(record.name + ".sig")


def sign(record: Path, key: Path, *, head: str, events: int) -> Signature:
    """Writes the signature beside a record, over one that may stand there.

    Args:
        record: its path.
        key: a private Ed25519 key without a passphrase: PEM (PKCS 8), or as ``ssh-keygen`` writes it.
        head: the last event's hash, hexadecimal.
        events: their number.

    Raises:
        UsageError: the key cannot be read or is of another kind.
        MachineError: ``cryptography`` is missing.
        RecordError: the file cannot be written.
    """
    private = _private_key(key)
    signature = Signature(
        public_key=private.public_key().public_bytes_raw().hex(),
        head=head,
        events=events,
        value=private.sign(_message(head, events)).hex(),
    )
    path = signature_path(record)
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(_to_json(signature), file, indent=1)
            file.write("\n")
        os.replace(file.name, path)
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror}", "check the folder") from error
    return signature


def read_signature(record: Path) -> Signature | None:
    """What stands beside a record; ``None`` where there is no signature.

    Raises:
        SignatureError: the file holds something else.
    """
    path = signature_path(record)
    if not path.exists():
        return None
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ValueError("too long")
        value = json.loads(path.read_text(encoding="utf-8"))
        signature = Signature(
            public_key=value["public_key"],
            head=value["head"],
            events=value["events"],
            value=value["signature"],
        )
        lengths = [
            len(bytes.fromhex(text)) for text in (signature.public_key, signature.value, signature.head)
        ]
        sound = lengths[:2] == [_KEY_BYTES, _SIGNATURE_BYTES] and type(signature.events) is int
        if not sound or value["algorithm"] != _ALGORITHM:
            raise ValueError("no Ed25519 signature")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SignatureError(f"{path.name} holds no signature that can be read") from error
    return signature


def verify(signature: Signature, *, head: str, events: int) -> None:
    """Whether a signature is one of this chain.

    Args:
        signature: as read.
        head: the record's own last hash, hexadecimal.
        events: the record's own number of them.

    Raises:
        SignatureError: it is not.
        MachineError: ``cryptography`` is missing.
    """
    _need_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if (signature.head, signature.events) != (head, events):
        raise SignatureError(
            f"the signature is for {signature.events} events that end in {signature.head[:12]}…, "
            f"the record has {events} that end in {head[:12]}…"
        )
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.public_key))
    try:
        key.verify(bytes.fromhex(signature.value), _message(head, events))
    except InvalidSignature:
        raise SignatureError("the signature was not made by the key that it names") from None


def _message(head: str, events: int) -> bytes:
    return canonical_json({"purpose": _PURPOSE, "head": head, "events": events}).encode()


def _to_json(signature: Signature) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "algorithm": _ALGORITHM,
        "public_key": signature.public_key,
        "head": signature.head,
        "events": signature.events,
        "signature": signature.value,
    }


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MachineError(
            "signatures need the package cryptography", "pip install 'remix-tuner[sign]'"
        ) from error


def _private_key(path: Path) -> Ed25519PrivateKey:
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    hint = f"make one with: openssl genpkey -algorithm {_ALGORITHM} -out key.pem"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the key {path} cannot be read: {error.strerror}", hint) from error
    ssh = b"OPENSSH PRIVATE KEY" in data
    load = serialization.load_ssh_private_key if ssh else serialization.load_pem_private_key
    try:
        key = load(data, password=None)
    except TypeError as error:
        raise UsageError(f"the key {path} has a passphrase", "sign with a key that has none") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path} holds no private key that can be read", hint) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"the key {path} is no Ed25519 key", hint)
    return key
