"""The number of a distribution's modes, by Silverman's test on the logarithm, calibrated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import fft

from stepbench.errors import InsufficientSampleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SIGNIFICANCE = 0.05
MIN_VALUES, MAX_VALUES = 100, 2_000
DRAWS = 200
MAX_MODES = 4
_GRID = 1_024
_INSIDE = (0.02, 0.98)
"""Modes are counted between these quantiles: single values far out make modes of their own at any bandwidth."""
_REACH = 6.0
"""Deviations from the mean beyond which values do not matter for what is counted inside."""
_FLAT = 1e-12
_HALVINGS = 14
_LEVELS = 1_000


class Modes(NamedTuple):
    """p_value is of one mode, `at` holds the modes' places (one if unimodality stands), n values were used."""

    p_value: float
    at: tuple[float, ...]
    n: int


def find_modes(values: NDArray[np.float64], rng: np.random.Generator) -> Modes:
    """
    Apply Silverman's critical-bandwidth test with Hall and York's calibration to log values.

    The critical bandwidth is the smallest at which a Gaussian kernel estimate has one mode. It is compared with those
    of resamples from that estimate. Uncalibrated, the test rejects far fewer than 5 % of unimodal samples.

    Args:
        values: shape (n,), independent; what is missing (`inf`) or not above 0 is left out. Above `MAX_VALUES`, so many
            of them are drawn.
        rng: for the resamples.

    Raises:
        InsufficientSampleError: fewer than 100 such values; the message is the reason to print.

    Source:
        Silverman (1981), Journal of the Royal Statistical Society B 43(1); Hall & York (2001), Statistica Sinica 11
        (interval, calibration, equation 4.1); kernel estimates on a grid: Silverman (1982), JRSS C 31(1).
    """
    usable = values[np.isfinite(values) & (values > 0)]
    if usable.size < MIN_VALUES:
        message = f"n={usable.size} < {MIN_VALUES}"
        raise InsufficientSampleError(message)
    logs = np.log(usable if usable.size <= MAX_VALUES else rng.choice(usable, MAX_VALUES, replace=False))
    if np.ptp(logs) == 0:
        return Modes(1.0, (float(usable[0]),), logs.size)
    deviation = float(logs.std())
    scaled = (logs - logs.mean()) / deviation
    density = _Density(scaled)
    found = density.critical_bandwidth(1)
    ratios = np.array([_Density(resample).critical_bandwidth(1) / found for resample in _resamples(scaled, found, rng)])
    p_value = _calibrated(ratios)
    bandwidth = found if p_value >= SIGNIFICANCE else _settled(scaled, density, rng)
    at = np.exp(density.modes(bandwidth) * deviation + logs.mean())
    return Modes(p_value, tuple(at.tolist()), logs.size)


class _Density:
    """It estimates the density of one sample of mean 0 and deviation 1, by the FFT of its histogram."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        edges = np.linspace(max(float(values.min()), -_REACH) - 2, min(float(values.max()), _REACH) + 2, _GRID + 1)
        self._at = (edges[1:] + edges[:-1]) / 2
        self._step = float(edges[1] - edges[0])
        first, last = np.searchsorted(self._at, np.quantile(values, _INSIDE)).tolist()
        self._inside = slice(max(first - 1, 0), last + 1)
        self._counts = fft.rfft(np.histogram(values, edges)[0])
        self._waves = 2 * math.pi * fft.rfftfreq(_GRID, self._step)

    def modes(self, bandwidth: float) -> NDArray[np.float64]:
        """Return the estimate's local maxima, ascending; its highest place where it only rises or falls."""
        height = fft.irfft(self._counts * np.exp(-0.5 * (self._waves * bandwidth) ** 2), _GRID)[self._inside]
        slope = np.diff(height)
        # What the transform leaves behind in flat places is no mode.
        steep = np.nonzero(np.abs(slope) > _FLAT * height.max())[0]
        rises = slope[steep] > 0
        tops = steep[1:][rises[:-1] & ~rises[1:]]
        found: NDArray[np.float64] = self._at[self._inside][tops if tops.size else [int(height.argmax())]]
        return found

    def critical_bandwidth(self, modes: int) -> float:
        """Return the smallest bandwidth with no more modes than these, in fractions of the deviation."""
        low, high = self._step, 2.0
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.modes(middle).size > modes else (low, middle)
        return high


def _resamples(
    values: NDArray[np.float64], bandwidth: float, rng: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    """Yield samples of the kernel estimate, brought back to a deviation of 1."""
    for _ in range(DRAWS):
        noise = bandwidth * rng.standard_normal(values.size)
        yield (rng.choice(values, values.size) + noise) / math.sqrt(1 + bandwidth**2)


def _calibrated(ratios: NDArray[np.float64]) -> float:
    """
    Return the smallest level at which Hall and York's rule rejects, from bandwidth ratios of resamples.

    Source:
        Hall & York (2001), equation 4.1: reject if a share 1 - alpha of the ratios is at most lambda(alpha).
    """
    alpha = np.arange(1, _LEVELS) / _LEVELS
    limit = np.polyval((0.94029, -1.59914, 0.17695, 0.48971), alpha) / np.polyval(
        (1, -1.77793, 0.36162, 0.42423), alpha
    )
    below = np.searchsorted(np.sort(ratios), limit, side="right") / ratios.size
    rejects = np.nonzero(below >= 1 - alpha)[0]
    return float(alpha[rejects[0]]) if rejects.size else 1.0


def _settled(values: NDArray[np.float64], density: _Density, rng: np.random.Generator) -> float:
    """Return the critical bandwidth of the smallest number of modes, two or more, that Silverman's test accepts."""
    for modes in range(2, MAX_MODES):
        bandwidth = density.critical_bandwidth(modes)
        more = [_Density(resample).modes(bandwidth).size > modes for resample in _resamples(values, bandwidth, rng)]
        if np.mean(more) >= SIGNIFICANCE:
            return bandwidth
    return density.critical_bandwidth(MAX_MODES)
