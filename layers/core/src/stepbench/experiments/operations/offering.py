"""What a trial of `operations` takes, before it runs: that of a trigger's, and no receivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.plan import offered_plan
from stepbench.experiments.protocol import Sandboxes
from stepbench.experiments.trigger.offering import estimate, load_s, stack_problems

if TYPE_CHECKING:
    from stepbench.contracts.plan import AnyTrial

__all__ = ["estimate", "load_s", "sandboxes", "stack_problems"]


def sandboxes(trial: AnyTrial) -> Sandboxes:
    """Return those of writers: operations invoke nothing else."""
    plan = offered_plan(trial)
    return Sandboxes(plan.writer_sandboxes, 0, "receivers", ("writers", plan.writers))
