"""The command `tune`: which configuration of Cassandra serves a plan's DAGs best, on this machine or on a stack."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import OK, PLAN, Command, argument, between, messages, write
from stepbench_tools.cli.inputs import read_any_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import Plan, TrialPlan
    from stepbench.contracts.tuning import StoreWorkload, TunedModel


def tune(options: argparse.Namespace) -> int:
    """Search for the best configuration of each of a plan's DAGs, and write the model."""
    import tempfile

    from stepbench_tools.local.streams import interruptible

    trials = cassandra_trials(read_any_plan(options.plan))
    with interruptible(), tempfile.TemporaryDirectory(prefix="stepbench-tune-") as folder:
        model = (_on_stack if options.stack else _here)(options, trials, Path(folder))
    options.into.write_text(model.model_dump_json(indent=1) + "\n", encoding="utf-8")
    write(summary(model))
    return OK


def _here(options: argparse.Namespace, trials: Sequence[TrialPlan], folder: Path) -> TunedModel:
    import psutil

    from stepbench_tools.local.paths import find_paths
    from stepbench_tools.local.stores.cassandra.configuration import as_released, fetch_jars, find_installation, jars_of
    from stepbench_tools.local.tuning.nodes import Fleet
    from stepbench_tools.local.tuning.tune import Pace, Pair, Tuning, tune

    paths = find_paths(os.environ, Path.cwd())
    if not jars_of(paths).is_dir():
        fetch_jars(paths)
    # Two nodes run at once, and what else there is needs its part.
    profile = as_released(psutil.virtual_memory().available // 2**20 // 3)
    fleet = Fleet(folder, find_installation(jars_of(paths)), profile)
    asked = Tuning(options.name, workloads_of(trials), options.evaluations, options.starts)
    return tune(Pair(fleet, Pace()), asked, messages(options))


def _on_stack(options: argparse.Namespace, trials: Sequence[TrialPlan], folder: Path) -> TunedModel:
    from stepbench_tools.local.commands import evaluated_there
    from stepbench_tools.local.stack import remote_stack
    from stepbench_tools.local.tuning.on_stack import StackNode, machine_of
    from stepbench_tools.local.tuning.tune import Tuning, tune

    stack = remote_stack(options.stack)
    node = StackNode(trials, machine_of(stack), evaluated_there(stack, folder))
    asked = Tuning(options.name, node.workloads, options.evaluations, options.starts)
    return tune(node, asked, messages(options))


def cassandra_trials(plan: Plan) -> tuple[TrialPlan, ...]:
    """
    Return a plan's trials with DAGs that pass data through a Cassandra that can be tuned.

    Raises:
        PlanError: it has none.
    """
    from stepbench.contracts.target import CassandraTarget
    from stepbench.tuning.decision import workload_of

    found = tuple(
        trial
        for trial in plan.offered_trials
        if isinstance(trial.target, CassandraTarget) and any(map(workload_of, trial.dags))
    )
    if not found:
        message = "has no DAG that passes data through Cassandra"
        remedy = "Name a plan of dataflow whose target.store is cassandra, such as quick-dataflow-adaptive."
        raise PlanError([Problem(path="trials", value=plan.name, message=message, remedy=remedy)])
    return found


def workloads_of(trials: Sequence[TrialPlan]) -> tuple[StoreWorkload, ...]:
    """Return what the DAGs of trials ask of Cassandra, each once."""
    from stepbench.contracts.target import CassandraTarget
    from stepbench.contracts.tuning import AdaptiveTuning, StaticTuning
    from stepbench.tuning.decision import workload_of

    found = []
    for trial in trials:
        tuning = trial.target.tuning if isinstance(trial.target, CassandraTarget) else None
        sizes = tuning.blob_bytes if isinstance(tuning, StaticTuning | AdaptiveTuning) else {}
        found += [workload_of(dag, sizes.get(dag.name)) for dag in trial.dags]
    return tuple(dict.fromkeys(each for each in found if each is not None))


def summary(model: TunedModel) -> str:
    """Return what was found, a line for each workload."""
    from stepbench.experiments.dataflow.report.words import format_configuration
    from stepbench_tools.local.tuning.tune import workload_words
    from stepbench_tools.tuning import kept_share

    lines = [f"T_r {model.restart_s:.1f} s with a restart, {model.live_s:.1f} s without one"]
    for each in model.confirmations:
        low, high = each.gain_low, each.gain_high
        interval = (
            "no interval: fewer than six starts"
            if low is None or high is None
            else f"{low - 1:+.1%} to {high - 1:+.1%}"
        )
        kept = kept_share(each)
        share = "" if kept is None else f", {kept:.0%} of what the search saw"
        lines.append(
            f"{workload_words(each.workload)}: {format_configuration(each.configuration)}: {each.gain - 1:+.1%} "
            f"({interval}) on {each.starts} fresh starts{share}: {'a candidate' if each.holds else 'not a candidate'}"
        )
    return "\n".join(lines)


# What would spoil the result after hours is refused before them.


def _model_name(text: str) -> str:
    from pydantic import TypeAdapter, ValidationError

    from stepbench.contracts.tuning import ModelName

    try:
        return TypeAdapter[str](ModelName).validate_python(text)
    except ValidationError as error:
        message = f"{text!r} is not a name of at most 40 lower-case letters, digits and hyphens, a letter first"
        raise argparse.ArgumentTypeError(message) from error


def _new_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        message = f"{path} is not a file that can be written"
        raise argparse.ArgumentTypeError(message)
    return path


COMMANDS = (
    Command(
        "tune",
        tune,
        "search for the configuration of Cassandra that serves a plan's DAGs best, and write a model",
        (
            argument("plan", metavar=PLAN, help="a file, a preset, or - for stdin, with DAGs through Cassandra"),
            argument(
                "--stack",
                metavar="NAME",
                help="of the node of this CloudFormation stack, by runs there; without it, of nodes on this machine",
            ),
            argument("--name", type=_model_name, default="own", metavar="NAME", help="of the model (default: own)"),
            argument(
                "--into",
                type=_new_file,
                default=Path("tuned.json"),
                metavar="FILE",
                help="the model (default: tuned.json)",
            ),
            argument(
                "--evaluations",
                type=between(3, 30, int),
                default=30,
                metavar="N",
                help="configurations to start, for each DAG, 3 to 30 (default: 30)",
            ),
            argument(
                "--starts",
                type=between(1, 50, int),
                default=20,
                metavar="N",
                help="fresh starts that confirm what was found, 1 to 50; fewer than six are not enough (default: 20)",
            ),
        ),
        epilog="A trial takes a model, by its number: --set 'trials[1].target.tuning.model='\"$(cat tuned.json)\"",
    ),
)
