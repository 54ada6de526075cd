"""
Expanding a plan into named trials, in the order of execution.

Names are short, readable, unique, and such as a plan itself may give.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.analysis.comparability import format_value, shorten_path
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.function import package_label
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialSpec
from stepbench.costs.assumptions import AWS
from stepbench.errors import Problem, has_query, raise_problems, without_queries
from stepbench.experiments.estimates import estimate
from stepbench.planning.matrix import Combination, MatrixError, combinations

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.plan import AnyTrial
    from stepbench.costs.assumptions import Assumptions

SEEDS = 2**63
LONGEST_NAME = 60
LONGEST_SUFFIX = len(".p100.r100")
LONGEST_GROUP = LONGEST_NAME - len(".r100")
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
STORE_PATHS = ("target.store", "target")
"""Paths that vary the store, whose name then distinguishes the points."""


class Expanded(NamedTuple):
    """
    One trial to run.

    source: its number in the plan as written. base: what all its trials' names begin with, the store's where that is
    "". group: what its repeats have in common; its name where it is not repeated. repeat: from 0. point: its matrix
    values by path. plan: without matrix and repeats.
    """

    source: int
    base: str
    name: str
    group: str
    repeat: int
    point: dict[str, Any]
    plan: AnyTrial


def describe_copies(trials: Iterable[Expanded]) -> tuple[str, ...]:
    """Return what a plan does beside measuring, a sentence for each function of which it runs a copy."""
    functions = (trial.plan.target.function for trial in trials)
    named = dict.fromkeys(function.described for function in functions if function is not None)
    return tuple(
        f"a copy of {name} is invoked, which does what that does: what it writes, sends or mails" for name in named
    )


def expand(
    plan: Plan, run_id: str, assumed: Assumptions = AWS, trials: Sequence[Expanded] | None = None
) -> tuple[TrialSpec, ...]:
    """
    Return one TrialSpec per trial, in the order of execution; each has a name, a namespace and an estimate.

    assumed: of the place where it is run. trials: the plan's, where they are known.

    Raises:
        PlanError: see `expanded`.
    """
    assumed = replace(assumed, aborts=plan.abort_on_fail)
    return tuple(
        TrialSpec(
            run_id=run_id,
            index=index,
            name=trial.name,
            tag=trial_tag(run_id, index),
            plan=trial.plan,
            estimate_usd=estimate(trial.plan, assumed).total_usd,
            group=trial.group,
            base=trial.base,
            repeat=trial.repeat,
            point=without_queries(trial.point),
            abort_on=plan.thresholds if plan.abort_on_fail and traits_of(trial.plan.experiment).windows else (),
        )
        for index, trial in enumerate(expanded(plan) if trials is None else trials)
    )


def expanded(plan: Plan) -> tuple[Expanded, ...]:
    """
    Return all trials in the order of execution: round by round, in the first every trial once.

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


def _repeated(trial: AnyTrial, repeat: int) -> AnyTrial:
    update: dict[str, Any] = {"seed": (trial.seed + repeat) % SEEDS}
    if traits_of(trial.experiment).windows:
        update["phases"] = trial.run_phases
    if trial.workload is not None:
        seed = (trial.workload.seed + repeat) % SEEDS
        update["workload"] = trial.workload.model_copy(update={"seed": seed})
    return trial.model_copy(update=update)


def group_names(plan: Plan) -> tuple[str, ...]:
    """Return all groups as listed, whatever the order of execution; raises as `expanded` does."""
    return tuple(group for group, *_ in _groups(plan))


def _ordered(one: list[Expanded], plan: Plan, number: int) -> list[Expanded]:
    """
    Return a round as listed, or shuffled: sorted by a hash of seed, round and group.

    Unlike a generator's shuffle this is the same under every version of Python, and adding a trial moves no other.
    """
    if plan.order == "interleaved":
        return one
    seed = plan.trials[0].seed
    return sorted(one, key=lambda trial: hashlib.sha256(f"{seed}/{number}/{trial.group}".encode()).digest())


def _groups(plan: Plan) -> Iterator[tuple[str, str, int, Combination]]:
    """Yield every point of every trial, as listed: its name, the trial's name and number, its values."""
    taken = {trial.name for trial in plan.trials if trial.name}
    for source, (trial, points) in enumerate(zip(plan.trials, _points(plan), strict=True)):
        if trial.matrix is None:
            name = trial.name or unique(trial.target.store, taken)
            taken.add(name)
            yield name, name, source, points[0]
            continue
        base = trial.name or ("" if set(STORE_PATHS) & set(trial.matrix) else unique(trial.target.store, taken))
        taken.add(base)
        hidden = STORE_PATHS if not base and _has_store_each(trial.matrix, points) else ()
        for number, combination in enumerate(points, 1):
            shown = {path: value for path, value in combination.point.items() if path not in hidden}
            wanted = point_name(base or combination.plan.target.store, shown, trial.matrix, number)
            name = unique(wanted, taken)
            taken.add(name)
            yield name, base, source, combination


def _points(plan: Plan) -> list[tuple[Combination, ...]]:
    """
    Return each trial's combinations.

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
    raise_problems(problems)
    return points


def _has_store_each(matrix: dict[str, list[Any]], points: tuple[Combination, ...]) -> bool:
    """Return whether each value of the path that varies the store has a store of its own."""
    stores = {combination.plan.target.store for combination in points}
    return any(len(matrix[path]) == len(stores) for path in STORE_PATHS if path in matrix)


def point_name(base: str, point: Mapping[str, Any], matrix: Mapping[str, list[Any]], number: int) -> str:
    """
    Return `dynamodb.batch_size-10.writers-2`.

    Where that is too long, fields' names are left out, or the point's number (`dynamodb.p7`) stands for all of it, as
    it does where there is the query of an address among the values.

    Args:
        base: the trial's name.
        point: the trial's values by path.
        matrix: all values by path.
        number: of the point, from 1.
    """
    parts = [(_field_part(path, matrix), _value_part(value, matrix[path])) for path, value in point.items()]
    long = ".".join([base, *(f"{field}-{text}" for field, text in parts)])
    short = ".".join([base, *(text for _, text in parts)])
    by_number = f"{base[: LONGEST_NAME - LONGEST_SUFFIX]}.p{number}"
    if any(has_query(str(value)) for value in point.values()):
        return by_number
    return next((name for name in (long, short) if len(name) <= LONGEST_GROUP), by_number)


def repeat_name(group: str, repeat: int) -> str:
    """Return `dynamodb.r1` for the first, whose number is 0."""
    suffix = f".r{repeat + 1}"
    return f"{group[: LONGEST_NAME - len(suffix)]}{suffix}"


def unique(name: str, taken: Container[str], longest: int = LONGEST_NAME) -> str:
    """Return the name, or the first of `name-2`, `name-3`, ... that is free, cut to the length."""
    names = (name[:longest] if n == 1 else f"{name[: longest - len(f'-{n}')]}-{n}" for n in count(1))
    return next(each for each in names if each not in taken)


def _field_part(path: str, matrix: Mapping[str, list[Any]]) -> str:
    """Return the path as a name has it: `batch_size`."""
    return re.sub(r"\W+", "_", shorten_path(path, list(matrix)))


def _value_part(value: Any, values: list[Any]) -> str:  # noqa: ANN401 -- any JSON
    """Return the value, or its number in the list (from 1) where it is long, no scalar, or reads like another."""
    text = _plain(value)
    if not text or [_plain(each) for each in values].count(text) > 1:
        return str(next(n for n, each in enumerate(values, 1) if each is value or each == value))
    return text


def _plain(value: Any) -> str:  # noqa: ANN401 -- any JSON
    if isinstance(value, dict | list):
        return ""
    text = package_label(value) or value if isinstance(value, str) else format_value(value).replace(",", "")
    return _FOREIGN.sub("-", text).strip("-") if len(text) <= LONGEST_NAME else ""
