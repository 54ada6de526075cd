"""Plans by name or by file: presets live in the checkout's `events/plans/`."""

from __future__ import annotations

from pathlib import Path

import stepbench
from stepbench.contracts.problem import Problem
from stepbench.errors import PlanError
from stepbench.planning.wording import alternatives, near_miss, shown

_CHECKOUT_LEVELS = 4
"""`<checkout>/layers/core/src/stepbench`."""


def preset_directory(package: Path | None = None) -> Path:
    """
    `events/plans` of the checkout that this package runs from.

    Args:
        package: the package's own folder, for tests.

    Raises:
        PlanError: the package was installed without its checkout (`pip install .` instead of `-e .`).
    """
    folder = package or Path(stepbench.__file__).resolve().parent
    directory = folder.parents[_CHECKOUT_LEVELS - 1] / "events" / "plans"
    if directory.is_dir():
        return directory
    message = "has no presets: this copy of stepbench was installed without its repository"
    raise PlanError([_problem("events/plans", shown(str(directory)), message, "Give the path of a plan file instead.")])


def list_plans(directory: Path | None = None) -> tuple[str, ...]:
    """Names of all presets, sorted."""
    return tuple(sorted(path.stem for path in (directory or preset_directory()).glob("*.json")))


def find_plan(name_or_path: str, directory: Path | None = None) -> bytes:
    """
    A plan's text, from a file or from a preset's name; a file of that very name comes first.

    Raises:
        PlanError: there is no such file and no such preset, or it cannot be read.
    """
    path = Path(name_or_path)
    if path.is_file():
        return _read(path)
    if path.suffix == ".json" or path.name != name_or_path:
        remedy = "Check the path, or give a preset's name; `stepbench plans` lists them."
        raise PlanError([_problem("PLAN", shown(name_or_path), "is no file", remedy)])
    presets = directory or preset_directory()
    if name_or_path in list_plans(presets):
        return _read(presets / f"{name_or_path}.json")
    known = list_plans(presets)
    remedy = f"{near_miss(name_or_path, known)}Presets: {alternatives(known)}."
    raise PlanError([_problem("PLAN", shown(name_or_path), "is neither a file nor a preset", remedy)])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise PlanError([_problem("PLAN", shown(str(path)), message, "Check the file's permissions.")]) from error


def _problem(path: str, value: str, message: str, remedy: str) -> Problem:
    return Problem(path=path, value=value, message=message, remedy=remedy)
