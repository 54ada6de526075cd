"""Months of simulated transfers with known truths: what an analysis finds in them is right or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stepbench.contracts.transfer.plan import MIB, PUBLISHED_SIZES_MIB
from stepbench.experiments.transfer.analysis.reads import pairs_of
from stepbench.records.formats.transfer_columns import ROW_FIELDS, TEXT_FIELDS, UNTOLD, Texts, TransferColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.experiments.transfer.analysis.reads import Reads

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

START_NS = 1_704_067_200 * 10**9
"""Monday, 2024-01-01, 00:00 UTC."""
HOUR_NS = 3_600 * 10**9
Noise = Literal["normal", "skewed", "autocorrelated"]


@dataclass(frozen=True)
class Truth:
    """
    What is planted in transfers from one source to one platform; as it stands, nothing.

    slow_share: of the sandboxes, those with `slow_factor` times the rate. stall_share: of the transfers, those that
    stand still once, for `stall_s`. change_after_days: since when the rate is `change_factor` times what it was before.
    slow_hour: of the day, UTC, in which it is `hour_factor` times.
    """

    slow_share: float = 0.0
    slow_factor: float = 0.2
    stall_share: float = 0.0
    stall_s: float = 2.0
    change_after_days: float | None = None
    change_factor: float = 0.7
    slow_hour: int | None = None
    hour_factor: float = 0.6


NOTHING = Truth()


@dataclass(frozen=True)
class Simulation:
    """Transfers of one source and platform over some days, one a sandbox, at random moments and of random sizes."""

    platform: int
    source: int
    n: int
    days: int = 30
    noise: Noise = "normal"
    spread: float = 0.15
    marks: bool = True

    def draw(self, truth: Truth, rng: np.random.Generator) -> tuple[TransferColumns, Integers]:
        """Return the transfers, and which of them have a planted stall."""
        began_ns = START_NS + np.sort(rng.integers(0, self.days * 24 * HOUR_NS, self.n))
        sizes = rng.choice(PUBLISHED_SIZES_MIB, self.n)
        factors = _factors(truth, began_ns, rng)
        rates = self._usual_rates(sizes) * np.exp(self._noise(began_ns, sizes, rng)) * factors
        first_ns = (20e6 * np.exp(0.3 * rng.standard_normal(self.n)) / factors).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        gaps = np.repeat(1e9 / rates, sizes) * np.exp(0.1 * rng.standard_normal(int(offsets[-1])))
        stalled = np.nonzero(rng.random(self.n) < truth.stall_share)[0]
        gaps[offsets[stalled] + rng.integers(0, sizes[stalled])] += truth.stall_s * 1e9
        total = np.cumsum(gaps)
        before = np.concatenate([[0.0], total])[offsets[:-1]]
        marks = (total - np.repeat(before, sizes)).astype(np.int64) + np.repeat(first_ns, sizes)
        return self._columns(began_ns, sizes, first_ns, marks), stalled

    def _usual_rates(self, sizes: Integers) -> Floats:
        """EFS has the same rate for all sizes; that of S3 rises to a plateau, as published."""
        if self.source == 1:
            return np.full(self.n, 60.0)
        return 25.0 / (1 + 8 / sizes)

    def _noise(self, began_ns: Integers, sizes: Integers, rng: np.random.Generator) -> Floats:
        if self.noise == "skewed":
            noise = self.spread * (1 - rng.gamma(1.0, 1.0, self.n))
        else:
            noise = self.spread * rng.standard_normal(self.n)
        if self.noise == "autocorrelated":
            hours = np.zeros(self.days * 24)
            for hour in range(1, hours.size):
                hours[hour] = 0.8 * hours[hour - 1] + 0.6 * rng.standard_normal()
            noise += self.spread / 2 * hours[(began_ns - START_NS) // HOUR_NS]
        return noise * np.where(sizes == 1, 2.0, 1.0)

    def _columns(self, began_ns: Integers, sizes: Integers, first_ns: Integers, marks: Integers) -> TransferColumns:
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        told: dict[str, Any] = {name: np.zeros(self.n, np.int64) for name in ROW_FIELDS}
        told |= {name: Texts.of([""] * self.n) for name in TEXT_FIELDS}
        told |= {
            "number": np.arange(self.n),
            "due_at_ns": began_ns,
            "began_at_ns": began_ns,
            "platform": np.full(self.n, self.platform),
            "source": np.full(self.n, self.source),
            "file_bytes": sizes * MIB,
            "received_bytes": sizes * MIB,
            "first_byte_ns": first_ns,
            "transfer_ns": marks[offsets[1:] - 1],
            "digest_ok": np.ones(self.n, np.int64),
            "cold": np.ones(self.n, np.int64),
            "cpu_ns": np.full(self.n, UNTOLD),
            "cached_share": np.full(self.n, np.nan),
            "sandbox": Texts.of([f"{self.platform}-{self.source}-{place}" for place in range(self.n)]),
        }
        kept = (marks, offsets) if self.marks else (marks[:0], np.zeros_like(offsets))
        return TransferColumns(**told, mib_ns=kept[0], mib_offsets=kept[1])


def _factors(truth: Truth, began_ns: Integers, rng: np.random.Generator) -> Floats:
    factors = np.where(rng.random(began_ns.size) < truth.slow_share, truth.slow_factor, 1.0)
    since_ns = began_ns - START_NS
    if truth.change_after_days is not None:
        factors[since_ns >= truth.change_after_days * 24 * HOUR_NS] *= truth.change_factor
    if truth.slow_hour is not None:
        factors[since_ns // HOUR_NS % 24 == truth.slow_hour] *= truth.hour_factor
    return factors


def joined(parts: Sequence[TransferColumns]) -> TransferColumns:
    """Return columns one behind the other."""
    columns: dict[str, Any] = {}
    for name in ROW_FIELDS:
        pieces = [getattr(part, name) for part in parts]
        texts = [each.table[code] for each in pieces for code in each.codes] if name in TEXT_FIELDS else []
        columns[name] = Texts.of(texts) if name in TEXT_FIELDS else np.concatenate(pieces)
    lengths = np.concatenate([np.diff(part.mib_offsets) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return TransferColumns(**columns, mib_ns=np.concatenate([part.mib_ns for part in parts]), mib_offsets=offsets)


def drawn_reads(truth: Truth = NOTHING, n: int = 720, seed: int = 1, **simulated: Any) -> Reads:  # noqa: ANN401 -- fields of `Simulation`
    """Return the measured reads of a month of transfers; from EFS to Lambda, if nothing else is said."""
    simulation = Simulation(**{"platform": 0, "source": 1, "n": n, "marks": False, **simulated})
    ((_, reads),) = pairs_of(simulation.draw(truth, np.random.default_rng(seed))[0])
    return reads.measured
