"""What transfers show, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.digits import counted, rounded
from stepbench.experiments.transfer.analysis.changes import is_notable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.transfer.result import TransferCell, TransferDependence, TransferPair

PLATFORM_NAMES = {"lambda": "Lambda", "fargate": "Fargate"}
SOURCE_NAMES = {"s3": "S3", "efs": "EFS"}
WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")
LEAST_OF_TEN = 10
SHOWN_MIB = 500
"""The size that the source gives as its example; without it, the largest below it, or the smallest."""


def answer(cells: Sequence[TransferCell], pairs: Sequence[TransferPair]) -> tuple[str, ...]:
    """Return how long a transfer takes from each source to each platform, then all that was found, pair by pair."""
    of_pairs = [([cell for cell in cells if _pair(cell) == _pair(pair) and cell.n], pair) for pair in pairs]
    first = [_say_time(_example(own)) for own, _ in of_pairs if own]
    return (*first, *(line for own, pair in of_pairs for line in _say_findings(own, pair)))


def _pair(of: TransferCell | TransferPair) -> tuple[str, str]:
    return of.platform, of.source


def _name(of: TransferCell | TransferPair) -> str:
    return f"from {SOURCE_NAMES[of.source]} to {PLATFORM_NAMES[of.platform]}"


def _example(cells: Sequence[TransferCell]) -> TransferCell:
    return next((cell for cell in reversed(cells) if cell.file_size_mib <= SHOWN_MIB), cells[0])


def _say_time(cell: TransferCell) -> str:
    file = f"A {cell.file_size_mib} MiB file {_name(cell)}"
    if cell.n == 1:
        return f"{file} took {_time(cell.p50_s.value)}, the one time that it was read."
    if cell.n < LEAST_OF_TEN:
        return (
            f"{file} took {_time(cell.p50_s.value)} in half of {counted(cell.n, 'case')}, "
            f"and {_time(cell.slowest_s)} at the most."
        )
    parts = [f"{_time(cell.p50_s.value)} in half the cases", f"above {_time(cell.p90_s.value)} in one of ten"]
    if cell.p99_s.low is not None:
        parts.append(f"above {_time(cell.p99_s.value)} in one of a hundred")
    few = f" (of {counted(cell.n, 'transfer')} only)" if cell.p90_s.low is None else ""
    return f"{file} takes {_listed(parts)}{few}."


def _time(measured_s: float | None) -> str:
    seconds = measured_s or 0.0
    return f"{rounded(seconds, 2)} s" if seconds >= 1 else f"{rounded(1_000 * seconds, 2)} ms"


def _say_findings(cells: Sequence[TransferCell], pair: TransferPair) -> Iterator[str]:
    name = _name(pair)
    if pair.slowest_over_fastest is not None and pair.n > len(cells):
        times = rounded(pair.slowest_over_fastest, 3)
        yield f"The slowest transfer {name} takes {times} × the fastest one's time, in the mean over sizes."  # noqa: RUF001
    if pair.modes.found:
        places = [f"{rounded(mode.mib_per_s, 2)} MiB/s ({rounded(100 * mode.share, 2)} %)" for mode in pair.modes.modes]
        yield f"Rates {name} lie about {_listed(places)}."
    yield from _say_plateau(pair)
    yield from _say_dependence(pair.hours, f"Rates {name} depend on the hour", [f"{hour} h UTC" for hour in range(24)])
    yield from _say_dependence(pair.weekdays, f"Rates {name} depend on the weekday", WEEKDAYS)
    for change in pair.changes:
        if not is_notable(change):
            continue
        times = rounded(change.ratio.value or 1.0, 2)
        yield f"Since {change.at:%Y-%m-%d %H:%M} UTC, rates {name} are {times} × what they were before."  # noqa: RUF001
    yield from _say_stalls(cells, name)


def _say_plateau(pair: TransferPair) -> Iterator[str]:
    plateau = pair.plateau
    if plateau.rises and plateau.from_mib is not None and plateau.mib_per_s is not None:
        limit = ", which may be the reading process's own limit" if plateau.client_limit else ""
        rate = rounded(plateau.mib_per_s, 2)
        yield f"The rate {_name(pair)} rises with the size up to {plateau.from_mib} MiB, to {rate} MiB/s{limit}."


def _say_dependence(found: TransferDependence, begin: str, names: Sequence[str]) -> Iterator[str]:
    if not found.found:
        return
    levels = [level for level in found.levels if level.differs and level.relative is not None]
    shown = [f"{rounded(level.relative or 0, 2)} of the usual at {names[level.at]}" for level in levels]
    yield f"{begin}: {_listed(shown)}." if shown else f"{begin}, though none stands out."


def _say_stalls(cells: Sequence[TransferCell], name: str) -> Iterator[str]:
    judged, stood = sum(cell.stalls.judged for cell in cells), sum(cell.stalls.transfers for cell in cells)
    longest = [cell.stalls.longest_s for cell in cells if cell.stalls.longest_s is not None]
    if stood:
        share, most = rounded(100 * stood / judged, 2), rounded(max(longest), 2)
        yield f"Of the transfers {name}, {share} % stood still in between, for {most} s at most."


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
