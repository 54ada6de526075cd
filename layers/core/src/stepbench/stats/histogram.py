"""Times counted in buckets of equal ratio: small enough for a sign of life, and added up by bucket over writers."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BUCKETS_PER_OCTAVE = 16
"""A bucket's middle is within 2.2 % of all times in it: for a look while a run goes on, never for its report."""


def count_times(times_ns: NDArray[np.int64]) -> Counter[int]:
    """Count times by bucket; bucket b begins at 2 ** (b / BUCKETS_PER_OCTAVE) ns."""
    import numpy as np  # noqa: PLC0415 -- who only reads histograms does without

    octaves = np.log2(np.maximum(times_ns, 1))
    counts = np.bincount((octaves * BUCKETS_PER_OCTAVE).astype(np.int64))
    held = np.flatnonzero(counts)
    return Counter(dict(zip(held.tolist(), counts[held].tolist(), strict=True)))


def histogram_text(counts: Counter[int]) -> str:
    """Format counts for a heartbeat: `318:12 319:40`, some 10 bytes a bucket."""
    return " ".join(f"{bucket}:{count}" for bucket, count in sorted(counts.items()))


def parse_histogram(text: str) -> Counter[int]:
    """Read what `histogram_text` wrote."""
    pairs = (pair.split(":") for pair in text.split())
    return Counter({int(bucket): int(count) for bucket, count in pairs})


def histogram_quantile_ns(counts: Counter[int], q: float) -> float | None:
    """Return the middle of the bucket that holds the quantile; None of nothing."""
    rank = max(1, math.ceil(q * counts.total()))
    for bucket, count in sorted(counts.items()):
        rank -= count
        if rank <= 0:
            return float(2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE))
    return None
