"""Under which conditions a run's answer holds: the size of its records, its load, and the settings that it compares."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from stepbench import digits
from stepbench.analysis.comparability import STORE, format_value, is_clients, shorten_path
from stepbench.analysis.pairs import WRITTEN_OUT
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.trial import Record
from stepbench.contracts.workload import RecordShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.contracts.result import TrialSummary

_SHAPES: TypeAdapter[Any] = TypeAdapter(RecordShape)
_RATE = re.compile(r"phases\[[^\]]+\]\.load\[\d+\]\.rate_per_s")
_OF_TARGET = re.compile(r"target\.(?!store$|endpoint$).+")
_OF_STORE = re.compile(r"(target|record)\.(?!endpoint$).+")
_DEFAULT = "default"
"""A setup leaves out what has its default."""
_MOST_LISTED = 4
"""Of more values, the first and the last are named."""


def describe_conditions(trials: Sequence[TrialSummary]) -> str:
    """
    Describe what the trials that measured something have in common, and what of them is compared.

    `Measured with records of 948 B (key 59 B, value 889 B), at 40/s. Varied: batch size 1, 10 and 100.` Empty where
    nothing is known of it, as of older versions' summaries.
    """
    measured = [trial for trial in trials if trial.windows and trial.setup]
    common = (_describe_sizes(measured), _describe_load(measured), *_common_settings(measured))
    compared = "; ".join(_compared_settings(measured))
    named = ", ".join(filter(None, common))
    parts = (f"Measured with {named}." if named else "", f"Varied: {compared}." if compared else "")
    return " ".join(filter(None, parts))


def _describe_sizes(trials: Sequence[TrialSummary]) -> str:
    sizes = sorted({size for trial in trials if (size := _record_bytes(trial))}, key=sum)
    if len(sizes) == 1:
        ((key, value),) = sizes
        total = digits.count(key + value)
        return f"records of {total} B (key {digits.count(key)} B, value {digits.count(value)} B)"
    return f"records of {_join([sum(size) for size in sizes], digits.count)} B" if sizes else ""


def _record_bytes(trial: TrialSummary) -> tuple[int, int] | None:
    """Return how large a record's key and value are; None where a trial has none, or those of another version."""
    with suppress(ValidationError):
        if traits_of(trial.experiment).by_trigger:
            record: Any = Record(**_below(trial, "record."))
            return record.key_bytes, record.value_bytes
        if any(path.startswith("workload.") for path in trial.setup):
            record = _SHAPES.validate_python({"shape": "blob", **_below(trial, "workload.record.")})
            return record.key_bytes, record.value_bytes
    return None


def _below(trial: TrialSummary, prefix: str) -> dict[str, Any]:
    return {path.removeprefix(prefix): value for path, value in trial.setup.items() if path.startswith(prefix)}


def _describe_load(trials: Sequence[TrialSummary]) -> str:
    """Describe clients and rates of the measured phases: `5 clients`, `at 20/s`, `5 clients and 20/s`."""
    items = [item for trial in trials for item in trial.setup.items()]
    clients = sorted({int(value) for path, value in items if is_clients(path) and isinstance(value, int | float)})
    rates = sorted({float(value) for path, value in items if _RATE.fullmatch(path) and isinstance(value, int | float)})
    offered = f"at {_join(rates, _rate)}" if rates else ""
    if not clients:
        return offered
    named = f"{_join(clients, digits.count)} {'client' if clients == [1] else 'clients'}"
    return f"{named} and {offered.removeprefix('at ')}" if rates else named


def _rate(per_s: float) -> str:
    return f"{digits.rate(per_s)}/s"


def _common_settings(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """Yield what all targets have in common that is not as it would be unsaid."""
    for path, value in trials[0].setup.items() if trials else ():
        same = all(trial.setup.get(path) == value for trial in trials)
        if _OF_TARGET.fullmatch(path) and same and value not in {False, None}:
            yield f"{_name(path, [])} {format_value(value)}"


def _compared_settings(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """Yield each setting of which there are several values, with these; of several stores what these share."""
    found = [{**trial.setup, **trial.point} for trial in trials]
    alone = len({trial.store for trial in trials}) == 1
    own = [path for each in found if alone for path in each if _OF_STORE.fullmatch(path)]
    points = [path for trial in trials for path in trial.point if not is_clients(path)]
    paths = tuple(dict.fromkeys((*points, *own, *WRITTEN_OUT)))
    for path in paths:
        values = [each.get(path, _DEFAULT) for each in found if alone or path in each]
        different = {json.dumps(value): value for value in values}
        if len(different) > 1:
            yield f"{_name(path, paths)} {_join(list(different.values()), format_value, _most(path))}"


def _most(path: str) -> int:
    """Return how many values of a setting are named: every store, since each is a row."""
    return 100 if path == STORE else _MOST_LISTED


def _name(path: str, paths: Sequence[str]) -> str:
    return shorten_path(path, paths).replace("_", " ")


def _join(values: Sequence[Any], format_one: Callable[[Any], str], most: int = _MOST_LISTED) -> str:
    if len(values) > most:
        return f"{format_one(values[0])}, {format_one(values[1])}, …, {format_one(values[-1])}"
    return digits.listed(list(map(format_one, values)))
