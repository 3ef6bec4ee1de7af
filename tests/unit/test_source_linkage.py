"""Who calls a function from outside finds it after it was changed as before."""

from __future__ import annotations

import pytest
from same_results import program_of

from tuner.spaces.source.edits import EditRefused, apply_edits

BODY = "void k(float *a, float *b, int n)\n{\n    for (int i = 0; i < n; i++)\n        a[i] = b[i];\n}\n"
CONST = {"op": "const", "function": "k"}


@pytest.mark.parametrize(
    ("text", "language", "applies"),
    [
        (f"__kernel {BODY}".replace("float *", "__global float *"), "opencl", True),
        (f'extern "C" __global__ {BODY}', "cuda", True),
        (f"__global__ {BODY}", "cuda", False),
    ],
)
def test_types_of_parameters_change_only_where_they_are_no_part_of_the_symbol(
    text: str, language: str, applies: bool
) -> None:
    """In CUDA ``k(float *)`` and ``k(const float *)`` are two functions, and whoever calls the first links no more."""
    program = program_of(text, "k", language)
    if applies:
        assert "const" in apply_edits(program, [CONST]).variant.files[0].text
    else:
        with pytest.raises(EditRefused, match="another function to those who call it"):
            apply_edits(program, [CONST])


def test_a_pointer_that_is_written_through_stays_as_it_is() -> None:
    text = BODY.replace("a[i] = b[i];", "*(b + i) = a[i];").replace("float *", "__global float *")
    program = program_of(f"__kernel {text}", "k", "opencl")
    made = apply_edits(program, [CONST]).variant.files[0].text
    assert "__global float *b" in made
