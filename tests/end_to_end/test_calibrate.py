"""The calibration through the state machines: what a user runs, with one short trial of all faults."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console
from tests.end_to_end.deployment import ROOT, Deployment

from stepbench.contracts.plan import Plan
from stepbench.local.calibrating import at_rate, calibrate_plan
from stepbench.local.places import Places
from stepbench.planning import find_plan, parse_plan

pytestmark = [pytest.mark.end_to_end, pytest.mark.emulator, pytest.mark.stores]


def test_counts_are_exact_through_the_state_machines(deployment: Deployment) -> None:
    """Writer, watcher and store are processes of their own; latencies are judged by `stepbench calibrate`, not here."""
    whole = at_rate(parse_plan(find_plan("calibrate")), 200)
    plan = Plan(name="calibrate-e2e", trials=whole.trials[-1:], budget_usd=1)
    people = Console(file=StringIO(), width=200)
    report = calibrate_plan(Places(ROOT, deployment.home), plan, deployment.out, people)
    (trial,) = report.trials
    assert trial.exact, trial.failures()
    found = {count.metric: count.measured for count in trial.counts}
    assert found["acknowledged"] == 2_000
    assert min(found["lost"], found["duplicates"], found["out_of_order"]) > 0
    (folder,) = deployment.out.glob(f"{report.run_id}")
    assert json.loads((folder / "calibration.json").read_text())["run_id"] == report.run_id
    assert (folder / "trials/0000/truth.jsonl").read_text().count('"write"') > 2_000
