"""
The tables of docs/costs.md: what a stack costs while nothing runs, and what each preset costs.

`python -m stepbench_tools.documents.cost_guide docs/costs.md` writes them anew; a test holds the page against them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.costs import prices
from stepbench.costs.prices import HOURS_PER_MONTH, bill, line
from stepbench.costs.standing import DEFAULT_TYPES, NETWORK, Deployment, standing
from stepbench.digits import count, dollars
from stepbench.experiments.estimates import budgeted, estimate
from stepbench.planning.expansion import expanded
from stepbench.planning.presets import find_plan, list_plans
from stepbench.planning.reading import parse_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.costs.prices import Amount

SWEEP_GB_S = 2 * 0.5
"""Of the hourly SweepTargets: a cold start and a look at the leases, two seconds of 512 MB, generously."""
OPTIONS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("`AuroraPostgresql=provisioned`, {AuroraInstanceClass}", "postgresql", {"AuroraPostgresql": "provisioned"}),
    ("`AuroraPostgresql=serverless`, at its least (0.5 ACU)", "postgresql", {"AuroraPostgresql": "serverless"}),
    ("`EtcdNodes=on`, three {EtcdInstanceType}", "etcd", {"EtcdNodes": "on"}),
    ("`ElastiCache=node`, {ElastiCacheNodeType}", "redis", {"ElastiCache": "node"}),
    ("`ElastiCache=serverless`, at its least (100 MB)", "redis", {"ElastiCache": "serverless"}),
    ("`CassandraNode=on`, {CassandraInstanceType}", "cassandra", {"CassandraNode": "on"}),
    ("`LoadHost=on`, {LoadHostInstanceType}", "load-host", {"LoadHost": "on"}),
    ("`LoadHost=on`, m6g.xlarge", "load-host", {"LoadHost": "on", "LoadHostInstanceType": "m6g.xlarge"}),
    ("the network of any of these, in two zones", NETWORK, {"EtcdNodes": "on"}),
    ("the same with Aurora in it", NETWORK, {"AuroraPostgresql": "provisioned"}),
)


def tables() -> dict[str, str]:
    """Return each generated table by its name."""
    return {name: "\n".join(rows()) for name, rows in {"idle": _idle, "presets": _presets}.items()}


def updated(page: str) -> str:
    """Return the page with its tables as they are now."""
    for name, table in tables().items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        whole = (begin + table + end).replace("\\", "\\\\")  # a replacement, in which a backslash is special
        page = re.sub(f"{begin}.*?{end}", whole, page, flags=re.DOTALL)
    return page


def _idle() -> Iterator[str]:
    yield "| | an hour | a month |"
    yield "|---|---:|---:|"
    sweeps = (line(prices.LAMBDA_REQUEST, 1), line(prices.LAMBDA_GB_S, SWEEP_GB_S))
    yield _row("the stack with its defaults: an hourly sweep, without what is stored", sweeps)
    for text, name, options in OPTIONS:
        own = {**DEFAULT_TYPES, **options}
        yield _row(text.format(**own), standing(Deployment(options=own))[name])
    yield "| `Dsql=on` | nothing | storage alone |"


def _row(text: str, amounts: tuple[Amount, ...]) -> str:
    usd = bill(*amounts).total_usd
    return f"| {text} | {dollars(usd)} | {dollars(usd * HOURS_PER_MONTH)} |"


def _presets() -> Iterator[str]:
    yield "| preset | trials | events at most | dollars | dollars at most |"
    yield "|---|---:|---:|---:|---:|"
    for name in list_plans():
        trials = [trial.plan for trial in expanded(parse_plan(find_plan(name)))]
        expected, most = (sum(price(trial).total_usd for trial in trials) for price in (estimate, budgeted))
        events = count(sum(trial.events for trial in trials))
        yield f"| `{name}` | {len(trials)} | {events} | {dollars(expected)} | {dollars(most)} |"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        path = Path(argument)
        path.write_text(updated(path.read_text("utf-8")), "utf-8")
