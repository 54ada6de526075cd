"""
Made-up runs that vary a measured function: its memory, with the price of each, and its code, before and after.

The truth is planted: how long the handler takes, what Lambda bills for it by the price table, and from which memory on
a threshold is kept. Nothing in it was measured.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.samples.results import accounting, changed, latency, numbered, sample_facts, trial_summary, window_of_writes

from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.cost import Cost
from stepbench.contracts.measures import HandlerResult
from stepbench.contracts.result import Caveat, TrialResult
from stepbench.contracts.threshold_grammar import parse_judge, parse_threshold
from stepbench.costs.actual import FunctionUsage, function_amounts
from stepbench.costs.prices import bill
from stepbench.report.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.result import RunSummary

MEMORY, PACKAGE = "target.function.memory_mib", "target.function.package"
EVENTS = 400
HANDLER_MS = {128: 160.0, 256: 80.0, 512: 42.0, 1024: 36.0, 2048: 34.0}
"""Twice the memory takes half the time, until what it waits for is left: so 512 MiB costs little more than 128."""
BEFORE, AFTER = (f"functions/{sha * 8}/{name}.zip" for sha, name in (("3f2a91c0", "before"), ("b7d04e11", "after")))


def setting_result(
    name: str, point: Mapping[str, Any], handler_ms: float, repeat: int, rng: random.Random
) -> TrialResult:
    """Return a trial of a function that takes so long, on AWS; its trigger takes 20 ms more."""
    run = rng.lognormvariate(0, 0.01)
    times = [handler_ms * run * rng.lognormvariate(0, 0.05) for _ in range(EVENTS)]
    arrived = [20 * rng.lognormvariate(0, 0.1) + (time / 4) for time in times]
    window = window_of_writes("steady", "steady", arrived, [6.0] * EVENTS, arrived, [0.03] * EVENTS, 20)
    handler = HandlerResult(
        handler_ms=latency(times), to_processed_ms=latency([*map(sum, zip(arrived, times, strict=True))]),
        arrived=EVENTS, processed=EVENTS, processed_twice=0, failed_once=0, given_up=0, invocations=EVENTS,
        partly_failed=0, never_ended=0, cold_starts=0, init_ms=None, most_at_once=4,
    )  # fmt: skip
    memory_mib = point.get(MEMORY, 512)
    used = FunctionUsage("MeasuredFunction", EVENTS, sum(times) / 1_000 * memory_mib / 1_024)
    items = bill(*function_amounts([used], arm64=False), region="us-east-1").lines
    summary = trial_summary(
        name, "dynamodb", provider="Amazon DynamoDB", windows=(window.model_copy(update={"handler": handler}),),
        group=name.partition("-r")[0], base="dynamodb", repeat=repeat, point=dict(point), function="orders",
        accounting=accounting(sent=EVENTS, ok=EVENTS, received=EVENTS, processed=EVENTS),
        cost_usd=Cost(estimate=0.01, actual=sum(each.usd for each in items), items=items),
    )  # fmt: skip
    return TrialResult(summary=summary, series=(), phases=(), ecdf=())


def memory_results(repeats: int = 3, handler_ms: Mapping[int, float] = HANDLER_MS) -> tuple[TrialResult, ...]:
    """Return the interleaved trials of a matrix over memory."""
    rng = random.Random(7)  # noqa: S311
    rounds = [(repeat, memory) for repeat in range(repeats) for memory in handler_ms]
    return numbered(
        setting_result(f"dynamodb-{memory}-r{repeat + 1}", {MEMORY: memory}, handler_ms[memory], repeat, rng)
        for repeat, memory in rounds
    )


def version_results(
    slower: float = 0.1, repeats: int = 3, path: str = PACKAGE, values: Sequence[Any] = (BEFORE, AFTER)
) -> tuple[TrialResult, ...]:
    """Return the interleaved trials of two versions, of which the second takes so much longer."""
    rng = random.Random(7)  # noqa: S311
    sides = [*zip(values, (50.0, 50.0 * (1 + slower)), strict=True)]
    rounds = [(repeat, value, takes_ms) for repeat in range(repeats) for value, takes_ms in sides]
    return numbered(
        setting_result(f"dynamodb-{values.index(value)}-r{repeat + 1}", {path: value}, takes_ms, repeat, rng)
        for repeat, value, takes_ms in rounds
    )


def settings_run(results: Sequence[TrialResult], judge: str = "handler p50", *thresholds: str) -> RunSummary:
    """Summarise a run of these trials."""
    judged = parse_judge(judge) if judge else None
    summary = summarise(sample_facts("settings"), results, [*map(parse_threshold, thresholds)], judged)
    return summary.model_copy(update={"verdicts": plan_verdicts(summary.trials, judge=judged)})


def failing(result: TrialResult, unprocessed: int) -> TrialResult:
    """Return a trial whose function failed every try at so many events, with what the analysis has of that."""
    summary = result.summary
    (window,) = summary.windows
    if window.handler is None:
        return result
    counts = {"processed": EVENTS - unprocessed, "failed_once": unprocessed, "given_up": unprocessed}
    handler = window.handler.model_copy(update={**counts, "errors": {"KeyError": 3 * unprocessed}})
    caveats = [Caveat(kind=kind, text=kind, remedy="-") for kind in ("never_processed", "handler_errors")]
    return changed(
        result, windows=(window.model_copy(update={"handler": handler}),), caveats=tuple(caveats),
        accounting=accounting(sent=EVENTS, ok=EVENTS, received=EVENTS, processed=EVENTS - unprocessed,
                              failed_in_handler=unprocessed),
    )  # fmt: skip
