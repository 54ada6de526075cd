from __future__ import annotations

import pytest

from stepbench.records.formats.report_lines import ReportLine, parse_report, parse_reports

LINE = (
    "REPORT RequestId: 3604209a-e9a3-11e6-939a-754dd98c7be3\tDuration: 12.34 ms\tBilled Duration: 100 ms\t"
    "Memory Size: 128 MB\tMax Memory Used: 18 MB"
)


def test_a_report_line_gives_its_numbers() -> None:
    """The line of the AWS Lambda Developer Guide; "Billed Duration" is not read as "Duration"."""
    assert parse_report(LINE + "\t\n") == ReportLine(
        request_id="3604209a-e9a3-11e6-939a-754dd98c7be3",
        duration_ms=12.34,
        billed_ms=100,
        memory_mb=128,
        max_memory_mb=18,
    )


def test_a_cold_start_has_an_init_duration() -> None:
    """The only mark of it."""
    found = parse_report(LINE + "\tInit Duration: 165.89 ms\t\nXRAY TraceId: 1-5e\tSegmentId: 5")
    assert found is not None
    assert found.init_ms == 165.89


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        ("\tStatus: timeout", "timeout"),
        ("\tStatus: error\tError Type: Runtime.OutOfMemory\nXRAY TraceId: 1-5e", "Runtime.OutOfMemory"),
        ("\tInit Duration: 165.89 ms", ""),
    ],
)
def test_an_invocation_that_lambda_ended_says_how(end: str, failure: str) -> None:
    """Nothing else tells that it was the memory: the process is killed without a word of its own."""
    found = parse_report(LINE + end)
    assert found is not None
    assert found.failure == failure


def test_other_lines_are_no_reports() -> None:
    """A function may print the word, and a line may be cut."""
    messages = ["START RequestId: 1", "REPORT of nothing", "REPORT RequestId: 1\tBilled", LINE]
    assert len(parse_reports({"message": message} for message in messages)) == 1
