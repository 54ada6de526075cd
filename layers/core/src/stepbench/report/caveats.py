"""Caveats of all trials by kind, so that what six trials have in common is read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report.labels import trial_labels
from stepbench.report.words import describe_state, name_caveat_kind, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import Caveat, TrialSummary
    from stepbench.report.run import RunView, TrialView


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


def caveats_section(trials: Sequence[TrialSummary]) -> doc.Section:
    """Return the section on the caveats of all trials, a kind at a time."""
    nodes = tuple(node for group in caveat_groups(trials) for node in _group(group))
    return doc.Section("caveats", "Caveats and remedies", nodes or (doc.Sentence("None."),), link="Caveats")


def _group(group: CaveatGroup) -> Iterator[doc.Node]:
    yield doc.Heading((f"{group.name} ", doc.Span(group.extent, "note")), name=f"caveat-{group.kind}")
    terms = (
        doc.Term(group.label(trial), (doc.Sentence(_with_remedy(caveat)),), {"kind": caveat.kind, "trial": trial.index})
        for trial, caveat in group.caveats
    )
    yield doc.Terms(tuple(terms), "the same of others", 1)


def _with_remedy(caveat: Caveat) -> doc.Text:
    return (f"{caveat.text} ", doc.Span(caveat.remedy, "remedy"))


_NOTHING = (
    "The run left no trial behind: the plan was refused, or the run ended before its first trial began. ",
    doc.Span("stepbench validate PLAN", "code"),
    (
        " says what is wrong with a plan; the execution's own history in the Step Functions console says where the run "
        "ended."
    ),
)


def problems_section(run: RunView) -> doc.Section | None:
    """Return what stands before everything else: that the run was stopped, or ran nothing, or which trials failed."""
    found: list[doc.Node] = []
    troubled, number = run.troubled, len(run.trials)
    title = "The run was stopped" if number else "Nothing ran"
    if run.summary.status == "stopped":
        found.append(doc.Sentence("The run was stopped before its end. What had been measured until then is below."))
    if not number:
        found.append(doc.Sentence(_NOTHING))
    if troubled:
        title = f"{len(troubled)} of {digits.counted(number, 'trial')} did not complete"
        found.append(doc.Terms(tuple(map(_problem, troubled)), "The others that did not complete", 2))
    return doc.Section("problems", title, tuple(found)) if found else None


def _problem(view: TrialView) -> doc.Term:
    trial, failure = view.summary, view.summary.failure
    name = (f"{view.label} ", doc.Span(describe_state(trial), "verdict"))
    texts = [doc.Sentence(_with_remedy(each)) for each in trial.caveats if each.kind in {"skipped", "incomplete"}]
    if failure:
        cause = (": ", doc.Span(failure.cause, "cause")) if failure.cause else ""
        texts.insert(0, doc.Sentence((doc.Span(failure.error, "strong"), cause), "error"))
    return doc.Term(name, tuple(texts), {"trial": trial.index, "state": state_of(trial)})
