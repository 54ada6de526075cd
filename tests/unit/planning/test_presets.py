"""Presets: found by name, grouped by the question that they ask, and made so that they can answer it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepbench.analysis.comparability import drop_setting, flatten_setup, is_clients
from stepbench.contracts.target import DsqlTarget, DynamoDbTarget
from stepbench.contracts.transfer.plan import PLATFORMS, SOURCES, TransferTrial
from stepbench.errors import PlanError
from stepbench.planning import find_plan, list_plans, parse_plan, questions
from stepbench.planning.expansion import expand
from stepbench.planning.presets import preset_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import Plan
    from stepbench.planning import Question


def test_every_preset_has_its_place_in_the_list() -> None:
    """`stepbench plans` would not show another, and one in two groups is there twice."""
    assert sorted(name for group in questions() for name in group.presets) == sorted(list_plans())


def test_every_preset_asks_a_question_but_the_one_that_only_calibrate_can_judge() -> None:
    """A report that begins without one begins with whatever its trials are."""
    (silent,) = (group for group in questions() if not group.question)
    assert (silent.presets, questions()[-1]) == (("calibrate",), silent)


def test_one_s_own_function_has_to_process_what_it_gets() -> None:
    """Errors alone count writes: a function that fails all of them would pass."""
    assert "failed_in_handler < 1 %" in parse_plan(find_plan("your-function")).thresholds


def only_varies(path: str) -> Callable[[Plan], bool]:
    """Ask for a matrix of one setting in each trial."""
    return lambda plan: all(list(trial.matrix or ()) == [path] for trial in plan.trials)


def has_setups(path: str, *values: object) -> Callable[[Plan], bool]:
    """Ask for trials whose setups have each of these values, in pairs that differ in nothing else."""

    def found(plan: Plan) -> bool:
        setups = [dict(flatten_setup(spec.plan)) for spec in expand(plan, "run")]
        rests = [{drop_setting(each, path) for each in setups if each.get(path) == value} for value in values]
        return bool(rests[0]) and all(rest == rests[0] for rest in rests)

    return found


def passes_data(plan: Plan) -> bool:
    """Ask for trials of DAGs, of which those that are compared have the same."""
    dags = [trial.dags for trial in plan.offered_trials]
    return all(trial.experiment == "dataflow" for trial in plan.trials) and all(each == dags[0] for each in dags)


ANSWERED: dict[str, Callable[[Plan], bool]] = {
    "Which store passes data between functions the fastest, and for the least money?": lambda plan: (
        passes_data(plan) and {trial.target.store for trial in plan.trials} == {"s3", "redis", "cassandra"}
    ),
    "Does a store that tunes itself pass data faster?": lambda plan: (
        passes_data(plan)
        and [dict(flatten_setup(trial)).get("target.tuning.mode", "default") for trial in plan.trials]
        in (["default", "adaptive"], ["default", "static", "adaptive"])
    ),
    "How much of its time does a DAG spend passing data?": passes_data,
    "On which instance is Cassandra the best store?": passes_data,
    "Under which conditions is a NoSQL store the best?": lambda plan: (
        passes_data(plan) and len(plan.offered_trials[0].dags) > 1
    ),
    "How steady is a download from S3 and from EFS, cold, on Lambda and on Fargate?": lambda plan: all(
        isinstance(trial, TransferTrial)
        and (set(trial.sources), set(trial.platforms), trial.cold) == (set(SOURCES), set(PLATFORMS), "required")
        for trial in plan.trials
    ),
    "How long after my write does my function run?": lambda plan: {t.experiment for t in plan.trials} == {"trigger"},
    "How long after my write does my function run, and when is it done?": lambda plan: all(
        trial.target.function is not None for trial in plan.trials
    ),
    "Is the trigger slower when its store is under load?": lambda plan: all(
        [phase.name for phase in trial.phases if phase.measured] == ["unloaded", "load"] for trial in plan.trials
    ),
    "Does trigger latency change when the load doubles?": lambda plan: all(
        [window.name for window in phase.windows] == ["before", "after"]
        and phase.load[1].rate_per_s == 2 * phase.load[0].rate_per_s
        for trial in plan.trials
        for phase in trial.phases
        if phase.measured
    ),
    "Do larger records make the trigger slower?": only_varies("record.value_bytes"),
    "Does a larger batch size make the trigger slower?": only_varies("target.batch_size"),
    "How long after a write that its filter matches does my function run?": lambda plan: all(
        trial.record is not None and trial.record.matching_share < 1 for trial in plan.offered_trials
    ),
    "How many events does it take to know p90 to 10 %?": lambda plan: all(
        phase.until and (phase.until.metric, phase.until.relative_width) == ("p90", 0.1)
        for trial in plan.trials
        for phase in trial.phases
        if phase.measured
    ),
    "How much of an application's time is its triggers'?": lambda plan: bool(plan.applications),
    "Which store answers the fastest?": lambda plan: len({trial.target.store for trial in plan.trials}) > 1,
    "What does a connection for each operation cost?": has_setups("workload.reuse", True, False),  # noqa: FBT003 -- values
    "How fast does a Map get invocations done?": lambda plan: (
        len({trial.max_concurrency for trial in plan.offered_trials}) > 1
        and all(phase.invoked for trial in plan.offered_trials for phase in trial.phases)
    ),
    "What does a second region cost reads and writes?": has_setups("target.cluster", "single", "multi"),
    "How long does a cluster take to become active, and how long a pair?": lambda plan: (
        {trial.target.cluster for trial in plan.offered_trials if isinstance(trial.target, DsqlTarget)}
        == {"single", "multi"}
        and all(trial.workload and trial.workload.record.shape == "cluster" for trial in plan.offered_trials)
    ),
    "How does throughput grow with the number of clients?": lambda plan: (
        len(
            {
                value
                for spec in expand(plan, "run")
                for path, value in flatten_setup(spec.plan).items()
                if is_clients(path) or (path == "max_concurrency" and plan.offered_trials[0].phases[-1].invoked)
            }
        )
        > 5
    ),
    "Do two sandboxes' clocks measure another latency than one clock does?": lambda plan: (
        [isinstance(trial.target, DynamoDbTarget) and trial.target.same_sandbox for trial in plan.trials]
        == [True, False]
    ),
}


@pytest.mark.parametrize("asked", [group for group in questions() if group.question], ids=lambda asked: asked.question)
def test_a_preset_can_answer_what_it_asks(asked: Question) -> None:
    """The first screen has the question as its title: a plan without the comparison would leave it open."""
    for name in asked.presets:
        assert ANSWERED[asked.question](parse_plan(find_plan(name))), name


def test_a_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    """Plans live where users keep them."""
    path = tmp_path / "mine"
    path.write_bytes(b"{}")
    assert find_plan(str(path)) == b"{}"


def test_a_misspelt_preset_is_told_its_near_miss(tmp_path: Path) -> None:
    """The names are long."""
    (tmp_path / "quick-unloaded.json").write_bytes(b"{}")
    with pytest.raises(PlanError, match='Did you mean "quick-unloaded"') as refused:
        find_plan("quick-unload", tmp_path)
    assert refused.value.problems[0].value == '"quick-unload"'


@pytest.mark.parametrize("name", ["missing.json", "folder/missing"])
def test_a_missing_file_is_not_searched_among_presets(name: str, tmp_path: Path) -> None:
    """A path means a file."""
    with pytest.raises(PlanError, match="is no file"):
        find_plan(name, tmp_path)


def test_a_plan_may_come_through_a_pipe(tmp_path: Path) -> None:
    """`stepbench run <(jq … plan.json)` names a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("{}",))
    writer.start()
    assert find_plan(str(pipe)) == b"{}"
    writer.join()


def test_an_unreadable_preset_is_a_problem_of_the_input(tmp_path: Path) -> None:
    """A traceback would say the same, less kindly."""
    (tmp_path / "broken.json").mkdir()
    with pytest.raises(PlanError, match="cannot be read: Is a directory"):
        find_plan("broken", tmp_path)


def test_a_package_without_its_checkout_says_so(tmp_path: Path) -> None:
    """Presets are not in the wheel."""
    with pytest.raises(PlanError, match="installed without its repository"):
        preset_directory(tmp_path / "layers" / "core" / "src" / "stepbench")
