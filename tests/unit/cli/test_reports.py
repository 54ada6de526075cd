"""The commands about finished runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.results import sample_results, sample_summary

from stepbench.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says where it was looked for."""
    assert main(["report", "nope", "--out", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("format_", "first"), [("md", "### quick-unloaded: failed"), ("csv", "trial,name,store,"), ("junit", "<?xml ")]
)
def test_other_forms_go_to_stdout_and_leave_the_page_alone(
    format_: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are for a pipe: one line more, and a spreadsheet or a pull request has it."""
    summary = sample_summary(sample_results())
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1/summary.json").write_text(summary.model_dump_json(by_alias=True))
    assert main(["report", "run-1", "--format", format_, "--out", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert output.out.startswith(first)
    assert (output.err, [path.name for path in (tmp_path / "run-1").iterdir()]) == ("", ["summary.json"])
