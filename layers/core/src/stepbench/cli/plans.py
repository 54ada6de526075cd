"""Commands about plans: `validate`, `plans`, `schema`."""

from __future__ import annotations

import argparse
import json

from stepbench.cli.command import OK, Command, argument
from stepbench.cli.inputs import read_plan
from stepbench.cli.streams import write


def validate(options: argparse.Namespace) -> int:
    """Check a plan, and say what it would do."""
    from stepbench.digits import count, counted, dollars, duration
    from stepbench.local.session import is_started_here
    from stepbench.planning import check_budget, expanded, require_servers

    plan = read_plan(options.plan)
    if not options.stack:
        require_servers(plan, is_started_here, "this machine", "validate for a deployed stack with --stack")
    specs = expanded(plan)
    events = sum(spec.plan.events for spec in specs)
    length_s = sum(spec.plan.length_s for spec in specs)
    trials = counted(len(specs), "trial")
    most = "up to " if any(phase.closed for spec in specs for phase in spec.plan.phases) else ""
    cost = f"estimate {dollars(check_budget(plan))} on AWS, budget {dollars(plan.budget_usd)}"
    write(f"{plan.name}: {trials}, {most}{count(events)} events in {duration(length_s)} of load; {cost}")
    if len(specs) > len(plan.trials):
        for number, spec in enumerate(specs, 1):
            values = ", ".join(f"{path}={json.dumps(value)}" for path, value in spec.point.items())
            write(f"{number:>4}  {spec.name}{f'  {values}' if values else ''}")
    return OK


def list_presets(_options: argparse.Namespace) -> int:
    """List the presets, one line each."""
    from stepbench.planning import find_plan, list_plans, parse_plan

    names = list_plans()
    width = max((len(name) for name in names), default=0)
    for name in names:
        plan = parse_plan(find_plan(name))
        write(f"{name:<{width}}  {plan.description or ', '.join(trial.target.store for trial in plan.trials)}")
    return OK


def schema(_options: argparse.Namespace) -> int:
    """Print the JSON Schema of a plan."""
    from stepbench.planning import plan_schema

    write(json.dumps(plan_schema(), indent=2))
    return OK


COMMANDS = (
    Command(
        "validate",
        validate,
        "check a plan, and say what it would do",
        (
            argument("plan", metavar="PLAN", help="a file, a preset's name, or - for stdin"),
            argument(
                "--stack",
                action="store_true",
                help="for a deployed stack, which may have servers that this machine has not",
            ),
        ),
    ),
    Command("plans", list_presets, "list the presets"),
    Command("schema", schema, "print the JSON Schema of a plan"),
)
