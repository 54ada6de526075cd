"""What AWS does to an execution: functions that die, are throttled or deleted, a table that is gone, an abort."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest
from botocore.config import Config
from tests.samples.services import stored_trial
from tests.statemachines.conftest import load_machine
from tests.statemachines.lab import BUCKET, TABLE, Lab, Scenario, open_lab
from tests.support.fake_clock import FakeClock
from tests.support.memory_driver import MemoryDriver
from tests.support.memory_register import MemoryRegister

from stepbench.contracts.documents import Failure
from stepbench.contracts.runs import SweepTargetsInput
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import RunStore
from stepbench.records.storage.trial_table import TrialTable, dynamodb_table
from stepbench.services import Services
from stepbench.stages.sweep_targets import sweep_targets
from stepbench_tools.local.memory_services import MemoryServices
from stepbench_tools.local.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

pytestmark = pytest.mark.emulator

ALWAYS = 1_000
TIME_OUT, GONE, THROTTLED = "Sandbox.Timedout", "Lambda.ResourceNotFoundException", "Lambda.TooManyRequestsException"
NO_TABLE = "DynamoDB.ResourceNotFoundException"
EVERYTHING = Scenario(
    "none", lanes=(0,), scale=True, until=True, utilisation=True, seeds=True, platforms=("", "lambda"), refresh=True
)
"""Passes every state of the trial machine, but for those that make inputs of DAGs: no trial has both."""
MAKERS = ("MakeInput", "MakeVideoInput", "MakeLearningInput")
FUNCTIONS = {state.name: state.function for state in load_machine("trial").tasks()}
STAGES = tuple(FUNCTIONS)


class Outcome(NamedTuple):
    """
    What becomes of a trial one of whose functions fails for good.

    Attributes:
        error: the execution's; None: that of the function. Empty: it succeeds, and the analysis has a caveat.
        calls: how often the function is called at most, if it dies each time; the emulator's Map of two phases goes on
            after the first has failed.
        skipped: stages that are not called.
    """

    error: str | None = None
    calls: int = 1
    skipped: frozenset[str] = frozenset()


AFTERWARDS = frozenset(("CollectLogs", "AnalyseTrial", "ExportRecords"))
OFFERED = frozenset(("RunWriter", "RefreshSandboxes", "RunTransfer"))
NO_LOAD = OFFERED | {"PlanPhase"}
OUTCOMES = {
    "PrepareTarget": Outcome(calls=2, skipped=NO_LOAD | AFTERWARDS | {"AwaitTarget"}),
    "SeedFiles": Outcome(calls=2, skipped=NO_LOAD | AFTERWARDS | {"AwaitTarget"}),
    **dict.fromkeys(MAKERS, Outcome(calls=2, skipped=NO_LOAD | AFTERWARDS | {"AwaitTarget"})),
    "WatchChanges": Outcome("WatchLostError", calls=4),
    "AwaitTarget": Outcome(calls=2, skipped=NO_LOAD),
    "ScaleTarget": Outcome(calls=4, skipped=NO_LOAD),
    "PlanPhase": Outcome(calls=4, skipped=OFFERED),
    "RunWriter": Outcome("", calls=6),
    "RunInlineWriter": Outcome("", calls=12),
    "RefreshSandboxes": Outcome("", calls=6, skipped=frozenset({"RunTransfer"})),
    "RunTransfer": Outcome("", calls=6),
    "CheckPrecision": Outcome("", calls=4),
    "MeasureUtilisation": Outcome("", calls=8),
    "AwaitArrivals": Outcome(calls=2),
    "CollectLogs": Outcome(calls=2),
    "AnalyseTrial": Outcome(calls=2),
    "ExportRecords": Outcome(calls=2),
    "TearDownTarget": Outcome(calls=6),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield one emulator for the module."""
    with open_lab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened


def _status(lab: Lab, arn: str) -> str:
    return str(lab.aws("stepfunctions").describe_execution(executionArn=arn)["status"])


def _table(lab: Lab) -> TrialTable:
    return TrialTable(dynamodb_table(lab.session, TABLE, Config(), lab.endpoint))


def _passing(stage: str) -> Scenario:
    if stage == "RunInlineWriter":
        return replace(EVERYTHING, invoked="inline")
    return replace(EVERYTHING, seeds=False, inputs=MAKERS) if stage in MAKERS else EVERYTHING


def test_every_function_of_a_trial_has_its_outcome_here() -> None:
    """The table has to grow with the machine."""
    assert OUTCOMES.keys() == set(STAGES)


@pytest.mark.parametrize("fault", [TIME_OUT, GONE])
@pytest.mark.parametrize("stage", STAGES)
def test_a_function_that_fails_for_good_ends_the_trial_in_order(lab: Lab, stage: str, fault: str) -> None:
    """Nothing loops, the target is torn down, and who writes the report is told the error's name."""
    wanted, function = OUTCOMES[stage], FUNCTIONS[stage]
    scenario = replace(_passing(stage), id=f"{stage}-{fault.partition('.')[2]}")
    if fault == GONE:
        with lab.without_function(function):
            ending = lab.run_trial(scenario)
        assert ending.called(function) == []
    else:
        ending = lab.run_trial(replace(scenario, fail={function: (fault, ALWAYS)}))
        assert 1 <= len(ending.called(function)) <= wanted.calls
    error = fault if wanted.error is None else wanted.error
    assert (ending.status, ending.error) == ("FAILED" if error else "SUCCEEDED", error)
    assert ending.stages.isdisjoint(wanted.skipped)
    assert ending.stages | {stage} >= (AFTERWARDS - wanted.skipped) | {"TearDownTarget"}
    if error and stage != "TearDownTarget":
        told = ending.called("TearDownTarget")[0]["failure"]
        assert fault in str(told)


def test_a_throttle_of_a_minute_fails_no_trial(lab: Lab) -> None:
    """Each function is refused seven times, which is a minute of waiting; then the trial goes on as if nothing was."""
    ending = lab.run_trial(replace(EVERYTHING, id="throttled", fail=dict.fromkeys(STAGES, (THROTTLED, 7))))
    assert (ending.status, ending.error) == ("SUCCEEDED", "")
    assert max(event["attempt"] for event in ending.called("RunWriter")) > 2


@pytest.mark.parametrize("invoked", ["", "inline"])
def test_a_slice_that_is_given_up_is_noted_with_its_cause(lab: Lab, invoked: str) -> None:
    """Through the table's own reader: the analysis would know only that the writer's files do not end."""
    scenario = Scenario(f"given-up-{invoked}", {"RunWriter": ("Runtime.OutOfMemory", ALWAYS)}, invoked=invoked)
    assert lab.run_trial(scenario).status == "SUCCEEDED"
    missing = _table(lab).missing_writers(scenario.id)
    phases = (0, 1) if invoked else (0,)  # the stored items of both phases say 0
    slots = [(phase, writer, 0) for phase in phases for writer in (0, 1)]
    assert {slot: error for slot, (error, _) in missing.items()} == dict.fromkeys(slots, "Runtime.OutOfMemory")
    assert all("as the scenario says" in cause for _, cause in missing.values())


@pytest.mark.parametrize("invoked", ["", "distributed", "inline"])
def test_the_end_of_each_map_of_invocations_is_noted(lab: Lab, invoked: str) -> None:
    """Through the table's own reader: how long the Map took is a result. Other phases have none."""
    scenario = Scenario(f"map-ends-{invoked}", invoked=invoked)
    ending = lab.run_trial(scenario)
    assert (ending.status, len(ending.called("RunWriter"))) == ("SUCCEEDED", 4)
    ends = {phase: datetime.fromisoformat(at) for phase, at in _table(lab).map_ends(scenario.id).items()}
    assert list(ends) == ([0, 1] if invoked else [])
    assert list(ends.values()) == sorted(ends.values())


@pytest.mark.parametrize(
    ("stage", "error"),
    [
        ("WatchChanges", "WatchLostError"),
        ("AwaitTarget", "KeyError"),
        ("RunWriter", NO_TABLE),
        ("RunInlineWriter", NO_TABLE),
        ("", NO_TABLE),
    ],
)
def test_a_table_that_is_gone_hides_no_failure_and_holds_no_target(lab: Lab, stage: str, error: str) -> None:
    """The flags cannot be set then: the first failure keeps its name, and the tear-down stops what runs."""
    fail = {FUNCTIONS[stage]: ("KeyError", ALWAYS)} if stage else {}
    invoked = "inline" if stage == "RunInlineWriter" else ""
    with lab.without_table():
        ending = lab.run_trial(Scenario(f"no-table-{stage}", fail, lanes=(0,), invoked=invoked))
    assert (ending.status, ending.error) == ("FAILED", error)
    assert "TearDownTarget" in ending.stages


def _services(lab: Lab) -> Services:
    settings = MemoryServices(FakeClock()).services.settings
    clock = FakeClock(now_ns=10**18)
    return Services(settings, RunStore(lab.aws("s3"), BUCKET), _table(lab), clock, lab.aws, MemoryRegister())


def _in_memory(_spec: TrialSpec, _settings: Settings, clock: Clock) -> MemoryDriver:
    return MemoryDriver(clock)


@pytest.mark.parametrize("stage", STAGES)
def test_an_abort_in_any_state_is_swept(lab: Lab, stage: str) -> None:
    """No Catch runs: the sweeper flags what still runs, notes why, tears down, and frees the target."""
    function = FUNCTIONS[stage]
    scenario = replace(_passing(stage), id=f"aborted-in-{stage}", hold=function)
    arn = lab.start("trial", scenario, lab.trial_input(scenario))
    lab.await_call(scenario, function)
    services, states = _services(lab), lab.aws("stepfunctions")
    ref = stored_trial(services, run_id=scenario.id)
    services.table.take_lease("s3#target", ref, arn, 1)
    try:
        states.stop_execution(executionArn=arn)
        swept = sweep_targets(SweepTargetsInput(execution_arn=arn), services, build=_in_memory)
    finally:
        lab.release(scenario)
    assert (swept.swept, swept.pending) == (("s3#target",), ())
    assert services.table.leases() == []
    assert services.table.flag(ref.tag, layout.CANCELLED)
    failure = services.runs.find_model(layout.trial_key(ref, "failure.json"), Failure)
    assert failure is not None
    assert failure.error == "ExecutionAborted"
    # Asynchronous, as on AWS: what is called just then is waited for.
    wait_until("it is stopped", lambda: _status(lab, arn) != "RUNNING", timeout_s=60)
    assert _status(lab, arn) == "ABORTED"
