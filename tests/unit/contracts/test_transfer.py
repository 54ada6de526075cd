"""The plan of a trial of `transfer`: what is refused, with the way out, and what follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepbench.contracts.plan import Plan, TrialPlan, TrialSpec
from stepbench.contracts.transfer.plan import TransferTrial
from stepbench.contracts.transfer.rows import RunTransferInput
from stepbench.errors import PlanError
from stepbench.planning import check_budget, expand, parse_plan


def plan_of(**fields: object) -> Plan:
    """Parse a plan with one trial of transfer."""
    trial = {"experiment": "transfer", "transfers": 4, **fields}
    return parse_plan(json.dumps({"name": "x", "trials": [trial], "budget_usd": 1_000}))


def trial_of(**fields: object) -> TransferTrial:
    """Return the trial itself."""
    return expand(plan_of(**fields), "run")[0].transfer


def test_the_published_experiment_is_the_default() -> None:
    """EFS, then S3, in one process; one of nine sizes is drawn; cold."""
    trial = trial_of()
    assert (trial.sources, trial.order, trial.choice, trial.cold) == (("efs", "s3"), "published", "random", "required")
    assert trial.file_sizes_mib == (1, 5, 10, 25, 50, 100, 250, 500, 750)


def test_each_process_reads_from_each_source_on_each_platform() -> None:
    """4 transfers x 2 platforms x 2 sources: what the accounting has to add up to."""
    trial = trial_of(platforms=["lambda", "fargate"])
    assert (trial.processes, trial.reads) == (8, 16)
    assert trial.events == sum(phase.events for phase in trial.phases) == 16


def test_a_schedule_takes_at_least_its_pauses() -> None:
    """4 transfers, an hour apart: 3 hours, and the last one's own time."""
    assert 3 * 3_600 < trial_of(every_s=3_600).length_s < 3 * 3_600 + 120


def published(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
    """Return a number of S3 on Lambda, of all sizes."""
    return {"platform": "lambda", "source": "s3", "metric": "mean", "value": 1, "citation": "x", **fields}


@pytest.mark.parametrize(
    ("fields", "path", "remedy"),
    [
        ({"sources": ["s3", "s3"]}, "trials[0].sources[1]", "Remove one"),
        ({"sources": ["efs"], "connections": 2}, "trials[0].connections", "Remove it"),
        ({"file_sizes_mib": [1, 5_000]}, "trials[0].file_sizes_mib[1]", "Lower it"),
        ({"writers": 2}, "trials[0].writers", "Known here"),
        ({"cold": "maybe"}, "trials[0].cold", '"required"'),
        ({"transfers": 0}, "trials[0].transfers", "at least 1"),
        ({"transfers": 720, "every_s": 3_600}, "trials[0].every_s", "schedule"),
        ({"concurrency": 11}, "trials[0].concurrency", '"preferred"'),
        (
            {"published": [{"platform": "fargate", "source": "s3", "file_size_mib": 1, "metric": "mean", "value": 1,
                            "citation": "x"}]},
            "trials[0].published[0]", "extend the trial",
        ),
        ({"published": [published(metric="p5")]}, "trials[0].published[0].file_size_mib", "Add it"),
        ({"published": [published(metric="modes", file_size_mib=1)]}, "trials[0].published[0].file_size_mib", "Remove"),
        ({"published": [published(over_source="s3")]}, "trials[0].published[0].over_source", "Remove"),
        (
            {"published": [published(metric="slowest_over_fastest", over_source="efs")]},
            "trials[0].published[0].over_source", "Remove",
        ),
        (
            {"sources": ["s3"], "published": [published(over_source="efs")]},
            "trials[0].published[0]", "extend the trial",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_the_way_out(fields: dict[str, Any], path: str, remedy: str) -> None:
    """Before anything is created."""
    with pytest.raises(PlanError) as refused:
        plan_of(**fields)
    (problem,) = refused.value.problems
    assert problem.path == path
    assert remedy in problem.remedy


def test_a_trial_without_an_experiment_is_a_trigger_s() -> None:
    """All plans written before there were transfers."""
    trial = {"target": {"store": "etcd"}, "phases": [{"name": "p", "load": [{"rate_per_s": 1, "count": 1}]}]}
    (spec,) = expand(parse_plan(json.dumps({"name": "x", "trials": [trial]})), "run")
    assert isinstance(spec.plan, TrialPlan)
    assert spec.offered is spec.plan
    with pytest.raises(TypeError, match="none that is a TransferTrial"):
        _ = spec.transfer


def test_a_stored_trial_is_read_as_what_it_is() -> None:
    """Stages find their trial by JSON in the bucket."""
    (spec,) = expand(plan_of(), "run")
    assert type(spec).model_validate_json(spec.model_dump_json()) == spec
    with pytest.raises(TypeError, match="none that is a TrialPlan"):
        _ = spec.offered


def test_a_matrix_varies_a_field_of_transfers() -> None:
    """Different load conditions, as published: several at once."""
    names = [spec.name for spec in expand(plan_of(matrix={"concurrency": [1, 4]}), "run")]
    assert names == ["files.concurrency-1", "files.concurrency-4"]


def test_the_estimate_grows_with_what_is_read_from_efs() -> None:
    """4 x 1,000 MiB read at $0.03 a GB are $0.126, and the file is written once for $0.063."""
    from_efs = check_budget(plan_of(sources=["efs"], file_sizes_mib=[1_000]))
    from_s3 = check_budget(plan_of(sources=["s3"], file_sizes_mib=[1_000]))
    assert from_efs - from_s3 == pytest.approx((4 * 0.03 + 0.06) * 1_000 * 2**20 / 1e9, rel=0.01)


def test_a_month_over_its_budget_is_refused_with_its_biggest_line() -> None:
    """As many as an hourly month has, on both platforms."""
    trial = {"experiment": "transfer", "transfers": 720, "platforms": ["lambda", "fargate"]}
    with pytest.raises(PlanError, match="biggest line"):
        check_budget(parse_plan(json.dumps({"name": "x", "trials": [trial], "budget_usd": 1})))


def test_an_item_that_a_state_machine_has_written_anew_is_the_same() -> None:
    """A task's item is made by `States.JsonToString`: whether it writes 19 digits or an exponent is not documented."""
    text = (Path(__file__).parents[3] / "events/tasks/run_transfer.json").read_text()
    task = RunTransferInput.model_validate_json(text)
    written = text.replace(str(task.item.due_ns), f"{task.item.due_ns:.16E}")
    assert "E+18" in written
    assert RunTransferInput.model_validate_json(written) == task


def test_no_threshold_ends_files_that_are_read() -> None:
    """Whoever follows a run asks this of trials of every experiment."""
    trial = TransferTrial.model_validate({"experiment": "transfer", "transfers": 1})
    fields = {"run_id": "r", "index": 0, "name": "files", "tag": "aaaaaaaaaa-0000", "estimate_usd": 0}
    spec = TrialSpec(plan=trial, abort_on=("errors < 1 %",), **fields)
    assert not spec.may_end_early(0)
