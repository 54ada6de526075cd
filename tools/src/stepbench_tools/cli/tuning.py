"""The command `tune`: which configuration of Cassandra serves a plan's DAGs best on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import OK, PLAN, Command, argument, between, messages, write
from stepbench_tools.cli.inputs import read_any_plan

if TYPE_CHECKING:
    from stepbench.contracts.plan import Plan
    from stepbench.contracts.tuning import StoreWorkload, TunedModel


def tune(options: argparse.Namespace) -> int:
    """Search for the best configuration of each of a plan's DAGs, and write the model."""
    import tempfile

    import psutil

    from stepbench_tools.local.paths import find_paths
    from stepbench_tools.local.stores.cassandra.configuration import as_released, fetch_jars, find_installation, jars_of
    from stepbench_tools.local.streams import interruptible
    from stepbench_tools.local.tuning.nodes import Fleet
    from stepbench_tools.local.tuning.tune import Tuning, tune

    workloads = workloads_of(read_any_plan(options.plan))
    paths = find_paths(os.environ, Path.cwd())
    if not jars_of(paths).is_dir():
        fetch_jars(paths)
    asked = Tuning(options.name, workloads, options.evaluations, options.starts)
    # Two nodes run at once, and what else there is needs its part.
    profile = as_released(psutil.virtual_memory().available // 2**20 // 3)
    with interruptible(), tempfile.TemporaryDirectory(prefix="stepbench-tune-") as folder:
        fleet = Fleet(Path(folder), find_installation(jars_of(paths)), profile)
        model = tune(fleet, asked, messages(options))
    options.into.write_text(model.model_dump_json(indent=1) + "\n", encoding="utf-8")
    write(summary(model))
    return OK


def workloads_of(plan: Plan) -> tuple[StoreWorkload, ...]:
    """
    Return what a plan's DAGs ask of Cassandra, each once.

    Raises:
        PlanError: it has none that passes anything on through Cassandra.
    """
    from stepbench.contracts.target import CassandraTarget
    from stepbench.contracts.tuning import AdaptiveTuning, StaticTuning
    from stepbench.tuning.decision import workload_of

    found = []
    for trial in plan.offered_trials:
        if not isinstance(trial.target, CassandraTarget):
            continue
        tuning = trial.target.tuning
        sizes = tuning.blob_bytes if isinstance(tuning, StaticTuning | AdaptiveTuning) else {}
        found += [workload_of(dag, sizes.get(dag.name)) for dag in trial.dags]
    workloads = tuple(dict.fromkeys(each for each in found if each is not None))
    if not workloads:
        message = "has no DAG that passes data through Cassandra"
        remedy = "Name a plan of dataflow whose target.store is cassandra, such as quick-dataflow-adaptive."
        raise PlanError([Problem(path="trials", value=plan.name, message=message, remedy=remedy)])
    return workloads


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
        "search for the configuration of Cassandra that serves a plan's DAGs best on this machine, and write a model",
        (
            argument("plan", metavar=PLAN, help="a file, a preset, or - for stdin, with DAGs through Cassandra"),
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
