"""What a trial costs on AWS: an upper bound before it runs, the bill of what was done after it, and dated prices."""

from stepbench.costs.estimate import estimate
from stepbench.costs.price_table import PRICE_TABLE_DATE
from stepbench.costs.prices import CostEstimate

__all__ = ["PRICE_TABLE_DATE", "CostEstimate", "estimate"]
