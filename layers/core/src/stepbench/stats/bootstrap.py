"""Block bootstrap over time, for quantiles of values that depend on those shortly before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from stepbench.stats.quantiles import CONFIDENCE, Levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_BLOCKS = 20
MAX_BLOCKS = 1_000
MIN_BLOCK_S = 1.0
BLOCK_TIMES = 5
"""A block is so many autocorrelation times long, so that blocks are nearly independent of each other."""
DRAWS = 1_000


def block_count(length_s: float, autocorrelation_time_s: float) -> int:
    """How many blocks of max(1 s, 5 autocorrelation times) the window holds; at most 1,000, then they are longer."""
    block_s = max(MIN_BLOCK_S, BLOCK_TIMES * autocorrelation_time_s)
    return min(math.floor(length_s / block_s + 1e-9), MAX_BLOCKS)


def block_index(at_s: NDArray[np.float64], length_s: float, blocks: int) -> NDArray[np.int64]:
    """In which of equally long blocks each time lies; times are seconds since the window's start."""
    return np.clip((at_s * (blocks / length_s)).astype(np.int64), 0, blocks - 1)


def block_weights(blocks: int, rng: np.random.Generator, draws: int = DRAWS) -> NDArray[np.float64]:
    """How often each block is drawn in each resample; shape (draws, blocks). Floats, for fast products."""
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), draws).astype(np.float64)


def bootstrap_levels(
    at_most: NDArray[np.bool_],
    block: NDArray[np.int64],
    weights: NDArray[np.float64],
    q: float,
    confidence: float = CONFIDENCE,
) -> Levels:
    """
    Levels that enclose the quantile, from how the share of values at or below the estimate varies between blocks.

    Whole blocks are resampled; the share's deviations, widened for the number of blocks (expanded percentile
    interval), are laid around q. Working with shares, as Woodruff does, needs no resampling of values and keeps the
    interval inside the sample.

    Args:
        at_most: shape (n,), whether each value is at most the estimated quantile.
        block: shape (n,), each value's block.
        weights: from `block_weights`.
        q: probability of the quantile.
        confidence: of the interval.

    Source:
        Kunsch (1989), The Annals of Statistics 17(3) (blocks); Woodruff (1952), Journal of the American Statistical
        Association 47 (inversion); Hesterberg (2015), The American Statistician 69(4), section 5.3 (widening).
    """
    blocks = weights.shape[1]
    counts = np.bincount(block, minlength=blocks).astype(np.float64)
    hits = np.bincount(block, weights=at_most, minlength=blocks)
    drawn = weights @ counts
    shares = (weights @ hits)[drawn > 0] / drawn[drawn > 0]
    t = float(special.stdtrit(blocks - 1, (1 + confidence) / 2))
    tail = float(special.ndtr(-t * math.sqrt(blocks / (blocks - 1))))
    low, high = np.quantile(shares, [tail, 1 - tail]) - hits.sum() / counts.sum()
    return Levels(max(q + float(low), 0.0), min(q + float(high), 1.0))
