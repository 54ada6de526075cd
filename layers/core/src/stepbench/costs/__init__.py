"""What a trial costs on AWS: expected, or at most, before it runs; the bill of what was done; and dated prices."""

from stepbench.costs.estimate import budgeted, estimate, upper_bound
from stepbench.costs.prices import CostEstimate

__all__ = ["CostEstimate", "budgeted", "estimate", "upper_bound"]
