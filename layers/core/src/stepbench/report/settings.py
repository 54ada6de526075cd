"""One setting changed: which trials are set side by side, under what heading."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.report.groups import value_words
from stepbench.report.labels import window_label

if TYPE_CHECKING:
    from stepbench.contracts.measures import SettingComparison
    from stepbench.contracts.result import RunSummary, TrialSummary

_UNSET = {"target.region": "the stack's own"}


@dataclass(frozen=True)
class SettingRow:
    """One window of two groups; `window` is empty where the trial has no other."""

    comparison: SettingComparison
    a: TrialSummary
    b: TrialSummary
    window: str


@dataclass(frozen=True)
class SettingPart:
    """All rows of one setting and two values of it: `words` are `tls: true against false`."""

    setting: str
    words: str
    rows: tuple[SettingRow, ...]


def setting_parts(summary: RunSummary) -> tuple[SettingPart, ...]:
    """In the order of the summary."""
    parts: dict[tuple[str, str, str], list[SettingRow]] = {}
    for each in summary.settings:
        a, b = (_first(summary, group) for group in (each.group_a, each.group_b))
        window = window_label(b, each.phase, each.window) if len(b.windows) > 1 else ""
        parts.setdefault((each.setting, each.a, each.b), []).append(SettingRow(each, a, b, window))
    return tuple(SettingPart(setting, _words(setting, a, b), tuple(rows)) for (setting, a, b), rows in parts.items())


def _first(summary: RunSummary, group: str) -> TrialSummary:
    return next(trial for trial in summary.trials if group == (trial.group or trial.name) and not trial.incomplete)


def _words(setting: str, a: str, b: str) -> str:
    first, second = (_value(setting, json.loads(value)) for value in (a, b))
    return f"{setting.rsplit('.', maxsplit=1)[-1]}: {second} against {first}"


def _value(setting: str, value: str | bool | None) -> str:  # noqa: FBT001 -- a setting's value
    return _UNSET.get(setting, "none") if value is None else value_words(value)
