"""The accounting as a reader checks it: each total with its parts, and the sum spelled out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.measure import traits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import Accounting, TrialSummary


@dataclass(frozen=True)
class AccountingLine:
    """It holds one number by trial. `field` is its name in `summary.json`; empty for one that is computed here."""

    title: str
    field: str
    numbers: tuple[int | None, ...]
    depth: int = 1


@dataclass(frozen=True)
class AccountingSection:
    """It holds one equation, its numbers, and per trial its sum with whether it holds (None: no accounting)."""

    equation: str
    lines: tuple[AccountingLine, ...]
    sums: tuple[tuple[str, bool | None], ...]


_EQUATIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("offered = sent + unsent + unrecorded", "offered", ("sent", "unsent", "unrecorded")),
    ("sent = ok + failed + unknown", "sent", ("ok", "failed", "unknown")),
    (
        "received = arrived of (ok + failed + unknown + unrecorded)",
        "received",
        ("ok_arrived", "failed_arrived", "unknown_arrived", "unrecorded_arrived"),
    ),
)
_TITLES = {
    "ok": "ok (acknowledged)",
    "ok_arrived": "ok, arrived",
    "failed_arrived": "failed, arrived all the same",
    "unknown_arrived": "unknown, arrived",
    "unrecorded_arrived": "unrecorded, arrived",
    "out_of_order": "out of order",
    "retried": "of these, Lambda's own retries",
    "late": "late (after the drain limit)",
    "held_back": "held back by the filter",
    "leaked": "received, though the filter was to hold them back",
    "cut_off": "cut off, when the run was stopped",
    "watch_gap": "received, but acknowledged while nobody watched",
}
_NOT_ARRIVED = ("failed", "unknown", "unrecorded")
_SHORTFALLS = {"held_back": ("held_back", "leaked"), "cut_off": ("cut_off",)}
"""What may not arrive without being lost, with its rows: shown where any trial has them, as is what follows."""
_RARE = "watch_gap"
_APART = ("duplicates", "retried", "out_of_order", "watch_gap", "late", "unmatched", "malformed", "canaries")


def accounting_sections(accounts: list[Accounting | None], *, awaited: bool = True) -> tuple[AccountingSection, ...]:
    """Return all numbers, one column a trial; without those of arrivals where none are awaited."""
    if not awaited:
        return tuple(_equation(accounts, *each) for each in _EQUATIONS[:2])
    sums = tuple(_equation(accounts, *each) for each in _EQUATIONS)
    names = (name for name in _APART if name != _RARE or _any(accounts, name))
    apart = tuple(_line(accounts, name, depth=2 if name == "retried" else 1) for name in names)
    return (*sums, _lost(accounts), AccountingSection("apart from the sums above", apart, ()))


def _equation(
    accounts: list[Accounting | None], equation: str, total: str, parts: tuple[str, ...]
) -> AccountingSection:
    lines = (_line(accounts, total, depth=0), *(_line(accounts, part) for part in parts))
    return AccountingSection(equation, lines, tuple(_sum(account, total, parts) for account in accounts))


def _sum(account: Accounting | None, total: str, parts: tuple[str, ...]) -> tuple[str, bool | None]:
    if account is None:
        return digits.NONE, None
    whole, numbers = getattr(account, total), [getattr(account, part) for part in parts]
    holds = whole == sum(numbers)
    return f"{digits.count(whole)} {'=' if holds else '≠'} {' + '.join(map(digits.count, numbers))}", holds


def _lost(accounts: list[Accounting | None]) -> AccountingSection:
    """List the lost events (ok - arrived, and what was not to arrive), and what else did not arrive."""
    deducted = [name for name, rows in _SHORTFALLS.items() if any(_any(accounts, row) for row in rows)]
    lines = [
        _line(accounts, "lost", depth=0),
        *(_line(accounts, row) for name in deducted for row in _SHORTFALLS[name]),
    ]
    for name in _NOT_ARRIVED:
        missing = tuple(
            None if account is None else getattr(account, name) - getattr(account, f"{name}_arrived")
            for account in accounts
        )
        lines.append(AccountingLine(f"{name}, not arrived", "", missing))
    sums = tuple(_lost_sum(account, deducted) for account in accounts)
    minus = "".join(f" {digits.MINUS} {name.replace('_', ' ')}" for name in deducted)
    return AccountingSection(f"lost = ok {digits.MINUS} arrived of ok{minus}", tuple(lines), sums)


def _any(accounts: list[Accounting | None], field: str) -> bool:
    return any(account is not None and getattr(account, field) for account in accounts)


def _lost_sum(account: Accounting | None, deducted: list[str]) -> tuple[str, bool | None]:
    if account is None:
        return digits.NONE, None
    parts = [account.ok, account.ok_arrived, *(getattr(account, name) for name in deducted)]
    holds = account.lost == 2 * account.ok - sum(parts)
    spelled = f" {digits.MINUS} ".join(map(digits.count, parts))
    return f"{digits.count(account.lost)} {'=' if holds else '≠'} {spelled}", holds


def _line(accounts: list[Accounting | None], field: str, *, depth: int = 1) -> AccountingLine:
    numbers = tuple(None if account is None else getattr(account, field) for account in accounts)
    return AccountingLine(_TITLES.get(field, field), field, numbers, depth)


_HARM = ("unsent", "unrecorded", "failed", "unknown", "lost", "late", "unmatched", "malformed", "cut_off", "leaked")


def accounting_is_whole(accounts: list[Accounting | None]) -> bool:
    """Return whether every event of every trial went its ordinary way, and every sum holds."""
    if not all(account is not None and not any(getattr(account, name) for name in _HARM) for account in accounts):
        return False
    return accounting_adds_up(accounts)


def accounting_adds_up(accounts: list[Accounting | None]) -> bool:
    """Return whether every sum of every trial holds."""
    sections = (section for each in accounts if each for section in accounting_sections([each], awaited=each.awaited))
    return all(holds is not False for section in sections for _, holds in section.sums)


def describe_accounting(trials: Sequence[TrialSummary]) -> str:
    """Describe in a sentence where all events of the measured phases went, and apart from them all operations."""
    by_noun: dict[str, list[Accounting]] = {"event": [], "execution": [], "operation": []}
    for trial in trials:
        if trial.accounting is not None:
            awaited = traits_of(trial.experiment).noun
            by_noun[awaited if trial.accounting.awaited else "operation"].append(trial.accounting)
    accounts = [each for own in by_noun.values() for each in own]
    clauses = [_describe_kind(noun, own) for noun, own in by_noun.items() if any(each.offered for each in own)]
    if len(accounts) < len(trials):
        clauses.append(f"{digits.counted(len(trials) - len(accounts), 'trial')} without accounting")
    noun = next((noun for noun, own in by_noun.items() if own), "event")
    text = "; ".join(clauses) or f"no {noun} was offered"
    return text[0].upper() + text[1:]


def _describe_kind(noun: str, accounts: list[Accounting]) -> str:
    """Describe events, which are to arrive unless a filter holds them back, or operations, which are to be answered."""
    sums = {
        name: sum(getattr(each, name) for each in accounts) for name in ("offered", "received", "held_back", *_HARM)
    }
    offered = digits.counted(sums["offered"], noun)
    harm = [f"{digits.count(sums[name])} {name.replace('_', ' ')}" for name in _HARM if sums[name]]
    held_back = [f"{digits.count(sums['held_back'])} held back by the filter"] if sums["held_back"] else []
    if harm:
        return f"of {offered}: {', '.join(harm + held_back)}"
    subject = f"all {offered} were" if sums["offered"] > 1 else f"the one {noun} was"
    if noun == "operation":
        return f"{subject} sent and answered"
    if held_back:
        return f"{subject} sent and acknowledged: {digits.count(sums['received'])} arrived, {held_back[0]}"
    if noun == "execution":
        return f"{subject} started and completed"
    return f"{subject} sent, acknowledged, and arrived"
