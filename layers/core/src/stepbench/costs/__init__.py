"""The costs of a trial on AWS: an upper bound before it runs, and the bill from its counts after."""

from stepbench.costs.estimate import Usage, actual_cost, estimate
from stepbench.costs.prices import PRICE_TABLE_DATE, CostEstimate, CostLine

__all__ = ["PRICE_TABLE_DATE", "CostEstimate", "CostLine", "Usage", "actual_cost", "estimate"]
