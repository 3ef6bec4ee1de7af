"""Functions that macros name or write, and those of included files: what `init` and `check` make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.errors import UsageError
from tuner.driver.check import check_spec
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.regions import read_program
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

PASTED = """
#define GLUED(a, b) a##b
#define NAME(a, b) GLUED(a, b)
void NAME(k_, gray)(int n, const float *r, float *out)
{
    for (int i = 0; i < n; i++)
        out[i] = 0.3f * r[i];
}
"""
WRITTEN = """
#define DEFINE(T, NAME) void NAME##_##T(int n, const T *a, T *c) { \\
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) c[j * n + i] = 2 * a[i * n + j]; }
DEFINE(float, turned)
DEFINE(double, turned)
"""


def loaded(tmp_path: Path, source: str, entry: str | None = None) -> LoadedSpec:
    (tmp_path / "k.c").write_text(source)
    (tmp_path / "k.yaml").write_text(first_spec(tmp_path / "k.c", entry=entry).text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    return spec


def test_a_function_with_a_pasted_name_is_chosen_and_may_change(tmp_path: Path) -> None:
    spec = loaded(tmp_path, PASTED)
    kernel = spec.task.kernel
    assert kernel.entry == "k_gray"
    program = apply_edits(read_program(kernel), [{"op": "configure", "values": {}}]).program
    assert list(program.functions) == ["k_gray"]
    assert load_recorded(spec.text, spec.files, folder=str(tmp_path)).task == spec.task


def test_a_function_that_a_macro_writes_has_its_call_as_region(tmp_path: Path) -> None:
    spec = loaded(tmp_path, WRITTEN, "turned_double")
    given = read_program(spec.task.kernel)
    assert [given.region_text(*region) for region in given.regions] == ["DEFINE(double, turned)\n"]
    program = apply_edits(read_program(spec.task.kernel), [{"op": "configure", "values": {}}]).program
    assert list(program.functions) == ["turned_double"]
    (file,) = program.sources()
    assert file.text.startswith(WRITTEN.partition("DEFINE(double")[0])
    assert "c[j * n + i] = 2 * a[i * n + j]" in file.text.partition("DEFINE(float, turned)")[2]


def test_several_functions_with_made_names_are_listed(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(WRITTEN)
    with pytest.raises(UsageError) as raised:
        first_spec(tmp_path / "k.c")
    assert "turned_float, turned_double" in raised.value.hint
    with pytest.raises(UsageError, match="did you mean 'turned_float'"):
        first_spec(tmp_path / "k.c", entry="turned_floa")


@pytest.mark.integration
def test_faults_are_planted_where_a_macro_writes_the_function(tmp_path: Path) -> None:
    report = check_spec(loaded(tmp_path, WRITTEN, "turned_double"), faults=1)
    assert report.ok, report.lines
    assert report.faults is not None
    assert report.faults.caught
    assert any("may change: turned_double" in text for _, text in report.lines)


INCLUDED = "{0}void k(int n, float *a) {{ for (int i = 0; i < n; i++) a[i] = N; }}\n"


def test_a_function_of_an_included_file_may_change_there(tmp_path: Path) -> None:
    (tmp_path / "body.inc").write_text(INCLUDED.format(""))
    spec = loaded(tmp_path, '#define N 2\n#include "body.inc"\nint main(void) { return 0; }\n', "k")
    assert [a.name for a in spec.task.arguments] == ["n", "a"]
    program = read_program(spec.task.kernel)
    ((file, _),) = program.regions
    assert (program.files[file].name, list(program.functions)) == ("body.inc", ["k"])
    made = apply_edits(program, [{"op": "configure", "values": {}}]).program
    assert [file.text for file in made.sources() if file.name == "body.inc"] == [
        INCLUDED.format("").replace("N;", "2;")
    ]


def test_a_function_of_an_included_file_is_found_without_its_name(tmp_path: Path) -> None:
    (tmp_path / "body.inc").write_text(INCLUDED.format("static int two(void) { return 2; }\n"))
    spec = loaded(tmp_path, '#define N two()\n#include "body.inc"\nint main(void) { return 0; }\n')
    assert spec.task.kernel.entry == "k"


def test_a_static_function_of_an_included_file_is_said_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "body.inc").write_text(INCLUDED.format("static "))
    (tmp_path / "k.c").write_text('#define N 2\n#include "body.inc"\nint main(void) { return 0; }\n')
    with pytest.raises(UsageError) as raised:
        first_spec(tmp_path / "k.c", entry="k")
    assert raised.value.message == "k.c includes body.inc, in which 'k' is static"
    assert "in the place of its #include" in raised.value.hint
    with pytest.raises(UsageError, match="name the source that includes it, with --entry"):
        first_spec(tmp_path / "body.inc")


def test_a_kernel_of_opencl_may_have_a_made_name(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(
        PASTED.replace("void NAME", "__kernel void NAME")
        .replace("const float *", "__global const float *")
        .replace("float *out", "__global float *out")
    )
    text = first_spec(tmp_path / "k.cl").text
    (tmp_path / "k.yaml").write_text(text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    program = apply_edits(read_program(spec.task.kernel), [{"op": "configure", "values": {}}]).program
    assert list(program.functions) == ["k_gray"]
