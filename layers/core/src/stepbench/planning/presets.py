"""
Plans by name or by file.

Presets live in the checkout's `events/plans/`; `events/presets.json` has their order. Functions find them in a layer.
"""

from __future__ import annotations

import difflib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, NamedTuple

import stepbench
from stepbench.contracts.base import alternatives
from stepbench.errors import PlanError, Problem
from stepbench.planning.problems import shown
from stepbench.planning.reading import MAX_PLAN_BYTES

NEAREST = 3
LAYER = "stepbench_presets"
"""The package that `events/Makefile` builds."""
_CHECKOUT_LEVELS = 4
"""`<checkout>/layers/core/src/stepbench`."""


def preset_directory(package: Path | None = None) -> Path:
    """
    Return `events/plans` of the checkout that this package runs from, or of the layer.

    Args:
        package: the package's own folder, for tests.

    Raises:
        PlanError: the package was installed without its checkout (`pip install .` instead of `-e .`).
    """
    folder = package or Path(stepbench.__file__).resolve().parent
    directory = folder.parents[_CHECKOUT_LEVELS - 1] / "events" / "plans"
    if directory.is_dir():
        return directory
    layer = find_spec(LAYER)
    if layer is not None and layer.origin:
        return Path(layer.origin).with_name("plans")
    message = "has no presets: this copy of stepbench was installed without its repository"
    raise PlanError([Problem("events/plans", shown(str(directory)), message, "Give the path of a plan file instead.")])


def list_plans(directory: Path | None = None) -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    return tuple(sorted(path.stem for path in (directory or preset_directory()).glob("*.json")))


class Question(NamedTuple):
    """A question that presets ask, or "" for those that ask none; `presets` names them, the one to begin with first."""

    question: str
    presets: tuple[str, ...]


def questions(directory: Path | None = None) -> tuple[Question, ...]:
    """Return all presets by the question that they ask, in the order of `events/presets.json`."""
    presets = directory or preset_directory()
    asked: dict[str, list[str]] = {}
    for name in json.loads((presets.parent / "presets.json").read_bytes()):
        question = json.loads(find_plan(name, presets)).get("question", "")
        asked.setdefault(question, []).append(name)
    return tuple(Question(question, tuple(names)) for question, names in asked.items())


def find_plan(name_or_path: str, directory: Path | None = None) -> bytes:
    """
    Return a plan's text, from a file or from a preset's name; a file of that very name comes first.

    Raises:
        PlanError: there is no such file and no such preset, or it cannot be read.
    """
    path = Path(name_or_path)
    if path.exists() and not path.is_dir():  # a pipe, too: <(jq … plan.json)
        return _read(path)
    if path.suffix in {".json", ".yaml", ".yml"} or path.name != name_or_path:
        remedy = "Check the path, or give a preset's name; `stepbench plans` lists them."
        raise PlanError([Problem("PLAN", shown(name_or_path), "is no file", remedy)])
    return find_preset(name_or_path, directory, Problem("PLAN", "", "is neither a file nor a preset", ""))


NO_PRESET = Problem("plan", "", "is no preset", "")


def find_preset(name: str, directory: Path | None = None, problem: Problem = NO_PRESET) -> bytes:
    """
    Return a preset's text; `problem` says where the name stood, and what it is not.

    Raises:
        PlanError: there is none of that name.
    """
    presets = directory or preset_directory()
    known = list_plans(presets)
    if name in known:
        return _read(presets / f"{name}.json")
    close = difflib.get_close_matches(name, known, n=NEAREST, cutoff=0)
    remedy = f"Did you mean {alternatives(close)}? `stepbench plans` lists all presets."
    raise PlanError([problem._replace(value=shown(name), remedy=remedy)])


def read_text(stream: BinaryIO) -> bytes:
    """Read a plan's text, and of one that is too long no more than shows that it is: a stream may have no end."""
    return stream.read(MAX_PLAN_BYTES + 1)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return read_text(file)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise PlanError([Problem("PLAN", shown(str(path)), message, "Check the file's permissions.")]) from error
