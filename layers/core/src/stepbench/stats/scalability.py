"""
The Universal Scalability Law: throughput over the number of clients, and where more of them stop helping.

    X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))

lambda is one client's throughput, sigma the share that is serial (contention), kappa what clients cost each other
(coherency). Clients per throughput, N / X, is linear in 1 / lambda, sigma / lambda and kappa / lambda, none of which is
negative; so the fit needs no starting point but the measured points.

The report's function imports it for every run, so SciPy is imported where a curve is fitted: few runs have one, and
SciPy's optimizers take two thirds as long to import as all else in that function.

Source:
    Gunther (2007), Guerrilla Capacity Planning, chapters 4-6.
"""

from __future__ import annotations

import math
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepbench.contracts.measures import Estimate
from stepbench.digits import counted
from stepbench.errors import InsufficientSampleError
from stepbench.stats.tails import student_975

if TYPE_CHECKING:
    from collections.abc import Sequence

Vector = tuple[float, float, float]
PARAMETERS = 3
MIN_LEVELS = 4
"""Different numbers of clients: three parameters go through any three points."""
MIN_POINTS = 6
DRAWS = 500
_NO_KNEE = "no knee"
_STEPS, _STEPS_NEAR = 6, 2
"""From the points, with 15 % noise, six come within 1e-4 of where more would; refits begin near their end."""
_NOTHING, _FARTHEST = 1e-8, 0.5


class Resampler(Protocol):
    """It makes random choices, as a `random.Random` does."""

    def choices(self, population: Sequence[float], *, k: int) -> list[float]:
        """Choose `k` values, with replacement."""
        ...


class Usl(NamedTuple):
    """It is one curve: throughput of one client (a second), contention, coherency."""

    lambda_per_s: float
    sigma: float
    kappa: float

    def throughput(self, clients: float) -> float:
        """Return the throughput a second with so many clients."""
        return self.lambda_per_s * clients / (1 + self.sigma * (clients - 1) + self.kappa * clients * (clients - 1))

    @property
    def knee(self) -> float:
        """Return the number of clients with the most throughput; `inf` where it never falls, 1 where it only falls."""
        if self.sigma >= 1:
            return 1.0
        return max(1.0, math.sqrt((1 - self.sigma) / self.kappa)) if self.kappa > 0 else math.inf


class Scalability(NamedTuple):
    """
    It is a fitted curve with 95 % intervals.

    knee: where it has none within the numbers of clients that were measured, the reason. peak_per_s: the throughput
    there.
    """

    curve: Usl
    lambda_per_s: Estimate
    sigma: Estimate
    kappa: Estimate
    knee: Estimate
    peak_per_s: Estimate


def fit(clients: Sequence[float], throughput: Sequence[float], near: Usl | None = None) -> Usl:
    """
    Fit the curve with the smallest squares of log X - log X(N); sigma and kappa are not negative.

    A point that is off by more than a factor of e^0.5 = 1.6 counts as one that is off by so much: steps stay bounded.

    Args:
        clients: n of them, at least 1, of at least three different values.
        throughput: n of them, a second, above 0.
        near: a curve not far from it, which saves steps.

    Source:
        Gauss-Newton steps, each a linear problem: Lawson & Hanson (1974), Solving Least Squares Problems, chapter 23.
    """
    design = [(1.0, n - 1.0, n * (n - 1.0)) for n in clients]
    measured = [n / x for n, x in zip(clients, throughput, strict=True)]
    fitted = measured if near is None else [n / near.throughput(n) for n in clients]
    found = (0.0, 0.0, 0.0)
    for _ in range(_STEPS if near is None else _STEPS_NEAR):
        target = [
            1 + min(max(math.log(one / other), -_FARTHEST), _FARTHEST)
            for one, other in zip(measured, fitted, strict=True)
        ]
        rows = [(a / size, b / size, c / size) for (a, b, c), size in zip(design, fitted, strict=True)]
        found = _not_negative(rows, target)
        fitted = [a * found[0] + b * found[1] + c * found[2] for a, b, c in design]
    inverse, serial, crosstalk = found
    return Usl(1 / inverse, serial / inverse, crosstalk / inverse)


def _not_negative(rows: Sequence[Vector], target: Sequence[float]) -> Vector:
    from scipy.optimize import nnls  # noqa: PLC0415 -- see the module

    # Columns of one size, or what is nothing would be measured by the largest; what is left of rounding is nothing.
    a, b, c = (math.sqrt(sum(row[at] ** 2 for row in rows)) for at in range(PARAMETERS))
    found = nnls([(row[0] / a, row[1] / b, row[2] / c) for row in rows], target)[0].tolist()
    least = _NOTHING * max(found)
    inverse, serial, crosstalk = (each if each >= least else 0.0 for each in found)
    return max(inverse, least) / a, serial / b, crosstalk / c


def scalability(
    clients: Sequence[float], throughput: Sequence[float], rng: Resampler, draws: int = DRAWS
) -> Scalability:
    """
    Fit the curve, with intervals from refits to resampled residuals.

    Relative residuals, made as large as the noise must have been before three parameters were fitted to it, are
    laid on the curve; percentiles of the refits are widened for the few degrees of freedom. Runs are taken to be
    independent, with noise in proportion to throughput; where the proportion itself grows with the number of clients,
    intervals hold the truth in 80-90 % of cases.

    Args:
        clients: the number of clients of each run; repeats of a number are points of their own.
        throughput: what each run achieved, a second.
        rng: for the intervals.
        draws: refits.

    Raises:
        InsufficientSampleError: too few points or different numbers of clients; the message says so.
        ValueError: a number of clients below 1, or a throughput that is not above 0.

    Source:
        Davison & Hinkley (1997), Bootstrap Methods and their Application, section 6.3.3 (residuals); Hesterberg
        (2015), The American Statistician 69(4), section 5.3 (expansion).
    """
    _check(clients, throughput)
    curve = fit(clients, throughput)
    fitted = [curve.throughput(n) for n in clients]
    relative = [math.log(x / at) for x, at in zip(throughput, fitted, strict=True)]
    spare = len(clients) - PARAMETERS
    mean, larger = fmean(relative), math.sqrt(len(clients) / spare)
    noise = [(each - mean) * larger for each in relative]
    drawn = (
        [at * math.exp(off) for at, off in zip(fitted, rng.choices(noise, k=len(fitted)), strict=True)]
        for _ in range(draws)
    )
    refits = [fit(clients, throughput, curve) for throughput in drawn]
    lambda_per_s, sigma, kappa = (
        _estimate(value, [each[at] for each in refits], spare) for at, value in enumerate(curve)
    )
    knee = _knee(curve, _interval([refit.knee for refit in refits], spare), min(clients), max(clients))
    return Scalability(
        curve=curve,
        lambda_per_s=lambda_per_s,
        sigma=sigma,
        kappa=kappa,
        knee=knee,
        peak_per_s=_peak(curve, refits, knee, spare),
    )


def _check(clients: Sequence[float], throughput: Sequence[float]) -> None:
    if min(clients, default=1) < 1 or not all(0 < each < math.inf for each in throughput):
        message = "numbers of clients have to be at least 1, and throughputs above 0; leave failed runs out"
        raise ValueError(message)
    levels = len(set(clients))
    if levels < MIN_LEVELS:
        message = f"{levels} different numbers of clients, and the fit needs {MIN_LEVELS}"
        raise InsufficientSampleError(message)
    if len(clients) < MIN_POINTS:
        message = f"{counted(len(clients), 'point')}, and the fit needs {MIN_POINTS}"
        raise InsufficientSampleError(message)


def _estimate(value: float, refitted: list[float], spare: int) -> Estimate:
    low, high = _interval(refitted, spare)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _interval(refitted: list[float], spare: int) -> tuple[float, float]:
    """Return percentiles of the refits, as far out as Student's t lies for so few degrees of freedom."""
    ordered, tail = sorted(refitted), NormalDist().cdf(-student_975(spare))
    last = len(ordered) - 1
    low = min(max(round(tail * len(ordered)) - 1, 0), last)
    return ordered[low], ordered[last - low]


def _knee(curve: Usl, interval: tuple[float, float], least: float, most: float) -> Estimate:
    """Return the knee if it was passed: below the smallest and beyond the largest number of clients it is a guess."""
    low, high = min(interval[0], curve.knee), max(interval[1], curve.knee)
    lowest = None if math.isinf(low) else low
    if math.isinf(curve.knee):
        return Estimate(value=None, low=lowest, reason=f"{_NO_KNEE}: throughput rises as far as was measured")
    if curve.knee > most:
        reason = f"{_NO_KNEE} up to {most:g} clients; the curve's is at {curve.knee:.0f}, beyond what was measured"
        return Estimate(value=None, low=lowest, reason=reason)
    if curve.knee <= least:
        reason = f"{_NO_KNEE}: throughput falls from the smallest number of clients measured, {least:g}"
        if least == 1:
            reason = f"{_NO_KNEE}: throughput does not rise beyond one client's"
        return Estimate(value=None, high=None if math.isinf(high) else high, reason=reason)
    if math.isinf(high):
        return Estimate(value=curve.knee, low=low, high=None, reason="some refits have no knee: no upper limit")
    return Estimate(value=curve.knee, low=low, high=high)


def _peak(curve: Usl, refits: Sequence[Usl], knee: Estimate, spare: int) -> Estimate:
    """Return the throughput at the knee, where there is one; each refit's at its own, or at the curve's."""
    if knee.value is None:
        return Estimate(value=None, reason=knee.reason)
    own = [refit.throughput(refit.knee if math.isfinite(refit.knee) else curve.knee) for refit in refits]
    return _estimate(curve.throughput(curve.knee), own, spare)
