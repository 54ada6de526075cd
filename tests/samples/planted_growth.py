"""Windows with a planted queue or drift, and clean ones with all that may look like it; each with a seed of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

KINDS_OF_CLEAN = ("independent", "heavy tail", "dependent", "stalls", "busy server", "dependent and wide")


class Planted(NamedTuple):
    """When events came, in seconds since the window's start, and what each took."""

    at_s: Values
    elapsed_s: Values
    length_s: float


def queue(seed: int) -> Planted:
    """Return events that come 5 to 100 % faster than one server works them off, from the start or from a third on."""
    rng = np.random.default_rng((1, seed))
    at_s, length_s, per_s = _arrivals(rng, (20, 50, 200, 500))
    work_s = rng.lognormal(np.log(rng.choice([1.1, 1.3, 2]) / per_s), 0.4, at_s.size)
    if rng.random() < 0.3:
        work_s[at_s < 0.3 * length_s] *= 0.4
    return Planted(at_s, in_order(at_s, work_s) + 0.002, length_s)


def overload(capacity_per_s: float, drain_s: float, *, from_share: float = 0, seed: int = 0) -> Planted:
    """Return 100 a second for 60 s, of which a server takes fewer, from the start or later; `inf` after the drain."""
    rng = np.random.default_rng((4, seed))
    length_s, per_s = 60.0, 100
    at_s = np.arange(round(length_s * per_s)) / per_s
    work_s = rng.lognormal(-(0.3**2) / 2, 0.3, at_s.size) / capacity_per_s
    work_s[at_s < from_share * length_s] *= 0.7 * capacity_per_s / per_s
    elapsed_s = in_order(at_s, work_s) + 0.002
    return Planted(at_s, np.where(at_s + elapsed_s > length_s + drain_s, np.inf, elapsed_s), length_s)


def drift(seed: int) -> Planted:
    """Return latencies that get half as long, or up to three times as long, over the window; neighbours are alike."""
    rng = np.random.default_rng((2, seed))
    at_s, length_s, _ = _arrivals(rng, (20, 100, 1_000))
    level = rng.choice([2, 3, 1 / 2]) ** (at_s / length_s)
    noise = np.exp(0.3 * _autoregressive(rng, at_s.size, rng.choice([0, 0.5, 0.8])))
    return Planted(at_s, rng.choice([0.001, 0.01]) * level * noise, length_s)


def clean(seed: int) -> Planted:
    """Return latencies without either; one kind of `KINDS_OF_CLEAN` after the other."""
    rng = np.random.default_rng((3, seed))
    at_s, length_s, per_s = _arrivals(rng, (20, 100, 1_000))
    usual_s, n = rng.choice([0.001, 0.01, 0.1, 1.0]), at_s.size
    match KINDS_OF_CLEAN[seed % len(KINDS_OF_CLEAN)]:
        case "independent":
            found = usual_s * rng.lognormal(0, 0.3, n)
        case "heavy tail":
            found = usual_s * (1 + rng.pareto(1.1, n))
        case "dependent":
            found = usual_s * np.exp(0.3 * _autoregressive(rng, n, rng.choice([0.8, 0.95])))
        case "stalls":
            found = usual_s * rng.lognormal(0, 0.3, n)
            for begin_s in rng.uniform(0, length_s, rng.integers(1, 4)):
                end_s = begin_s + rng.uniform(0.2, 0.1 * length_s)
                inside = (at_s >= begin_s) & (at_s < end_s)
                found[inside] = np.maximum(found[inside], end_s - at_s[inside])
        case "busy server":
            found = 0.001 + in_order(at_s, rng.exponential(rng.choice([0.5, 0.7, 0.8]) / per_s, n))
        case _:
            found = usual_s * np.exp(0.8 * _autoregressive(rng, n, rng.choice([0.9, 0.97])))
    return Planted(at_s, found, length_s)


def in_order(at_s: Values, work_s: Values) -> Values:
    """Return how long events take at one server that works them off one after the other."""
    free_s, ended_s = 0.0, []
    for come_s, own_s in zip(at_s.tolist(), work_s.tolist(), strict=True):
        free_s = max(free_s, come_s) + own_s
        ended_s.append(free_s)
    return np.array(ended_s) - at_s


def _arrivals(rng: np.random.Generator, rates_per_s: tuple[int, ...]) -> tuple[Values, float, float]:
    """Return times of a constant or a Poisson load, the window's length, and the rate."""
    length_s, per_s = float(rng.choice([10, 20, 60])), float(rng.choice(rates_per_s))
    if rng.random() < 0.5:
        return np.arange(round(per_s * length_s)) / per_s, length_s, per_s
    at_s = np.cumsum(rng.exponential(1 / per_s, round(2 * per_s * length_s)))
    return at_s[at_s < length_s], length_s, per_s


def _autoregressive(rng: np.random.Generator, n: int, phi: float) -> Values:
    """Return an AR(1) with deviation 1, in its steady state."""
    noise = rng.standard_normal(n + 300)
    return np.asarray(scipy.signal.lfilter([np.sqrt(1 - phi**2)], [1, -phi], noise)[300:], dtype=np.float64)
