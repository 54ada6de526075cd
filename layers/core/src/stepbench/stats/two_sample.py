"""Are two samples from one distribution? Kolmogorov and Smirnov's distance, with what it takes to judge it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scipy import special, stats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIGNIFICANCE = 0.05


class KolmogorovSmirnov(NamedTuple):
    """
    d: largest vertical distance of the two ECDFs. p_value: of one as large by chance. n, m: the samples' sizes.

    critical_d: what d exceeds by chance in 5 % of cases (asymptotic). A d below it does not show that the two are
    equal, only that samples of this size do not tell them apart.
    """

    d: float
    p_value: float
    n: int
    m: int
    critical_d: float


def kolmogorov_smirnov(a: NDArray[np.float64], b: NDArray[np.float64]) -> KolmogorovSmirnov:
    """
    The two-sided test of independent values; both samples have one at least, and missing ones are `inf`.

    The p-value is exact up to 10,000 values a side, asymptotic above.

    Source:
        Smirnov (1948), The Annals of Mathematical Statistics 19(2); Hodges (1958), Arkiv for Matematik 3(43) (exact).
    """
    found = stats.ks_2samp(a, b)
    critical_d = float(special.kolmogi(SIGNIFICANCE)) * math.sqrt((a.size + b.size) / (a.size * b.size))
    return KolmogorovSmirnov(float(found.statistic), float(found.pvalue), a.size, b.size, critical_d)
