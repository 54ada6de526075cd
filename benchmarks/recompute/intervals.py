"""A run's intervals set against those of another method: a bootstrap of moving blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.recompute.records import QUANTILES, Key, quantile

if TYPE_CHECKING:
    from benchmarks.recompute.records import Samples
    from numpy.typing import NDArray


def bootstrap(
    values: NDArray[np.float64], q: float, per_s: float, draws: int, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """
    Return where the two ends of a 95 % interval lie, each from and to, by moving blocks (Kuensch 1989).

    A block is a second long, or five times the sum of the ranks' autocorrelations where they are not noise yet.
    """
    n = values.size
    ranks = np.argsort(np.argsort(values, kind="stable")).astype(float) - (n - 1) / 2
    lags = range(1, min(n // 4, 1000))
    acf = np.array([np.dot(ranks[:-lag], ranks[lag:]) for lag in lags]) / np.dot(ranks, ranks)
    noise = acf < 2 / np.sqrt(n)
    visible = acf[: int(noise.argmax()) if noise.any() else acf.size].sum()
    block = int(min(n // 4, max(per_s, 5 * (1 + 2 * visible))))
    starts = rng.integers(0, n - block + 1, (draws, -(-n // block)))
    offsets = np.arange(block)
    samples = (np.sort((values[row[:, None] + offsets]).ravel()[:n]) for row in starts)
    found = np.sort([quantile(sample, q) or np.inf for sample in samples])
    spread = 1.96 * np.sqrt(draws * 0.025 * 0.975)
    ends = [(0.025 * draws - spread, 0.025 * draws + spread), (0.975 * draws - spread, 0.975 * draws + spread)]
    return [(found[max(0, int(low))], found[min(draws - 1, int(np.ceil(high)))]) for low, high in ends]


def compare_intervals(summary: dict[str, Any], samples: Samples, draws: int) -> None:
    """Print how far the intervals of the measures are from those of another method."""
    rng, beyond, apart, total, disjoint = np.random.default_rng(7), 0, [], 0, 0
    for trial in summary["trials"]:
        for window in trial["windows"]:
            measures = [name for name, found in window.items() if name.endswith("_ms") and isinstance(found, dict)]
            for name, q in ((name, q) for name in measures for q in QUANTILES):
                low, high = (window[name][q][end] for end in ("low", "high"))
                if low is None or high is None or low == high:
                    continue
                values = samples[Key(trial["index"], window["phase"], window["name"], "", name)]
                count = int(np.clip(draws * 4_000 / values.size, 200, draws))
                ours = bootstrap(values, QUANTILES[q], window["offered_per_s"], count, rng)
                total += 1
                beyond += any(not at[0] <= end <= at[1] for end, at in zip((low, high), ours, strict=True))
                disjoint += bool(high < ours[0][0] or low > ours[1][1])
                apart.append((sum(ours[1]) - sum(ours[0])) / 2 / (high - low))
    if total:
        quartiles = ", ".join(f"{each:.2f}" for each in np.quantile(apart, (0.25, 0.5, 0.75)))
        print(f"intervals: {total}; {beyond} have an end beyond the Monte Carlo error of a bootstrap of moving blocks")
        print(f"  width of the bootstrap's over theirs (quartiles): {quartiles}; {disjoint} do not overlap")
