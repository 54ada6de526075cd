"""Datasets: a file a trial and day, read for the days that are asked for."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from tests.samples.transfers import DAY_NS, MIDNIGHT_NS, month, row, rows_of

from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.transfer_parquet import encode_transfers, stand_ins_of
from stepbench.records.storage.dataset_keys import Span, dataset_keys, dataset_names
from stepbench.records.storage.transfer_datasets import append, read_files, read_span

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = date(2025, 6, 5)
SECOND = date(2025, 6, 6)


class MemoryObjects:
    """Files by key, and what was read of them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.read: list[str] = []

    def put_bytes(self, key: str, body: bytes) -> None:
        """Store a file."""
        self.files[key] = body

    def get_bytes(self, key: str) -> bytes:
        """Return a file, and note it."""
        self.read.append(key)
        return self.files[key]

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield keys in order."""
        yield from sorted(key for key in self.files if key.startswith(prefix))

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield folders in order."""
        names = (key.removeprefix(prefix).partition("/") for key in self.keys(prefix))
        yield from dict.fromkeys(name for name, slash, _ in names if slash)


def test_rows_are_split_by_the_day_of_utc_on_which_they_began() -> None:
    """A trial that runs over midnight belongs to two days."""
    objects = MemoryObjects()
    keys = append(
        "steady", "default", [row(began_at_ns=MIDNIGHT_NS - 1), row(began_at_ns=MIDNIGHT_NS, number=1)], objects
    )
    assert keys == (
        "datasets/steady/team=default/day=2025-06-04/run-0000.parquet",
        "datasets/steady/team=default/day=2025-06-05/run-0000.parquet",
    )


def test_a_trial_that_is_added_again_counts_once() -> None:
    """The state machine may run the stage twice."""
    objects = MemoryObjects()
    for _ in range(2):
        append("steady", "default", [row(), row(number=1)], objects)
    append("steady", "default", [row(run_id="other"), row(trial=1)], objects)
    assert read_span("steady", objects).num_rows == 4


def test_only_the_days_of_the_span_are_read() -> None:
    """A report of a week must not pay for a year."""
    objects = MemoryObjects()
    append("steady", "default", [row(began_at_ns=MIDNIGHT_NS + day * DAY_NS, number=day) for day in range(4)], objects)
    append("steadier", "default", [row()], objects)
    found = read_span("steady", objects, Span(SECOND, date(2025, 6, 8)))
    assert found["number"].to_pylist() == [1, 2]
    assert [key[:44] for key in objects.read] == [
        "datasets/steady/team=default/day=2025-06-06/",
        "datasets/steady/team=default/day=2025-06-07/",
    ]


@pytest.mark.parametrize(
    ("span", "numbers"), [(Span(), [0, 1]), (Span(SECOND), [1]), (Span(None, SECOND), [0]), (Span(SECOND, SECOND), [])]
)
def test_a_span_has_its_first_day_and_not_its_last(span: Span, numbers: list[int]) -> None:
    """So that spans that follow one another share no row."""
    objects = MemoryObjects()
    append("steady", "default", [row(), row(began_at_ns=MIDNIGHT_NS + DAY_NS, number=1)], objects)
    assert read_span("steady", objects, span)["number"].to_pylist() == numbers


def test_all_rows_come_back_in_any_number_of_runs() -> None:
    """What is appended by hourly runs is what a report is made from."""
    objects = MemoryObjects()
    rows = list(month(40))
    append("steady", "default", rows, objects)
    found = sorted(rows_of(read_span("steady", objects)), key=lambda each: (each.began_at_ns, each.platform))
    assert found == sorted(rows, key=lambda each: (each.began_at_ns, each.platform))


def test_columns_can_be_read_alone() -> None:
    """Progress is most of a file, and few readers need it."""
    objects = MemoryObjects()
    assert read_span("steady", objects, columns=["platform"]).column_names == ["platform"]
    append("steady", "default", [row()], objects)
    assert read_span("steady", objects, columns=["platform", "mib_ns"]).column_names == ["platform", "mib_ns"]


def test_what_was_measured_with_other_things_makes_no_one_distribution() -> None:
    """A local folder's rates beside EFS's would look like two modes."""
    objects = MemoryObjects()
    append("steady", "default", [row()], objects, {"s3": "emulated"})
    assert stand_ins_of(read_span("steady", objects)) == {"s3": "emulated"}
    append("steady", "default", [row(began_at_ns=MIDNIGHT_NS + DAY_NS)], objects)
    with pytest.raises(CorruptRecordsError, match="with AWS's own services, and earlier files with s3: emulated"):
        read_span("steady", objects)
    assert read_span("steady", objects, Span(SECOND)).num_rows == 1


def test_names_are_those_of_what_has_rows() -> None:
    """A page beside a dataset is none."""
    objects = MemoryObjects()
    append("steady", "default", [row()], objects)
    append("other", "default", [row(), row(trial=1)], objects)
    objects.put_bytes("datasets/steady/report.html", b"")
    objects.put_bytes("datasets/empty/report.html", b"")
    assert dataset_names(objects) == ("other", "steady")


def test_a_team_s_files_have_a_folder_that_is_quoted_as_hive_does() -> None:
    """A role's team has a slash, which would make two folders; readers of Hive's form get the name back."""
    objects = MemoryObjects()
    (key,) = append("steady", "role/ci", [row()], objects)
    assert key == "datasets/steady/team=role%2Fci/day=2025-06-05/run-0000.parquet"
    assert dataset_names(objects, ["role/ci"]) == ("steady",)
    assert dataset_keys("steady", objects, ["role/ci"]) == (key,)


def test_only_the_teams_that_are_asked_for_are_read_and_named() -> None:
    """Whoever asks over the API sees its own and the default team's; the command line reads all."""
    objects = MemoryObjects()
    for number, team in enumerate(("default", "mine", "theirs")):
        began_ns = MIDNIGHT_NS + (2 - number) * DAY_NS
        append("steady", team, [row(run_id=team, number=number, began_at_ns=began_ns)], objects)
    append("hidden", "theirs", [row()], objects)
    wanted = dataset_keys("steady", objects, ["mine", "default"])
    assert read_files(wanted, objects)["number"].to_pylist() == [1, 0], "by days, whoever added them"
    assert not any("theirs" in key for key in objects.read)
    assert dataset_names(objects, ["mine", "default"]) == ("steady",)
    assert dataset_names(objects) == ("hidden", "steady")
    assert read_span("steady", objects).num_rows == 3


def test_what_is_not_read_refuses_nothing() -> None:
    """Two teams may measure with different things; each sees its own."""
    objects = MemoryObjects()
    append("steady", "mine", [row()], objects, {"s3": "emulated"})
    append("steady", "theirs", [row(run_id="other")], objects)
    assert read_files(dataset_keys("steady", objects, ["mine"]), objects).num_rows == 1
    with pytest.raises(CorruptRecordsError, match="emulated"):
        read_span("steady", objects)


def test_a_file_that_is_cut_short_is_named() -> None:
    """Not passed over: the day would look as if fewer had been measured."""
    objects = MemoryObjects()
    (key,) = append("steady", "default", [row()], objects)
    objects.put_bytes(key, encode_transfers([row()])[:-9])
    with pytest.raises(CorruptRecordsError, match=key):
        read_span("steady", objects)
