"""The number of a distribution's modes, by Silverman's test on the logarithm, calibrated, and their shares."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.errors import InsufficientSampleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

SIGNIFICANCE = 0.05
MIN_VALUES, MAX_VALUES = 100, 2_000
DRAWS = 200
FINE_DRAWS = 3_000
"""For a p-value down to 1 / 3,001, where so many tests share an error that 5 % is far too much for one."""
MAX_MODES = 8
_PROMISING = 0.02
_FINE_LEVELS = (0.0004, 0.0007, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.007, 0.01, 0.015)
_GRID = 512
_INSIDE = (0.02, 0.98)
"""Modes are counted between these quantiles: single values far out make modes of their own at any bandwidth."""
_REACH = 6.0
"""Deviations from the mean beyond which values do not matter for what is counted inside."""
_FLAT = 1e-12
_HALVINGS = 14
_LEVELS = 1_000
_AT_ONCE = 200


class Modes(NamedTuple):
    """
    p_value is of one mode, `at` holds the modes' places (one if unimodality stands), n values were used.

    shares: of the values used, those between the valleys on either side of each mode.
    """

    p_value: float
    at: tuple[float, ...]
    n: int
    shares: tuple[float, ...]


def find_modes(values: Values, rng: np.random.Generator) -> Modes:
    """
    Apply Silverman's critical-bandwidth test with Hall and York's calibration to log values.

    Args:
        values: shape (n,), independent; what is missing (`inf`) or not above 0 is left out. Above `MAX_VALUES`, so many
            of them are drawn.
        rng: for the resamples.

    Raises:
        InsufficientSampleError: fewer than 100 such values; the message is the reason to print.
    """
    return ModeTest(values, rng).modes(SIGNIFICANCE)


class ModeTest:
    """
    Silverman's test of one mode, and the modes that his test of 2, 3, ... settles on.

    The critical bandwidth is the smallest at which a Gaussian kernel estimate has one mode. It is compared with those
    of resamples from that estimate. Uncalibrated, the test rejects far fewer than 5 % of unimodal samples; the
    calibration is for one mode only.

    Source:
        Silverman (1981), Journal of the Royal Statistical Society B 43(1); Hall & York (2001), Statistica Sinica 11
        (interval, calibration, equation 4.1); kernel estimates on a grid: Silverman (1982), JRSS C 31(1).
    """

    def __init__(
        self, values: Values, rng: np.random.Generator, *, least: int = MIN_VALUES, fine: bool = False
    ) -> None:
        """
        Test for one mode.

        Args:
            values: as of `find_modes`.
            rng: for the resamples.
            least: how many values it takes.
            fine: whether small p-values are distinguished, by more resamples.

        Raises:
            InsufficientSampleError: there are fewer; the message is the reason to print.
        """
        usable = values[np.isfinite(values) & (values > 0)]
        if usable.size < least:
            message = f"n={usable.size} < {least}"
            raise InsufficientSampleError(message)
        self._rng = rng
        self._logs = np.log(usable if usable.size <= MAX_VALUES else rng.choice(usable, MAX_VALUES, replace=False))
        self._deviation = float(self._logs.std())
        self._same = float(usable[0]) if np.ptp(self._logs) == 0 else None
        self.p_value = 1.0
        if self._same is None:
            self._density = _Density((self._logs - self._logs.mean()) / self._deviation)
            self._single = self._density.critical_bandwidth(1)
            self.p_value = self._test_one(fine=fine)

    def modes(self, significance: float, further: float = SIGNIFICANCE) -> Modes:
        """
        Return one mode if its p-value is not below a level, else the smallest number that is accepted at `further`.

        A density that only rises or falls has its mode where it is highest.
        """
        if self._same is not None:
            return Modes(1.0, (self._same,), self._logs.size, (1.0,))
        bandwidth = self._single if self.p_value >= significance else self._settled(further)
        places, valleys = self._density.shape(bandwidth)
        at = np.exp(places * self._deviation + self._logs.mean())
        about = np.searchsorted(valleys * self._deviation + self._logs.mean(), self._logs)
        shares = np.bincount(about, minlength=places.size) / self._logs.size
        return Modes(self.p_value, tuple(at.tolist()), self._logs.size, tuple(shares.tolist()))

    def _test_one(self, *, fine: bool) -> float:
        resamples = self._density.resamples(self._single, DRAWS, self._rng)
        ratios = np.concatenate([several.critical_bandwidths() for several in resamples]) / self._single
        p_value = _calibrated(ratios)
        if not fine or p_value > _PROMISING:
            return p_value
        resamples = self._density.resamples(self._single, FINE_DRAWS, self._rng)
        return max(p_value, _PROMISING) if (found := _fine(tuple(resamples), self._single)) is None else found

    def _settled(self, further: float) -> float:
        """Return the critical bandwidth of the smallest number of modes, two or more, that Silverman's test accepts."""
        draws = max(DRAWS, math.ceil(10 / further))
        for modes in range(2, MAX_MODES):
            bandwidth = self._density.critical_bandwidth(modes)
            resamples = self._density.resamples(bandwidth, draws, self._rng)
            more = sum(int(np.count_nonzero(several.count_modes(bandwidth) > modes)) for several in resamples)
            if more >= further * draws:
                return bandwidth
        return self._density.critical_bandwidth(MAX_MODES)


class _Density:
    """It estimates the density of one sample of mean 0 and deviation 1, by the FFT of its histogram."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._edges = np.linspace(
            max(float(values.min()), -_REACH) - 2, min(float(values.max()), _REACH) + 2, _GRID + 1
        )
        self._at = (self._edges[1:] + self._edges[:-1]) / 2
        self._step = float(self._edges[1] - self._edges[0])
        self._sample = _Resamples(np.histogram(values, self._edges)[0][None], self._step)

    def shape(self, bandwidth: float) -> tuple[Values, Values]:
        """Return the estimate's local maxima and, one fewer, the minima between them, ascending."""
        height = self._sample.heights(bandwidth)[0]
        tops = np.nonzero(self._sample.tops(bandwidth)[0])[0] + 1
        if not tops.size:
            tops = np.array([int(height.argmax())])
        lows = [int(one + height[one:other].argmin()) for one, other in pairwise(tops)]
        return self._at[tops], self._at[lows]

    def critical_bandwidth(self, modes: int) -> float:
        """Return the smallest bandwidth with no more modes than these, in fractions of the deviation."""
        return float(self._sample.critical_bandwidths(modes)[0])

    def resamples(self, bandwidth: float, draws: int, rng: np.random.Generator) -> Iterator[_Resamples]:
        """Yield samples of the kernel estimate, brought back to a deviation of 1, some at a time."""
        n = self._values.size
        for begin in range(0, draws, _AT_ONCE):
            rows = min(_AT_ONCE, draws - begin)
            drawn = rng.standard_normal((rows, n))
            drawn *= bandwidth
            drawn += self._values[rng.integers(0, n, (rows, n))]
            drawn /= math.sqrt(1 + bandwidth**2)
            place = ((drawn - self._edges[0]) / self._step).astype(np.int64)
            np.clip(place, 0, _GRID - 1, out=place)
            place += np.arange(rows)[:, None] * _GRID
            yield _Resamples(np.bincount(place.ravel(), minlength=rows * _GRID).reshape(rows, _GRID), self._step)


class _Resamples:
    """They are histograms on one grid, shape (rows, grid), whose kernel estimates are asked for their modes."""

    def __init__(self, counts: NDArray[np.int64], step: float) -> None:
        self._step = step
        self._spectrum = np.fft.rfft(counts)
        self._waves = 2 * math.pi * np.fft.rfftfreq(_GRID, step)
        below = np.cumsum(counts, axis=1)
        first, last = ((below < q * below[:, -1:]).sum(axis=1)[:, None] for q in _INSIDE)
        place = np.arange(_GRID - 1)
        self._inside = (place >= first - 1) & (place < last)

    def heights(self, bandwidth: Values | float) -> Values:
        """Return the estimates; a bandwidth for all, or shape (rows, 1)."""
        return np.fft.irfft(self._spectrum * np.exp(-0.5 * (self._waves * bandwidth) ** 2), _GRID)

    def tops(self, bandwidth: Values | float) -> NDArray[np.bool_]:
        """
        Return where an estimate has a local maximum inside, shape (rows, grid - 2), beginning with the second place.

        What the transform leaves behind in flat places is no slope; those lie in valleys.
        """
        height = self.heights(bandwidth)
        rises = np.diff(height) > _FLAT * height.max(axis=1)[:, None]
        rises &= self._inside
        found: NDArray[np.bool_] = rises[:, :-1] & ~rises[:, 1:] & self._inside[:, 1:]
        return found

    def count_modes(self, bandwidth: Values | float) -> NDArray[np.int64]:
        """Return how many local maxima each estimate has inside; one where it only rises or falls."""
        counts: NDArray[np.int64] = self.tops(bandwidth).sum(axis=1)
        return np.maximum(counts, 1)

    def critical_bandwidths(self, modes: int = 1) -> Values:
        """Return each one's smallest bandwidth with no more modes than these."""
        low = np.full((self._spectrum.shape[0], 1), self._step)
        high = np.full_like(low, 2.0)
        for _ in range(_HALVINGS):
            middle = np.sqrt(low * high)
            more = self.count_modes(middle)[:, None] > modes
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        return high[:, 0]


def _limit(alpha: Values | float) -> Values:
    """
    Return by which factor a resample's bandwidth has to be larger at which level.

    Source:
        Hall & York (2001), equation 4.1.
    """
    limit: Values = np.polyval((0.94029, -1.59914, 0.17695, 0.48971), alpha) / np.polyval(
        (1, -1.77793, 0.36162, 0.42423), alpha
    )
    return limit


def _calibrated(ratios: Values) -> float:
    """
    Return the smallest level at which Hall and York's rule rejects, from bandwidth ratios of resamples.

    Source:
        Hall & York (2001), equation 4.1: reject if a share 1 - alpha of the ratios is at most lambda(alpha).
    """
    alpha = np.arange(1, _LEVELS) / _LEVELS
    below = np.searchsorted(np.sort(ratios), _limit(alpha), side="right") / ratios.size
    rejects = np.nonzero(below >= 1 - alpha)[0]
    return float(alpha[rejects[0]]) if rejects.size else 1.0


def _fine(resamples: tuple[_Resamples, ...], bandwidth: float) -> float | None:
    """Return the smallest of the fine levels at which the rule rejects, the sample counted among its resamples."""
    for alpha in _FINE_LEVELS:
        width = bandwidth * float(_limit(alpha))
        beyond = sum(int(np.count_nonzero(several.count_modes(width) > 1)) for several in resamples)
        if (beyond + 1) / (FINE_DRAWS + 1) <= alpha:
            return alpha
    return None
