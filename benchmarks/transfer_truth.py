"""
Whether the analysis of transfers finds what is planted, and nothing else. Run by hand; some seconds a month.

    python -m benchmarks.transfer_truth [--months 100] [--first 0] [--transfers 12000] [--noise normal skewed]

Of each noise, so many simulated months of 30 days without anything planted, and so many with four truths: two modes
(30 % at a fifth of the rate; EFS on Fargate), 1 % stalls of 2 s (everywhere), 0.7 times the rate after day 12 (S3 on
Lambda), 0.6 times at 14 h UTC (EFS on Lambda). Prints in how many months each was found with its number, and in how
many anything else was. Seeded: the same command prints the same.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, get_args

import numpy as np
from tests.samples.planted_transfers import NOTHING, START_NS, Noise, Simulation, Truth, joined

from stepbench.experiments.transfer.analysis.findings import find_transfers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.transfer.result import TransferCell, TransferFindings, TransferPair

PAIRS = ((0, 0), (0, 1), (1, 0), (1, 1))
STALLS = 0.01
TRUTHS = {
    (0, 0): Truth(stall_share=STALLS, change_after_days=12),
    (0, 1): Truth(stall_share=STALLS, slow_hour=14),
    (1, 0): Truth(stall_share=STALLS),
    (1, 1): Truth(stall_share=STALLS, slow_share=0.3),
}
SHOWN = 10
"""After so many months the counts so far are printed."""
CHANGED_AT = datetime.fromtimestamp(START_NS / 1e9, UTC) + timedelta(days=12)


def simulate(
    noise: Noise, transfers: int, seed: int, truths: dict[tuple[int, int], Truth]
) -> tuple[TransferFindings, int]:
    """Return what is found in one month, and how many stalls were planted."""
    rng, parts, stalls = np.random.default_rng(seed), [], 0
    for pair in PAIRS:
        simulation = Simulation(*pair, n=transfers // len(PAIRS), noise=noise)
        columns, stalled = simulation.draw(truths.get(pair, NOTHING), rng)
        parts.append(columns)
        stalls += stalled.size
    return find_transfers(joined(parts)), stalls


def find_all(findings: TransferFindings) -> Iterator[str]:
    """Yield a name of each thing that is called found, stalls among them."""
    for pair in findings.pairs:
        name = f"{pair.source} {pair.platform}"
        yield from ([f"modes {name}"] * pair.modes.found)
        yield from ([f"hours {name}"] * pair.hours.found)
        yield from ([f"weekdays {name}"] * pair.weekdays.found)
        yield from (f"changes {name}" for _ in pair.changes)
    for cell in findings.cells:
        yield from ([f"modes {cell.source} {cell.platform}"] * cell.modes.found)
        yield from ([f"stalls {cell.source} {cell.platform}"] * (cell.stalls.stalls > 0))


EXPECTED = {
    "changes s3 lambda",
    "hours efs lambda",
    "modes efs fargate",
    *(f"stalls {source} {platform}" for source in ("s3", "efs") for platform in ("lambda", "fargate")),
}


def judge(findings: TransferFindings, stalls: int) -> Iterator[str]:
    """Yield which of the planted truths are found with their numbers."""
    change, hour, _, mode = findings.pairs
    found = [cell.stalls for cell in findings.cells]
    if sum(each.stalls for each in found) == stalls:
        yield "stalls: all and only those"
    # What the MiB takes in any case comes on top: with S3's files of 1 MiB a third of a second.
    if abs(float(np.median([each.median_s for each in found if each.median_s is not None])) - 2) < 0.15:  # noqa: PLR2004
        yield "stalls: 2 s, ± 0.15"
    yield from _judge_change(change)
    if hour.hours.found:
        yield "hour: found"
    levels = hour.hours.levels
    if [level.at for level in levels if level.differs] == [14] and abs((levels[14].relative or 0) - 0.6) < 0.06:  # noqa: PLR2004
        yield "hour: 14 h, 0.6 ± 0.06"
    yield from _judge_modes(
        mode, [cell for cell in findings.cells if (cell.source, cell.platform) == ("efs", "fargate")]
    )


def _judge_change(pair: TransferPair) -> Iterator[str]:
    if len(pair.changes) == 1:
        yield "change: one found"
        change = pair.changes[0]
        if abs(change.at - CHANGED_AT) < timedelta(hours=6):
            yield "change: within 6 h"
        if change.earliest <= CHANGED_AT <= change.latest:
            yield "change: interval of its time holds"
        if abs((change.ratio.value or 0) - 0.7) < 0.03:  # noqa: PLR2004 -- of what is planted
            yield "change: 0.7 ± 0.03"
        if (change.ratio.low or 1) <= 0.7 <= (change.ratio.high or 0):  # noqa: PLR2004
            yield "change: interval of its ratio holds"


def _judge_modes(pair: TransferPair, cells: list[TransferCell]) -> Iterator[str]:
    if pair.modes.found:
        yield "modes: found"
    if len(pair.modes.modes) == 2:  # noqa: PLR2004
        slow, fast = pair.modes.modes
        if abs(slow.share - 0.3) < 0.05 and abs(slow.mib_per_s / fast.mib_per_s - 0.2) < 0.03:  # noqa: PLR2004
            yield "modes: two, 0.30 ± 0.05 at 0.20 ± 0.03"
    if all(cell.modes.found for cell in cells):
        yield "modes: in all nine cells"


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first month")
    parser.add_argument("--transfers", type=int, default=12_000)
    parser.add_argument("--noise", nargs="+", choices=get_args(Noise), default=["normal"])
    options = parser.parse_args()
    for noise in options.noise:
        clean, planted, others, begun = Counter[str](), Counter[str](), Counter[str](), time.monotonic()
        for month in range(1, options.months + 1):
            seed = options.first + month - 1
            found = set(find_all(simulate(noise, options.transfers, seed, {})[0]))
            clean.update(found or {"nothing"})
            findings, stalls = simulate(noise, options.transfers, seed, TRUTHS)
            planted.update(judge(findings, stalls))
            others.update((set(find_all(findings)) - EXPECTED) or {"nothing"})
            if month % SHOWN == 0 or month == options.months:
                took_s = time.monotonic() - begun
                print(f"### {noise}, {month} months of {options.transfers:,} transfers, {took_s:.0f} s", flush=True)
                print("found where nothing is planted:", dict(clean.most_common()))
                print("planted and found:", dict(sorted(planted.items())))
                print("found beside what is planted:", dict(others.most_common()), flush=True)


if __name__ == "__main__":
    main()
