"""The command `import`, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.samples.transfers import published_line, published_text, row

from stepbench.cli import main
from stepbench.local.datasets import FolderObjects
from stepbench.records.formats.transfer_lines import format_lines
from stepbench.records.storage.transfer_datasets import read_span

if TYPE_CHECKING:
    from collections.abc import Callable

OUT = Path("out")


def theirs(*lines: dict[str, object]) -> str:
    """Write a file of the published form, and return its path."""
    Path("theirs.ndjson").write_text(published_text(*lines))
    return "theirs.ndjson"


def test_rows_become_a_dataset_whose_folder_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, for a script; how many on stderr."""
    file = theirs(published_line(), published_line(storage="S3"))
    assert main(["import", file, "--dataset", "published"]) == 0
    told = capsys.readouterr()
    assert told.out == "out/datasets/published\n"
    assert "2 transfers imported" in told.err
    assert read_span("published", FolderObjects(OUT)).num_rows == 2


def test_a_file_that_is_imported_again_replaces_itself() -> None:
    """Whoever is not sure whether it went through imports it again."""
    file = theirs(published_line())
    for _ in range(2):
        assert main(["import", file, "--dataset", "published"]) == 0
    assert read_span("published", FolderObjects(OUT)).num_rows == 1


def test_our_own_rows_join_their_run() -> None:
    """They are told apart by run and trial, as if the run had added them."""
    Path("ours.ndjson").write_text(format_lines([row(), row(trial=1)]))
    assert main(["import", "ours.ndjson", "--dataset", "ours"]) == 0
    assert [path.name for path in sorted(OUT.rglob("*.parquet"))] == ["run-0000.parquet", "run-0001.parquet"]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (lambda: theirs(published_line(), published_line(**{"duration-ns": 0})), "line 2, duration-ns"),
        (lambda: "nowhere.ndjson", 'FILE: is no file (got "nowhere.ndjson")'),
        (lambda: str(_binary()), "is no text"),
    ],
)
def test_of_a_bad_file_nothing_is_imported(
    file: Callable[[], str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a dataset would be reported as if it were the whole."""
    assert main(["import", file(), "--dataset", "published"]) == 2
    assert said in capsys.readouterr().err
    assert not OUT.exists()


def _binary() -> Path:
    Path("image.ndjson").write_bytes(b"\xff\xd8\xff")
    return Path("image.ndjson")


@pytest.mark.parametrize("name", ["../elsewhere", "", "a/b", ".hidden"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a folder's, and a part of keys."""
    with pytest.raises(SystemExit):
        main(["import", theirs(published_line()), "--dataset", name])
    assert "is no name" in capsys.readouterr().err


def test_the_list_of_runs_passes_over_datasets(capsys: pytest.CaptureFixture[str]) -> None:
    """They are beside the runs, and none that was killed."""
    assert main(["import", theirs(published_line()), "--dataset", "published"]) == 0
    capsys.readouterr()
    assert main(["runs"]) == 0
    assert capsys.readouterr().err == ""
