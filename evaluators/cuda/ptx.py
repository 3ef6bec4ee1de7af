"""What the PTX of one kernel says: its instructions by class and its parameters. Reads text; needs no GPU.

Source: PTX ISA reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["Parameter", "instruction_mix", "parameters"]

Parameter = tuple[str, int]
"""Kind of a parameter and its bytes: ``f`` a floating number, ``u`` anything else of 1 to 8 bytes, ``b`` a struct."""


def instruction_mix(ptx: str, symbol: str) -> dict[str, float]:
    """Counts of the PTX instructions of one kernel by class, each as ``ptx_CLASS_count``.

    PTX is what the assembler was given: classes that follow from the algorithm are seen in it, scheduling is not.
    """
    counts = dict.fromkeys((*_CLASSES.values(), "other"), 0)
    total = 0
    for opcode in _opcodes(ptx, symbol):
        total += 1
        counts[_class_of(opcode)] += 1
    return {
        **{f"ptx_{n}_count": float(c) for n, c in sorted(counts.items())},
        "ptx_instructions_count": float(total),
    }


_CLASSES: Mapping[str, str] = {
    "ld.global": "global_loads",
    "ld.const": "constant_loads",
    "ld.shared": "shared_loads",
    "ld.local": "local_accesses",
    "st.local": "local_accesses",
    "ld.param": "parameter_loads",
    "ld": "generic_accesses",
    "st.global": "global_stores",
    "st.shared": "shared_stores",
    "st": "generic_accesses",
    "cp.async": "async_copies",
    "atom": "atomics",
    "red": "atomics",
    "bar": "barriers",
    "barrier": "barriers",
    "shfl": "warp_exchanges",
    "vote": "warp_exchanges",
    "match": "warp_exchanges",
    "redux": "warp_exchanges",
    "mma": "tensor_operations",
    "wmma": "tensor_operations",
    "wgmma": "tensor_operations",
    "bra": "branches",
    "brx": "branches",
    "call": "calls",
    "setp": "comparisons",
    "selp": "selects",
    "cvt": "conversions",
    "cvta": "conversions",
    "fma": "fused_multiply_adds",
    "sin": "special_functions",
    "cos": "special_functions",
    "ex2": "special_functions",
    "lg2": "special_functions",
    "rcp": "special_functions",
    "rsqrt": "special_functions",
    "sqrt": "special_functions",
    "tanh": "special_functions",
    "mov": "moves",
    "add.f": "float_operations",
    "sub.f": "float_operations",
    "mul.f": "float_operations",
    "div.f": "float_operations",
    "neg.f": "float_operations",
    "abs.f": "float_operations",
    "min.f": "float_operations",
    "max.f": "float_operations",
    "div.rn": "float_operations",
    "add": "integer_operations",
    "sub": "integer_operations",
    "mul": "integer_operations",
    "mad": "integer_operations",
    "div": "integer_operations",
    "rem": "integer_operations",
    "shl": "integer_operations",
    "shr": "integer_operations",
    "shf": "integer_operations",
    "and": "integer_operations",
    "or": "integer_operations",
    "xor": "integer_operations",
    "not": "integer_operations",
    "lop3": "integer_operations",
    "min": "integer_operations",
    "max": "integer_operations",
    "bfe": "integer_operations",
    "bfi": "integer_operations",
    "popc": "integer_operations",
    "clz": "integer_operations",
    "prmt": "integer_operations",
}
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(?P<kind>[a-z])(?P<bits>\d+)\b[^,\[)]*(?:\[(?P<count>\d+)\])?"
)
_LINE = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][a-z0-9_]*(?:\.[\w:]+)*)\s", re.MULTILINE)
_FLOATING = re.compile(r"\.(f16|f16x2|bf16|bf16x2|f32|f64|f32x2)$")


def parameters(ptx: str, symbol: str) -> list[Parameter]:
    """The parameters of a kernel in order; empty where the kernel is not in the text."""
    start = re.search(rf"\.entry {re.escape(symbol)}\(", ptx)
    if start is None:
        return []
    found: list[Parameter] = []
    for part in ptx[start.end() : ptx.index(")", start.end())].split(","):
        match = _PARAMETER.search(part)
        if match is None:
            continue
        size = int(match["bits"]) // 8
        if match["count"]:
            found.append(("b", size * int(match["count"])))
        else:
            found.append(("f" if match["kind"] == "f" else "u", size))
    return found


def _class_of(opcode: str) -> str:
    base, _, rest = opcode.partition(".")
    parts = rest.split(".")
    if base in ("ld", "st"):
        space = next((p for p in parts if p in ("global", "shared", "local", "const", "param")), "")
        return _CLASSES.get(f"{base}.{space}", _CLASSES[base])
    if base == "cp":
        return "async_copies"
    if _FLOATING.search(opcode) and f"{base}.f" in _CLASSES:
        return _CLASSES[f"{base}.f"]
    return _CLASSES.get(base, "other")


def _opcodes(ptx: str, symbol: str) -> Iterator[str]:
    start = re.search(rf"\.entry {re.escape(symbol)}\(", ptx)
    if start is None:
        return
    # Calls stand in braces of their own inside a body.
    depth, at = 0, ptx.index("{", start.end())
    end = at
    for brace in re.finditer(r"[{}]", ptx[at:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            end = at + brace.start()
            break
    for line in _LINE.finditer(ptx, at, end):
        yield line[1]
