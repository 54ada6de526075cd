"""What stages do for trials of `operations`: the same as for triggers, but nothing arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.experiments.protocol import Proof
from stepbench.experiments.trigger.staging import driver, logs, plan

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec

__all__ = ["driver", "logs", "plan", "proof"]


def proof(spec: TrialSpec) -> Proof:
    """Return that a probe is answered."""
    look = "look at whether the store runs, and whether RunWriter's function may use it"
    return Proof("answers", f"no probe of {spec.plan.target.store} worked", look)
