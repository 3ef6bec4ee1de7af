"""The library's reference as Markdown: ``python -m tuner.cli.library_reference > docs/python.md``.

Says what the docstrings say of the names that ``tuner`` exports, and nothing else.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import tuner
from tuner.core import errors

__all__ = ["reference"]

_HEAD = """\
# Python

Made from docstrings by `python -m tuner.cli.library_reference`; do not edit. These are the names of the module `tuner`,
imported when first used. What builds and tests call: [use-in-a-build.md](use-in-a-build.md), [ci.md](ci.md); what
extends it: [architecture.md](architecture.md).

<!-- run -->
```python
import tuner

result = tuner.tune("examples/builds/saxpy.yaml", evaluations=4)
print(result.speedup, result.speedup_interval, result.configuration)
report = tuner.replay(result.path)
assert report.clean
```
"""
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):\n((?:    .*\n?|\n)*)", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")
_ORDER = ("tune", "confirm", "Result", "load", "replay", "ensure", "record", "wisdom", "Wisdom")


def reference() -> str:
    """A section for each name, then the errors."""
    return _HEAD + "".join(_section(name, getattr(tuner, name)) for name in _ORDER) + _errors()


def _section(name: str, value: Any) -> str:
    text = inspect.getdoc(value) or ""
    parts = {head: _items(body) for head, body in _SECTION.findall(text)}
    lines = [f"\n## {name}\n", _prose(_SECTION.sub("", text)), ""]
    if inspect.isclass(value):
        lines += ["| | |", "|---|---|", *_attributes(value, parts.get("Attributes", {}))]
    else:
        lines += [
            "| argument | when left out | meaning |",
            "|---|---|---|",
            *_arguments(value, parts.get("Args", {})),
        ]
    for head in ("Returns", "Yields"):
        found = re.search(rf"^{head}:\n((?:    .*\n?)+)", text, re.MULTILINE)
        lines += [f"\n{head}: {_prose(found[1])}"] if found else []
    if "Raises" in parts:
        said = "; ".join(f"`{kind}`: {meaning.rstrip('.')}" for kind, meaning in parts["Raises"].items())
        lines.append(f"\nRaises {said}.")
    return "\n".join(lines) + "\n"


def _arguments(value: Any, told: dict[str, str]) -> Iterator[str]:
    for one in inspect.signature(value).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            default = ""
        else:
            default = "must be given" if one.default is one.empty else f"`{one.default!r}`"
        stars = "**" if one.kind is one.VAR_KEYWORD else ""
        yield f"| `{stars}{one.name}` | {default} | {told.get(one.name, '')} |"


def _attributes(kind: Any, told: dict[str, str]) -> Iterator[str]:
    yield from (f"| `{name}` | {meaning} |" for name, meaning in told.items())
    for name, value in vars(kind).items():
        if name.startswith("_") or not (
            isinstance(value, property | classmethod) or inspect.isfunction(value)
        ):
            continue
        found = getattr(kind, name)
        text = inspect.getdoc(found) or ""
        call = "" if isinstance(value, property) else f"({_taken(found)})"
        yield f"| `{name}{call}` | {_prose(_SECTION.sub('', text))} |"


def _taken(method: Any) -> str:
    return ", ".join(name for name in inspect.signature(method).parameters if name != "self")


def _errors() -> str:
    rows = []
    for name in sorted(errors.__all__):
        kind = getattr(errors, name)
        if inspect.isclass(kind) and issubclass(kind, errors.TunerError) and kind is not errors.TunerError:
            bases = ", ".join(f"`{b.__name__}`" for b in kind.__bases__ if b is not errors.TunerError)
            rows.append(f"| `{name}` | {bases} | {kind.exit_status} | {_prose(inspect.getdoc(kind) or '')} |")
    head = (
        "\n## Errors\n\nEvery one is a `tuner.TunerError` with `message`, `hint` (what would be right) and `place` "
        "(where in the file, or `None`);\nthe others are in `tuner.core.errors`. A candidate's failure is none: it is "
        "the status of its trial.\n"
    )
    return "\n".join([head, "| error | is also | exit status | when |", "|---|---|---|---|", *rows]) + "\n"


def _items(body: str) -> dict[str, str]:
    """Entries of a section by name; lines that are indented further go on with the one before."""
    found: dict[str, str] = {}
    for line in inspect.cleandoc(body).splitlines():
        name, colon, text = line.partition(":")
        if not line.startswith(" ") and colon:
            last = name.strip()
            found[last] = text.strip()
        elif found and line.strip():
            found[last] += f" {line.strip()}"
    return {name: _prose(text) for name, text in found.items()}


def _prose(text: str) -> str:
    """One paragraph of Markdown."""
    words = " ".join(text.split())
    return _ROLE.sub(r"`\1`", words).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
