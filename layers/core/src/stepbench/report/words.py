"""Words for states and caveats of trials, and lines that fit; cheap to import."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import Caveat, TrialSummary

State = Literal["complete", "incomplete", "failed", "skipped"]
_PARTS = re.compile(r"(?<=[,;]) (?![^\[(]*[\])])")
"""Where a line may end: behind a comma or semicolon, but not within an interval or a remark."""
_CAVEAT_NAMES = {
    "t4_in_fallback": "t4 in fallback",
    "clock_unmeasured": "clock unmeasured",
    "saturated_generator": "late sends",
    "dependent_sample": "dependent events",
    "batching_window_ignored": "batching window ignored",
    "setting_without_effect": "setting without full effect",
}


def state_of(trial: TrialSummary) -> State:
    """Return `failed` if nothing was measured, `incomplete` if some of it was, `skipped` if it was not to run here."""
    if trial.skipped:
        return "skipped"
    if not trial.failure and not trial.incomplete:
        return "complete"
    transferred = trial.transfers is not None and trial.transfers.accounting.ok > 0
    return "incomplete" if transferred or any(window.n for window in trial.windows) else "failed"


def format_caveat_kind(caveat: Caveat) -> str:
    """Name a caveat's kind in a word or two."""
    return name_caveat_kind(caveat.kind)


def name_caveat_kind(kind: str) -> str:
    """Name a kind of caveat in a word or two."""
    return _CAVEAT_NAMES.get(kind, kind.replace("_", " "))


def format_caveat_kinds(caveats: Sequence[Caveat]) -> str:
    """Name the kinds of caveats, each once."""
    return ", ".join(dict.fromkeys(map(format_caveat_kind, caveats)))


def describe_state(trial: TrialSummary) -> str:
    """Describe what became of a trial that did not end well, without its error."""
    sentences = {
        "complete": "Complete.",
        "incomplete": "Incomplete: what was measured is shown below, and marked.",
        "failed": "Failed before anything was measured.",
        "skipped": "Skipped: not run here, and not replaced by anything.",
    }
    return sentences[state_of(trial)]


def fit(lines: Sequence[str], width: int) -> str:
    """Join whole parts of lines as long as they fit: a number that is cut off is another number."""
    parts = [part for line in lines for part in _PARTS.split(f"{line.rstrip('.')};")]
    text = " ".join(parts).rstrip(";")
    while len(text) > width and len(parts) > 1:
        parts.pop()
        text = f"{' '.join(parts)} …"
    return text if len(text) <= width else f"{text[: width - 1]}…"
