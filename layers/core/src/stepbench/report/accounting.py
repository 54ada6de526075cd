"""The accounting as a reader checks it: each total with its parts, and the sum spelled out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from stepbench import digits
from stepbench.contracts.experiment import traits_of
from stepbench.report import document as doc
from stepbench.report.outcomes import error_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import Accounting, TrialSummary
    from stepbench.report.run import RunView, TrialView

MAX_COLUMNS = 6
"""More trials beside one another are wider than paper."""


Check: TypeAlias = "tuple[str, bool | None]"
"""A sum spelled out, and whether it holds; None without an accounting."""


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
    sums: tuple[Check, ...]


_EQUATIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("offered = sent + unsent + unrecorded", "offered", ("sent", "unsent", "unrecorded")),
    ("sent = ok + failed + unknown", "sent", ("ok", "failed", "unknown")),
    (
        "received = arrived of (ok + failed + unknown + unrecorded)",
        "received",
        ("ok_arrived", "failed_arrived", "unknown_arrived", "unrecorded_arrived"),
    ),
)
_PROCESSED = ("received = processed + failed in the handler", "received", ("processed", "failed_in_handler"))
"""Of measured functions."""
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
    "unpaired": "received, by an invocation that may be another's",
    "failed_in_handler": "failed in the handler, and not processed by the drain limit",
    "cut_off_in_handler": "cut off before they were processed, when the run was stopped",
    "processed_twice": "processed again, after the first time",
}
_NOT_ARRIVED = ("failed", "unknown", "unrecorded")
_SHORTFALLS = {"held_back": ("held_back", "leaked"), "cut_off": ("cut_off",)}
"""What may not arrive without being lost, with its rows: shown where any trial has them, as is what follows."""
_RARE = frozenset({"watch_gap", "unpaired", "processed_twice"})
_APART = (
    "duplicates",
    "retried",
    "processed_twice",
    "out_of_order",
    "watch_gap",
    "unpaired",
    "late",
    "unmatched",
    "malformed",
    "canaries",
)


def accounting_sections(accounts: list[Accounting | None], *, awaited: bool = True) -> tuple[AccountingSection, ...]:
    """Return all numbers, one column a trial; without those of arrivals where none are awaited."""
    if not awaited:
        return tuple(_equation(accounts, *each) for each in _EQUATIONS[:2])
    measured = any(account is not None and account.processed is not None for account in accounts)
    sums = tuple(_equation(accounts, *each) for each in _EQUATIONS)
    sums += (_processed(accounts),) if measured else ()
    names = (name for name in _APART if name not in _RARE or _any(accounts, name))
    apart = tuple(_line(accounts, name, depth=2 if name == "retried" else 1) for name in names)
    return (*sums, _lost(accounts), AccountingSection("apart from the sums above", apart, ()))


def _processed(accounts: list[Accounting | None]) -> AccountingSection:
    """Split what arrived at measured functions; what a stop cut off stands there where any trial has it."""
    equation, total, parts = _PROCESSED
    if _any(accounts, "cut_off_in_handler"):
        return _equation(accounts, f"{equation} + cut off there", total, (*parts, "cut_off_in_handler"))
    return _equation(accounts, equation, total, parts)


def _equation(
    accounts: list[Accounting | None], equation: str, total: str, parts: tuple[str, ...]
) -> AccountingSection:
    lines = (_line(accounts, total, depth=0), *(_line(accounts, part) for part in parts))
    return AccountingSection(equation, lines, tuple(_check(account, total, parts, 1) for account in accounts))


def _check(account: Accounting | None, total: str, parts: Sequence[str], sign: Literal[1, -1]) -> Check:
    """Spell out that a total is its first part, and the others added to it or taken from it."""
    if account is None or any(getattr(account, name) is None for name in parts):
        return digits.NONE, None
    whole, first, *others = (getattr(account, name) for name in (total, *parts))
    holds = whole == first + sign * sum(others)
    spelled = f" {'+' if sign > 0 else digits.MINUS} ".join(map(digits.count, (first, *others)))
    return f"{digits.count(whole)} {'=' if holds else '≠'} {spelled}", holds


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
    sums = tuple(_check(account, "lost", ("ok", "ok_arrived", *deducted), -1) for account in accounts)
    minus = "".join(f" {digits.MINUS} {name.replace('_', ' ')}" for name in deducted)
    return AccountingSection(f"lost = ok {digits.MINUS} arrived of ok{minus}", tuple(lines), sums)


def _any(accounts: list[Accounting | None], field: str) -> bool:
    return any(account is not None and getattr(account, field) for account in accounts)


def _line(accounts: list[Accounting | None], field: str, *, depth: int = 1) -> AccountingLine:
    numbers = tuple(None if account is None else getattr(account, field) for account in accounts)
    return AccountingLine(_TITLES.get(field, field), field, numbers, depth)


_HARM = (
    *("unsent", "unrecorded", "failed", "unknown", "lost", "late", "unmatched", "malformed", "cut_off", "leaked"),
    "failed_in_handler",
    "cut_off_in_handler",
)

_HARM_WORDS = {"failed_in_handler": "failed in the handler", "cut_off_in_handler": "cut off in the handler"}


def accounting_is_whole(accounts: list[Accounting | None]) -> bool:
    """Return whether every event of every trial went its ordinary way, and every sum holds."""
    ordinary = all(account is not None and not any(getattr(account, name) for name in _HARM) for account in accounts)
    return ordinary and accounting_adds_up(accounts)


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
    harm = [
        f"{digits.count(sums[name])} {_HARM_WORDS.get(name, name.replace('_', ' '))}" for name in _HARM if sums[name]
    ]
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
    processed = accounts and all(each.processed is not None for each in accounts)
    return f"{subject} sent, acknowledged, {'received and processed' if processed else 'and arrived'}"


def accounting_section(run: RunView) -> doc.Section:
    """Return the section on where every event went."""
    nodes = tuple(_account_nodes(run)) if run.loaded else (doc.Sentence("No trial, no events."),)
    return doc.Section("accounting", "Accounting", nodes, link="Accounting")


def _account_nodes(run: RunView) -> Iterator[doc.Node]:
    accounted = [view for view in run.loaded if view.summary.accounting]
    amiss = [view for view in accounted if not accounting_is_whole([view.summary.accounting])]
    missing = len(run.loaded) - len(accounted)
    summaries = [view.summary for view in run.loaded]
    words = (
        f"Every event of {digits.counted(len(run.loaded), 'trial')}"
        if amiss or missing
        else describe_accounting(summaries)
    )
    if amiss:
        said = (doc.named(view.label, view.summary, f"{describe_accounting([view.summary])}.") for view in amiss)
        yield doc.Sentences(tuple(said), "The other trials")
    if missing:
        yield doc.Sentence(f"{digits.counted(missing, 'trial')} without any.")
    whole = accounting_adds_up([trial.accounting for trial in summaries])
    yield doc.Fold(words, tuple(_tables(run, "accounting", _MEASURED)), plain=not whole)
    yield from error_nodes(run)
    if any(trial.warm_up for trial in summaries):
        what = "Warm-up and other phases with measured: false."
        tables = tuple(_tables(run, "warm_up", (what, what)))
        yield doc.Fold("The same of the phases that were not measured", tables, style="")


_MEASURED = (
    "Where every event of the measured phases went. Arrived means: by the drain limit.",
    "Where every operation of the measured phases went. Offered: what clients began, or what a schedule had.",
)


def _tables(run: RunView, field: str, captions: tuple[str, str]) -> Iterator[doc.Table]:
    """Yield the tables of events, then those of operations, so many trials to a table."""
    kinds = (("accounts", run.triggered, True), ("operation-accounts", run.answered, False))
    prefix = "warm-up-" if field == "warm_up" else ""
    for (name, views, awaited), caption in zip(kinds, captions, strict=True):
        for start in range(0, len(views), MAX_COLUMNS):
            number = f"-{start // MAX_COLUMNS + 1}" if start else ""
            part = views[start : start + MAX_COLUMNS]
            yield _table(f"{prefix}{name}{number}", caption, part, field, awaited=awaited)


def _table(name: str, caption: str, views: Sequence[TrialView], field: str, *, awaited: bool) -> doc.Table:
    sections = accounting_sections([getattr(view.summary, field) for view in views], awaited=awaited)
    columns = doc.columns("Events", *(view.label for view in views))
    bodies = (doc.Body(tuple(_rows(section, views, field)), section.equation) for section in sections)
    return doc.Table(name, caption, columns, tuple(bodies), "reference by-trial")


def _rows(section: AccountingSection, views: Sequence[TrialView], field: str) -> Iterator[doc.Row]:
    for line in section.lines:
        cells = (
            doc.Cell(
                digits.count(value),
                {
                    "trial": view.summary.index,
                    "metric": f"{field}.{line.field}" if line.field else None,
                    "value": value,
                },
                "bad" if line.field == "lost" and value else "",
            )
            for view, value in zip(views, line.numbers, strict=True)
        )
        yield doc.Row(doc.Cell(line.title), tuple(cells), style=f"depth-{line.depth}")
    if section.sums:
        yield doc.Row(doc.Cell("check"), tuple(_check_cell(*each) for each in section.sums), style="sum")


def _check_cell(text: str, holds: bool | None) -> doc.Cell:  # noqa: FBT001 -- of a pair
    wrong = holds is False
    return doc.Cell(f"{text} (does not add up)" if wrong else text, {"holds": holds}, "bad" if wrong else "")
