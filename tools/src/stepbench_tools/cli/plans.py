"""Commands about plans: `validate`, `plans` and `schema`."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import (
    BAD_INPUT,
    CHANGES,
    OK,
    PLAN,
    PLANS,
    Command,
    argument,
    write,
    write_errors,
)
from stepbench_tools.cli.inputs import read_any_plan, requested_changes, require_one_stdin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.contracts.dataflow.report import ExpectedMix
    from stepbench.contracts.plan import AnyTrial, Plan
    from stepbench.planning import Expanded
    from stepbench.planning.changes import Changes


OTHERS = "Others"


def list_presets(_options: argparse.Namespace) -> int:
    """List the presets by the question that they ask, one line each."""
    from stepbench.planning import find_plan, list_plans, parse_plan, questions

    groups = questions()
    width = max(map(len, list_plans()))
    for number, group in enumerate(groups):
        write(f"{'' if number == 0 else chr(10)}{group.question or OTHERS}")
        for name in group.presets:
            write(_shortened(f"  {name:<{width}}  ", _summarise(parse_plan(find_plan(name)))))
    return OK


def _summarise(plan: Plan) -> str:
    """Return the first sentence of a plan's description, or its stores."""
    stores = ", ".join(dict.fromkeys(trial.target.store for trial in plan.trials))
    return re.split(r"\. (?=[A-Z])", plan.description or stores, maxsplit=1)[0].rstrip(".")


def _shortened(begin: str, text: str) -> str:
    """Return a line that fits the terminal; elsewhere a line may be as long as it is."""
    if not sys.stdout.isatty():
        return f"{begin}{text}"
    room = max(20, shutil.get_terminal_size().columns - len(begin))
    return f"{begin}{textwrap.shorten(text, room, placeholder=' …')}"


def show_preset(options: argparse.Namespace) -> int:
    """Print a plan, for somebody to change."""
    from stepbench_tools.cli.inputs import read_document

    document = read_document(options.name)
    if options.yaml:
        from stepbench_tools.cli.yaml_plan import to_yaml

        write(to_yaml(document).rstrip())
    else:
        write(json.dumps(document, indent=2, ensure_ascii=False))
    return OK


def schema(_options: argparse.Namespace) -> int:
    """Print the JSON Schema of a plan."""
    from stepbench.planning import plan_schema

    write(json.dumps(plan_schema(), indent=2))
    return OK


_SHOW: tuple[Any, ...] = (
    argument("name", metavar=PLAN, help="a preset's name, or a file"),
    argument("--yaml", action="store_true", help="as YAML"),
)


class _Checked(NamedTuple):
    """A plan as it was asked for, what is wrong with it, itself where it is one, and why trials cannot run here."""

    asked: str
    problems: tuple[Problem, ...]
    plan: Plan | None = None
    skipped: tuple[tuple[Expanded, str], ...] = ()


def validate(options: argparse.Namespace) -> int:
    """Check plans, and say what they would do."""
    changes = requested_changes(options)
    require_one_stdin(options.plans)
    checked = [_check(name, changes, remote=options.stack) for name in options.plans]
    for each in checked:
        if options.json:
            write(json.dumps(_facts(each, remote=options.stack), ensure_ascii=False))
            continue
        prefix = f"{each.asked}: " if len(checked) > 1 else ""
        write_errors(*(f"{prefix}{problem}" for problem in each.problems))
        if each.plan and not each.problems:
            _describe(each, remote=options.stack)
    return BAD_INPUT if any(each.problems for each in checked) else OK


def _check(name: str, changes: Changes, *, remote: bool) -> _Checked:
    from stepbench.planning import check_budget, expanded, open_problems, refuse_on_emulator

    try:
        plan = read_any_plan(name, changes)
    except PlanError as error:
        return _Checked(name, error.problems)
    from stepbench_tools.local.packing.package import check_codes, refuse_local_files

    problems = (*open_problems(plan, expanded(plan)), *_problems(lambda: check_budget(plan)))
    problems += _problems(lambda: refuse_local_files(plan) if remote else check_codes(plan))
    if remote:
        return _Checked(name, problems, plan)
    from stepbench_tools.local.store_list import skip_reasons

    skipped = skip_reasons(plan, {})
    if len(skipped) == len(expanded(plan)):
        problems += _unavailable_here(skipped)
    problems += _problems(lambda: refuse_on_emulator(plan, "the local emulator"))
    return _Checked(name, problems, plan, tuple(skipped))


def _unavailable_here(skipped: Sequence[tuple[Expanded, str]]) -> tuple[Problem, ...]:
    """Return why nothing of a plan can run on this machine, as `run` would say."""
    remedy = "Or run it on a deployed stack (validate --stack)."
    reasons = {(trial.source, reason): trial.plan.target.store for trial, reason in skipped}
    return tuple(
        Problem(f"trials[{source}].target", f'"{store}"', f"cannot run here: {reason}", remedy)
        for (source, reason), store in reasons.items()
    )


def _problems(rule: Callable[[], object]) -> tuple[Problem, ...]:
    try:
        rule()
    except PlanError as error:
        return error.problems
    return ()


def _facts(checked: _Checked, *, remote: bool) -> dict[str, Any]:
    """Return the plan's object for `--json`; what needs a valid plan is left out for another."""
    problems = [problem._asdict() for problem in checked.problems]
    ok = not problems
    if checked.plan is None:
        return {"name": checked.asked, "ok": ok, "problems": problems}
    return {"name": checked.plan.name, "ok": ok, "problems": problems, **_numbers(checked, checked.plan, remote=remote)}


def _numbers(checked: _Checked, plan: Plan, *, remote: bool) -> dict[str, Any]:
    from stepbench.experiments.estimates import estimate, upper_bound
    from stepbench.planning import describe_copies, expanded
    from stepbench.planning.wall_time import AWS, LOCAL, offered_load_s, run_s

    notes = describe_copies(every := expanded(plan))
    trials = [trial.plan for trial in every]
    place = AWS if remote else LOCAL
    spent, spent_here = (
        sum(estimate(trial, replace(each.assumed, aborts=plan.abort_on_fail)).total_usd for trial in trials)
        for each in (AWS, LOCAL)
    )
    here = {} if remote else {"here_usd": round(spent_here, 4)}
    return {
        "trials": len(trials),
        "events": sum(trial.events for trial in trials),
        "load_s": round(sum(offered_load_s(trial, place) for trial in trials), 3),
        "wall_s": round(run_s(trials, place)),
        "estimate_usd": round(spent, 4),
        **here,
        "budget_usd": plan.budget_usd,
        **({"skipped": {trial.name: reason for trial, reason in checked.skipped}} if checked.skipped else {}),
        **({"at_most_usd": round(most, 4)} if (most := sum(upper_bound(t).total_usd for t in trials)) > spent else {}),
        **({"notes": notes} if notes else {}),
        **({"expected": [mix.model_dump(mode="json") for mix in mixes]} if (mixes := _expected(trials)) else {}),
    }


def _expected(trials: list[AnyTrial]) -> list[ExpectedMix]:
    """Return what each DAG of the plan asks of a store, each once."""
    from stepbench.workload.expected_mix import expected_mix

    dags = {dag.model_dump_json(): dag for trial in trials for dag in trial.dags}
    return [expected_mix(dag) for dag in dags.values()]


def _describe(checked: _Checked, *, remote: bool) -> None:
    from stepbench.digits import counted, dollars, duration
    from stepbench.planning import expanded

    plan = checked.plan
    if plan is None:
        return
    numbers, trials = _numbers(checked, plan, remote=remote), expanded(plan)
    most = "up to " if any(phase.closed for trial in trials for phase in trial.plan.phases) else ""
    load = f"{most}{counted(numbers['events'], 'event')} in {duration(numbers['load_s'])} of load"
    takes = f"takes about {duration(numbers['wall_s'])} {'on AWS' if remote else 'here'}"
    cost = f"estimate {dollars(numbers['estimate_usd'])} on AWS"
    if "at_most_usd" in numbers:
        tasks = " if every task took its whole time-out, three times" if numbers.get("expected") else ""
        cost += f" (at most {dollars(numbers['at_most_usd'])}{tasks})"
    cost += f", budget {dollars(plan.budget_usd)}"
    if "here_usd" in numbers:
        cost += f"; what is done here would cost {dollars(numbers['here_usd'])} there"
    write(f"{plan.name}: {counted(len(trials), 'trial')}, {load}; {takes}; {cost}")
    for note in numbers.get("notes", ()):
        write(f"  {note}")
    for name, reason in numbers.get("skipped", {}).items():
        write(f"  {name} is skipped here: {reason}")
    for mix in _expected([trial.plan for trial in trials]):
        write(f"  {mix.text}")
    if len(trials) > len(plan.trials):
        for number, trial in enumerate(trials, 1):
            write(f"{number:>4}  {_name_with_values(trial)}")


def _name_with_values(trial: Expanded) -> str:
    values = ", ".join(f"{path}={json.dumps(value)}" for path, value in trial.point.items())
    return f"{trial.name}  {values}" if values else trial.name


COMMANDS = (
    Command(
        "validate",
        validate,
        "check plans, and say what they would do, how long they would take and what they would cost",
        (
            PLANS,
            *CHANGES,
            argument(
                "--stack",
                action="store_true",
                help="for a deployed stack, which may have servers that this machine lacks",
            ),
            argument("--json", action="store_true", help="print an object a plan on stdout, one line each"),
        ),
    ),
    Command(
        "plans",
        list_presets,
        "list the presets by question; `plans show NAME` prints one",
        commands=(Command("show", show_preset, "print a preset as JSON, for you to change", _SHOW),),
    ),
    Command("schema", schema, "print the JSON Schema of a plan"),
)
