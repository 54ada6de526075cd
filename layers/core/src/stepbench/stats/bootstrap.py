"""The block bootstrap over time gives intervals for quantiles of values that depend on those shortly before."""

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
    """Return how many blocks of max(1 s, 5 autocorrelation times) fit; at most 1,000, then they are longer."""
    block_s = max(MIN_BLOCK_S, BLOCK_TIMES * autocorrelation_time_s)
    return min(math.floor(length_s / block_s + 1e-9), MAX_BLOCKS)


def block_index(at_s: NDArray[np.float64], length_s: float, blocks: int) -> NDArray[np.int64]:
    """Return in which of equally long blocks each time lies; times are seconds since the window's start."""
    return np.clip((at_s * (blocks / length_s)).astype(np.int64), 0, blocks - 1)


def block_weights(blocks: int, rng: np.random.Generator, draws: int = DRAWS) -> NDArray[np.float64]:
    """Draw how often each block is in each resample; shape (draws, blocks). Floats, for fast products."""
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), draws).astype(np.float64)


def seam_factor(autocorrelation_times: float) -> float:
    """
    Return the factor above 1 by which resampled blocks of so many autocorrelation times vary too little.

    Where two blocks meet in a resample, the dependence between their ends is lost: for an AR(1) the variance of a
    block's mean is smaller than the long-run one by half an autocorrelation time over the block's length.

    Source:
        Kunsch (1989), The Annals of Statistics 17(3), theorem 3.1 (bias of the block estimator of the variance);
        the AR(1)'s 2 phi / (1 - phi^2) is half its (1 + phi) / (1 - phi) to within 1 % from phi = 0.9, 11 % from 0.5.
    """
    return 1 / math.sqrt(1 - 0.5 / max(autocorrelation_times, 1.0))


def share_draws(
    at_most: NDArray[np.bool_], block: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """
    Return how the share of values at or below an estimate deviates between resamples; shape (draws,).

    A resample of empty blocks only has no share, and deviates by 0.
    """
    counts = np.bincount(block, minlength=weights.shape[1]).astype(np.float64)
    hits = np.bincount(block, weights=at_most, minlength=weights.shape[1])
    drawn = weights @ counts
    share = hits.sum() / counts.sum()
    deviations: NDArray[np.float64] = np.divide(weights @ hits, np.where(drawn > 0, drawn, 1.0)) - share
    deviations[drawn == 0] = 0.0
    return deviations


def bootstrap_levels(
    at_most: NDArray[np.bool_], block: NDArray[np.int64], weights: NDArray[np.float64], q: float, *, widen: float = 1.0
) -> Levels:
    """
    Return levels that enclose the quantile, from how the share at or below the estimate varies between blocks.

    Whole blocks are resampled; the share's deviations, widened for the number of blocks (expanded percentile
    interval), are laid around q. Working with shares, as Woodruff does, needs no resampling of values and keeps the
    interval inside the sample.

    Args:
        at_most: shape (n,), whether each value is at most the estimated quantile.
        block: shape (n,), each value's block.
        weights: from `block_weights`.
        q: probability of the quantile.
        widen: a factor on the deviations, from `seam_factor`.

    Source:
        Kunsch (1989), The Annals of Statistics 17(3) (blocks); Woodruff (1952), Journal of the American Statistical
        Association 47 (inversion); Hesterberg (2015), The American Statistician 69(4), section 5.3 (expansion).
    """
    blocks = weights.shape[1]
    t = float(special.stdtrit(blocks - 1, (1 + CONFIDENCE) / 2))
    tail = float(special.ndtr(-t * math.sqrt(blocks / (blocks - 1))))
    low, high = widen * np.quantile(share_draws(at_most, block, weights), [tail, 1 - tail])
    return Levels(max(q + float(low), 0.0), min(q + float(high), 1.0))


def expansion(blocks: int) -> float:
    """
    Return the widening for the number of blocks as a factor, where there is no single tail to move.

    Source:
        Hesterberg (2015), section 5.3.
    """
    t = float(special.stdtrit(blocks - 1, (1 + CONFIDENCE) / 2))
    return t / float(special.ndtri((1 + CONFIDENCE) / 2)) * math.sqrt(blocks / (blocks - 1))
