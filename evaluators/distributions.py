"""Initial values of one workload's arrays.

Makes arrays only: it may not decide which workloads exist (:mod:`tuner.evaluators.workloads`) nor compare outputs.
Values depend on nothing but the seed, the argument's name and the distribution, so any part of a workload can be
made again alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.dtypes import C_TYPES, is_structured, numpy_dtype, separate_members
from tuner.core.errors import SpecError, UsageError
from tuner.core.expressions import Expression, parse
from tuner.core.streams import seed_for, stream
from tuner.core.types import Argument, Value, opaque_bytes
from tuner.evaluators.file_values import check_fitting, read_file
from tuner.evaluators.python_reference import call_initialiser
from tuner.evaluators.recorded_contents import recorded_bytes
from tuner.evaluators.redistribution import PERTURBED, perturb, redistribute, redistribute_integers
from tuner.evaluators.sparse import random_csr

__all__ = ["OPTIONS", "ArrayMaker", "cast_scalar", "dtype_of"]

Array = NDArray[Any]

OPTIONS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "uniform": (frozenset(), frozenset({"low", "high"})),
    "normal": (frozenset(), frozenset({"mean", "deviation"})),
    "randint": (frozenset({"low", "high"}), frozenset()),
    "permutation": (frozenset(), frozenset()),
    "zeros": (frozenset(), frozenset()),
    "constant": (frozenset({"value"}), frozenset()),
    "values": (frozenset({"values"}), frozenset()),
    "csr": (frozenset({"rows", "columns", "nonzeros", "part"}), frozenset({"skew", "matrix"})),
    "file": (frozenset({"path"}), frozenset()),
    "python": (frozenset({"file", "function"}), frozenset()),
    "recording": (frozenset({"paths"}), frozenset({"argument", "parts"})),
    "members": (frozenset(), frozenset()),
}
"""For each kind of initial values the options that it needs and those that it may have; of ``members`` the options are
the initial values of each."""


def dtype_of(argument: Argument) -> np.dtype[Any]:
    """The NumPy type of an argument's elements.

    Raises:
        SpecError: there is no such type.
    """
    opaque = opaque_bytes(argument.dtype)
    if opaque and not argument.is_array:
        return np.dtype(f"V{opaque}")
    if argument.dtype not in C_TYPES and not is_structured(argument.dtype):
        raise SpecError(
            f"argument {argument.name!r} has the unknown dtype {argument.dtype!r}",
            "one of " + ", ".join(C_TYPES),
        )
    return numpy_dtype(argument.dtype)


def cast_scalar(name: str, value: Value, dtype: np.dtype[Any]) -> int | float:
    """A by-value argument as the kernel gets it: rounded to its type, as a Python number.

    Raises:
        SpecError: the value does not fit the type, or is not a number.
    """
    if isinstance(value, str):
        raise SpecError(f"the value of {name!r} is text", "give a number")
    if dtype.kind == "c":
        raise SpecError(
            f"{name!r} is a complex scalar", "by-value arguments are integers or floating numbers"
        )
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            rounded = float(dtype.type(value))
        if math.isinf(rounded):
            raise SpecError(
                f"the value {value} of {name!r} does not fit {dtype}",
                "give a value that it can hold, or a wider dtype",
            )
        return rounded
    if int(value) != value:
        raise SpecError(f"the value {value} of {name!r} is not a whole number", f"its dtype is {dtype}")
    low, high = _integer_range(dtype) if dtype.kind != "V" else (0, 256**dtype.itemsize - 1)
    if not low <= int(value) <= high:
        raise SpecError(f"the value {value} of {name!r} does not fit {dtype}", f"{low} to {high}")
    return int(value)


def _integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayMaker:
    """Makes the arrays of one workload.

    Attributes:
        env: values of the names that expressions may use.
        sizes: the problem's sizes alone, which Python initialisers are called with.
        folder: where files are looked up.
        seed: of this workload's values; ``fixed_seed``: of arguments with ``fixed: true`` (and of every part of a
            CSR matrix one of whose parts is fixed: its name stands in ``fixed_matrices``).
        distribution: one of :mod:`tuner.evaluators.redistribution`; fixed arguments stay as given, and so
            do constants, files and what Python initialisers return.
    """

    env: Mapping[str, Value]
    sizes: Mapping[str, int]
    folder: str
    seed: int
    fixed_seed: int
    fixed_matrices: frozenset[str] = frozenset()
    distribution: str = "given"
    _matrices: dict[str, tuple[tuple[float, ...], Array, Array]] = field(default_factory=dict, repr=False)

    def make(self, argument: Argument, shape: tuple[int, ...]) -> Array:
        """The initial content of one array, C-contiguous, of the argument's type.

        Integers, permutations and CSR parts stay in the range that the spec gives in every distribution.

        Raises:
            SpecError: options that are missing, unknown or impossible; a file that does not fit.
        """
        kind, dtype = argument.initial.kind, dtype_of(argument)
        if kind == "members":
            return self._structures(argument, np.zeros(shape, dtype))
        self._check_options(argument)
        seed = self.fixed_seed if argument.fixed else self.seed
        distribution = "given" if argument.fixed else self.distribution
        rng = stream(seed, f"values/{argument.name}")
        shaper = stream(seed, f"distribution/{argument.name}")
        if kind in ("uniform", "normal"):
            given = self._floating(argument, shape, rng)
            result = redistribute(given, distribution, shaper)
        elif kind == "randint":
            result = self._randint(argument, shape, rng)
            result = redistribute_integers(result, distribution, shaper)
        elif kind == "permutation":
            result = self._permutation(argument, shape, rng, structured=distribution == "structured")
        elif kind == "csr":
            result = self._csr_part(argument, shape)
        elif kind == "file":
            result = self._from_file(argument, shape)
        elif kind == "recording":
            result = self.recorded(argument, shape)
            if distribution == PERTURBED and argument.passing != "memory":
                result = perturb(result, shaper)
        elif kind == "python":
            result = self._from_python(argument, shape, seed_for(seed, f"python/{argument.name}"))
        elif kind == "values":
            values = [self._value(argument, kind, each) for each in argument.initial.options["values"]]
            result = np.array([_cast_constant(argument, each, dtype) for each in values], dtype)
        else:
            value = self._number(argument, "value", 0)
            result = np.full(shape, _cast_constant(argument, value, dtype), dtype)
        return np.ascontiguousarray(result.astype(dtype, copy=False)).reshape(shape)

    def _structures(self, argument: Argument, structures: Array) -> Array:
        """Structures with values in their members."""
        for name, values in separate_members(argument.name, structures).items():
            initial = argument.initial.options[name.removeprefix(f"{argument.name}.")]
            member = replace(argument, name=name, dtype=values.dtype.name, initial=initial)
            values[...] = self.make(member, values.shape)
        return structures

    def recorded(self, argument: Argument, shape: tuple[int, ...], *, after: bool = False) -> Array:
        """What a recording holds of one buffer before its launch, or after it.

        The size ``recording`` says which of the argument's recordings is meant; they count from 1. Of each, ``parts``
        names argument, first byte and bytes where the array is not one whole argument, the same one in all.

        Raises:
            SpecError: the recording is gone, damaged, or another one.
        """
        options, dtype = argument.initial.options, dtype_of(argument)
        number = self.sizes["recording"] - 1
        path = Path(self.folder, options["paths"][number])
        index, first, size = (
            options["parts"][number] if "parts" in options else (options["argument"], 0, None)
        )
        try:
            data = recorded_bytes(path, index, after=after)
        except UsageError as error:
            raise SpecError(error.message, error.hint) from None
        data = data if size is None else data[first : first + size]
        if data.nbytes != math.prod(shape) * dtype.itemsize:
            raise SpecError(f"{path} is another recording than before", "load the spec again")
        return data.view(dtype).reshape(shape)

    def csr_sizes(self, argument: Argument) -> tuple[int, int, int]:
        """Rows, columns and nonzeros of the matrix that a ``csr`` argument is part of.

        Raises:
            SpecError: they are impossible.
        """
        rows = self._integer(argument, "rows")
        columns = self._integer(argument, "columns")
        nonzeros = self._integer(argument, "nonzeros")
        if rows < 1 or columns < 1 or not 0 <= nonzeros <= rows * columns:
            raise SpecError(
                f"argument {argument.name!r}: no {rows} by {columns} matrix has {nonzeros} nonzeros",
                f"at most {max(rows, 0) * max(columns, 0)}",
            )
        return rows, columns, nonzeros

    def _check_options(self, argument: Argument) -> None:
        initial = argument.initial
        if initial.kind not in OPTIONS:
            raise SpecError(
                f"argument {argument.name!r} has the unknown init {initial.kind!r}",
                "one of " + ", ".join(OPTIONS),
            )
        needed, allowed = OPTIONS[initial.kind]
        for name in sorted(needed - set(initial.options)):
            raise SpecError(
                f"argument {argument.name!r}: init {initial.kind} needs {name!r}", "give this option"
            )
        for name in sorted(set(initial.options) - needed - allowed):
            raise SpecError(
                f"argument {argument.name!r}: init {initial.kind} has no option {name!r}",
                "it has " + (", ".join(sorted(needed | allowed)) or "none"),
            )

    def _number(self, argument: Argument, option: str, default: float | None = None) -> int | float:
        return self._value(argument, option, argument.initial.options.get(option, default))

    def _value(self, argument: Argument, option: str, value: Any) -> int | float:
        if isinstance(value, str):
            value = parse(value)
        if isinstance(value, Expression):
            value = value.evaluate(self.env)
        if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise SpecError(
                f"argument {argument.name!r}: {option} of its init is not a finite number: {value!r}",
                "give a finite number",
            )
        return value

    def _integer(self, argument: Argument, option: str) -> int:
        value = self._number(argument, option)
        if int(value) != value:
            raise SpecError(
                f"argument {argument.name!r}: {option} of its init is {value}, not a whole number",
                "give a whole number",
            )
        return int(value)

    def _floating(self, argument: Argument, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        dtype = dtype_of(argument)
        if dtype.kind not in "fc":
            raise SpecError(
                f"argument {argument.name!r} is {dtype}, which init {argument.initial.kind} cannot fill",
                "give for example init: {randint: [0, 100]}",
            )
        # Drawn as float32 or float64: the generators know no others.
        part: Any = np.float64 if dtype in (np.float64, np.complex128) else np.float32
        full = (*shape, 2) if dtype.kind == "c" else shape
        if argument.initial.kind == "normal":
            mean, deviation = self._number(argument, "mean", 0), self._number(argument, "deviation", 1)
            values: Array = rng.standard_normal(full, dtype=part)
            values *= part(deviation)
            values += part(mean)
        else:
            low, high = self._number(argument, "low", 0), self._number(argument, "high", 1)
            if low > high:
                raise SpecError(
                    f"argument {argument.name!r}: uniform from {low} to {high} is empty",
                    "the low end comes first",
                )
            values = rng.random(full, dtype=part)
            values *= part(high - low)
            values += part(low)
            np.clip(values, part(low), part(high), out=values)
        if dtype.kind == "c":
            return values.view(np.complex128 if part == np.float64 else np.complex64)[..., 0]
        return values.astype(dtype, copy=False)

    def _randint(self, argument: Argument, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        dtype = dtype_of(argument)
        low, high = self._integer(argument, "low"), self._integer(argument, "high")
        if low >= high:
            raise SpecError(
                f"argument {argument.name!r}: randint from {low} to {high} is empty",
                "the high end is excluded",
            )
        drawn = dtype if dtype.kind in "iu" else np.dtype(np.int64)
        smallest, largest = _integer_range(drawn if dtype.kind != "b" else dtype)
        if low < smallest or high - 1 > largest:
            raise SpecError(
                f"argument {argument.name!r}: randint {low} to {high} does not fit {dtype}",
                "give a value that it can hold, or a wider dtype",
            )
        return rng.integers(low, high, size=shape, dtype=drawn.type)

    def _permutation(
        self, argument: Argument, shape: tuple[int, ...], rng: np.random.Generator, *, structured: bool
    ) -> Array:
        count = math.prod(shape)
        dtype = dtype_of(argument)
        if dtype.kind not in "iu" or count - 1 > np.iinfo(dtype).max:
            raise SpecError(
                f"argument {argument.name!r}: {dtype} cannot hold a permutation of {count}",
                "use a wider dtype",
            )
        if structured:
            return np.arange(count)[:: 1 if rng.random() < 0.5 else -1]
        return rng.permutation(count)

    def _csr_part(self, argument: Argument, shape: tuple[int, ...]) -> Array:
        options, dtype = argument.initial.options, dtype_of(argument)
        rows, columns, nonzeros = self.csr_sizes(argument)
        part, matrix = options["part"], str(options.get("matrix", ""))
        if part not in ("row_pointers", "columns"):
            raise SpecError(f"argument {argument.name!r}: csr part {part!r}", "row_pointers or columns")
        expected = rows + 1 if part == "row_pointers" else nonzeros
        if math.prod(shape) != expected:
            raise SpecError(
                f"argument {argument.name!r} has {math.prod(shape)} elements, the csr {part} {expected}",
                "make its shape the part's: rows + 1 row pointers, or one column for each nonzero",
            )
        if dtype.kind not in "iu" or max(nonzeros, columns - 1) > np.iinfo(dtype).max:
            raise SpecError(
                f"argument {argument.name!r}: {dtype} cannot hold the csr {part}", "use a wider integer dtype"
            )
        skew = float(self._number(argument, "skew", 0))
        if not 0 <= skew <= 10:
            raise SpecError(f"argument {argument.name!r}: csr skew is {skew:g}", "0 (even) to 10")
        fixed = argument.fixed or matrix in self.fixed_matrices
        if self.distribution == "structured" and not fixed:
            skew = max(skew, 2.0)
        key = (rows, columns, nonzeros, skew)
        if matrix not in self._matrices:
            rng = stream(self.fixed_seed if fixed else self.seed, f"csr/{matrix}")
            made = random_csr(rows, columns, nonzeros=nonzeros, skew=skew, rng=rng)
            self._matrices[matrix] = (key, *made)
        known, pointers, indices = self._matrices[matrix]
        if known != key:
            raise SpecError(
                f"argument {argument.name!r}: the parts of one csr matrix disagree about its size or skew",
                "give the same numbers, or each matrix a name: matrix: A",
            )
        return pointers if part == "row_pointers" else indices

    def _from_file(self, argument: Argument, shape: tuple[int, ...]) -> Array:
        path = Path(self.folder, str(argument.initial.options["path"]))
        return read_file(argument.name, dtype_of(argument), path, shape)

    def _from_python(self, argument: Argument, shape: tuple[int, ...], seed: int) -> Array:
        options = argument.initial.options
        path = Path(self.folder, str(options["file"]))
        values = call_initialiser(path, str(options["function"]), sizes=self.sizes, seed=seed)
        dtype = dtype_of(argument)
        if values.dtype.kind in "fc" and dtype.kind in "iub":
            raise SpecError(
                f"argument {argument.name!r} is {dtype}, {options['function']} gave {values.dtype}",
                "return an array of the argument's dtype",
            )
        if values.dtype.kind in "iub" and dtype.kind in "iub" and values.size:
            low, high = _integer_range(dtype)
            if int(values.min()) < low or int(values.max()) > high:
                raise SpecError(
                    f"argument {argument.name!r}: values of {options['function']} do not fit {dtype}",
                    "return values that the dtype can hold",
                )
        values = values.astype(dtype)
        check_fitting(argument.name, dtype, values, shape, f"{path.name}:{options['function']}")
        return np.array(values).reshape(shape)


def _cast_constant(argument: Argument, value: int | float, dtype: np.dtype[Any]) -> int | float:
    if dtype.kind == "c":
        return value
    return cast_scalar(argument.name, value, dtype)
