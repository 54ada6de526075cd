"""The command `import`, and what it refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.samples.transfers import published_line, published_text, row

from stepbench.contracts.documents import Served
from stepbench.contracts.transfer.result import TransferFindings
from stepbench.records.formats.transfer_lines import format_lines
from stepbench.records.storage.transfer_datasets import read_span, stand_ins_of
from stepbench_tools.cli import main
from stepbench_tools.local.datasets import dataset_store
from stepbench_tools.local.memory_services import FolderBucket

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
    assert read_span("published", dataset_store(OUT)).num_rows == 2


def test_a_file_that_is_imported_again_replaces_itself() -> None:
    """Whoever is not sure whether it went through imports it again."""
    file = theirs(published_line())
    for _ in range(2):
        assert main(["import", file, "--dataset", "published"]) == 0
    assert read_span("published", dataset_store(OUT)).num_rows == 1


def test_our_own_rows_join_their_run() -> None:
    """They are told apart by run and trial, as if the run had added them."""
    Path("ours.ndjson").write_text(format_lines([row(), row(trial=1)]))
    assert main(["import", "ours.ndjson", "--dataset", "ours"]) == 0
    assert [path.name for path in sorted(OUT.rglob("*.parquet"))] == ["run-0000.parquet", "run-0001.parquet"]


def test_what_a_trial_has_noted_beside_its_rows_is_imported_with_them() -> None:
    """A local folder's rates would else be taken for EFS's."""
    Path("ours.ndjson").write_text(format_lines([row(source="efs")]))
    served = Served(provider="a folder", emulated=True, stand_ins={"efs": "local file system"})
    Path("provider.json").write_text(served.model_dump_json())
    assert main(["import", "ours.ndjson", "--dataset", "ours"]) == 0
    assert stand_ins_of(read_span("ours", dataset_store(OUT))) == {"efs": "local file system"}


def test_a_process_that_was_run_again_is_imported_once() -> None:
    """A trial's file has the rows of all attempts; what it counts is the first that left any."""
    Path("ours.ndjson").write_text(format_lines([row(), row(attempt=1)]))
    assert main(["import", "ours.ndjson", "--dataset", "ours"]) == 0
    assert read_span("ours", dataset_store(OUT)).num_rows == 1


@pytest.mark.parametrize("run_id", ["../../other/day=2023-11-14/victim", "a/b", "", ".hidden"])
def test_a_run_s_name_leads_into_no_other_folder(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It becomes a part of the file's name."""
    line = json.loads(format_lines([row()]))
    Path("hostile.ndjson").write_text(json.dumps({**line, "run_id": run_id}))
    assert main(["import", "hostile.ndjson", "--dataset", "ours"]) == 2
    assert "line 1, run_id" in capsys.readouterr().err
    assert not list(OUT.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (lambda: theirs(published_line(), published_line(**{"duration-ns": 0})), "line 2, duration-ns"),
        (lambda: "nowhere.ndjson", 'FILE: cannot be read: No such file or directory (got "nowhere.ndjson")'),
        (lambda: ".", 'FILE: cannot be read: Is a directory (got ".")'),
        (lambda: "n" * 300, "FILE: cannot be read: File name too long"),
        (lambda: "/dev/zero", 'FILE: is larger than 256 MiB (got "/dev/zero"). Import it in parts.'),
        (lambda: written(gzip.compress(b"x")), "is no text"),
        (lambda: written("{}".encode("utf-16")), "is no text"),
        (lambda: written(b"PK\x03\x04"), "line 1: is not JSON"),
        (lambda: written(b"PAR1\x00PAR1"), "line 1: is not JSON"),
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


def written(content: bytes) -> str:
    """Return the name of a file with this content."""
    Path("hostile.ndjson").write_bytes(content)
    return "hostile.ndjson"


def _binary() -> Path:
    Path("image.ndjson").write_bytes(b"\xff\xd8\xff")
    return Path("image.ndjson")


def test_a_disk_that_takes_one_day_only_keeps_none(capsys: pytest.CaptureFixture[str]) -> None:
    """A part of the days would be reported as if it were the whole."""
    blocked = OUT / "datasets/published/team=default/day=2025-06-06"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("a file where a folder has to be")
    file = theirs(*(published_line(timestamp=f"2025-06-0{day} 12:00:00") for day in (5, 6)))
    assert main(["import", file, "--dataset", "published"]) == 4
    assert "day=2025-06-06" in capsys.readouterr().err
    assert list(OUT.rglob("*.parquet")) == []


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


def imported(*days: int) -> None:
    """Import transfers of such days of June 2025 as `published`."""
    lines = [published_line(timestamp=f"2025-06-{day:02d} 12:00:00", file=f"/mnt/efs/{day}") for day in days]
    assert main(["import", theirs(*lines), "--dataset", "published"]) == 0


def test_a_dataset_has_a_page_in_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """Its path is told on stdout, the answers on stderr."""
    imported(5, 6)
    capsys.readouterr()
    assert main(["report", "--dataset", "published"]) == 0
    told = capsys.readouterr()
    assert told.out == "out/datasets/published/report.html\n"
    assert "A 10 MiB file from EFS to Lambda took 500 ms in half of 2 cases" in told.err
    assert "2 reads" in Path("out/datasets/published/report.html").read_text("utf-8")


def test_a_span_is_reported_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """From its first day to before its last; another page may take it."""
    imported(5, 6, 7)
    span = ["--from", "2025-06-06", "--to", "2025-06-07"]
    assert main(["report", "--dataset", "published", *span, "--page", "week.html"]) == 0
    assert "asked for: from 2025-06-06 and before 2025-06-07" in Path("week.html").read_text("utf-8")
    capsys.readouterr()
    assert main(["report", "--dataset", "published", *span, "--format", "json"]) == 0
    found = TransferFindings.model_validate_json(capsys.readouterr().out)
    assert (found.n, found.accounting.ok) == (1, 1)


def test_published_numbers_stand_beside_without_being_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the plan that the rows came with; another plan's where one is named."""
    file = theirs(published_line(type="fargate"), published_line(type="fargate", timestamp="2025-06-05 19:00:00"))
    assert main(["import", file, "--dataset", "published", "--plan", "paper-transfer"]) == 0
    for more, numbers in (([], 51), (["--plan", "quick-transfer"], 0)):
        capsys.readouterr()
        assert main(["report", "--dataset", "published", "--format", "json", *more]) == 0
        found = TransferFindings.model_validate_json(capsys.readouterr().out)
        assert len(found.published) == numbers
    assert main(["report", "--dataset", "published", "--format", "md"]) == 0
    assert "EFS on Fargate, all sizes, slowest over fastest" in capsys.readouterr().out
    assert main(["report", "--dataset", "published"]) == 0
    assert "up to 9.47 times slower" in Path("out/datasets/published/report.html").read_text("utf-8")


def test_a_dataset_is_pasted_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    """Into a pull request."""
    imported(5)
    capsys.readouterr()
    assert main(["report", "--dataset", "published", "--format", "md"]) == 0
    assert capsys.readouterr().out.startswith("### published: 2025-06-05, ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "publish"], "is no dataset below out; there are: published"),
        (["--dataset", "published", "--from", "2026-01-02", "--to", "2026-01-01"], "is not after --from 2026-01-02"),
        (
            ["--dataset", "published", "--from", "2026-01-01"],
            'has no rows of dataset "published" (got from 2026-01-01)',
        ),
        (["--dataset", "published", "--format", "csv"], "--format: is no form of a dataset's report (got csv)"),
        (["latest", "--dataset", "published"], "RUN: has to be one of the two"),
        ([], "RUN: has to be one of the two (got none)"),
        (["latest", "--to", "2026-01-01"], "--to: is of datasets only (got latest)"),
        (["latest", "--format", "json"], "is no form of a run's report"),
    ],
)
def test_what_cannot_be_reported_is_bad_input(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Told with what there is."""
    imported(5)
    capsys.readouterr()
    assert main(["report", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_day_is_given_as_a_date(capsys: pytest.CaptureFixture[str]) -> None:
    """Not as a time, which would suggest a span within a day."""
    with pytest.raises(SystemExit):
        main(["report", "--dataset", "published", "--from", "yesterday"])
    assert '"yesterday" is no day such as 2025-06-01' in capsys.readouterr().err


def test_published_numbers_of_a_plan_stand_beside_a_datasets() -> None:
    """Those of a preset are the source's."""
    published = {"platform": "lambda", "source": "efs", "file_size_mib": 10, "metric": "mean", "value": 40.0}
    trial = {
        "experiment": "transfer",
        "target": {"store": "files"},
        "transfers": 1,
        "file_sizes_mib": [10],
        "published": [{**published, "citation": "a blog"}],
    }
    Path("plan.json").write_text(json.dumps({"name": "one", "trials": [trial]}))
    imported(5)
    assert main(["report", "--dataset", "published", "--plan", "plan.json", "--page", "page.html"]) == 0
    page = Path("page.html").read_text("utf-8")
    assert "EFS on Lambda, 10 MiB, mean" in page
    assert 'data-metric="ratio" data-value="0.5"' in page


def test_a_listing_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset of years is listed several times before its first row is read."""
    bucket = FolderBucket(tmp_path, "runs/")
    bucket.objects.update({"runs/a/1": b"123", "runs/ab/2": b"12345"})
    monkeypatch.delattr(Path, "read_bytes")
    (page,) = bucket.paginate(Prefix="runs/a/")
    assert page == {"Contents": [{"Key": "runs/a/1", "Size": 3}]}
    (page,) = bucket.paginate(Prefix="runs/", Delimiter="/")
    assert page == {"CommonPrefixes": [{"Prefix": "runs/a/"}, {"Prefix": "runs/ab/"}]}
