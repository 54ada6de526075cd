"""From a plan to named trials, in the order of execution."""

from __future__ import annotations

import hashlib
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialSpec
from stepbench.costs import estimate
from stepbench.errors import PlanError
from stepbench.planning.matrix import Combination, MatrixError, combinations
from stepbench.planning.naming import STORE_PATHS, point_name, repeat_name, unique

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.problem import Problem

SEEDS = 2**63


class Expanded(NamedTuple):
    """
    One trial to run.

    source: its place in the plan as written. base: what all its trials' names begin with, the store's where that is
    "". group: what its repeats have in common; its name where it is not repeated. repeat: from 0. point: its matrix
    values by path. plan: without matrix and repeats.
    """

    source: int
    base: str
    name: str
    group: str
    repeat: int
    point: dict[str, Any]
    plan: TrialPlan


def expand(plan: Plan, run_id: str) -> tuple[TrialSpec, ...]:
    """
    One TrialSpec per trial, in the order of execution; each with a name, a namespace and an estimate of its own.

    Raises:
        PlanError: see `expanded`.
    """
    return tuple(
        TrialSpec(
            run_id=run_id,
            index=index,
            name=trial.name,
            tag=trial_tag(run_id, index),
            plan=trial.plan,
            estimate_usd=estimate(trial.plan).total_usd,
            group=trial.group,
            base=trial.base,
            repeat=trial.repeat,
            point=trial.point,
        )
        for index, trial in enumerate(expanded(plan))
    )


def expanded(plan: Plan) -> tuple[Expanded, ...]:
    """
    All trials in the order of execution: round by round, in the first every trial once.

    A repeat's seed is the trial's plus its number: within a round all points of a matrix are offered the same load,
    and no two rounds are.

    Raises:
        PlanError: a matrix names what is not there, or a combination of its values is no trial.
    """
    groups = list(_groups(plan))
    taken = {group for group, *_ in groups}
    rounds: list[list[Expanded]] = [[] for _ in range(max(trial.repeats for trial in plan.trials))]
    for group, base, source, (point, trial) in groups:
        for repeat in range(plan.trials[source].repeats):
            repeated = plan.trials[source].repeats > 1
            name = unique(repeat_name(group, repeat), taken) if repeated else group
            taken.add(name)
            own = _repeated(trial, repeat)
            rounds[repeat].append(Expanded(source, base, name, group, repeat, point, own))
    return tuple(each for number, one in enumerate(rounds) for each in _ordered(one, plan, number))


def _repeated(trial: TrialPlan, repeat: int) -> TrialPlan:
    update: dict[str, Any] = {"seed": (trial.seed + repeat) % SEEDS, "phases": trial.run_phases}
    if trial.workload is not None:
        seed = (trial.workload.seed + repeat) % SEEDS
        update["workload"] = trial.workload.model_copy(update={"seed": seed})
    return trial.model_copy(update=update)


def group_names(plan: Plan) -> tuple[str, ...]:
    """All groups as listed, whatever the order of execution; raises as `expanded` does."""
    return tuple(group for group, *_ in _groups(plan))


def _ordered(one: list[Expanded], plan: Plan, number: int) -> list[Expanded]:
    """
    A round as listed, or shuffled: sorted by a hash of seed, round and group.

    Unlike a generator's shuffle this is the same under every version of Python, and adding a trial moves no other.
    """
    if plan.order == "interleaved":
        return one
    seed = plan.trials[0].seed
    return sorted(one, key=lambda trial: hashlib.sha256(f"{seed}/{number}/{trial.group}".encode()).digest())


def _groups(plan: Plan) -> Iterator[tuple[str, str, int, Combination]]:
    """Every point of every trial: its name, the trial's name and place, and its values; as listed."""
    taken = {trial.name for trial in plan.trials if trial.name}
    for source, (trial, points) in enumerate(zip(plan.trials, _points(plan), strict=True)):
        if trial.matrix is None:
            name = trial.name or _free(trial.target.store, taken)
            taken.add(name)
            yield name, name, source, points[0]
            continue
        base = trial.name or ("" if set(STORE_PATHS) & set(trial.matrix) else _free(trial.target.store, taken))
        taken.add(base)
        hidden = STORE_PATHS if not base and _tells_store(trial.matrix, points) else ()
        for number, combination in enumerate(points, 1):
            shown = {path: value for path, value in combination.point.items() if path not in hidden}
            wanted = point_name(base or combination.plan.target.store, shown, trial.matrix, number)
            name = unique(wanted, taken)
            taken.add(name)
            yield name, base, source, combination


def _points(plan: Plan) -> list[tuple[Combination, ...]]:
    """
    Each trial's combinations.

    Raises:
        PlanError: with the problems of all matrices.
    """
    points: list[tuple[Combination, ...]] = []
    problems: list[Problem] = []
    for number, trial in enumerate(plan.trials):
        try:
            points.append(combinations(trial, number))
        except MatrixError as error:
            problems.extend(error.problems)
    if problems:
        raise PlanError(problems)
    return points


def _tells_store(matrix: dict[str, list[Any]], points: tuple[Combination, ...]) -> bool:
    """Whether the store alone tells the values of the path that varies it apart."""
    stores = {combination.plan.target.store for combination in points}
    return any(len(matrix[path]) == len(stores) for path in STORE_PATHS if path in matrix)


def _free(store: str, taken: set[str]) -> str:
    """The store's name, or `s3-2`, ..., past any name that is taken."""
    return next(name for name in (store if n == 1 else f"{store}-{n}" for n in count(1)) if name not in taken)
