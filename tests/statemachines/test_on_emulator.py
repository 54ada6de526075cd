"""Both machines run; then one failure is injected for each edge by which a failure can be caught."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.statemachines.conftest import MACHINES, ROOT, load_machine
from tests.statemachines.lab import Ending, Lab, Scenario, open_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

pytestmark = pytest.mark.emulator

ALWAYS = 1_000
AFTERWARDS = {"CollectLogs", "AnalyseTrial", "ExportRecords", "TearDownTarget"}
LOAD = {"PlanPhase", "RunWriter"}
STOP, CANCEL = "stop-watching", "cancelled"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield one emulator for the module."""
    with open_lab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened


class Edge(NamedTuple):
    """
    One failure, and what has to come of it.

    Attributes:
        id: the catch edge, `<state>: <errors>`.
        error: what a function raises each time.
        ran: stages that must have been called, besides TearDownTarget.
        not_run: stages that must not.
        flags: what the machine has set in the table; MiniStack does not stop the branch beside one that fails, and
            that sets `STOP`, too.
        ends_with: the execution's error, if it is another; empty for success.
        raised_in: which function raises, if it is not the state's own.
        scenario: the rest of the circumstances.
    """

    id: str
    error: str
    ran: AbstractSet[str]
    not_run: AbstractSet[str] = frozenset()
    flags: AbstractSet[str] = frozenset({STOP})
    ends_with: str | None = None
    raised_in: str | None = None
    scenario: Scenario = Scenario("none")


EDGES = [
    Edge("PrepareTarget: States.ALL", "TargetBusyError", set(), not_run={"AwaitTarget"}, flags=set()),
    Edge(
        "Measure: TargetUnavailableError, TargetUnreachableError",
        "TargetUnavailableError",
        set(),
        not_run=LOAD | {"CollectLogs"},
        raised_in="AwaitTarget",
    ),
    Edge(
        "Measure: TargetUnavailableError, TargetUnreachableError",
        "TargetUnreachableError",
        set(),
        not_run=LOAD | {"CollectLogs"},
        raised_in="AwaitTarget",
    ),
    Edge("AwaitTarget: States.ALL", "KeyError", AFTERWARDS, not_run=LOAD),
    Edge(
        "WatchChanges: States.ALL",
        "TargetUnavailableError",
        AFTERWARDS,
        flags={CANCEL},
        ends_with="WatchLostError",
        scenario=Scenario("none", lanes=(0, 1)),
    ),
    Edge(
        "Measure: States.ALL",
        "RecordsUnavailableError",
        AFTERWARDS,
        flags={CANCEL},
        ends_with="WatchLostError",
        raised_in="WatchChanges",
        scenario=Scenario("none", lanes=(0,)),
    ),
    Edge(
        "Phases: States.ALL",
        "TargetUnavailableError",
        AFTERWARDS,
        not_run=LOAD,
        raised_in="ScaleTarget",
        scenario=Scenario("none", scale=True),
    ),
    Edge(
        "SeedFiles: States.ALL",
        "TargetUnavailableError",
        set(),
        not_run=LOAD | {"AwaitTarget", "CollectLogs"},
        flags=set(),
        scenario=Scenario("none", seeds=True),
    ),
    Edge(
        "MakeInputs: States.ALL",
        "TargetUnavailableError",
        set(),
        not_run=LOAD | {"AwaitTarget", "CollectLogs"},
        flags=set(),
        raised_in="MakeVideoInput",
        scenario=Scenario("none", inputs=("MakeVideoInput",)),
    ),
    Edge("RunWriter: States.ALL", "PlanError", AFTERWARDS | LOAD, ends_with=""),
    Edge(
        "RunInlineWriter: States.ALL",
        "PlanError",
        AFTERWARDS | LOAD,
        ends_with="",
        raised_in="RunWriter",
        scenario=Scenario("none", invoked="inline"),
    ),
    Edge(
        "RefreshSandboxes: States.ALL",
        "KeyError",
        AFTERWARDS | {"PlanPhase"},
        not_run={"RunTransfer"},
        ends_with="",
        scenario=Scenario("none", platforms=("lambda", "lambda"), refresh=True),
    ),
    Edge(
        "RunTransfer: States.ALL",
        "KeyError",
        AFTERWARDS | {"PlanPhase"},
        not_run={"RunWriter", "RefreshSandboxes"},
        ends_with="",
        scenario=Scenario("none", platforms=("lambda", "lambda")),
    ),
    Edge(
        "CheckPrecision: States.ALL",
        "AccountingError",
        AFTERWARDS | LOAD,
        ends_with="",
        scenario=Scenario("none", until=True),
    ),
    Edge(
        "MeasureUtilisation: States.ALL",
        "RecordsUnavailableError",
        AFTERWARDS | LOAD,
        ends_with="",
        scenario=Scenario("none", utilisation=True),
    ),
    Edge("AwaitArrivals: States.ALL", "KeyError", AFTERWARDS | LOAD),
    Edge("CollectLogs: States.ALL", "KeyError", AFTERWARDS | LOAD),
    Edge("AnalyseTrial: States.ALL", "AccountingError", AFTERWARDS | LOAD),
    Edge("ExportRecords: States.ALL", "Runtime.ExitError", AFTERWARDS),
    Edge("TearDownTarget: States.ALL", "TargetUnavailableError", AFTERWARDS),
]
WITHOUT_TABLE = {
    f"{state}: States.ALL"
    for state in ("StopLoad", "StopWatchingUnready", "WriterMissing", "InvocationMissing", "NoteMapEnd")
}
"""See test_faults.py."""
OF_TASKS = {"RunTransferTask: States.ALL"}
"""See test_transfers.py."""
OF_DAGS = {"Levels: States.ALL", "EndDataflow: States.ALL"}
"""See test_dataflow.py."""
FROM_HOST = {"RunWriterOnHost: States.HeartbeatTimeout", "RunWriterOnHost: States.ALL"}
"""See test_load_host.py."""
BENCHMARK_EDGES = {
    "ValidatePlan: PlanError, RunEndedError",
    "ValidatePlan: States.ALL",
    "RunTrial: States.ALL",
    "RunTrials: States.ALL",
    "RenderReport: States.ALL",
    "AwaitTurn: PlanError",
    "AwaitTurn: States.ALL",
    "ConcludeRun: States.ALL",
}


def _name(edge: Edge) -> str:
    return f"{edge.id.split(',')[0].replace(': ', '-').replace('.', '-')}-{edge.error.replace('.', '-')}"


def test_every_catch_edge_has_a_failure_injected() -> None:
    """The table below has to grow with the machines."""
    edges = {
        f"{state.name}: {', '.join(rule['ErrorEquals'])}"
        for machine in MACHINES
        for state in load_machine(machine).states
        for rule in state.definition.get("Catch", ())
    }
    assert edges == {edge.id for edge in EDGES} | WITHOUT_TABLE | FROM_HOST | OF_TASKS | OF_DAGS | BENCHMARK_EDGES


@pytest.mark.parametrize("edge", EDGES, ids=_name)
def test_a_failure_is_caught_collected_and_torn_down(lab: Lab, edge: Edge) -> None:
    """Whatever fails, the lease is released, partial results are kept, and the execution says what it was."""
    stage = edge.raised_in or edge.id.partition(":")[0]
    scenario = replace(edge.scenario, id=_name(edge), fail={stage: (edge.error, ALWAYS)})
    ending = lab.run_trial(scenario)
    ends_with = edge.error if edge.ends_with is None else edge.ends_with
    assert (ending.status, ending.error) == ("FAILED" if ends_with else "SUCCEEDED", ends_with)
    assert ending.stages >= edge.ran | {"TearDownTarget", stage}
    assert ending.stages.isdisjoint(edge.not_run)
    found = lab.flags(scenario.id)
    assert found - {STOP} == edge.flags - {STOP}
    assert (STOP in found) == (STOP in edge.flags) or ends_with == "WatchLostError"


def test_a_run_passes_both_machines(lab: Lab) -> None:
    """The happy path, nested as on AWS; its output is the report's headline."""
    children = (Scenario("good-0"), Scenario("good-1"))
    ending = lab.run_benchmark(Scenario("good", children=children))
    assert (ending.status, ending.error) == ("SUCCEEDED", "")
    assert ending.output["report"] == "s3://bucket/report.html"
    assert ending.called("RenderReport")[0]["outcomes"] == [{"trial": 0, "error": ""}, {"trial": 1, "error": ""}]
    assert {call["stage"] for call in lab.calls("good-1")} >= AFTERWARDS | LOAD


def test_the_plan_goes_in_as_the_user_gave_it(lab: Lab) -> None:
    """With the execution's name as run id, so that the user finds the run again."""
    scenario = Scenario("as-given")
    (event,) = lab.run_benchmark(scenario).called("ValidatePlan")
    assert event["plan"] == json.loads(json.dumps(scenario.document()))
    assert event["run_id"] == "as-given"


def test_both_lanes_watch_until_they_are_told_to_stop(lab: Lab) -> None:
    """Pull triggers: each lane is called again, at the time that it asks for, until it says that it has stopped."""
    ending = lab.run_trial(Scenario("watched", lanes=(0, 1)))
    assert ending.status == "SUCCEEDED"
    assert {event["lane"] for event in ending.called("WatchChanges")} == {0, 1}
    assert len(ending.called("WatchChanges")) > 2


def test_loops_end_when_the_stage_says_so(lab: Lab) -> None:
    """Each polling loop of the machine goes round twice here, and hands on the token that it was given."""
    ending = lab.run_trial(Scenario("loops", scale=True, seeds=True))
    assert ending.status == "SUCCEEDED"
    once_more = {"AwaitTarget": 2, "ScaleTarget": 3, "AwaitArrivals": 2, "CollectLogs": 2, "TearDownTarget": 2}
    once_more["SeedFiles"] = 2
    assert {stage: len(ending.called(stage)) for stage in once_more} == once_more
    assert [event["token"] for event in ending.called("CollectLogs")] == ["", "page 1"]


def test_precision_is_checked_beside_the_load_until_it_is_enough(lab: Lab) -> None:
    """For each phase that asks for it; both branches go on to the next phase, and the writers are as many as ever."""
    ending = lab.run_trial(Scenario("sure", until=True))
    assert ending.status == "SUCCEEDED"
    assert [event["phase"] for event in ending.called("CheckPrecision")] == [0, 0, 1]
    assert [event["item"]["writer"] for event in ending.called("RunWriter")].count(0) == 2
    assert lab.run_trial(Scenario("not-asked")).called("CheckPrecision") == []


def test_utilisation_is_measured_once_a_phase_is_over_until_it_is_there(lab: Lab) -> None:
    """Metrics come late, so it is asked for again; other trials ask for none."""
    ending = lab.run_trial(Scenario("utilised", utilisation=True))
    assert ending.status == "SUCCEEDED"
    assert [event["phase"] for event in ending.called("MeasureUtilisation")] == [0, 0, 1]
    first = next(number for number, call in enumerate(ending.calls) if call["stage"] == "MeasureUtilisation")
    assert [call["stage"] for call in ending.calls[:first]].count("RunWriter") == 2


def test_a_phase_that_is_not_needed_is_passed_over(lab: Lab) -> None:
    """Neither writers nor a look at its utilisation; what follows goes on."""
    ending = lab.run_trial(Scenario("unneeded", utilisation=True, unneeded=(0,)))
    assert ending.status == "SUCCEEDED"
    assert [event["phase"] for event in ending.called("PlanPhase")] == [0, 1]
    assert {event["phase"] for event in ending.called("MeasureUtilisation")} == {1}
    assert len(ending.called("RunWriter")) == 2


def test_a_rate_that_was_not_found_ends_in_analysis(lab: Lab) -> None:
    """Phases before the search are not lost with it; nothing is retried."""
    ending = lab.run_trial(Scenario("no-rate", {"PlanPhase": ("RateNotFoundError", ALWAYS)}))
    assert (ending.status, ending.error) == ("FAILED", "RateNotFoundError")
    assert ending.stages >= AFTERWARDS
    phases = [event["phase"] for event in ending.called("PlanPhase")]
    assert len(phases) == len(set(phases))  # AWS stops at the first; the emulator's Map goes on


def test_every_item_has_a_writer_and_each_retry_a_number(lab: Lab) -> None:
    """Two phases of two writers; the one whose process died is called again as attempt 1."""
    ending = lab.run_trial(Scenario("exits", {"RunWriter": ("Runtime.ExitError", 1)}))
    assert ending.status == "SUCCEEDED"
    attempts = sorted((event["item"]["writer"], event["attempt"]) for event in ending.called("RunWriter"))
    assert [attempt for _, attempt in attempts].count(1) == 1
    assert len(attempts) == 5


@pytest.mark.parametrize("error", ["PlanError", "TrialCancelledError"])
def test_a_writer_that_is_told_to_stop_is_not_retried(lab: Lab, error: str) -> None:
    """Otherwise a cancelled trial would begin again twice."""
    ending = lab.run_trial(Scenario(f"stopped-{error}", {"RunWriter": (error, ALWAYS)}))
    assert [event["attempt"] for event in ending.called("RunWriter")] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("stage", "error", "calls"),
    [
        ("PrepareTarget", "TargetUnreachableError", 1),
        ("PrepareTarget", "TargetUnavailableError", 4),
        ("TearDownTarget", "TargetUnreachableError", 4),
        ("TearDownTarget", "TargetUnavailableError", 4),
        ("TearDownTarget", "KeyError", 6),
    ],
)
def test_a_store_that_is_away_is_asked_again_only_where_that_may_help(
    lab: Lab, stage: str, error: str, calls: int
) -> None:
    """PrepareTarget has waited itself before it says "unreachable"; a tear-down is left to others after 14 s."""
    ending = lab.run_trial(Scenario(f"away-{stage}-{error}", {stage: (error, ALWAYS)}))
    assert (ending.status, ending.error) == ("FAILED", error)
    assert len(ending.called(stage)) == calls
    if stage == "PrepareTarget":
        assert [event["failure"]["Error"] for event in ending.called("TearDownTarget")] == [error] * 2


@pytest.mark.parametrize(("stage", "error"), [("PrepareTarget", "TargetBusyError"), ("TearDownTarget", "KeyError")])
def test_what_passes_is_waited_for(lab: Lab, stage: str, error: str) -> None:
    """Another trial gives the target back; a tear-down works the second time."""
    ending = lab.run_trial(Scenario(f"waits-{stage}", {stage: (error, 2)}))
    assert ending.status == "SUCCEEDED"


def test_a_stage_whose_sandbox_dies_once_is_called_again(lab: Lab) -> None:
    """Whatever a stage has done by then it can do again; only a writer's second attempt is an attempt of its own."""
    stages = {call["stage"] for call in lab.run_trial(Scenario("lives", until=True, scale=True)).calls}
    ending = lab.run_trial(
        Scenario("dies-once", dict.fromkeys(stages, ("Runtime.ExitError", 1)), until=True, scale=True)
    )
    assert ending.status == "SUCCEEDED"
    assert all(len(ending.called(stage)) > 1 for stage in stages)


def test_the_report_of_a_failed_trial_knows_why(lab: Lab) -> None:
    """AnalyseTrial and TearDownTarget are told what went wrong, so that the result is marked incomplete."""
    ending = lab.run_trial(
        Scenario("told", {"AwaitArrivals": ("KeyError", ALWAYS), "CollectLogs": ("OSError", ALWAYS)})
    )
    failure = ending.called("TearDownTarget")[0]["failure"]
    assert ending.called("AnalyseTrial")[0]["failure"]["Error"] == "KeyError"
    assert (failure["Error"], failure["collect_logs"]["Error"]) == ("KeyError", "OSError")


def test_items_that_are_missing_fail_the_trial_in_order(lab: Lab) -> None:
    """OfferLoad's own failure: nothing was offered, and the lease is released."""
    ending = lab.run_trial(Scenario("no-items", with_items=False))
    assert (ending.status, ending.error) == ("FAILED", "States.ItemReaderFailed")
    assert ending.stages >= AFTERWARDS


@pytest.mark.parametrize("error", ["PlanError", "KeyError"])
def test_a_plan_that_is_refused_or_could_not_be_checked_creates_nothing(lab: Lab, error: str) -> None:
    """A refusal's reasons are the cause, without JSON or a stack trace; of what is not one the author mends nothing."""
    ending = lab.run_benchmark(Scenario(f"invalid-{error}", {"ValidatePlan": (error, ALWAYS)}))
    assert (ending.status, ending.error) == ("FAILED", error)
    assert ending.cause == "as the scenario says" or error != "PlanError"
    assert ending.stages == {"ValidatePlan"}


def test_what_a_stage_says_is_the_cause_of_its_trial(lab: Lab) -> None:
    """Whoever opens the failed execution reads what happened, to what, and what to do."""
    ending = lab.run_trial(Scenario("says-why", {"PrepareTarget": ("TargetUnreachableError", ALWAYS)}))
    assert (ending.error, ending.cause) == ("TargetUnreachableError", "as the scenario says")


def test_a_failed_trial_stops_no_other_and_is_named(lab: Lab) -> None:
    """The report exists either way; the execution fails with the names of the trials."""
    children = (Scenario("bad-0", {"AnalyseTrial": ("KeyError", ALWAYS)}), Scenario("bad-1"))
    ending = lab.run_benchmark(Scenario("bad", children=children))
    assert (ending.status, ending.error, ending.cause) == ("FAILED", "TrialsFailedError", "failed: trial-0")
    outcomes = ending.called("RenderReport")[0]["outcomes"]
    # On AWS the error would be States.TaskFailed, here it is the child's own: only that there is one is certain.
    assert [bool(outcome["error"]) for outcome in outcomes] == [True, False]
    assert [set(outcome) for outcome in outcomes] == [{"trial", "error"}] * 2


def test_a_report_that_fails_fails_the_run(lab: Lab) -> None:
    """A green run without a report would be the worst of both."""
    ending = lab.run_benchmark(Scenario("unrendered", {"RenderReport": ("KeyError", ALWAYS)}))
    assert (ending.status, ending.error) == ("FAILED", "KeyError")


def test_the_report_is_written_even_if_the_map_fails(lab: Lab) -> None:
    """Nothing inside can make it fail, since each iteration catches; so here the inner Catch is taken away."""
    definition = json.loads((ROOT / "statemachines/benchmark.asl.json").read_text())
    iteration = definition["States"]["RunTrials"]["ItemProcessor"]["States"]
    del iteration["RunTrial"]["Catch"]
    del iteration["TrialFailed"]
    lab.deploy("without-inner-catch", json.dumps(definition))
    child = Scenario("map-fails-0", {"AnalyseTrial": ("KeyError", ALWAYS)})
    ending: Ending = lab.run_benchmark(Scenario("map-fails", children=(child,)), "without-inner-catch")
    assert (ending.status, ending.error) == ("FAILED", "TrialsFailedError")
    assert ending.called("RenderReport")[0]["outcomes"] == []


@pytest.mark.parametrize("error", ["PlanError", "KeyError"])
def test_a_run_whose_turn_cannot_come_measures_nothing(lab: Lab, error: str) -> None:
    """It has made nothing yet; the sweeper takes it out of the queue. A refusal is told as ValidatePlan's is."""
    child = Scenario(f"no-turn-{error}-0")
    ending = lab.run_benchmark(Scenario(f"no-turn-{error}", {"AwaitTurn": (error, ALWAYS)}, children=(child,)))
    assert (ending.status, ending.error) == ("FAILED", error)
    assert ending.cause == "as the scenario says" or error != "PlanError"
    assert ending.stages == {"ValidatePlan", "AwaitTurn"}
    assert lab.calls(child.id) == []


def test_a_run_is_concluded_with_its_report_before_it_ends(lab: Lab) -> None:
    """Failed or not: who waits for its targets goes on then."""
    child = Scenario("concluded-0", {"AnalyseTrial": ("AccountingError", ALWAYS)})
    ending = lab.run_benchmark(Scenario("concluded", children=(child,)))
    (event,) = ending.called("ConcludeRun")
    assert (ending.error, event["report"]["failed_trials"]) == ("TrialsFailedError", ["trial-0"])


def test_a_conclusion_that_fails_is_no_success(lab: Lab) -> None:
    """The run would stay in the queue; as FAILED it is swept."""
    ending = lab.run_benchmark(
        Scenario("unconcluded", {"ConcludeRun": ("KeyError", ALWAYS)}, children=(Scenario("u-0"),))
    )
    assert (ending.status, ending.error) == ("FAILED", "KeyError")
