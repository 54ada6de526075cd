"""A rehearsal in words: what it is about to do, and `rehearsal.md`, what it has found."""

from __future__ import annotations

import textwrap
from itertools import chain
from typing import TYPE_CHECKING

from stepbench.digits import counted
from stepbench.errors import printable
from stepbench_tools.rehearsal.assumptions import ASSUMPTIONS
from stepbench_tools.rehearsal.budget import DELETE_H, total_usd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench_tools.rehearsal.account import Account
    from stepbench_tools.rehearsal.budget import Round
    from stepbench_tools.rehearsal.record import Rehearsal, RoundEvidence


def announcement(
    account: Account, stack: str, rounds: Sequence[Round], left_out: Mapping[str, str], budget_usd: float
) -> str:
    """Return what is about to be done, where, and what it may cost."""
    where = f"{account.emulator} ({account.endpoint})" if account.emulator else f"AWS account {account.number}"
    hours = sum(each.limit_h for each in rounds) + DELETE_H
    where = f"{where}, region {account.region}"
    price = f"It may cost ${total_usd(rounds):.2f} by list prices of us-east-1"
    lines = [
        f"This deploys the stack {stack} to {where}, runs small plans, and deletes everything again:",
        *(f"  {_describe(each)}" for each in rounds),
        *(f"  not {name}: {reason}" for name, reason in left_out.items()),
        f"{price}, and is ended and deleted before it reaches ${budget_usd:g}.",
        f"It takes {hours:g} hours at most, as a rule a third of that.",
        f"Resources are named {stack}-…; there are none of that name now, and none may be left at the end.",
    ]
    return "\n".join(lines)


def _describe(one: Round) -> str:
    settings = " ".join(f"{name}={value}" for name, value in one.parameters.items() if value != "off")
    price = f", ${one.hourly_usd:.2f} an hour for {one.limit_h:g} h at most" if one.hourly_usd else ""
    trials = sum(plan.size for plan in one.plans)
    return f"{one.name}{f' ({settings})' if settings else ''}: {counted(trials, 'trial')}, ${one.plans_usd:.2f}{price}"


def assumptions_text() -> str:
    """Return the list of docs/deploy.md."""
    items = (f"- `{each.id}`: {each.sentence}" for each in ASSUMPTIONS)
    return "\n".join(
        "\n".join(textwrap.wrap(item, 130, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False))
        for item in items
    )


def report(rehearsal: Rehearsal) -> str:
    """Return `rehearsal.md`."""
    return "\n".join(chain(_head(rehearsal), _assumptions(rehearsal), _rounds(rehearsal), _end(rehearsal), [""]))


def _head(found: Rehearsal) -> Iterator[str]:
    where = f"{found.emulator}, which is not AWS: nothing is confirmed or refuted" if found.emulator else "AWS"
    yield f"# Rehearsal of {found.stack} on {where}"
    yield ""
    yield f"Stepbench {found.stepbench}, {found.region}, from {found.started_at} to {found.ended_at or 'now'}."
    if found.ended:
        yield f"**It ended early: {found.ended}.**"
    yield (
        f"Estimated cost: ${found.spent_usd:.2f} (at most ${found.bound_usd:.2f} was to be expected; the budget was "
        f"${found.budget_usd:g})."
    )
    yield ""


def _assumptions(found: Rehearsal) -> Iterator[str]:
    if not found.assumptions:
        return
    counts = {status: sum(each.status == status for each in found.assumptions) for status in ("confirmed", "refuted")}
    yield f"## Assumptions: {counts['confirmed']} confirmed, {counts['refuted']} refuted, of {len(found.assumptions)}"
    yield ""
    yield "| assumption | | observed |"
    yield "|---|---|---|"
    for each in found.assumptions:
        yield f"| `{each.id}`: {_cell(each.sentence)} | *{each.status}* | {_cell(each.observed)} |"
    yield ""


def _rounds(found: Rehearsal) -> Iterator[str]:
    yield "## Rounds"
    yield ""
    yield "| round | deployed | trials | p50 | accounting | clocks | cost: estimate, counted |"
    yield "|---|---|---|---|---|---|---|"
    for each in found.rounds:
        yield from _round_rows(each)
    yield ""


def _round_rows(one: RoundEvidence) -> Iterator[str]:
    deployed = one.left_out or one.failure or (f"{one.deploy_s:.0f} s" if one.deployed else "no")
    runs = [run for run in one.runs if run.trials]
    if not runs:
        yield f"| {one.name} | {_cell(deployed)} | | | | | |"
    for run in runs:
        for trial in run.trials:
            account = trial.accounting
            arrived = f", {account.ok_arrived} arrived, {account.lost} lost" if account and account.awaited else ""
            counts = f"{account.offered} offered, {account.ok} ok{arrived}" if account else _cell(trial.failure)
            clock = "" if trial.offset_ms is None else f"{trial.offset_ms:+.3f} ± {trial.bound_ms or 0:.3f} ms"
            p50 = "" if trial.p50_ms is None else f"{trial.p50_ms:.1f} ms"
            counted = "" if trial.counted_usd is None else f", ${trial.counted_usd:.4f}"
            stopped = " (stopped on purpose)" if run.to_be_stopped else ""
            yield (
                f"| {one.name} | {_cell(deployed)} | {trial.name}{stopped} | {p50} | {counts} | {clock} "
                f"| ${trial.estimate_usd:.4f}{counted} |"
            )


def _end(found: Rehearsal) -> Iterator[str]:
    yield "## Deleted"
    yield ""
    if found.deletion is None:
        yield "Not yet."
        return
    yield f"After {found.deletion.seconds:.0f} s " + ("nothing is left." if found.deletion.clean else "there is left:")
    for kind, names in found.deletion.left.items():
        yield f"- {kind}: {', '.join(names)}"
    for kind, reason in found.deletion.unlisted.items():
        yield f"- {kind} could not be listed: {reason}"
    for failure in found.deletion.failures:
        yield f"- {failure}"
    if found.bill is not None:
        yield ""
        yield "## Bill"
        yield ""
        yield "| service | with the tag | the account's |"
        yield "|---|---|---|"
        for service in sorted({*found.bill.tagged, *found.bill.account}):
            tagged, whole = found.bill.tagged.get(service, 0), found.bill.account.get(service, 0)
            yield f"| {service} | ${tagged:.4f} | ${whole:.4f} |"


def _cell(text: str) -> str:
    """Return text for one cell of a table."""
    return printable(" ".join(text.replace("|", "\\|").split()))
