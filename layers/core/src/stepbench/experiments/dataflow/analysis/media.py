"""Which store for a DAG, and how sure: by its time, and by performance per dollar; in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.contracts.dataflow.media import Medium, MediumAnswer
from stepbench.experiments.dataflow.analysis.groups import dag_groups, medium_names, same_work
from stepbench.stats.over_runs import mean_over_runs, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialSummary
    from stepbench.experiments.dataflow.analysis.groups import DagGroup, Place

    Values = Callable[[DagGroup], list[Estimate]]


class _Question(NamedTuple):
    """What is asked: `lowest` is best or not, and the table's name and idle hours of performance per dollar."""

    lowest: bool
    prices: str = ""
    idle: bool = False


def medium_answers(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[MediumAnswer, ...]:
    """
    Return the answers for each window of a DAG that several stores had: by time, then by dollars.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan.
    """
    works = list(same_work(list(dag_groups(trials, listed).values())))
    windows = Counter(place.dag for place, _ in works)
    return tuple(
        answer.model_copy(update={"text": _text(answer, several=windows[place.dag] > 1)})
        for place, members in works
        for answer in _answers(place, members)
    )


def _answers(place: Place, groups: list[DagGroup]) -> Iterator[MediumAnswer]:
    yield from _answer(place, groups, _Question(lowest=True), lambda group: group.end_to_end(place))
    flows = [group.first.dataflow for group in groups]
    tables = dict.fromkeys((cost.prices, cost.idle) for flow in flows if flow for cost in flow.costs)
    for prices, idle in tables:
        question = _Question(lowest=False, prices=prices, idle=idle)

        def perf(group: DagGroup, prices: str = prices, *, idle: bool = idle) -> list[Estimate]:
            return group.perf_per_usd(place, prices, idle=idle)

        yield from _answer(place, groups, question, perf)


def _answer(place: Place, groups: list[DagGroup], question: _Question, values: Values) -> Iterator[MediumAnswer]:
    names = medium_names(groups)
    emulated = [names[group.name] for group in groups if group.first.emulated]
    known = [
        (group, runs)
        for group in groups
        if not group.first.emulated and (runs := values(group)) and all(run.value for run in runs)
    ]
    with_result = {names[group.name] for group, _ in known} | set(emulated)
    failed = [names[group.name] for group in groups if names[group.name] not in with_result]
    if len(known) + len(emulated) + len(failed) < 2:  # noqa: PLR2004 -- one has nothing beside it
        return
    sign = 1 if question.lowest else -1
    known.sort(key=lambda each: sign * (_together(each[1]).value or 0))
    advantages = [_advantage(known[0][1], runs, question) for _, runs in known[1:]]
    sure = bool(advantages) and all(each.low is not None and each.low > 1 for each in advantages)
    ranked = tuple(
        Medium(name=names[group.name], group=group.name, runs=len(runs), value=_together(runs)) for group, runs in known
    )
    yield MediumAnswer(
        dag=place.dag,
        phase=place.phase,
        window=place.window,
        measure="end_to_end" if question.lowest else "perf_per_usd",
        prices=question.prices,
        idle=question.idle,
        ranked=ranked,
        not_ranked=tuple(emulated),
        failed=tuple(failed),
        sure=sure,
        advantage=advantages[0] if advantages else None,
        text="",
    )


def _together(runs: Sequence[Estimate]) -> Estimate:
    return runs[0] if len(runs) == 1 else mean_over_runs(runs)


def _advantage(best: Sequence[Estimate], other: Sequence[Estimate], question: _Question) -> Estimate:
    """Return by what factor the best one is better."""
    return ratio(other, best) if question.lowest else ratio(best, other)


def _text(answer: MediumAnswer, *, several: bool) -> str:
    """Return the answer as a sentence, which names the window where the DAG has several."""
    what = f"{answer.dag} in {answer.window}" if several else answer.dag
    left_out = f" {digits.listed(answer.not_ranked)}: emulated, and not ranked." if answer.not_ranked else ""
    if answer.failed:
        left_out += f" {digits.listed(answer.failed)}: most executions failed, and not ranked."
    if not answer.ranked:
        return f"For {what}, no store is ranked.{left_out}"
    where = _where(answer)
    best, *others = (medium.name for medium in answer.ranked)
    if not others or answer.advantage is None:
        return f"For {what}{where} only {best} can be ranked.{left_out}"
    times = digits.shown(answer.advantage, digits.TIMES).in_sentence()
    if answer.measure == "end_to_end":
        claim = (
            f"{best} is the fastest"
            if answer.sure
            else f"no store is shown to be the fastest; {best} has the lowest median"
        )
        compared = f"{others[0]} takes {times} as long"
    else:
        claim = (
            f"{best} gives the most"
            if answer.sure
            else f"no store is shown to give the most; {best} has the highest median"
        )
        claim = f"{claim} performance per dollar" if answer.sure else claim
        compared = f"{times} that of {others[0]}"
    return f"For {what}{where} {claim}: {compared}.{left_out}"


def _where(answer: MediumAnswer) -> str:
    if answer.measure == "end_to_end":
        return ","
    return f", per dollar ({answer.prices}, {'with' if answer.idle else 'without'} idle hours),"
