"""The accounting as a reader checks it: each total with its parts, and the sum spelled out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.report import digits

if TYPE_CHECKING:
    from stepbench.contracts.result import Accounting


@dataclass(frozen=True)
class Line:
    """One number of the books. `field` is its name in `summary.json`; empty for one that is worked out here."""

    title: str
    field: str
    numbers: tuple[int | None, ...]
    depth: int = 1


@dataclass(frozen=True)
class Group:
    """One equation, its numbers, and per trial the sum in digits with whether it holds (None: no accounting)."""

    equation: str
    lines: tuple[Line, ...]
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
}
_NOT_ARRIVED = ("failed", "unknown", "unrecorded")
_FILTER = ("held_back", "leaked")
_APART = ("duplicates", "retried", "out_of_order", "late", "unmatched", "malformed", "canaries")


def books(accounts: list[Accounting | None], *, awaited: bool = True) -> tuple[Group, ...]:
    """All numbers of the accounting, one column a trial; without what is about arrivals where none are awaited."""
    if not awaited:
        return tuple(_equation(accounts, *each) for each in _EQUATIONS[:2])
    sums = tuple(_equation(accounts, *each) for each in _EQUATIONS)
    apart = tuple(_line(accounts, name, depth=2 if name == "retried" else 1) for name in _APART)
    return (*sums, _lost(accounts), Group("apart from the sums above", apart, ()))


def _equation(accounts: list[Accounting | None], equation: str, total: str, parts: tuple[str, ...]) -> Group:
    lines = (_line(accounts, total, depth=0), *(_line(accounts, part) for part in parts))
    return Group(equation, lines, tuple(_sum(account, total, parts) for account in accounts))


def _sum(account: Accounting | None, total: str, parts: tuple[str, ...]) -> tuple[str, bool | None]:
    if account is None:
        return digits.NONE, None
    whole, numbers = getattr(account, total), [getattr(account, part) for part in parts]
    holds = whole == sum(numbers)
    return f"{digits.count(whole)} {'=' if holds else '≠'} {' + '.join(map(digits.count, numbers))}", holds


def _lost(accounts: list[Accounting | None]) -> Group:
    """The lost ones (ok - arrived - held back), and what else did not arrive; a filter where there was one."""
    filtered = any(account is not None and account.held_back + account.leaked for account in accounts)
    lines = [_line(accounts, "lost", depth=0), *(_line(accounts, name) for name in _FILTER if filtered)]
    for name in _NOT_ARRIVED:
        missing = tuple(
            None if account is None else getattr(account, name) - getattr(account, f"{name}_arrived")
            for account in accounts
        )
        lines.append(Line(f"{name}, not arrived", "", missing))
    sums = tuple(_lost_sum(account, filtered=filtered) for account in accounts)
    held_back = f" {digits.MINUS} held back" if filtered else ""
    return Group(f"lost = ok {digits.MINUS} arrived of ok{held_back}", tuple(lines), sums)


def _lost_sum(account: Accounting | None, *, filtered: bool) -> tuple[str, bool | None]:
    if account is None:
        return digits.NONE, None
    holds = account.lost == account.ok - account.ok_arrived - account.held_back
    parts = f"{digits.count(account.ok)} {digits.MINUS} {digits.count(account.ok_arrived)}"
    if filtered:
        parts += f" {digits.MINUS} {digits.count(account.held_back)}"
    return f"{digits.count(account.lost)} {'=' if holds else '≠'} {parts}", holds


def _line(accounts: list[Accounting | None], field: str, *, depth: int = 1) -> Line:
    numbers = tuple(None if account is None else getattr(account, field) for account in accounts)
    return Line(_TITLES.get(field, field), field, numbers, depth)
