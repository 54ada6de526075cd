from __future__ import annotations

from typing import Any

import pytest
from tests.faults.cases import (
    ANALYSIS,
    CLOCK_STEP,
    COMMAND,
    EMULATOR,
    ETCD,
    FILES,
    KILL,
    MEASURED,
    POSTGRESQL,
    RECEIVER,
    SLOW,
    STOP,
    TASK,
    TRANSFER,
    WRITER,
    Case,
)
from tests.faults.judging import (
    COUNTS,
    HELD,
    NO_REPORT,
    NOT_HARMED,
    Ended,
    Verdict,
    check_accounting,
    check_cause,
    table,
)

ALL_WELL = {"offered": 80, "sent": 80, "unsent": 0, "unrecorded": 0, "ok": 80, "failed": 0, "unknown": 0}
ARRIVED = {"awaited": True, "ok_arrived": 80, "held_back": 0, "lost": 0}
STOPPED = Case(ETCD, STOP, MEASURED, ETCD)


def _ended(*caveats: str, code: int = 0, told: str = "", longest_ms: float = 3, **counts: int) -> Ended:
    window = {"response_write_ms": {"min": min(longest_ms, 0), "max": longest_ms}, "latency_ms": {"max": None}}
    trial: dict[str, Any] = {
        "incomplete": False,
        "failure": None,
        "accounting": {**ALL_WELL, **ARRIVED, **counts},
        "warm_up": None,
        "windows": [window],
        "caveats": [{"kind": kind} for kind in caveats],
    }
    return Ended(code, told, "succeeded", [trial])


@pytest.mark.parametrize(
    ("counts", "wrong"),
    [
        ({"offered": 81}, "offered 81 is not sent 80 + unsent 0 + unrecorded 0"),
        ({"failed": 1}, "sent 80 is not ok 80 + failed 1 + unknown 0"),
        ({"ok_arrived": 79}, "ok 80 is not ok_arrived 79 + held_back 0 + lost 0 + cut_off 0"),
    ],
)
def test_a_sum_that_does_not_hold_is_told_with_its_parts(counts: dict[str, Any], wrong: str) -> None:
    """One event more or less is one that nobody knows anything of."""
    assert check_accounting(STOPPED, _ended()) == HELD
    assert check_accounting(STOPPED, _ended(**counts)) == wrong


def test_what_was_cut_off_is_not_lost_and_counts() -> None:
    """A run that is stopped has both."""
    assert check_accounting(STOPPED, _ended(ok_arrived=77, lost=1, cut_off=2)) == HELD


def test_a_report_may_be_missing_only_where_nobody_was_left_to_write_it() -> None:
    """A store that dies is no reason."""
    nothing = Ended(1, "")
    assert check_accounting(Case(COMMAND, KILL, MEASURED, ETCD), nothing) == NO_REPORT
    assert check_accounting(Case(ETCD, KILL, MEASURED, ETCD), nothing).startswith("missing")


@pytest.mark.parametrize("harm", [{"longest_ms": 4_900}, {"code": 1}])
def test_a_harm_without_a_caveat_of_the_faults_is_not_named(harm: dict[str, Any]) -> None:
    """A caveat of another kind sends the reader after the wrong cause."""
    assert check_cause(STOPPED, _ended("short_sample", "saturated_generator", **harm), "").startswith("not named")
    assert check_cause(STOPPED, _ended("store_stalled", **harm), "") == "named: store_stalled"


@pytest.mark.parametrize(("part", "kind"), COUNTS.items())
def test_every_count_has_a_caveat_of_its_own(part: str, kind: str) -> None:
    """57 of 800 writes once failed under a caveat about something else."""
    assert check_cause(STOPPED, _ended("store_stalled", **{part: 57}), "").startswith("not named")  # type: ignore[arg-type]
    assert check_cause(STOPPED, _ended("store_stalled", kind, **{part: 57}), "").startswith("named")  # type: ignore[arg-type]


@pytest.mark.parametrize("longest_ms", [4_000, -4_000])
def test_a_clock_that_steps_is_named_as_that_whosever_it_is(longest_ms: float) -> None:
    """A store that falls behind, or stalls, is what a reader would look for in vain."""
    stepped = Case(RECEIVER, CLOCK_STEP, MEASURED, POSTGRESQL)
    assert check_cause(stepped, _ended("store_stalled", longest_ms=longest_ms), "").startswith("not named")
    assert check_cause(stepped, _ended("clock_drift", longest_ms=longest_ms), "") == "named: clock_drift"


@pytest.mark.parametrize("process", [TASK, TRANSFER])
def test_an_attempt_that_died_is_said_though_the_next_made_it_good(process: str) -> None:
    """No count is off then, and the time that it took is in nobody's numbers."""
    killed = Case(process, KILL, MEASURED, FILES)
    assert check_cause(killed, _ended(), "").startswith("not named")
    assert check_cause(killed, _ended("unrecorded"), "") == NOT_HARMED


def test_a_fault_that_must_harm_and_does_not_has_missed_its_process() -> None:
    """Otherwise the tour would be green where it has done nothing."""
    assert check_cause(STOPPED, _ended(), "") != NOT_HARMED
    assert check_cause(Case(ETCD, STOP, ANALYSIS, ETCD), _ended(), "") == NOT_HARMED


def test_the_server_that_died_has_to_be_named_not_only_mentioned() -> None:
    """That emulator and stores are being stopped is said at every end."""
    case = Case(EMULATOR, KILL, MEASURED, ETCD)
    assert check_cause(case, Ended(1, "stopping emulator and stores"), "").startswith("not named")
    assert "emulator" in check_cause(case, Ended(1, "emulator (MiniStack 1.5, pid 7) was ended by SIGKILL"), "")


def test_what_a_killed_command_cannot_say_the_next_one_does() -> None:
    """Only of a command that was killed is the next one asked."""
    told = "the last run here was killed; ending what it left"
    assert check_cause(Case(COMMAND, KILL, MEASURED, ETCD), Ended(-9, ""), told).startswith("named")
    assert check_cause(Case(WRITER, KILL, MEASURED, ETCD), Ended(1, ""), told).startswith("not named")


def test_a_slow_server_is_what_was_to_be_measured() -> None:
    """Its latencies say it; there is no caveat to be had."""
    assert check_cause(Case(ETCD, SLOW, MEASURED, ETCD), _ended(longest_ms=4_000), "") == "named: in the latencies"


def test_every_column_that_is_not_as_it_should_be_is_a_problem() -> None:
    """The table is what a person looks at, and the test fails by the same words."""
    fine = Verdict("a", HELD, "named: store_stalled", "nothing", "worked")
    assert fine.problems == []
    bad = Verdict("a", "missing: x", "not named: y", "leases: z", "exit code 1")
    assert bad.problems == list(bad[1:])
    assert table([fine])[0].split(" | ")[0].strip() == "case"
