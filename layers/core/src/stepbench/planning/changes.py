"""Changes to a plan by who starts it: values by path, repeats, and how long what is measured takes."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.base import alternatives, near_miss
from stepbench.errors import PlanError, Problem, raise_problems
from stepbench.planning.problems import shown, shown_below
from stepbench.planning.schema import path_text, put_value, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.planning.schema import Step

ALL = "*"
_INDEX = r"(\[([0-9]{1,6}|\*)\])*"
_PATH = re.compile(rf"[A-Za-z_]\w*{_INDEX}(\.[A-Za-z_]\w*{_INDEX})*")
_LIKE_A_PATH = re.compile(r"[\w.*\[\]-]{1,100}")
"""What may be shown of a text that is no change: other text may be a value, and so a row or a secret."""
_FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]+")
CHANGE_FORM = "Write it as trials[0].phases[1].load[0].rate_per_s=500, counting from 0, or trials[*] for all trials."

_LENGTHS = frozenset(
    {
        "budget_usd", "count", "description", "drain_limit_s", "duration_s", "log_t4", "max_concurrency", "name",
        "operations", "order", "repeats", "seed", "settle_s", "thresholds",
    }
)  # fmt: skip
"""Fields that say how much is measured, how long, how often, which is what no plan's question asks about."""
_LOADS = frozenset(
    {"arrivals", "clients", "endpoint", "key_bytes", "rate_per_s", "records", "store", "value_bytes", "writers"}
)
"""A question may ask about these where a plan has several values of them."""


class Changes(NamedTuple):
    """The changes, in this order: `duration_s` of each measured phase, `repeats` of each trial, values by path."""

    duration_s: float | None = None
    repeats: int | None = None
    values: tuple[tuple[str, Any], ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything is changed."""
        return self != Changes()

    def __str__(self) -> str:
        """Return `each measured phase lasts 20 s, trials[*].repeats = 3`."""
        values = [*([("trials[*].repeats", self.repeats)] if self.repeats else []), *self.values]
        length = [f"each measured phase lasts {self.duration_s:g} s"] if self.duration_s else []
        return ", ".join([*length, *(f"{path} = {shown_below(steps_of(path), value)}" for path, value in values)])


def is_path(text: str) -> bool:
    """Return whether a text is a path of a plan, such as `trials[0].writers`."""
    return bool(_PATH.fullmatch(text))


def parse_change(text: str) -> tuple[str, Any]:
    """
    Return path and value of `PATH=VALUE`; the value is JSON, or a fraction such as `.5`, or else text.

    Raises:
        ValueError: it is no such text.
    """
    path, equals, value = text.partition("=")
    if not equals or not is_path(path.strip()):
        named = f"{path.strip()} " if equals and _LIKE_A_PATH.fullmatch(path.strip()) else "it "
        message = f"{named}is no PATH=VALUE. {CHANGE_FORM}"
        raise ValueError(message)
    try:
        return path.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return path.strip(), float(value) if _FRACTION.fullmatch(value) else value


def changed(document: dict[str, Any], full: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """
    Return the plan with the changes made.

    Args:
        document: the plan as its author wrote it.
        full: the same with every default, which says what there is to be changed.
        changes: what to change.

    Raises:
        PlanError: with all paths that lead nowhere.
    """
    document = json.loads(json.dumps(document))  # a copy in which no two places share an object, as YAML's aliases do
    full = copy.deepcopy(full)
    if changes:
        document.pop("description", None)  # it says what the plan was before
    if not all(_keeps_question(path, full) for path, _ in changes.values):
        document.pop("question", None)  # it may ask about what is changed
    if changes.duration_s:
        _set_durations(document["trials"], changes.duration_s)
    if changes.repeats:
        for trial in document["trials"]:
            trial["repeats"] = changes.repeats
    problems: list[Problem] = []
    for path, value in changes.values:
        try:
            for place in _places(full, steps_of(path), ()):
                put_value(document, full, place, value)
                put_value(full, full, place, value)
        except PlanError as error:
            problems.extend(error.problems)
    raise_problems(problems)
    return document


def _keeps_question(path: str, full: dict[str, Any]) -> bool:
    """Return whether a plan's question, which may compare the values of a field, surely is not about a change."""
    name = next(step for step in reversed(steps_of(path)) if isinstance(step, str) and step != ALL)
    return name in _LENGTHS or (name in _LOADS and len(set(_values_of(name, full["trials"]))) <= 1)


def _values_of(field: str, inside: Any) -> Iterator[str]:  # noqa: ANN401 -- any JSON
    """Yield the values of all fields of a name, and of those that a matrix has for it, as JSON."""
    if isinstance(inside, list):
        for entry in inside:
            yield from _values_of(field, entry)
    elif isinstance(inside, dict):
        for key, value in inside.items():
            if key == field:
                yield json.dumps(value)
            elif key.endswith(f".{field}"):
                yield from map(json.dumps, value)
            else:
                yield from _values_of(field, value)


def _set_durations(trials: list[dict[str, Any]], duration_s: float) -> None:
    for number, trial in enumerate(trials):
        if trial.get("experiment") == "transfer":
            message = f"does not apply to trials[{number}]: a transfer takes as long as its file does"
            remedy = f"Use --set 'trials[{number}].transfers=N'."
            raise PlanError([Problem("--duration", f"{duration_s:g}", message, remedy)])
        _set_duration(trial, duration_s)


def _set_duration(trial: dict[str, Any], duration_s: float) -> None:
    """Stretch each measured phase to the duration: its steps and windows in proportion; counts become durations."""
    for phase in trial["phases"]:
        if not phase.get("measured", True):
            continue
        if (waits := phase.get("closed") or phase.get("invoked")) is not None:
            length_s = waits.get("duration_s", duration_s)
            waits["duration_s"] = duration_s
        else:
            lengths = [step.get("duration_s") or step["count"] / step["rate_per_s"] for step in phase["load"]]
            length_s = sum(lengths)
            for step, own_s in zip(phase["load"], lengths, strict=True):
                step.pop("count", None)
                step["duration_s"] = round(duration_s * own_s / length_s, 6)
        for window in phase.get("windows", ()):
            for edge in ("from_s", "to_s"):
                window[edge] = round(window[edge] * duration_s / length_s, 6)


def _places(full: Any, steps: tuple[Step, ...], before: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:  # noqa: ANN401 -- any JSON
    """Yield every place that a path names, `*` written out; raises PlanError where it leads nowhere."""
    if not steps:
        yield before
        return
    step, *rest = steps
    if isinstance(full, list) and step == ALL and full:
        for index, entry in enumerate(full):
            yield from _places(entry, tuple(rest), (*before, index))
    elif (isinstance(full, dict) and step in full) or (isinstance(full, list) and step in range(len(full))):
        inner: Any = full
        yield from _places(inner[step], tuple(rest), (*before, step))
    else:
        raise PlanError([_nowhere(full, step, before)])


def _nowhere(full: Any, step: Step, before: tuple[Step, ...]) -> Problem:  # noqa: ANN401 -- any JSON
    path, where = path_text((*before, step)), path_text(before)
    if isinstance(full, dict):
        remedy = f"{near_miss(step, full)}Known there: {alternatives(full)}."
        return Problem(f"--set {path}", shown(str(step)), f"leads nowhere: it is no field of {where}", remedy)
    if isinstance(full, list):
        there = f"{where}[0] to {where}[{len(full) - 1}]" if len(full) > 1 else f"{where}[0]" if full else "none"
        remedy = f"There is {there}; counting begins at 0."
        return Problem(f"--set {path}", shown(step), f"leads nowhere: it is no entry of {where}", remedy)
    message = f"leads nowhere: {where} is {shown_below(before, full)} in this plan"
    return Problem(f"--set {path}", shown(step), message, f"Set {where} as a whole, as JSON.")
