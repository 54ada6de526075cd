"""Small trials for tests of stages, stored as `ValidatePlan` stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.tasks import TrialRef
from stepbench.records import layout

if TYPE_CHECKING:
    from stepbench.stages.services import Services


def small_plan(store: str = "s3", **fields: Any) -> TrialPlan:  # noqa: ANN401 -- a plan's JSON
    """Two events at one a second, measured; `target` adds to the store's fields, all else replaces the plan's."""
    phases = [{"name": "load", "load": [{"rate_per_s": 1, "count": 2}]}]
    target = {"store": store, **fields.pop("target", {})}
    return TrialPlan.model_validate({"phases": phases, **fields, "target": target})


def stored_trial(services: Services, plan: TrialPlan | None = None, run_id: str = "run-1", trial: int = 0) -> TrialRef:
    """Store a trial's specification; its reference."""
    ref = TrialRef(run_id=run_id, trial=trial, tag=trial_tag(run_id, trial))
    plan = plan or small_plan()
    spec = TrialSpec(run_id=run_id, index=trial, name=plan.target.store, tag=ref.tag, plan=plan, estimate_usd=0.0)
    services.runs.put_model(layout.trial_key(ref, "trial.json"), spec)
    return ref
