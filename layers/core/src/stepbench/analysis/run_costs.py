"""What a run cost, its trials and what belongs to none of them; the hours that nobody used; performance per dollar."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.cost import PARTS, CostItem, PerDollar, RunCost
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.measures import Estimate
from stepbench.costs.actual import LATER, run_items
from stepbench.costs.prices import bill, describe_prices
from stepbench.costs.standing import hours, standing
from stepbench.costs.transitions import run_transitions
from stepbench.stats.over_runs import mean_over_runs, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.cost import Cost
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import Accounting, TrialSummary
    from stepbench.costs.actual import FunctionUsage
    from stepbench.costs.standing import Deployment

MOST_MISSING = 0.001
"""The work is not done where more of it failed, was not sent or did not arrive."""
_LAST = (
    "RenderReport, ConcludeRun and the register of runs, which go on after this was written; "
    "ValidatePlan and AwaitTurn, which come before the run's turn"
)


class RunUsage(NamedTuple):
    """
    What a run did beside its trials.

    run_s: from its turn to its report.
    functions: those whose lines come too late for a trial's own account; None, and why, where they are not known.
    stored_bytes, objects: in the results bucket; None where that could not be listed.
    """

    run_s: float
    functions: tuple[FunctionUsage, ...] | None
    missing_logs: str
    stored_bytes: int
    objects: int | None


def run_cost(trials: Sequence[TrialSummary], use: RunUsage, deployment: Deployment) -> RunCost:
    """Return what the run cost; what is known of no trial is named."""
    ran = [trial for trial in trials if not trial.skipped]
    counted = sum(item.quantity for trial in ran for item in trial.cost_usd.items if item.item.startswith("Results b"))
    own = run_items(
        run_transitions(len(ran)),
        use.stored_bytes,
        max(0, (use.objects or 0) - round(counted)),
        use.functions or (),
        deployment,
    )
    items = (*_together(item for trial in ran for item in trial.cost_usd.items), *own)
    estimate = sum(trial.cost_usd.estimate for trial in trials)
    costs = [trial.cost_usd for trial in ran]
    charged = sum(item.usd for item in own) + sum(c.estimate if c.charged is None else c.charged for c in costs)
    return RunCost(
        estimate=estimate,
        actual=sum(item.usd for item in items),
        charged=charged if use.functions is not None else max(charged, estimate),
        items=items,
        left_out=tuple(_left_out([(trial.name, trial.cost_usd) for trial in ran], use)),
        emulated=bool(deployment.emulator),
        prices=describe_prices(deployment.region),
        idle=_idle(items, use.run_s / 3_600, deployment),
    )


def _together(items: Iterable[CostItem]) -> Iterator[CostItem]:
    """Yield one item for all of the same kind, the parts in their order; a note stays if all have it."""
    found: dict[tuple[str, ...], CostItem] = {}
    for item in items:
        key = (item.part, item.item, item.unit, str(item.unit_price_usd))
        if (before := found.get(key)) is not None:
            note = item.note if item.note == before.note else ""
            sums = {"quantity": before.quantity + item.quantity, "usd": before.usd + item.usd, "note": note}
            found[key] = before.model_copy(update=sums)
        else:
            found[key] = item
    yield from sorted(found.values(), key=lambda item: PARTS.index(item.part))


def _left_out(costs: Sequence[tuple[str, Cost]], use: RunUsage) -> Iterator[str]:
    """Yield each thing that is missing once, with how many trials it is missing of, unless that is all of them."""
    unknown = [name for name, cost in costs if cost.actual is None]
    if unknown:
        yield f"all of {', '.join(unknown)}"
    texts = dict.fromkeys(text for _, cost in costs for text in cost.left_out if text != LATER)
    for text in texts:
        having = sum(text in cost.left_out for _, cost in costs)
        yield text if having == len(costs) else f"{text} ({having} of {len(costs)} trials)"
    if use.functions is None:
        yield f"{LATER}: {use.missing_logs}"
    if use.objects is None:
        yield "what is stored of the run"
    yield _LAST


def _idle(items: Sequence[CostItem], run_hours: float, deployment: Deployment) -> tuple[CostItem, ...]:
    amounts = [amount for each in standing(deployment).values() for amount in hours(each, run_hours)]
    found = []
    for whole in _together(bill(*amounts, region=deployment.region).lines):
        used = sum(item.quantity for item in items if (item.part, item.item) == (whole.part, whole.item))
        rest = max(0.0, whole.quantity - used)
        found.append(whole.model_copy(update={"quantity": rest, "usd": rest * whole.unit_price_usd}))
    return tuple(found)


def per_dollar(trials: Sequence[TrialSummary]) -> tuple[PerDollar, ...]:
    """
    Return 1 / latency / dollars of each window for which it means something.

    The trial is complete and ran on AWS, whose prices say nothing of what an emulator does; its store's and its
    trigger's dollars are all known, and the median has an interval. Trials are set against each other only where they
    did the same work; repeats of one trial are no others, and count together. Executions of DAGs have their own (see
    `experiments.dataflow.analysis.windows`).
    """
    found: list[tuple[TrialSummary, PerDollar]] = []
    groups: dict[str, int] = {}
    for trial in trials:
        usd = trial.cost_usd.of("store", "trigger")
        emulated = trial.emulated or trial.cost_usd.emulated
        if not _is_whole(trial) or usd <= 0 or emulated or traits_of(trial.experiment).completes:
            continue
        for window in trial.windows:
            if (each := _of_window(trial, window, usd)) is not None:
                number = groups.setdefault(_work(trial, window), len(groups))
                found.append((trial, each.model_copy(update={"group": number})))
    return tuple(_ranked(found))


def _is_whole(trial: TrialSummary) -> bool:
    parts_known = not {"store", "trigger"} & set(trial.cost_usd.incomplete)
    counted = all(_is_done(account) for account in (trial.accounting, trial.warm_up) if account is not None)
    return not trial.incomplete and trial.cost_usd.actual is not None and parts_known and counted


def _is_done(account: Accounting) -> bool:
    missing = account.unsent + account.unrecorded + account.failed + account.unknown + account.lost
    return missing <= MOST_MISSING * account.offered


def _of_window(trial: TrialSummary, window: WindowResult, usd: float) -> PerDollar | None:
    median = window.latency_ms.p50
    if not median.value or not median.low or not median.high:
        return None
    value, low, high = (1 / (ms / 1_000) / usd for ms in (median.value, median.high, median.low))
    return PerDollar(
        trial=trial.index,
        phase=window.phase,
        window=window.name,
        latency_s=median.value / 1_000,
        usd=usd,
        value=value,
        low=low,
        high=high,
        group=0,
    )


def _work(trial: TrialSummary, window: WindowResult) -> str:
    """Return what two windows have in common that may be compared: all but the store and its settings."""
    setup = {path: value for path, value in trial.setup.items() if not path.startswith("target.")}
    offered = [account.offered if account else None for account in (trial.accounting, trial.warm_up)]
    facts = (trial.experiment, trial.load_hosts, window.phase, window.name, offered, setup)
    return json.dumps(facts, sort_keys=True, default=str)


def _ranked(found: Sequence[tuple[TrialSummary, PerDollar]]) -> Iterator[PerDollar]:
    """Yield each with how its trial's repeats, taken together, compare with the worst ones that did the same work."""
    repeats: dict[int, dict[str, list[Estimate]]] = {}
    for trial, each in found:
        estimate = Estimate(value=each.value, low=each.low, high=each.high)
        repeats.setdefault(each.group, {}).setdefault(_repeats_of(trial), []).append(estimate)
    for trial, each in found:
        runs, own = repeats[each.group], _repeats_of(trial)
        worst = min(runs, key=lambda name: mean_over_runs(runs[name]).value or 0)
        if len(runs) == 1:
            yield each
        elif own == worst:
            yield each.model_copy(update={"times_worst": 1.0})
        else:
            times = ratio(runs[own], runs[worst])
            update = {"times_worst": times.value, "times_low": times.low, "times_high": times.high}
            yield each.model_copy(update=update)


def _repeats_of(trial: TrialSummary) -> str:
    """Return what all repeats of a trial have in common, and no other trial has."""
    return trial.group or trial.name
