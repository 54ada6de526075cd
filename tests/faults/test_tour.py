from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.end_to_end.deployment import finish
from tests.faults.cases import COMMAND, FULL_DISK, KILL, Case
from tests.faults.conftest import VERDICT
from tests.faults.inflicting import Attack, attack
from tests.faults.judging import WORKED, Ended, Verdict, check_accounting, check_cause, read_ended
from tests.faults.moments import HitTrial, following_plan

if TYPE_CHECKING:
    from tests.faults.surroundings import Surroundings

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def test_a_fault_is_named_loses_nothing_unsaid_and_leaves_nothing(
    case: Case, surroundings: Surroundings, record_property: Callable[[str, object], None]
) -> None:
    """Whoever runs a benchmark over night has only the report to know what happened, and the next run to start."""
    record_property(VERDICT, [str(case), *["not judged: the test failed"] * 4])
    deployment, before = surroundings.deployment, surroundings.footprint()
    with attack(case, deployment) as attacked:
        ended = _run(attacked, case)
    killed = (case.process, case.fault) == (COMMAND, KILL)  # the next command ends what it has left
    left = "" if killed else surroundings.leftovers(before)
    surroundings.ensure_up()
    following = deployment.run(following_plan(case))
    verdict = Verdict(
        str(case),
        check_accounting(case, ended),
        check_cause(case, ended, following.stderr),
        left or surroundings.leftovers(before),
        WORKED if following.code == 0 else f"exit code {following.code}: {following.stderr[-300:]!r}",
    )
    record_property(VERDICT, list(verdict))
    assert not verdict.problems


def _run(attacked: Attack, case: Case) -> Ended:
    """Run the case's plan, strike at its moment, and await the end."""
    with attacked.deployment.running(attacked.plan, **attacked.streams) as process:
        if attacked.reader is not None:
            attacked.reader.start()
        trial = HitTrial(attacked.deployment.stack, case, lambda: process.poll() is None)
        assert trial.await_moment()
        attacked.strike(process.pid)
        finished = finish(process)
    attacked.repair()
    if case.fault == FULL_DISK:  # somebody has made room
        attacked.deployment.command("report", trial.run_id, "--out", attacked.deployment.out)
    told = attacked.reader.text if attacked.reader else finished.stderr
    return read_ended(finished.code, told, attacked.deployment.out / trial.run_id)
