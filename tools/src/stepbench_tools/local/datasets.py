"""Datasets of transfers below a folder of runs: the same keys as in the results bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from stepbench.contracts.documents import Served
from stepbench.contracts.runs import DEFAULT_TEAM
from stepbench.digits import size
from stepbench.errors import PlanError, Problem
from stepbench.experiments.report.dataset_page import view_dataset
from stepbench.records.formats.transfer_lines import read_lines
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import RunStore
from stepbench.records.storage.transfer_datasets import dataset_files, read_span
from stepbench.records.storage.transfers import dataset_names, first_attempts, put_published, read_published
from stepbench_tools.local.memory_services import FolderBucket

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from stepbench.contracts.transfer.plan import PublishedTransfer
    from stepbench.contracts.transfer.rows import TransferRow
    from stepbench.experiments.transfer.words import TransferView
    from stepbench.records.storage.transfers import Span


MOST_BYTES = 256 * 2**20
"""The largest file that is imported: its rows take more memory by far."""


def dataset_store(out: Path) -> RunStore:
    """Return the datasets below a folder of runs, as a bucket has them."""
    return RunStore(cast("S3Client", FolderBucket(out / layout.DATASETS, layout.DATASETS)), str(out))


def import_file(
    path: Path, name: str, out: Path, published: tuple[PublishedTransfer, ...] = ()
) -> tuple[TransferRow, ...]:
    """
    Add a file's rows to a dataset, all of them or none, and return them; and published numbers beside them, if any.

    Raises:
        PlanError: the file is not there, is no text, or has lines that are no rows (bad input).
        OSError: the disk does not take them.
    """
    rows = _counted(read_lines(_read_text(path), path.name))
    _put_all(dataset_files(name, DEFAULT_TEAM, rows, _stand_ins_beside(path)), out)
    put_published(name, DEFAULT_TEAM, published, dataset_store(out))
    return rows


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) <= MOST_BYTES:
            return content.decode("utf-8-sig")
        found, remedy = f"is larger than {size(MOST_BYTES)}", "Import it in parts."
    except OSError as error:
        found, remedy = f"cannot be read: {error.strerror}", "Name a file of NDJSON."
    except ValueError as error:
        found, remedy = f"is no text: {error}", "Name a file of NDJSON in UTF-8, unpacked."
    raise PlanError([Problem("FILE", f'"{path}"', found, remedy)])


def _stand_ins_beside(path: Path) -> dict[str, str]:
    """Return what stood in for AWS, as the trial has noted it beside its rows; nothing where there is no note."""
    try:
        return Served.model_validate_json((path.parent / "provider.json").read_bytes()).stand_ins
    except (OSError, ValueError):
        return {}


def _counted(rows: tuple[TransferRow, ...]) -> tuple[TransferRow, ...]:
    """Return the rows that a trial counts, of each trial: a process that was run again counts once."""
    of_trial: dict[tuple[str, int], list[TransferRow]] = {}
    for row in rows:
        of_trial.setdefault((row.run_id, row.trial), []).append(row)
    return tuple(row for each in of_trial.values() for row in first_attempts(tuple(each))[0])


def _put_all(files: Mapping[str, bytes], out: Path) -> None:
    """Store all files or none: before one that the disk does not take, all is put back as it was."""
    objects = dataset_store(out)
    before: dict[str, bytes | None] = {}
    try:
        for key, content in files.items():
            before[key] = objects.get_bytes(key) if (out / key).is_file() else None
            objects.put_bytes(key, content)
    except OSError:
        for key, earlier in before.items():
            if earlier is None:
                (out / key).unlink(missing_ok=True)
            elif (out / key).read_bytes() != earlier:
                objects.put_bytes(key, earlier)
        raise


def require_dataset(name: str, out: Path) -> None:
    """
    Raise PlanError where a folder has no dataset of a name; the error names those that there are.

    Raises:
        PlanError: as said.
    """
    objects = dataset_store(out)
    if next(objects.keys(layout.dataset_prefix(name)), None) is None:
        there = ", ".join(dataset_names(objects)) or "none"
        message = f"is no dataset below {out}; there are: {there}"
        remedy = "Name one of them, import a file with `stepbench import`, or run a plan with `dataset`."
        raise PlanError([Problem("--dataset", f'"{name}"', message, remedy)])


class DatasetReport(NamedTuple):
    """A dataset's transfers over a span: what they show, and the whole of it for its templates."""

    view: TransferView
    span: str


def analyse_dataset(
    name: str, out: Path, span: Span, published: tuple[PublishedTransfer, ...] | None = None
) -> DatasetReport:
    """
    Read a dataset over a span of days, and analyse it, with numbers beside it that were published.

    These are the given ones, or without any those of the plans that have added to it.

    Raises:
        PlanError: there is no such dataset, or it has no rows in the span (bad input).
        CorruptRecordsError: one of its files is none, or what was measured differs within the span.
    """
    require_dataset(name, out)
    table = read_span(name, dataset_store(out), span)
    if not table.num_rows:
        remedy = f"Name another span; `stepbench report --dataset {name}` shows all days."
        raise PlanError([Problem("--from, --to", span.words, f'has no rows of dataset "{name}"', remedy)])
    numbers = read_published(name, dataset_store(out)) if published is None else published
    return DatasetReport(view_dataset(name, table, numbers), span.words)
