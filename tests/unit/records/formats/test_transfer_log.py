"""A read's log line, written by its process and read by CollectLogs."""

from __future__ import annotations

import pytest
from tests.samples.records import REF

from stepbench.contracts.transfer.rows import TransferRow
from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.transfer_log import parse_transfer_line, transfer_filter, transfer_line

ROW = TransferRow(
    run_id=REF.run_id,
    trial=0,
    number=5,
    attempt=1,
    place=0,
    due_at_ns=1,
    began_at_ns=2,
    platform="fargate",
    source="efs",
    path="files/7/5000.bin",
    file_bytes=5_000 * 2**20,
    received_bytes=5_000 * 2**20,
    mib_ns=tuple(range(5_000)),
    sandbox="sandbox",
    served=0,
    outcome="ok",
)


def test_a_line_comes_back_without_its_marks() -> None:
    """5,000 of them would be most of what a log event may hold, and are in the bucket."""
    line = transfer_line(REF.tag, ROW)
    assert parse_transfer_line(line) == (REF.tag, ROW.model_copy(update={"mib_ns": ()}))
    assert len(line) < 2_000


def test_the_filter_has_what_a_line_has() -> None:
    """CloudWatch finds a line by its words."""
    line = transfer_line(REF.tag, ROW)
    assert all(f'"{word.strip(chr(34))}"' in line for word in transfer_filter(REF.tag).split())


@pytest.mark.parametrize("line", ["", "{}", '{"stepbench.transfer": "tag"}', '{"stepbench.transfer": "t", "row": {}}'])
def test_another_line_is_refused(line: str) -> None:
    """Half a line must not count as a read."""
    with pytest.raises(CorruptRecordsError):
        parse_transfer_line(line)
