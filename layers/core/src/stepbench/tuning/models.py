"""Models of tuned stores: those that ship with the package, and those that a plan brings along."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from stepbench.contracts.tuned import TunedModel
from stepbench.errors import PlanError, Problem

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SUFFIX = ".json"


def shipped() -> dict[str, Traversable]:
    """Return the models that ship, by name."""
    folder = files("stepbench.tuning") / "models"
    return {each.name.removesuffix(SUFFIX): each for each in folder.iterdir() if each.name.endswith(SUFFIX)}


def find_model(named: TunedModel | str, path: str = "target.tuning.model") -> TunedModel:
    """
    Return the model that a plan has, or has named.

    Raises:
        PlanError: no model of this name ships.
    """
    if isinstance(named, TunedModel):
        return named
    known = shipped()
    if named not in known:
        remedy = f"Name one of {', '.join(sorted(known)) or 'none'}, or give the file that `stepbench tune` writes."
        raise PlanError([Problem(path=path, value=named, message="is no model that ships", remedy=remedy)])
    return TunedModel.model_validate_json(known[named].read_bytes())
