"""Whether there is what a plan names: windows and kinds of its thresholds; tasks, makers, parameters of its DAGs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.base import alternatives, near_miss
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.threshold_grammar import ThresholdError, parse_judge, parse_threshold
from stepbench.contracts.thresholds import OF_FUNCTIONS, OF_TRIGGERS
from stepbench.contracts.trial import TrialFields
from stepbench.errors import Problem
from stepbench.experiments.dataflow.tasks.application import (
    ApplicationError,
    faults_of,
    find_maker,
    find_task,
    parameters_of,
)
from stepbench.experiments.dataflow.tasks.application_parameters import Given
from stepbench.planning.problems import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stepbench.contracts.thresholds import Judge, Threshold
    from stepbench.planning.expansion import Expanded


class _Planned(NamedTuple):
    """
    A measured window of a plan: its name, whether its events arrive, otherwise its kinds of operations.

    function: whether they arrive at a measured function.
    """

    name: str
    arrives: bool
    kinds: frozenset[str]
    transfers: bool = False
    function: bool = False

    def matches(self, threshold: Threshold) -> bool:
        return (
            (not self.transfers or threshold.statistic in {"errors", "unsent"})
            and threshold.window in {None, self.name}
            and self.has(threshold)
            and (threshold.kind is None or threshold.kind in self.kinds)
        )

    def has(self, measured: Threshold | Judge) -> bool:
        """Return whether there is such a measure of it: some are of triggers, others of a user's own function."""
        if measured.measure in OF_FUNCTIONS:
            return self.function
        return self.arrives or measured.measure not in OF_TRIGGERS


def threshold_problems(texts: Sequence[Any], trials: Sequence[Expanded]) -> list[Problem]:
    """
    Return a problem for each name that none of the trials has, and for each threshold that is about nothing.

    Args:
        texts: the thresholds; what is none among them is passed over.
        trials: those of the plan.
    """
    windows = list(_windows(trials))
    return [
        Problem(f"thresholds[{place}]", shown(text), message, remedy)
        for place, text in enumerate(texts)
        for threshold in _parsed(text)
        for message, remedy in _problems(threshold, windows)
    ]


def judge_problems(text: Any, trials: Sequence[Expanded]) -> list[Problem]:  # noqa: ANN401 -- any JSON
    """Return a problem if none of the trials has the measure that the run is to be judged by."""
    try:
        judge = parse_judge(text) if isinstance(text, str) else None
    except ThresholdError:
        return []
    windows = [window for window in _windows(trials) if not window.transfers]
    if judge is None or any(window.has(judge) for window in windows):
        return []
    whose = "a measured function has (target.function)" if judge.measure in OF_FUNCTIONS else "triggers and DAGs have"
    message = f"is {judge.name}, which {whose}, and the plan has none"
    message = message if windows else "is of events and operations, and the plan has transfers alone"
    return [Problem("judge", shown(text), message, 'Remove it, or judge by another measure, such as "p99".')]


def _parsed(text: Any) -> list[Threshold]:  # noqa: ANN401 -- any JSON
    try:
        return [parse_threshold(text)] if isinstance(text, str) else []
    except ThresholdError:
        return []


def thresholds_about(texts: Sequence[str], trials: Sequence[Expanded]) -> tuple[str, ...]:
    """Return the thresholds that are about any window of the trials."""
    windows = list(_windows(trials))
    return tuple(text for text in texts if any(window.matches(parse_threshold(text)) for window in windows))


def _windows(trials: Sequence[Expanded]) -> Iterator[_Planned]:
    for trial in trials:
        traits = traits_of(trial.plan.experiment)
        mix = trial.plan.workload.mix if trial.plan.workload else None
        kinds = frozenset(kind.name.lower() for kind in mix.kinds) if mix else frozenset()
        function = trial.plan.target.function is not None
        for phase in trial.plan.phases:
            for window in phase.all_windows():
                yield _Planned(window.name, traits.latency.arrives, kinds, not traits.windows, function)


_NOTHING = (
    "is about no window: no trial has all that it names",
    "Split it, or name less in it; of transfers there are errors alone.",
)


def _problems(threshold: Threshold, windows: Sequence[_Planned]) -> list[tuple[str, str]]:
    if any(window.matches(threshold) for window in windows):
        return []
    names = list(dict.fromkeys(window.name for window in windows))
    kinds = sorted({kind for window in windows for kind in window.kinds})
    found = [*_unknown("window", threshold.window, names), *_unknown("kind of operation", threshold.kind, kinds)]
    if threshold.measure in OF_TRIGGERS and not any(window.arrives for window in windows):
        remedy = "Remove it; of operations there are latency, response, service, lateness, errors and throughput."
        found.append((f"limits {threshold.measure}, which triggers and DAGs have, and the plan has none", remedy))
    elif threshold.measure in OF_FUNCTIONS and not any(window.function for window in windows):
        remedy = "Remove it, or name the function in target.function."
        found.append((f"limits {threshold.measure}, which only a measured function has", remedy))
    return found or [_NOTHING]


def _unknown(what: str, name: str | None, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    if name is not None and name not in known:
        there_are = f"The plan measures {alternatives(known)}." if known else "The plan has none."
        yield f'names a {what} that the plan does not measure: "{name}"', f"{near_miss(name, known)}{there_are}"


_REMEDY = "Name one that there is, or add a module with it to experiments/dataflow/tasks/applications."


class _Named(NamedTuple):
    """A task or a maker, where a plan names it, and what it is to be given."""

    name: str
    path: str
    field: str
    find: Callable[[str], object]
    given: Given


def application_problems(trials: Iterable[Expanded]) -> list[Problem]:
    """
    Return a problem for each task, maker and parameter that no application has, or not with such a value.

    Of a matrix each combination counts; what is wrong in several is reported once.
    """
    by_source = sorted((each for each in trials if each.repeat == 0), key=lambda each: each.source)
    return list(dict.fromkeys(problem for named in _names(by_source) for problem in _application_problems(named)))


def _names(trials: Iterable[Expanded]) -> Iterator[_Named]:
    for trial in trials:
        for number, dag in enumerate(trial.plan.dags if isinstance(trial.plan, TrialFields) else ()):
            path = f"trials[{trial.source}].dags[{number}]"
            for place, stage in enumerate(dag.stages):
                given = Given(stage.parameters, bool(stage.inputs) or dag.input is not None, stage.timeout_s)
                yield _Named(stage.task, f"{path}.stages[{place}]", "task", find_task, given)
            if dag.input is not None and dag.input.maker is not None:
                yield _Named(dag.input.maker, f"{path}.input", "maker", find_maker, Given(dag.input.parameters))


def _application_problems(named: _Named) -> Iterator[Problem]:
    try:
        named.find(named.name)
    except ApplicationError as error:
        yield Problem(f"{named.path}.{named.field}", shown(named.name), str(error), _REMEDY)
        return
    known = parameters_of(named.name)
    for name, value in named.given.parameters.items():
        if known is not None and name not in known:
            remedy = f"It has {', '.join(sorted(known)) or 'none'}."
            yield Problem(f"{named.path}.parameters.{name}", shown(value), f"is no parameter of {named.name}", remedy)
    for fault in faults_of(named.name, named.given):
        value = shown(named.given.parameters[fault.name])
        yield Problem(f"{named.path}.parameters.{fault.name}", value, fault.message, fault.remedy)
