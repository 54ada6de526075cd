"""However a run of somebody's function ends: the function is as it was, and nothing of its copy is left."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.end_to_end.deployment import TO_BE_STOPPED, finish, plan, wait_for
from tests.end_to_end.moments import MOMENTS
from tests.end_to_end.own_function import NAME

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment
    from tests.end_to_end.own_function import OwnFunction

pytestmark = pytest.mark.end_to_end

DRAIN = "analysis"
"""Its moment: writers have ended, and a handler that takes a second for each event has most of them still to come."""
SLOW = {"attempts": 1, "variables": {"WORK_S": "1"}}


def _plan(name: str, store: str, measured: int = 60, function: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a plan that measures the function, with a drain that outlasts what a slow handler does of it."""
    wanted = {"name": NAME, "attempts": 1, **(function or {})}
    batches = {"batch_size": 1} if store == "dynamodb" else {}
    found = plan(name, store, measured=measured, function=wanted, **batches)
    found["trials"][0]["drain_limit_s"] = 120
    return found


def _await(deployment: Deployment, moment: str, name: str, process: subprocess.Popen[str]) -> None:
    """Wait for a moment of a run that has to come to it."""
    assert wait_for(lambda: MOMENTS[moment](deployment, name) or process.poll() is not None)
    assert process.poll() is None, finish(process).stderr


def _assert_untouched(deployment: Deployment, own: OwnFunction, before: dict[str, Any]) -> None:
    assert deployment.settled_inventory(before) == before
    assert own.changes() == {}


@pytest.mark.nightly("faults")
@pytest.mark.parametrize("store", ["s3", "dynamodb", "postgresql"])
def test_a_run_that_ends_leaves_the_function_as_it_was(deployment: Deployment, own: OwnFunction, store: str) -> None:
    """The copy was made of it, with a layer, a wrapper and a trigger that it does not have."""
    before = deployment.inventory()
    finished = deployment.run(_plan(f"own-ends-{store}", store))
    assert finished.code == 0, finished.stderr
    assert finished.trial["accounting"]["processed"] == 60
    _assert_untouched(deployment, own, before)


@pytest.mark.nightly("faults")
def test_a_run_that_fails_leaves_the_function_as_it_was(deployment: Deployment, own: OwnFunction) -> None:
    """Its copy cannot be started, so no canary arrives, and the message has what it printed."""
    before = deployment.inventory()
    finished = deployment.run(_plan("own-fails", "s3", function={"variables": {"BROKEN": "1"}}))
    assert finished.code == 1
    assert "RuntimeError" in finished.trial["failure"]["cause"]
    _assert_untouched(deployment, own, before)


@pytest.mark.parametrize(
    ("moment", "store"),
    [
        ("measured", "dynamodb"),
        *(
            pytest.param(moment, store, marks=pytest.mark.nightly("faults"))
            for moment, store in [
                ("prepare", "s3"),
                ("warm-up", "dynamodb"),
                ("warm-up", "s3"),
                ("measured", "postgresql"),
                (DRAIN, "dynamodb"),
                (DRAIN, "s3"),
            ]
        ),
    ],
)
def test_a_run_that_is_stopped_leaves_the_function_as_it_was(
    deployment: Deployment, own: OwnFunction, moment: str, store: str
) -> None:
    """Ctrl-C, at any moment: who measures a function in production has to be able to stop that."""
    name = f"own-stopped-{moment}-{store}"
    before = deployment.inventory()
    function, measured = (SLOW, 60) if moment == DRAIN else ({}, TO_BE_STOPPED)
    with deployment.running(_plan(name, store, measured, function)) as process:
        _await(deployment, moment, name, process)
        process.send_signal(signal.SIGINT)
        finished = finish(process)
    assert finished.code == 1, finished.stderr
    assert finished.summary["status"] == "stopped"
    _assert_untouched(deployment, own, before)


def _sweeps(deployment: Deployment) -> None:
    """Stop the execution as from the console: no Catch runs, and the sweeper finds what is left by its lease."""
    deployment.abort()


def _goes_on(_deployment: Deployment) -> None:
    """Leave the execution alone, which nobody has stopped."""


@pytest.mark.nightly("faults")
@pytest.mark.parametrize(("then", "measured"), [(_goes_on, 60), (_sweeps, TO_BE_STOPPED)], ids=["goes-on", "swept"])
def test_a_command_that_is_killed_leaves_the_function_as_it_was(
    deployment: Deployment, own: OwnFunction, then: Callable[[Deployment], None], measured: int
) -> None:
    """Nobody at the terminal has cleaned up; on a deployed stack the run goes on, until it is aborted if it is."""
    name = f"own-killed-{measured}"
    before = deployment.inventory()
    document = _plan(name, "dynamodb", measured)
    with deployment.as_account().running(document, "--stack", deployment.state.stack) as process:
        _await(deployment, "measured", name, process)
        process.kill()
        process.wait()
    assert deployment.inventory()["copies"] != []
    then(deployment)
    _assert_untouched(deployment, own, before)


def test_a_function_that_the_stack_may_not_measure_is_refused(deployment: Deployment, own: OwnFunction) -> None:
    """It is there, in the same account, and whoever may start runs would read its code and its secrets."""
    before = deployment.inventory()
    finished = deployment.run(_plan("own-refused", "s3", function={"name": f"{deployment.state.stack}-RunWriter"}))
    assert finished.code == 2
    assert "is not allowed by the stack's parameter MeasuredFunctions" in finished.stderr
    _assert_untouched(deployment, own, before)
