"""What stages do for trials of `operations`: the same as for triggers, but nothing arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.experiments.protocol import Proof
from stepbench.experiments.trigger.staging import driver, logs, plan

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec

__all__ = ["PROOF", "describe_unproven", "driver", "logs", "plan", "where_to_look"]

PROOF: Proof = "answers"


def describe_unproven(spec: TrialSpec, in_a_row: int) -> str:  # noqa: ARG001
    """Return the words that no probe was answered."""
    return f"no probe of {spec.plan.target.store} worked"


def where_to_look(spec: TrialSpec) -> str:  # noqa: ARG001
    """Name the store, and who asks it."""
    return "look at whether the store runs, and whether RunWriter's function may use it"
