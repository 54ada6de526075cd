"""How long each closed-loop client pauses before each operation. Pure, and seeded."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECOND_NS = 1_000_000_000
_BLOCK = 1_024

ThinkTime = Literal["constant", "exponential"]


def think_times_ns(mean_s: float, distribution: ThinkTime, seed: tuple[int, ...]) -> Iterator[int]:
    """
    Pauses before a client's first, second... operation, without end.

    Before the first, constant pauses are cut to a random part: clients that begin together would otherwise stay
    together, and offer bursts. Exponential ones need no cut, having no memory. Without a pause, all begin together.

    Source:
        Ross, Stochastic Processes (1996), section 3.5 (residual life of a stationary renewal process).
    """
    rng = np.random.default_rng(seed)
    mean_ns = mean_s * _SECOND_NS
    if distribution == "constant":
        return itertools.chain([int(rng.random() * mean_ns)], itertools.repeat(round(mean_ns)))
    blocks = (rng.exponential(mean_ns, _BLOCK).astype(np.int64).tolist() for _ in itertools.count())
    return itertools.chain.from_iterable(blocks)
