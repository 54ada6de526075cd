"""Changes from the command line: what they lead to, and what is said where they lead nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.trial import MAX_TRIALS
from stepbench.errors import PlanError
from stepbench.planning import find_plan, list_plans, parse_plan, read_json
from stepbench.planning.changes import Changes, changed, parse_change

STEP = {"rate_per_s": 20, "count": 200}
WARM_UP = {"name": "warm", "measured": False, "load": [STEP]}
TWO_STEPS = {
    "name": "p",
    "load": [STEP, {"rate_per_s": 40, "duration_s": 30}],
    "windows": [{"name": "w", "from_s": 5, "to_s": 20}],
}
PLAN: dict[str, Any] = {
    "name": "one",
    "trials": [
        {"target": {"store": "s3"}, "phases": [WARM_UP, {"name": "p", "load": [STEP]}]},
        {"target": {"store": "etcd"}, "phases": [TWO_STEPS]},
    ],
}


def made(*values: str, document: dict[str, Any] = PLAN, **options: Any) -> dict[str, Any]:  # noqa: ANN401 -- fields of Changes
    """Return a plan with changes."""
    changes = Changes(values=tuple(map(parse_change, values)), **options)
    return changed(document, parse_plan(document).model_dump(mode="json"), changes)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=5", 5),
        ("a=true", True),
        ('a="5"', "5"),
        ("a=poisson", "poisson"),
        ("a=", ""),
        ("a=b=c", "b=c"),
        ("a=.5", 0.5),
        ("a=.5.", ".5."),
    ],
)
def test_a_value_is_json_or_else_text(text: str, value: object) -> None:
    """Nobody wants to quote twice in a shell."""
    assert parse_change(text) == ("a", value)


@pytest.mark.parametrize("text", ["a", "=5", "a[x]=5", "a..b=5", "[0]=5", "trials.*=5"])
def test_what_is_no_path_is_told(text: str) -> None:
    """The message has an example."""
    with pytest.raises(ValueError, match="Write it as trials"):
        parse_change(text)


@pytest.mark.parametrize("text", ['{"password": "hunter2"}', '"password": "hunter2=",', "hunter2"])
def test_what_is_no_change_is_not_shown(text: str) -> None:
    """A plan that was pasted into the wrong field may have secrets and rows."""
    with pytest.raises(ValueError, match="it is no PATH=VALUE") as caught:
        parse_change(text)
    assert "hunter2" not in str(caught.value)


def test_a_field_is_changed_whether_it_was_written_or_not() -> None:
    """`writers` has a default, and so has all of `record`."""
    plan = made("trials[0].phases[1].load[0].rate_per_s=500", "trials[0].writers=4", "trials[1].record.value_bytes=99")
    assert plan["trials"][0]["phases"][1]["load"][0] == {"rate_per_s": 500, "count": 200}
    assert parse_plan(plan).offered_trials[0].writers == 4
    assert parse_plan(plan).offered_trials[1].record.value_bytes == 99
    assert PLAN["trials"][0]["phases"][1]["load"][0]["rate_per_s"] == 20


def test_a_star_is_all_of_a_list_and_a_later_change_wins() -> None:
    """One option for all trials, and an exception from it."""
    plan = parse_plan(made("trials[*].phases[*].load[*].rate_per_s=7", "trials[1].phases[0].load[1].rate_per_s=9"))
    assert [step.rate_per_s for trial in plan.trials for phase in trial.phases for step in phase.load] == [7, 7, 7, 9]


def test_what_one_change_makes_another_can_change() -> None:
    """An option that is off has no fields before it is on."""
    until = 'trials[0].phases[1].until={"relative_width": 0.1, "max_events": 300}'
    plan = made(until, "trials[0].phases[1].until.max_events=400")
    assert plan["trials"][0]["phases"][1]["until"]["max_events"] == 400


@pytest.mark.parametrize(
    ("change", "path", "value", "there"),
    [
        ("trials[0].writer=1", "trials[0].writer", '"writer"', 'Did you mean "writers"? Known there: "experiment", '),
        ("trials[2].writers=1", "trials[2]", "2", "There is trials[0] to trials[1]; counting begins at 0."),
        ("trials[*].phases[1].name=x", "trials[1].phases[1]", "1", "There is trials[1].phases[0]; counting"),
        ("trials.writers=1", "trials.writers", '"writers"', "There is trials[0] to trials[1]; counting"),
        ("trials[0].matrix.writers=[1]", "trials[0].matrix.writers", '"writers"', "Set trials[0].matrix as a whole"),
        ("nmae=x", "nmae", '"nmae"', 'Did you mean "name"? Known there: "name", "trials", '),
    ],
)
def test_a_path_that_leads_nowhere_names_what_is_there(change: str, path: str, value: str, there: str) -> None:
    """A change that changes nothing would be a benchmark of another plan than the one asked for."""
    with pytest.raises(PlanError) as caught:
        made(change)
    (problem,) = caught.value.problems
    assert (problem.path, problem.value) == (f"--set {path}", value)
    assert "leads nowhere: " in problem.message
    assert problem.remedy.startswith(there)


def test_all_paths_that_lead_nowhere_are_told_at_once() -> None:
    """Each attempt costs a start of the command."""
    with pytest.raises(PlanError) as caught:
        made("nmae=x", "trials[9].writers=1")
    assert len(caught.value.problems) == 2


def test_a_duration_stretches_what_is_measured_and_nothing_else() -> None:
    """Steps (10 and 30 s of 40) and windows keep their shares; 200 events of warm-up stay 200."""
    warm, first, second = (phase for trial in made(duration_s=20)["trials"] for phase in trial["phases"])
    assert warm["load"] == [STEP]
    assert first["load"] == [{"rate_per_s": 20, "duration_s": 20}]
    assert second["load"] == [{"rate_per_s": 20, "duration_s": 5}, {"rate_per_s": 40, "duration_s": 15}]
    assert second["windows"] == [{"name": "w", "from_s": 2.5, "to_s": 10}]


def test_transfers_have_no_duration() -> None:
    """A file takes as long as it takes; what can be changed is how many are read."""
    with pytest.raises(PlanError, match=r"trials\[0\].transfers"):
        made(document=read_json(find_plan("quick-transfer")), duration_s=5)


@pytest.mark.parametrize("name", [name for name in list_plans() if "transfer" not in name])
def test_every_preset_takes_a_duration_and_repeats(name: str) -> None:
    """Half as long, and twice where that is no larger than a plan: loops, windows, matrices and probes included."""
    document = read_json(find_plan(name))
    before = parse_plan(document)
    longest = max(phase.length_s for trial in before.trials for phase in trial.phases if phase.measured)
    repeats = 2 if 2 * before.size <= MAX_TRIALS else 1
    after = parse_plan(made(document=document, duration_s=longest / 2, repeats=repeats))
    lengths = [phase.shortest_s for trial in after.trials for phase in trial.phases if phase.measured]
    assert lengths == pytest.approx([longest / 2] * len(lengths))
    assert {trial.repeats for trial in after.trials} == {repeats}


def test_changes_are_told_in_the_words_of_the_command() -> None:
    """What ran is not what the preset's name says."""
    changes = Changes(20, 3, (("trials[0].writers", 4), ("name", "x")))
    assert str(changes) == 'each measured phase lasts 20 s, trials[*].repeats = 3, trials[0].writers = 4, name = "x"'
    assert not Changes()


def test_a_changed_plan_loses_the_description_of_what_it_was() -> None:
    """`About a minute and a half` stood over a run of 41 s; a description that is given with the change stays."""
    described = {**PLAN, "description": "Steps of 30 s."}
    assert "description" not in made(document=described, duration_s=5)
    assert made('description="Steps of 5 s."', document=described, duration_s=5)["description"] == "Steps of 5 s."
    assert changed(described, described, Changes())["description"] == "Steps of 30 s."


@pytest.mark.parametrize(
    ("preset", "change", "asks"),
    [
        ("quick-unloaded", "trials[*].repeats=3", True),
        ("quick-unloaded", "trials[0].phases[1].load[0].count=9", True),
        ("quick-unloaded", "trials[*].record.value_bytes=5000", True),
        ("quick-unloaded", 'trials[3].target={"store": "s3"}', False),
        ("quick-batch-dynamodb", "trials[0].record.value_bytes=5000", True),
        ("quick-batch-dynamodb", "trials[0].phases[1].load[0].rate_per_s=20", True),
        ("quick-batch-dynamodb", "trials[0].matrix={}", False),
        ("quick-sizes", "trials[0].seed=3", True),
        ("quick-sizes", "trials[0].record.value_bytes=5", False),
        ("quick-elastic-postgresql", "trials[0].drain_limit_s=9", True),
        ("quick-elastic-postgresql", "trials[0].phases[1].load[1].rate_per_s=25", False),
        ("quick-until", "trials[0].writers=2", True),
        ("quick-until", 'trials[0].phases[1].until={"metric": "p99"}', False),
        ("quick-clients", "trials[0].phases[0].closed.clients=5", False),
    ],
)
def test_a_changed_plan_asks_what_it_still_can_answer(preset: str, change: str, asks: bool) -> None:  # noqa: FBT001
    """`Does a larger batch size make the trigger slower?` stood over a run of one batch size."""
    document = read_json(find_plan(preset))
    full = parse_plan(document).model_dump(mode="json")
    changed_plan = changed(document, full, Changes(values=(parse_change(change),)))
    assert ("question" in changed_plan) == asks
    assert document["question"]


def test_a_question_that_is_given_with_a_change_stays() -> None:
    """It is asked of the changed plan."""
    asked = {**PLAN, "question": "Which is faster?"}
    assert "question" not in made("trials[0].target.store=etcd", document=asked)
    assert made("trials[0].target.store=etcd", "question=And now?", document=asked)["question"] == "And now?"
    assert made(document=asked, duration_s=5, repeats=2)["question"] == "Which is faster?"
