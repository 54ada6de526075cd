"""
What bounds an answer: the conditions under which it holds, and the caveats of all trials.

Caveats are grouped by kind, so that what six trials have in common is read once. Conditions are the size of the
records, the load, and the settings that the run compares.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from stepbench import digits
from stepbench.analysis.comparability import STORE, format_value, is_clients, shorten_path
from stepbench.analysis.pairs import WRITTEN_OUT
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.trial import Record
from stepbench.contracts.workload import RecordShape
from stepbench.report import document as doc
from stepbench.report.run import describe_state, name_caveat_kind, state_of, trial_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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


_SIZES = ("key_bytes", "value_bytes")


def _record_bytes(trial: TrialSummary) -> tuple[int, int] | None:
    """Return how large a record's key and value are; None where a trial has none, or those of another version."""
    with suppress(ValidationError):
        if traits_of(trial.experiment).by_trigger:
            fields = _below(trial, "record.")
            own = fields.get("values.facts.mean_bytes")
            record: Any = Record(**{name: fields[name] for name in fields if name in _SIZES})
            return record.key_bytes, record.value_bytes if own is None else round(float(own))
        if any(path.startswith("workload.") for path in trial.setup):
            record = _SHAPES.validate_python({"shape": "blob", **_below(trial, "workload.record.")})
            return (record.key_bytes, record.value_bytes) if record.value_bytes else None  # clusters have no size
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
