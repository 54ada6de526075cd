"""Models of tuned stores: those that ship with the package, and those that a plan brings along."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from stepbench.contracts.target import CassandraTarget
from stepbench.contracts.trial import TrialFields
from stepbench.contracts.tuning import AdaptiveTuning, StaticTuning, TunedModel
from stepbench.errors import PlanError, Problem

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from stepbench.contracts.plan import Plan

SUFFIX = ".json"


def shipped() -> dict[str, Traversable]:
    """Return the models that ship, by name."""
    folder = files("stepbench.tuning") / "models"
    if not folder.is_dir():
        return {}
    return {each.name.removesuffix(SUFFIX): each for each in folder.iterdir() if each.name.endswith(SUFFIX)}


def model_problems(plan: Plan) -> list[Problem]:
    """Return a problem for each trial that needs a model which does not ship."""
    return [
        problem
        for place, trial in enumerate(plan.trials)
        if isinstance(trial, TrialFields) and isinstance(trial.target, CassandraTarget)
        if isinstance(tuning := trial.target.tuning, StaticTuning | AdaptiveTuning)
        if not (isinstance(tuning, StaticTuning) and tuning.settings)
        if (problem := _problem(tuning.model, f"trials[{place}].target.tuning.model"))
    ]


def find_model(named: TunedModel | str) -> TunedModel:
    """
    Return the model that a plan has, or has named.

    Raises:
        PlanError: no model of this name ships.
    """
    if problem := _problem(named, "target.tuning.model"):
        raise PlanError([problem])
    return named if isinstance(named, TunedModel) else TunedModel.model_validate_json(shipped()[named].read_bytes())


def _problem(named: TunedModel | str, path: str) -> Problem | None:
    if isinstance(named, TunedModel) or named in shipped():
        return None
    known = ", ".join(sorted(shipped())) or "none"
    remedy = f"Name one of those that ship ({known}), or give what `stepbench tune` writes."
    return Problem(path=path, value=named, message="is no model that ships", remedy=remedy)
