"""From a plan to named trials."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialSpec
from stepbench.costs import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator


def expand(plan: Plan, run_id: str) -> tuple[TrialSpec, ...]:
    """One TrialSpec per trial, in the order of execution; each with a name, a namespace and an estimate of its own."""
    return tuple(
        TrialSpec(
            run_id=run_id,
            index=index,
            name=name,
            tag=trial_tag(run_id, index),
            plan=trial,
            estimate_usd=estimate(trial).total_usd,
        )
        for index, (name, trial) in enumerate(zip(_names(plan), plan.trials, strict=True))
    )


def _names(plan: Plan) -> Iterator[str]:
    """Own names as given; the others after their store: `s3`, `s3-2`, …, past any name that is taken."""
    taken = {trial.name for trial in plan.trials if trial.name}
    for trial in plan.trials:
        store = trial.target.store
        free = (name for name in (store if n == 1 else f"{store}-{n}" for n in count(1)) if name not in taken)
        name = trial.name or next(free)
        taken.add(name)
        yield name
