"""Files of environment variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.errors import PlanError
from stepbench_tools.local.packing.variables import read_variables

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_are_read_as_most_tools_do(tmp_path: Path) -> None:
    """Comments, quotes, `export`, and an = in a value."""
    (tmp_path / ".env").write_text(
        '# comment\n\nexport AA=1\nBB = two words # why\nCC="a # b\\n\\"c\\""\nDD=\'$x\'\nEE=\nFF=a=b#c\n'
    )
    assert read_variables(tmp_path / ".env") == {
        "AA": "1",
        "BB": "two words",
        "CC": 'a # b\n"c"',
        "DD": "$x",
        "EE": "",
        "FF": "a=b#c",
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("s3cret", "is no variable"),
        ("AWS_LAMBDA_EXEC_WRAPPER=s3cret", "reserved"),
        ("A-B=s3cret", "no name"),
        (f"LONG=s3cret{'x' * 5_000}", "4,096 bytes"),
    ],
)
def test_a_problem_shows_no_value(tmp_path: Path, line: str, said: str) -> None:
    """It ends up in logs of a build server."""
    (tmp_path / ".env").write_text(f"OK=1\n{line}\n")
    with pytest.raises(PlanError, match=said) as refused:
        read_variables(tmp_path / ".env")
    assert "s3cret" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With what it should hold."""
    with pytest.raises(PlanError, match="NAME=value"):
        read_variables(tmp_path / ".env")
