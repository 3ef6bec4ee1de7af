"""A call of Kernel Tuner's ``tune_kernel`` as a spec with its files. May not run anything."""

from __future__ import annotations

import hashlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tuner.core.errors import SpecError, UsageError
from tuner.core.expressions import Expression, parse
from tuner.core.files import write_atomically
from tuner.core.source_text import source_bytes, text_of_file
from tuner.core.types import Source, Value
from tuner.spec.foreign import restriction
from tuner.spec.reading.cuda_kernels import cuda_functions
from tuner.spec.reading.signature import SourceReader

__all__ = ["BLOCK_NAMES", "Call", "write_spec"]

BLOCK_NAMES = ("block_size_x", "block_size_y", "block_size_z")

_DEFAULT_BLOCK = (256, 1, 1)
_SUFFIX = {"c": ".c", "c++": ".cpp", "opencl": ".cl", "cuda": ".cu"}
_LANGUAGES = {"c": "c", "c++": "c++", "opencl": "opencl", "cuda": "cuda", "cupy": "cuda", "nvcuda": "cuda"}
_MOST_THREADS = 1024
_MOST_TRIED = 1_000_000
_DTYPES = frozenset(
    [
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ]
)
_NOISE = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ANSWER = '''\
"""The expected outputs, as they were given to tune_kernel."""

from pathlib import Path

import numpy


def answer():
    """Expected outputs by name."""
    folder = Path(__file__).parent
    return {name: numpy.load(folder / f"answer_{name}.npy") for name in %r}
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a call of ``tune_kernel`` says; ``divisors`` and ``blocks`` go along x, y, z."""

    name: str
    source: Any
    problem: tuple[int | str, ...]
    arguments: tuple[Any, ...]
    tunables: Mapping[str, tuple[Any, ...]]
    divisors: tuple[tuple[str, ...] | None, ...]
    blocks: tuple[str, ...]
    restrictions: tuple[str, ...]
    answer: tuple[Any, ...] | None
    atol: float
    language: str | None
    options: tuple[str, ...]
    target: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    name: str
    constant: bool
    written: bool
    certain: bool


def write_spec(call: Call, folder: Path) -> Path:
    """Writes the spec of a call and what it needs into a folder of its own; the same call gives the same folder.

    Raises:
        UsageError: an argument that cannot be put into a spec.
        SpecError: a restriction or a value that cannot be.
    """
    texts = _source_texts(call)
    language = _language(call, texts[0][1])
    tunables = {name: [_plain(name, v) for v in values] for name, values in call.tunables.items()}
    constraints = [restriction(text) for text in call.restrictions]
    default = _first_valid(call, tunables, constraints, language)
    parameters = _parameters(call, texts[0][1], language, default)
    files = _files(call, parameters)
    names = [f"{call.name}{_SUFFIX[language]}", *(name for name, _ in texts[1:])]
    # Kernel Tuner defines this macro, and sources ask for it.
    files[names[0]] = source_bytes("#define kernel_tuner 1\n#line 1\n" + texts[0][1])
    files.update({name: source_bytes(text) for name, text in texts[1:]})
    kernel: dict[str, Any] = {"source": names[0], "entry": call.name, "language": language}
    if names[1:]:
        kernel["sources"] = names[1:]
    beside = _folder_of_source(call)
    if beside is not None:
        kernel["include"] = [str(beside)]
    document: dict[str, Any] = {
        "kernel": kernel,
        **({"target": call.target} if call.target else {}),
        "arguments": [_argument(call, i, parameter) for i, parameter in enumerate(parameters)],
    }
    if language in ("opencl", "cuda"):
        document["launch"] = _launch(call)
    space: dict[str, Any] = {
        "parameters": {name: {"values": v, "default": default[name]} for name, v in tunables.items()},
        "constraints": constraints,
        "passes": "off",
    }
    options = _options(call, language)
    if options:
        space["flags"] = {"options": [shlex.join(options)]}
    document["space"] = space
    document["verify"] = _verify(call)
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)
    spec_name = f"{call.name}.yaml"
    files[spec_name] = text.encode()
    place = folder / f"{call.name}-{_digest(files)}"
    place.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_atomically(place / name, data)
    return place / spec_name


def _digest(files: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name, data in sorted(files.items()):
        total.update(f"{name}\n{len(data)}\n".encode() + data)
    return total.hexdigest()[:12]


def _source_texts(call: Call) -> list[tuple[str, str]]:
    given = call.source if isinstance(call.source, list | tuple) else [call.source]
    if not given:
        raise UsageError("kernel_source is empty", "give the source's text or file")
    texts = []
    for item in given:
        if callable(item):
            raise UsageError("kernel_source is a function", "give the source's text or file")
        if not _is_file(item):
            texts.append((call.name, str(item)))
            continue
        try:
            texts.append((Path(item).name, text_of_file(Path(item))))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"kernel_source {str(item)!r} cannot be read: {error}", "check the path"
            ) from None
    return texts


def _is_file(item: Any) -> bool:
    return isinstance(item, Path) or not re.search(r"[\n{;]", str(item))


def _folder_of_source(call: Call) -> Path | None:
    first = call.source[0] if isinstance(call.source, list | tuple) else call.source
    return Path(first).resolve().parent if _is_file(first) else None


def _language(call: Call, text: str) -> str:
    if call.language is not None:
        found = _LANGUAGES.get(call.language.lower())
        if found is None:
            raise UsageError(f"lang {call.language!r} is not supported here", "C, OpenCL or CUDA")
    elif "__global__" in text:
        found = "cuda"
    elif re.search(r"\b(?:__kernel|kernel)\s+(?:void|__attribute__)", text):
        found = "opencl"
    else:
        found = "c"
    return "c++" if found == "c" and re.search(r'extern\s+"C"|\btemplate\s*<', text) else found


def _plain(name: str, value: Any) -> Value:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, bool | int | float | str):
        raise UsageError(f"tune_params[{name!r}] has {value!r}", "give numbers and text")
    return value


def _first_valid(
    call: Call, tunables: Mapping[str, list[Value]], constraints: list[str], language: str
) -> dict[str, Value]:
    """The first configuration that the restrictions allow: what the others are compared with."""
    if not tunables or not all(tunables.values()):
        raise UsageError("tune_params has nothing to tune", "give at least one tunable with its values")
    rules = [parse(text) for text in constraints]
    if language in ("opencl", "cuda"):
        sides = [name for name in call.blocks if name in tunables]
        if sides:
            rules.append(parse(f"{' * '.join(sides)} <= {_MOST_THREADS}"))
    for configuration in itertools.islice(_configurations(tunables), _MOST_TRIED):
        if all(_holds(rule, configuration) for rule in rules):
            return configuration
    raise SpecError("no configuration satisfies the restrictions", "loosen them, or give more values")


def _configurations(tunables: Mapping[str, list[Value]]) -> Iterator[dict[str, Value]]:
    for values in itertools.product(*tunables.values()):
        yield dict(zip(tunables, values, strict=True))


def _holds(rule: Expression, configuration: Mapping[str, Value]) -> bool:
    unknown = sorted(rule.names - set(configuration))
    if unknown:
        raise SpecError(
            f"the restriction {rule.text!r} names {unknown[0]!r}, which is no tunable",
            "list it in tune_params",
        )
    return bool(rule.evaluate(configuration))


def _parameters(call: Call, text: str, language: str, default: Mapping[str, Value]) -> list[_Parameter]:
    beside = _folder_of_source(call)
    reader = SourceReader(
        files=(Source(name=f"{call.name}{_SUFFIX[language]}", text=text),),
        language=language,
        folder="" if beside is None else str(beside),
        macros={**default, "kernel_tuner": 1},
    )
    if language == "cuda":
        functions = cuda_functions(reader.with_missing_headers(), call.name)
    else:
        functions = [f for f in reader.functions(call.name) if f.defined]
    found = [(n, t.constant) for n, t in functions[0].parameters] if functions else None
    if found is None:
        raise UsageError(f"the source has no function {call.name!r}", "check kernel_name")
    if len(found) != len(call.arguments):
        raise UsageError(
            f"{call.name} takes {len(found)} arguments, and arguments has {len(call.arguments)}",
            "in call order: " + ", ".join(name for name, _ in found),
        )
    if call.answer is not None and len(call.answer) != len(call.arguments):
        raise UsageError(
            f"answer has {len(call.answer)} items for {len(call.arguments)} arguments",
            "one for each argument, None for those not looked at",
        )
    plain = _NOISE.sub(" ", text)
    return [_use(name or f"argument{i + 1}", constant, plain) for i, (name, constant) in enumerate(found)]


def _use(name: str, constant: bool, text: str) -> _Parameter:
    """Whether an array is written to, by its looks; not certain where it is only passed on or pointed into."""
    element = rf"\b{re.escape(name)}\s*\[[^;]*?\]\s*"
    direct = rf"{element}(?:=(?!=)|[-+*/|&^]=|<<=|>>=|\+\+|--)|\*\s*{re.escape(name)}\s*=(?!=)"
    written = not constant and re.search(direct, text) is not None
    passed_on = re.search(rf"[(,=&]\s*&?\s*{re.escape(name)}\s*[,)+;]", text) is not None
    return _Parameter(
        name=name, constant=constant, written=written, certain=written or constant or not passed_on
    )


def _argument(call: Call, position: int, parameter: _Parameter) -> dict[str, Any]:
    value, name = call.arguments[position], parameter.name
    if not isinstance(value, np.ndarray | np.generic):
        raise UsageError(
            f"argument {position + 1} ({name}) is a {type(value).__name__}",
            "give a NumPy array or scalar, such as numpy.int32(n)",
        )
    if value.dtype.name not in _DTYPES:
        raise UsageError(
            f"argument {position + 1} ({name}) has the type {value.dtype}",
            "one of " + ", ".join(sorted(_DTYPES)),
        )
    if isinstance(value, np.generic):
        return {"name": name, "dtype": value.dtype.name, "value": value.item()}
    made: dict[str, Any] = {"name": name, "dtype": value.dtype.name, "shape": list(value.shape) or [1]}
    role = _role(call, position, parameter)
    if role != "input":
        made["role"] = role
    if role != "scratch":
        made["init"] = {"file": f"{name}.npy"}
    return made


def _role(call: Call, position: int, parameter: _Parameter) -> str:
    if call.answer is None:
        return "input" if parameter.constant or (parameter.certain and not parameter.written) else "inout"
    if call.answer[position] is not None:
        return "inout"
    if not parameter.written:
        return "input"
    if np.any(call.arguments[position]):
        raise UsageError(
            f"{parameter.name} is written by the kernel, holds values before it, and its answer is None",
            "give its answer too, or pass zeros",
        )
    return "scratch"


def _files(call: Call, parameters: list[_Parameter]) -> dict[str, bytes]:
    """The arrays and the answers, as files."""
    files = {}
    answered = []
    for i, parameter in enumerate(parameters):
        value = call.arguments[i]
        if isinstance(value, np.ndarray):
            files[f"{parameter.name}.npy"] = _npy(value.reshape(value.shape or (1,)))
        expected = None if call.answer is None else call.answer[i]
        if expected is None:
            continue
        expected = np.asarray(expected)
        if not isinstance(value, np.ndarray) or expected.size != value.size:
            raise UsageError(
                f"answer {i + 1} ({parameter.name}) is not of its argument's shape", "they must be alike"
            )
        files[f"answer_{parameter.name}.npy"] = _npy(expected.reshape(value.shape or (1,)))
        answered.append(parameter.name)
    if call.answer is not None:
        if not answered:
            raise UsageError(
                "answer is None for every argument", "give what the kernel writes, or leave answer out"
            )
        files["answer.py"] = (_ANSWER % (answered,)).encode()
    return files


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def _options(call: Call, language: str) -> list[str]:
    """The compiler's options; ``-O3`` is what every host build has."""
    if language not in ("c", "c++"):
        return list(call.options)
    for option in call.options:
        if re.fullmatch(r"-O\w*", option) and option != "-O3":
            raise UsageError(
                f"compiler_options has {option}, and every candidate is built with -O3", "leave it out"
            )
    return [option for option in call.options if option != "-O3"]


def _launch(call: Call) -> dict[str, Any]:
    grid: list[Any] = []
    for axis, size in enumerate(call.problem):
        if callable(size):
            raise UsageError("problem_size has a function, and a spec holds text only", "write it as text")
        divisor = call.divisors[axis]
        if divisor is None:
            divisor = (call.blocks[axis],) if call.blocks[axis] in call.tunables else ()
        # Grid divisions are truncated one by one, as Kernel Tuner does.
        parts = [part if part in call.tunables else f"floor({part})" for part in divisor]
        grid.append(f"ceil(({size}) / ({' * '.join(parts)}))" if parts else size)
    block: list[Any] = [
        name if name in call.tunables else _DEFAULT_BLOCK[axis] for axis, name in enumerate(call.blocks)
    ]
    return {"grid": grid, "block": block}


def _verify(call: Call) -> dict[str, Any]:
    if call.answer is None:
        return {}
    levels = [
        float(np.sqrt(np.mean(np.abs(np.asarray(a, np.complex128)) ** 2)))
        for a in call.answer
        if a is not None
    ]
    smallest = min((level for level in levels if level > 0), default=1.0)
    # numpy.allclose, which Kernel Tuner calls, has this relative tolerance.
    return {"reference": {"python": "answer.py:answer"}, "rtol": 1e-5, "atol": call.atol / smallest}
