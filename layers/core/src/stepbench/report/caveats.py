"""Caveats of all trials by kind, so that what six trials have in common is read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.report.labels import trial_labels
from stepbench.report.words import name_caveat_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import Caveat, TrialSummary


@dataclass(frozen=True)
class CaveatGroup:
    """It holds all caveats of one kind, each with its trial; `trials` is how many the run has."""

    kind: str
    caveats: tuple[tuple[TrialSummary, Caveat], ...]
    labels: dict[int, str]
    trials: int

    @property
    def name(self) -> str:
        """Return the kind's name."""
        return name_caveat_kind(self.kind)

    @property
    def extent(self) -> str:
        """Return how many trials have it: `5 of 6 trials`; empty for a run of one trial."""
        return f"{self.affected} of {self.trials} trials" if self.trials > 1 else ""

    @property
    def affected(self) -> int:
        """Return how many trials have it."""
        return len({trial.index for trial, _ in self.caveats})

    @property
    def whom(self) -> str:
        """Return which trials have it: `5 of 6 trials, the first etcd`, or the name of the only one."""
        first = self.label(self.caveats[0][0])
        return f"{self.extent}, the first {first}" if self.affected > 1 else first

    @property
    def text(self) -> str:
        """Return the first one's text and remedy."""
        caveat = self.caveats[0][1]
        return f"{caveat.text} {caveat.remedy}".rstrip()

    def label(self, trial: TrialSummary) -> str:
        """Return a trial's name in this report."""
        return self.labels[trial.index]


def caveat_groups(trials: Sequence[TrialSummary]) -> tuple[CaveatGroup, ...]:
    """Return the groups in the order in which their kinds come first."""
    labels = {trial.index: label for trial, label in zip(trials, trial_labels(trials), strict=True)}
    found: dict[str, list[tuple[TrialSummary, Caveat]]] = {}
    for trial in trials:
        for caveat in trial.caveats:
            found.setdefault(caveat.kind, []).append((trial, caveat))
    return tuple(CaveatGroup(kind, tuple(each), labels, len(trials)) for kind, each in found.items())
