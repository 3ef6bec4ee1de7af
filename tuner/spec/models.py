"""The spec's keys, types and bounds as pydantic models.

Says what each key may hold by itself; what keys mean together is checked when they are loaded. May not read
files nor know places: errors carry the path of keys.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    WrapValidator,
)

from tuner.core.expressions import Expression
from tuner.spec import short_forms as forms
from tuner.spec.short_forms import Dtype, InitialKind

__all__ = [
    "ArgumentModel",
    "BudgetModel",
    "InitialModel",
    "KernelModel",
    "LaunchModel",
    "LlmModel",
    "MeasureModel",
    "ParameterModel",
    "PassesModel",
    "ReferenceModel",
    "SearchModel",
    "SourceModel",
    "SpaceModel",
    "SpecModel",
    "VerifyModel",
]

Language = Literal["c", "c++", "opencl", "spirv", "cuda", "recorded"]

_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_QUALIFIED = r"^[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*$"
_TYPE = r"^(struct +)?[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*(<[A-Za-z0-9_:<>, *]+>)?$"
Arithmetic = Annotated[
    Expression,
    PlainValidator(forms.read_expression),
    WithJsonSchema(forms.EXPRESSION_SCHEMA),
]
ArgumentDtype = Annotated[Dtype, WrapValidator(forms.read_dtype), WithJsonSchema(forms.DTYPE_SCHEMA)]
Switch = Annotated[bool, BeforeValidator(forms.read_switch)]
Name = Annotated[str, Field(pattern=_NAME)]
QualifiedName = Annotated[str, Field(pattern=_QUALIFIED)]
Size = Annotated[int, Field(ge=1, le=(1 << 62) - 1)]


class _Model(BaseModel):
    # Not `use_attribute_docstrings`, which reads this file for every class at every start.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class KernelModel(_Model):
    """What is called and where its source is."""

    source: Annotated[str, Field(min_length=1, examples=["stencil.c"])]
    """File that holds the entry, relative to the spec."""
    entry: Annotated[str, Field(min_length=1, examples=["stencil5", "ns::kernel"])]
    """Name of the function; of C++ and CUDA also an instance of a template, such as `axpy<float, WIDTH>`, in which
    parameters stand for their values."""
    loop: Annotated[int, Field(ge=1)] | None = None
    """Line of the source at which a loop of the function begins: that loop alone is the kernel then, and its arguments
    are what it uses of the function. For C and C++."""
    language: Language | None = None
    """From the source's suffix when left out; `recorded` is a JSON file of measurements, see `tuner import`."""
    sources: list[str] = []
    """Further source files, compiled together with the first. What the kernel does not call may be missing."""
    include: list[str] = []
    """Folders in which headers are looked for, relative to the spec. Compilers may read these and the spec's own
    folder, no others."""
    link: list[str] = []
    """Shared libraries that the kernel needs: not available in this version; C's and the mathematical one are there."""
    returns: Dtype | None = None
    """Type of the value that the function returns, which is then verified too; void when left out."""
    openmp: Switch = False
    """Build everything with -fopenmp and call it with a team of `measure.threads` threads; needs libomp, see `tuner
    doctor`."""


class InitialModel(_Model):
    """How an array's values are made."""

    kind: InitialKind = "normal"
    options: dict[str, Any] = {}


class ArgumentModel(_Model):
    """One argument, in call order: an array has a shape, a scalar a value, a structure members."""

    name: QualifiedName
    """As in the source or not: messages and Python references use it. Of a member as in the source, and of a variable
    too, with the namespaces that it is in: `phys::coef`."""
    dtype: ArgumentDtype | None = None
    """Type of the elements or of the value; of an array of structures with members of several types those members by
    name, all of them, in the source's order. Not of a structure that has `members`."""
    struct: Annotated[str, Field(pattern=_TYPE)] | None = None
    """Type of a structure as the source writes it: `struct chunk`, or the name that a typedef gives it; of C++ and CUDA
    also `View<float>`. A member that is a structure needs none. For C, C++ and CUDA."""
    members: Annotated[list[ArgumentModel], Field(min_length=1)] | None = None
    """Members of a structure, each as an argument; what is not listed is zero."""
    shape: Annotated[list[Arithmetic], Field(min_length=1, max_length=8)] | None = None
    """Elements along each dimension, the slowest first; row-major. Sizes may be named."""
    value: Arithmetic | None = None
    """Of a scalar: sizes and parameters with `macro: false` may be named."""
    rows: Literal["pointers"] | None = None
    """`pointers` where the function takes the addresses of rows, as `double **a` does: they are made of the array."""
    by: Literal["value", "pointer", "address"] | None = None
    """How it is passed: a scalar by `value` unless its address is taken, as Fortran does (only sizes may be named in
    its value then); a structure by `pointer` unless said otherwise, to a CUDA kernel by `value` alone; `value` for an
    array that lies in a structure itself. `address`: a pointer or reference to anything, of which nothing else is
    said: it leads into the application's memory, which is recorded as it is and replayed at the same addresses. With
    `struct`, a structure that is passed by value. What the kernel changes there is compared byte for byte; with
    `dtype: float64` or `float32`, as numbers of that type, which is then all that it may write."""
    role: Literal["input", "output", "inout", "scratch"] = "input"
    """What the kernel does with an array, or with a number in a structure. `inout` is restored before every call."""
    init: (
        Annotated[InitialModel, BeforeValidator(forms.read_initial), WithJsonSchema(forms.INITIAL_SCHEMA)]
        | None
    ) = None
    """Initial values; normal for floating types when left out."""
    fixed: Switch = False
    """Keep the same values over all calls and seeds."""
    constant: Switch = False
    """The input is no parameter: it fills the `__constant__` variable of this name, which may be larger. CUDA only."""
    variable: Annotated[bool | Literal["pointer"], Field(alias="global")] = False
    """It is no parameter: the kernel finds it in the global variable of this name, `static` or not, whose size is the
    one that the source declares; or, with `pointer`, through the global pointer of this name. For C, C++ and, but for
    `pointer`, CUDA: a `__device__` or `__constant__` variable."""


PlainValue = Annotated[
    int | float | str | bool,
    PlainValidator(forms.read_value),
    WithJsonSchema({"type": ["integer", "number", "string", "boolean"]}),
]


class ParameterModel(_Model):
    """A tunable: values, or the whole numbers from low to high."""

    values: Annotated[list[PlainValue], Field(min_length=1)] | None = None
    """Categorical; ordered when all are numbers."""
    low: int | None = None
    """Smallest value."""
    high: int | None = None
    """Largest value, included."""
    step: Annotated[int, Field(ge=1)] | None = None
    """Distance of neighbours; 1 when left out."""
    log: Switch = False
    """Powers of two only."""
    default: PlainValue | None = None
    """The baseline's value: else the first of a list, or `low`."""
    macro: Switch = True
    """-DNAME=value at the build; with false a run-time value for scalars."""


class PassesModel(_Model):
    """Pass pipelines around a base."""

    base: Annotated[str, Field(min_length=1)] = "default<O3>"
    """The baseline's pipeline, as `opt -passes` takes it."""
    max_edits: Annotated[int, Field(ge=1, le=10_000)] = 40
    """How many passes may be put in, taken out or changed."""
    off: bool = False


class SourceModel(_Model):
    """How the source itself may change."""

    evolve: Switch = False
    """Change the source between EVOLVE-BLOCK-START and EVOLVE-BLOCK-END comments, or the whole function, also where a
    macro names or writes it."""


class SpaceModel(_Model):
    """What can be tuned."""

    parameters: dict[
        Name,
        Annotated[
            ParameterModel, BeforeValidator(forms.read_parameter), WithJsonSchema(forms.PARAMETER_SCHEMA)
        ],
    ] = {}
    """Each is -DNAME=value at the build and a name in expressions."""
    constraints: list[Arithmetic] = []
    """What must hold; parameters, flag groups (as text) and sizes may be named."""
    flags: dict[Name, Annotated[list[str], Field(min_length=1)]] = {}
    """Groups of compiler flags of which one choice is taken; the first is the baseline's. A size in braces stands for
    its value: `-DN={N}`."""
    passes: (
        Annotated[PassesModel, BeforeValidator(forms.read_passes), WithJsonSchema(forms.PASSES_SCHEMA)] | None
    ) = None
    """Orders of the compiler's passes; searched when left out, where the backend has them."""
    source: SourceModel = SourceModel()


class LaunchModel(_Model):
    """Geometry of a GPU kernel; sizes and parameters may be named."""

    grid: Annotated[list[Arithmetic], Field(min_length=1, max_length=3)]
    """Blocks (work-groups) along x, y, z, on every backend."""
    block: Annotated[list[Arithmetic], Field(min_length=1, max_length=3)]
    """Threads (work-items) of a block along x, y, z."""
    shared_bytes: Arithmetic | None = None
    """Dynamic shared (local) memory of a block, bytes."""


class ReferenceModel(_Model):
    """Where expected outputs come from."""

    kind: Literal["original", "python", "recording"] = "original"
    file: str = ""
    function: str = ""


class VerifyModel(_Model):
    """When an output counts as right."""

    reference: Annotated[
        ReferenceModel, BeforeValidator(forms.read_reference), WithJsonSchema(forms.REFERENCE_SCHEMA)
    ] = ReferenceModel()
    rtol: Annotated[float, Field(ge=0, lt=1)] = 1e-5
    """Allowed error relative to the expected value."""
    atol: Annotated[float, Field(ge=0)] = 1e-6
    """Allowed error in units of the output's root mean square."""
    numerics: Literal["exact", "reassociate", "approximate"] = "exact"
    """What the tuner may do to floating arithmetic on its own; flags that are listed are allowed by being listed."""
    nonfinite: Literal["excluded", "propagate"] = "excluded"
    """Whether NaN and infinities are among the test inputs."""
    problems: list[dict[Name, Size]] = []
    """Sizes that a candidate must also get right; names left out are as in the main problem."""
    assume: list[Arithmetic] = []
    """Bounds of sizes that the verification may make up itself; none are made up without."""


class MeasureModel(_Model):
    """How a candidate is timed."""

    cache: Literal["warm", "cold"] = "warm"
    """Whether buffers are touched or flushed before each call."""
    threads: Annotated[int, Field(ge=1, le=4096)] = 1
    """Threads of a kernel with OpenMP, or that it starts itself; with several wall time decides."""
    limit_s: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] = 120.0
    """Seconds that a call of the kernel as given may take at most; a candidate's limit follows from what it takes."""
    bytes: Arithmetic | None = None
    """Bytes that one call has to read and write at least; a candidate faster than that allows is refused."""
    operations: Arithmetic | None = None
    """Floating-point operations of one call at least, a multiplication with an addition being two."""


class BudgetModel(_Model):
    """When a run ends: whichever is reached first."""

    evaluations: Annotated[int, Field(ge=1)] | None = None
    """Builds or runs that are started; 200 when neither this nor `minutes` is given."""
    minutes: Annotated[float, Field(gt=0)] | None = None
    """Active minutes, confirmation included."""
    usd: Annotated[float, Field(gt=0)] | None = None
    """US dollars spent on LLM calls."""
    tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens of LLM prompts and replies."""
    calls: Annotated[int, Field(ge=1)] | None = None
    """LLM calls."""


class PricesModel(_Model):
    """US dollars for a million tokens."""

    prompt: Annotated[float, Field(ge=0)] = 0.0
    completion: Annotated[float, Field(ge=0)] = 0.0


def _read_model(value: Any) -> Any:
    """A model's name alone, or a mapping."""
    return {"model": value} if isinstance(value, str) else value


class OneModel(_Model):
    """One of several models; what is left out is as for all of them."""

    model: Annotated[str, Field(min_length=1)]
    base_url: str | None = None
    api_key_env: Annotated[str, Field(pattern=_NAME)] | None = None
    prices: PricesModel | None = None
    role: Literal["all", "ideas", "write"] = "all"


_MODELS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {
                "type": "object",
                "required": ["model"],
                "additionalProperties": False,
                "properties": {
                    "model": {"type": "string", "minLength": 1},
                    "base_url": {"type": "string"},
                    "api_key_env": {"type": "string", "pattern": _NAME},
                    "prices": PricesModel.model_json_schema(),
                    "role": {"enum": ["all", "ideas", "write"]},
                },
            },
        ]
    },
}


class LlmModel(_Model):
    """A model that proposes variants of the source, behind an OpenAI-compatible address."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """As the server knows it; or several in `models`."""
    models: Annotated[
        list[Annotated[OneModel, BeforeValidator(_read_model)]], WithJsonSchema(_MODELS_SCHEMA)
    ] = []
    """Names, or mappings with `model`, `base_url`, `api_key_env`, `prices` and `role`: `ideas` for a cheap one that
    lists ideas and corrects replies, `write` for a strong one that writes versions, `all` for both."""
    base_url: str | None = None
    """Address of the server; OpenAI's own when left out."""
    api_key_env: Annotated[str, Field(pattern=_NAME)] = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key."""
    prices: PricesModel = PricesModel()
    max_tokens: Annotated[int, Field(ge=64, le=1_000_000)] = 8192
    """Tokens that a reply may have; the worst case of a call is reckoned with them."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """Seconds for one try of a call."""
    stream: bool = True
    """Whether replies come in pieces."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Left to the server when left out."""
    when_spent: Literal["stop", "go_on"] = "stop"
    """What to do when no budget pays for another call: end the search, or go on without models."""


class SearchModel(_Model):
    """How to search and for how long."""

    strategy: Annotated[str, Field(min_length=1)] = "auto"
    """A searcher by name."""
    seed: Annotated[int, Field(ge=0, le=(1 << 63) - 1)] = 0
    """Of every random stream of the run."""
    cost_model: Literal["auto", "off"] = "auto"
    """Whether a model learnt from the trials so far may prune candidates before they are built or run."""
    stop: Literal["converged", "budget"] = "converged"
    """What may end a search that counts no evaluations before its time is over: `converged` that nothing better has
    come for long and its model expects nothing better, `budget` nothing. Only a search of parameters by a model
    converges."""
    ablate: Literal["auto", "full", "off"] = "auto"
    """Whether each setting and pass of a confirmed winner is taken back by itself, to see what it is worth: `auto` with
    at most one process for three evaluations, `full` for as long as there is time."""
    proposers: list[Annotated[str, Field(min_length=1)]] = ["remix"]
    """Who makes variants of the source without a model, by name."""
    budget: BudgetModel = BudgetModel()
    llm: LlmModel | None = None
    """Remix operators only when left out."""


class ProblemModel(BaseModel):
    """Sizes by name, and a weight in the objective."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)
    __pydantic_extra__: dict[Name, Size]

    weight: Annotated[float, Field(gt=0, description="Weight in the objective, a geometric mean.")] = 1.0


class SpecModel(_Model):
    """The spec of one kernel."""

    kernel: KernelModel
    backend: Annotated[str, Field(min_length=1)] | None = None
    """host, opencl, cuda, or one that is installed; from the language when left out."""
    target: Annotated[str, Field(min_length=1)] = "native"
    """The processor: native, a CPU's name, or sm_90 and so on."""
    compiler: Annotated[str, Field(min_length=1, examples=["gcc -O3 -march=native"])] | None = None
    """The compiler of your own build with its flags, for C and C++: it makes the baseline and every candidate. Left
    out, clang and LLVM make them, and orders of passes are tuned as well."""
    problem: Annotated[dict[Name, Size], Field(examples=[{"nx": 2048, "ny": 2048}])] | None = None
    """Problem sizes by name."""
    problems: Annotated[list[ProblemModel], Field(min_length=1)] | None = None
    """Several problem sizes, each with a `weight`: the objective is the weighted geometric mean of ratios."""
    arguments: list[ArgumentModel] | None = None
    """In call order."""
    workload: str | None = None
    """Recordings in place of `arguments`, for example `recordings/*.rec`."""
    launch: LaunchModel | None = None
    space: SpaceModel = SpaceModel()
    verify: VerifyModel = VerifyModel()
    measure: MeasureModel = MeasureModel()
    compare: list[Annotated[str, Field(min_length=1)]] = []
    """Compilers with flags that are timed beside the baseline, for example `gcc -O3 -march=native`; `tuner check`
    refuses one that does not build the kernel here."""
    search: SearchModel = SearchModel()
    objective: Annotated[
        tuple[str, ...], PlainValidator(forms.read_objectives), WithJsonSchema(forms.OBJECTIVE_SCHEMA)
    ] = ("time",)
    """What is made small: time; or a list that begins with it, as `[time, energy]`, for a front beside the winner."""
