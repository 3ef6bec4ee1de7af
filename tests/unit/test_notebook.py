"""A result in a notebook that a real kernel runs: the card is what stands below the cell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

CELL = """\
import tuner
result = tuner.load({run!r})
result
"""


@pytest.mark.integration
def test_a_result_shows_itself(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    import tuner

    result = tuner.tune(scale_spec(evaluations=4, few=True), out=tmp_path / "runs")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL.format(run=str(result.path)))])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (output,) = book.cells[0].outputs
    assert output.output_type == "execute_result"
    page = output.data["text/html"]
    assert "<b>scale</b>" in page
    assert "trials" in page
    assert "<script" not in page
    assert output.data["text/plain"]
