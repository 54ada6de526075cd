"""
What is assumed of AWS and was never run there, each with how a rehearsal's evidence judges it.

docs/deploy.md lists the same sentences ("What was not run on AWS"). An emulator confirms none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench_tools.rehearsal import judges
from stepbench_tools.rehearsal.plans import TRANSFERS
from stepbench_tools.rehearsal.record import Judgement, Rehearsal, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench_tools.rehearsal.judges import Finding

    Judge = Callable[[Rehearsal], Finding | None]


@dataclass(frozen=True)
class Assumption:
    """
    An assumption is a sentence that AWS may refute.

    `judge` returns what the evidence says, or None where there is none; without it `not_by_this` says why.
    """

    id: str
    sentence: str
    judge: Judge | None = None
    not_by_this: str = ""


ASSUMPTIONS = (
    Assumption(
        "deployment",
        "The template deploys: CloudFormation makes every resource that S3 and DynamoDB need.",
        judges.deployment,
    ),
    Assumption(
        "latency",
        "Trials of S3's notifications, of DynamoDB's streams and of DynamoDB's operations go through and yield "
        "latencies. No number in this repository is AWS's.",
        judges.latency,
    ),
    Assumption(
        "accounting",
        "The triggers deliver every event that was acknowledged within the drain limit, and each event is "
        "accounted for.",
        judges.accounting,
    ),
    Assumption(
        "iam",
        "The roles allow every call that functions and machines make. The end-to-end tests run with the emulator "
        "refusing what a role does not allow, and every call that they record, with those that AWS's services "
        "make in a role's name by their documentation, is judged by the template's policies: none is refused, and "
        "no action or resource is allowed that no call needs. AWS itself has judged none.",
        judges.iam,
    ),
    Assumption(
        "aurora",
        "The stack's Aurora PostgreSQL comes up, and its own `aws_lambda` calls the receiver. (Here a stand-in "
        "with its documented signatures does; `stacks/` are linted.)",
        judges.of_round("aurora"),
    ),
    Assumption(
        "etcd-nodes",
        "The stack's etcd nodes come up as one cluster. (What hosts run at their first start was run by hand "
        "against stand-ins of the image's commands, and etcd's processes as a cluster that is replaced, stopped "
        "and started.)",
        judges.of_round("etcd"),
    ),
    Assumption(
        "elasticache",
        "The stack's ElastiCache comes up, and plans with `tls` and `cluster` reach it.",
        judges.of_round("elasticache"),
    ),
    Assumption(
        "cassandra-node",
        "The stack's Cassandra host comes up, formats its disk and answers.",
        judges.of_round("cassandra"),
    ),
    Assumption(
        "load-host",
        "The stack's load host comes up, takes its items from the queue and answers for them.",
        judges.of_round("load-host"),
    ),
    Assumption(
        "transfers",
        "The stack's file system is mounted, its tasks start from the public image and fetch their layers, and "
        "transfers from S3 and EFS go through on Lambda and on Fargate. (Here a folder and processes stand for them; "
        "what a task runs first was run by itself, without a container.)",
        judges.of_round(TRANSFERS),
    ),
    Assumption(
        "forced-cold",
        "A changed variable of a function gives every process that starts after it a new sandbox, once Lambda calls "
        "the change successful.",
        judges.forced_cold,
    ),
    Assumption(
        "vpc",
        "Functions in a VPC reach what they need through its endpoints, by name resolution and interfaces as they are.",
        judges.vpc,
    ),
    Assumption(
        "dsql",
        "Aurora DSQL: a cluster is made, its custom resources bind the functions' roles, and operations go "
        "through. Peering is not rehearsed; see what was checked in "
        "[drivers](drivers.md#aurora-dsql-dsql-operations-only).",
        judges.of_round("dsql"),
    ),
    Assumption(
        "trigger-delay",
        "PrepareTarget and AwaitTarget wait long enough for an S3 notification or a new mapping to act, which may "
        "take minutes.",
        judges.trigger_delay,
    ),
    Assumption(
        "logs",
        "CloudWatch has a REPORT line for every invocation of a receiver within the five minutes that CollectLogs "
        "waits.",
        judges.logs,
    ),
    Assumption(
        "cold-starts",
        "Receivers' stamps call the same invocations cold as REPORT lines do, with no more time than their Init "
        "Duration.",
        judges.cold_starts,
    ),
    Assumption(
        "clocks",
        "Functions outside of a VPC read the clock reference (time.aws.com), so that every offset is measured.",
        judges.clocks,
    ),
    Assumption(
        "clock-check",
        "One sandbox's clock and two sandboxes' clocks measure the same median of DynamoDB's trigger latency, up "
        "to the offset that was measured.",
        judges.clock_check,
    ),
    Assumption(
        "reserved-sandbox",
        "A stream's mapping that meets the reserved sandbox of `CheckClock` while that writes loses nothing, "
        "whether or not such a throttle counts among the mapping's three tries.",
        judges.reserved_sandbox,
    ),
    Assumption("batching-window", "A batching window gathers records, as the mapping is told.", judges.batching_window),
    Assumption(
        "distributed-map",
        "A Distributed Map starts more than ten writers in time, and all of them offer their share.",
        judges.distributed_map,
    ),
    Assumption(
        "stopping",
        "Stopping a run stops its nested executions, and the sweeper leaves nothing of it behind.",
        judges.stopping,
    ),
    Assumption(
        "deletion",
        "Deleting the stack leaves nothing but the results bucket and what trials have made, and interfaces of "
        "functions go with it.",
        judges.deletion,
    ),
    Assumption("estimate", "A plan's bill is not above what it may cost.", judges.estimate),
    Assumption(
        "throttling",
        "A throttled table, function or service is waited for, and what is lost by it is said.",
        not_by_this="it needs a load, or an account's quota, that a few dollars do not reach",
    ),
    Assumption(
        "warm-throughput",
        "`ResultsWarmWriteUnits` makes a results table that takes so many writes from its first second on.",
        not_by_this="warm throughput is paid for at once, above a rehearsal's budget",
    ),
    Assumption(
        "machine-timeouts",
        "A machine that outlasts its own time-out ends as TIMED_OUT, which starts the sweeper.",
        not_by_this="it takes hours",
    ),
    Assumption(
        "utilisation",
        "`GetMetricData` has a store's utilisation in the time that MeasureUtilisation waits. (It was held "
        "against botocore's model; how late its values come is known from documentation only.)",
        not_by_this="a search for a rate takes a quarter of an hour a store: run a plan with `find_rate`",
    ),
    Assumption(
        "check-precision",
        "The loop of CheckPrecision ends a phase when the quantile is known well enough.",
        not_by_this="it needs minutes of load: run `quick-until` on a stack with etcd",
    ),
    Assumption(
        "x-ray",
        "X-Ray's traces are read as botocore's model and AWS's description of segments have them.",
        not_by_this="it needs an application whose traces are there already",
    ),
)


def judge_all(rehearsal: Rehearsal) -> tuple[Judgement, ...]:
    """Return what has become of each assumption; on an emulator, what was seen, and nothing confirmed or refuted."""
    return tuple(_judge(each, rehearsal) for each in ASSUMPTIONS)


def _judge(assumption: Assumption, rehearsal: Rehearsal) -> Judgement:
    finding = assumption.judge(rehearsal) if assumption.judge else None
    status: Status = "not tried"
    if finding is None:
        observed = assumption.not_by_this or "the rehearsal has no evidence of it"
    elif finding.holds is None:
        observed = finding.observed
    elif rehearsal.emulator:
        held = "held" if finding.holds else "did not hold"
        observed = f"on {rehearsal.emulator}, which is not AWS, it {held}: {finding.observed}"
    else:
        status, observed = ("confirmed" if finding.holds else "refuted"), finding.observed
    return Judgement(id=assumption.id, sentence=assumption.sentence, status=status, observed=observed)
