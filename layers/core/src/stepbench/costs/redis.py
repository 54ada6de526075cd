"""
The bill of a trial on ElastiCache Serverless, in its units, ECPUs.

Source:
    Amazon ElastiCache pricing, "ElastiCache Serverless": an ECPU is a kilobyte read or written, and commands that take
    more time than GET and SET cost in proportion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.target import RedisTarget
from stepbench.costs import prices
from stepbench.costs.prices import READS, WRITES, line, operated, record_bytes, share

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.workload import Workload
    from stepbench.costs.prices import Amount, Offered

ECPU_BYTES, ECPU_OF_PRODUCT = 1_024, 12
"""HSET and HGETALL of 12 fields are taken for 12 commands."""
CONNECTING_ECPU = 3
"""HELLO, a password, and one to spare: of each connection, with an answer of less than a kilobyte each."""
REMOVING_ECPU = 2
"""The units of each record's SCAN and UNLINK at the end."""


def elasticache_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    """
    Return the bill of a trial that offers so many operations, what is preloaded included.

    A cluster behind TLS may be ElastiCache Serverless, which no plan shows; all others bill by the hour.
    """
    target, workload = trial.target, trial.workload
    if workload is None or not (isinstance(target, RedisTarget) and target.cluster and target.tls):
        return ()
    preloaded = workload.records * (_command_ecpus(workload) + REMOVING_ECPU)
    ecpus = operated(workload, offered.number) * _operation_ecpus(workload) + preloaded
    return (line(prices.ELASTICACHE_ECPU, ecpus, "by size and number of commands"),)


def _operation_ecpus(workload: Workload) -> float:
    """Return the units of an operation, on average and at most, with what removes the record later."""
    commands = share(workload, (*READS, *WRITES))
    connecting = 0 if workload.reuse else CONNECTING_ECPU
    return commands * _command_ecpus(workload) + connecting + REMOVING_ECPU


def _command_ecpus(workload: Workload) -> float:
    least = 1 if workload.record.shape == "blob" else ECPU_OF_PRODUCT
    return max(least, record_bytes(workload) / ECPU_BYTES)
