"""What a report shows of transfers, and its words: each finding in a sentence, or in the few words of a cell."""

from __future__ import annotations

from datetime import UTC
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.contracts.transfer.plan import PublishedTransfer
    from stepbench.contracts.transfer.result import (
        PairPoints,
        TransferAccounting,
        TransferCell,
        TransferChange,
        TransferChartData,
        TransferDependence,
        TransferFindings,
        TransferModes,
        TransferPair,
        TransferPlateau,
        TransferSandboxes,
        TransferStalls,
    )


NAMES = {"lambda": "Lambda", "fargate": "Fargate", "s3": "S3", "efs": "EFS"}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
CAVEATS = {
    "few": (
        "few",
        "There are too few transfers for an interval of p5 and p95, or even of the median.",
        "Run the plan more often.",
    ),
    "dependent": (
        "dependent",
        "Transfers depend on those before them or on their sandbox, so that intervals count fewer than there are.",
        "Spread them over more hours and sandboxes.",
    ),
    "warm": (
        "not proven cold",
        "Of some transfers nothing proves that their sandbox was new, or that their file was not in its memory.",
        "Use cold: required.",
    ),
    "cached": ("cached", "A part of some files came from the sandbox's memory.", "Use cold: required."),
    "wrong_digest": (
        "wrong digest",
        "The bytes of some were not the file's.",
        "Run again: what was read wrong is made anew.",
    ),
    "client_limit": (
        "client's limit",
        "The reading process used most of a CPU, so that the rate may be its own and not the source's.",
        "Give it more memory, which is more CPU, or more connections.",
    ),
    "unfinished": (
        "unfinished",
        "Some failed or were cut off: they have no rate, and might have been the slowest.",
        "See the errors below.",
    ),
}
"""In a word, in a sentence, and what to do."""
PUBLISHED = {
    "mean": "mean",
    "median": "median",
    "p5": "p5",
    "p95": "p95",
    "slowest_over_fastest": "slowest over fastest",
    "fastest_s": "fastest",
    "slowest_s": "slowest",
    "plateau_from_mib": "rate rises no more from",
    "plateau_mib_per_s": "rate that rises no more",
    "modes": "modes",
}
"""What a published number is of."""


class TransferView(NamedTuple):
    """
    What is shown of one trial, or of a dataset.

    anchor: unique on the page. stand_ins: what was measured in place of AWS's, by platform and source.
    """

    label: str
    anchor: str
    findings: TransferFindings
    charts: TransferChartData
    stand_ins: Mapping[str, str] = MappingProxyType({})

    def name(self, each: TransferCell | TransferPair | PairPoints | PublishedTransfer) -> str:
        """Name a pair: `EFS on Fargate`."""
        return pair_name(each, self.stand_ins)


def name_of(what: str, stand_ins: Mapping[str, str]) -> str:
    """Name a platform or source, with what stood in for it: `EFS (local file system)`."""
    return f"{NAMES[what]} ({stand_ins[what]})" if stand_ins.get(what) else NAMES[what]


def pair_name(each: TransferCell | TransferPair | PairPoints | PublishedTransfer, stand_ins: Mapping[str, str]) -> str:
    """Name a source and a platform, with what stood in for them: `EFS (local file system) on Lambda`."""
    return f"{name_of(each.source, stand_ins)} on {name_of(each.platform, stand_ins)}"


def read_cells(found: TransferFindings) -> tuple[TransferCell, ...]:
    """Return the cells in which anything was read."""
    return tuple(cell for cell in found.cells if cell.n or cell.failed or cell.unknown)


def describe_stand_ins(stand_ins: Mapping[str, str]) -> str:
    """Return what was measured in place of AWS's services."""
    names = ", ".join(name_of(what, stand_ins) for what in stand_ins)
    return f"Not AWS's: {names}. These times say nothing about AWS."


def describe_span(findings: TransferFindings) -> str:
    """Describe over which time the reads began: `2023-12-05 to 2024-01-04, 30 days`."""
    if findings.begin is None or findings.end is None:
        return "no reads"
    begin, end = findings.begin.astimezone(UTC), findings.end.astimezone(UTC)
    lasted_s = (end - begin).total_seconds()
    if begin.date() == end.date():
        return f"{begin:%Y-%m-%d}, {digits.duration(lasted_s)} from {begin:%H:%M} UTC"
    days = (end.date() - begin.date()).days + 1
    return f"{begin:%Y-%m-%d} to {end:%Y-%m-%d} (UTC), {digits.counted(days, 'day')}"


def format_modes(modes: TransferModes) -> str:
    """Return where the modes lie, with their shares: `45 (31 %), 220 (69 %)`; of one, that it is one."""
    if modes.p_value is None:
        return digits.NONE
    if not modes.found or len(modes.modes) < 2:  # noqa: PLR2004 -- several
        return "one"
    return ", ".join(
        f"{digits.rounded(mode.mib_per_s)} ({digits.percent(mode.share)})".replace(" ", digits.NBSP)
        for mode in modes.modes
    )


def describe_modes(modes: TransferModes) -> str:
    """Return how many modes there are and how sure that is, or why nobody knows."""
    if modes.p_value is None:
        return f"Not judged: {modes.reason}."
    if not modes.found:
        return f"One mode ({digits.p_value(modes.p_value)} of one)."
    listed = [f"{digits.rounded(each.mib_per_s)} MiB/s ({digits.percent(each.share)})" for each in modes.modes]
    return f"{len(modes.modes)} modes: {digits.listed(listed)}; of one mode, {digits.p_value(modes.p_value)}."


def describe_stalls(stalls: TransferStalls) -> str:
    """Return how many transfers stood still, and for how long."""
    if not stalls.transfers:
        return f"none of {digits.counted(stalls.judged, 'transfer')}"
    median = f", {digits.rounded(stalls.median_s)} s in half the cases" if stalls.median_s is not None else ""
    longest = f", {digits.rounded(stalls.longest_s)} s at most" if stalls.longest_s is not None else ""
    return f"{digits.count(stalls.transfers)} of {digits.counted(stalls.judged, 'transfer')}{median}{longest}"


def describe_plateau(plateau: TransferPlateau) -> str:
    """Describe from which size on the rate rises no more, and whether that may be the client's own limit."""
    if plateau.reason is not None:
        return f"Not judged: {plateau.reason}."
    if plateau.from_mib is None or plateau.mib_per_s is None:
        return "The rate rises up to the largest size." if plateau.rises else "The rate does not rise with the size."
    own = {
        True: "; that may be the reading process's own limit",
        None: "; whether that is the reading process's own limit, nobody measured",
        False: "",
    }[plateau.client_limit]
    rises = "The rate rises, and" if plateau.rises else "The rate"
    at = f"{digits.rounded(plateau.mib_per_s)} MiB/s"
    return f"{rises} levels off from {digits.count(plateau.from_mib)} MiB at {at}{own}."


def describe_hours(found: TransferDependence) -> str:
    """Return whether rates depend on the hour, and which hours differ."""
    return _describe_dependence(found, "hour of the day", [f"{each.at:02d}" for each in found.levels])


def describe_weekdays(found: TransferDependence) -> str:
    """Return whether rates depend on the weekday, and which differ."""
    return _describe_dependence(found, "weekday", [WEEKDAYS[each.at] for each in found.levels])


def _describe_dependence(found: TransferDependence, what: str, names: Sequence[str]) -> str:
    if found.p_value is None:
        return f"Not judged: {found.reason}."
    if not found.found:
        return f"No dependence on the {what} is shown ({digits.p_value(found.p_value)})."
    own = [
        f"{name} ({digits.rounded(level.relative, 2)} ×)"  # noqa: RUF001 -- times
        for name, level in zip(names, found.levels, strict=True)
        if level.differs and level.relative is not None
    ]
    which = f": {digits.listed(own)} of the median's rate" if own else ""
    return f"Rates depend on the {what} ({digits.p_value(found.p_value)}){which}."


def describe_change(pair_name: str, change: TransferChange) -> str:
    """Return when a level changes, and by how much."""
    at, first, last = (each.astimezone(UTC) for each in (change.at, change.earliest, change.latest))
    within = f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
    ratio = digits.shown(change.ratio, digits.TIMES).in_sentence()
    return f"{pair_name}: from {at:%Y-%m-%d %H:%M} UTC on ({within}) rates are {ratio} those before."


def describe_sandboxes(found: TransferSandboxes, stand_ins: Mapping[str, str]) -> str:
    """Return how far the two reads of one sandbox go together, or why nobody knows."""
    sandboxes = digits.counted(found.n, "sandbox")
    of = f"Of {sandboxes} of {name_of(found.platform, stand_ins)} that read from both sources"
    value, low, high = found.correlation.value, found.correlation.low, found.correlation.high
    if value is None or low is None or high is None:
        return f"{of}, nobody can tell whether one slow for the one is so for the other ({found.correlation.reason})."
    said = "go together" if value > 0 else "go against each other"
    shown = f"rank correlation {digits.shown(found.correlation, digits.PLAIN).in_sentence()}"
    if low <= 0 <= high:
        return f"{of}, it is not shown that the two rates {said} ({shown})."
    return f"{of}, the two rates {said} ({shown})."


def describe_accounting(found: TransferAccounting) -> str:
    """Return what became of all reads, in one sentence that adds up."""
    rows = found.ok + found.failed + found.unknown
    whole = digits.counted(rows, "row") if found.offered is None else f"{digits.counted(found.offered, 'read')} offered"
    missing = "" if found.missing is None else f", {digits.count(found.missing)} missing"
    ended = f"{digits.count(found.ok)} ok, {digits.count(found.failed)} failed, {digits.count(found.unknown)} unknown"
    return f"{whole}: {ended}{missing}"


def accounting_rows(found: TransferAccounting) -> Iterator[tuple[str, str, int | None, int]]:
    """Yield title, field, number and depth of each line of the accounting."""
    yield "offered", "offered", found.offered, 0
    for field in ("ok", "failed", "unknown", "missing"):
        yield field, field, getattr(found, field), 1
    yield "rows", "rows", found.ok + found.failed + found.unknown, 0
    yield "from a new sandbox (cold)", "cold", found.cold, 1
    yield "from a used one (warm)", "warm", found.warm, 1
    yield "start unknown", "unknown_start", found.unknown_start, 1
    yield "with wrong bytes", "wrong_digest", found.wrong_digest, 1
    yield "bytes not checked", "untold_digest", found.untold_digest, 1
