"""The commands about finished runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_run_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says where it was looked for."""
    assert main(["report", "nope", "--out", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
