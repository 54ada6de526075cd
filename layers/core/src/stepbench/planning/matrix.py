"""A trial's matrix: paths into the trial, and the combinations of their values, each a trial that holds on its own."""

from __future__ import annotations

import copy
import itertools
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from stepbench.contracts.base import alternatives, near_miss
from stepbench.contracts.plan import Plan
from stepbench.errors import Problem, without_queries
from stepbench.planning.problems import problems_of, shown_below
from stepbench.planning.schema import path_text, put_value, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.contracts.plan import AnyTrial
    from stepbench.contracts.transfer.plan import AnyTarget

MAX_PROBLEMS = 20
"""A hundred combinations that break one rule are the same mistake."""
_PATH = re.compile(r"[A-Za-z_]\w*(\[\d+\])*(\.[A-Za-z_]\w*(\[\d+\])*)*")
_NOT_VARIED = {"matrix", "repeats", "name", "experiment"}
_FORM = 'Write it as "target.batch_size" or "phases[1].load[0].rate_per_s", counting from 0.'


class Combination(NamedTuple):
    """One trial of a matrix; `point` has its values by path, in the matrix's order."""

    point: dict[str, Any]
    plan: AnyTrial


class MatrixError(Exception):
    """A trial's matrix has problems; `problems` lists them."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def combinations(trial: AnyTrial, number: int) -> tuple[Combination, ...]:
    """
    Return all combinations of the matrix's values, the last path varying fastest; without a matrix, the trial itself.

    Each is the trial with the values put in, and is refused for whatever a trial that was written so would be.

    Args:
        trial: as its author wrote it.
        number: its place in the plan, for the paths of problems.

    Raises:
        MatrixError: with the problems of paths and values, and of combinations that are no trials.
    """
    single = trial.model_copy(update={"matrix": None, "repeats": 1})
    if trial.matrix is None:
        return (Combination({}, single),)
    document = single.model_dump(mode="json")
    if problems := list(_path_problems(trial.matrix, document, f"trials[{number}].matrix")):
        raise MatrixError(problems)
    found: list[Combination] = []
    refused: dict[tuple[str, str, str], Problem] = {}
    for values in itertools.product(*trial.matrix.values()):
        point = dict(zip(trial.matrix, values, strict=True))
        built = _build_trial({**document, "target": _own_fields(single.target)}, point, document)
        if isinstance(built, list):
            for problem in built:
                refused.setdefault(*_locate_in_matrix(problem, trial.matrix, point, number))
        else:
            found.append(Combination(point, built))
    if refused:
        raise MatrixError(list(refused.values())[:MAX_PROBLEMS])
    return tuple(found)


def _path_problems(matrix: Mapping[str, list[Any]], document: dict[str, Any], at: str) -> Iterator[Problem]:
    steps = {path: steps_of(path) for path in matrix}
    for path, values in matrix.items():
        if problem := _path_problem(path, document):
            yield Problem(
                path=f"{at}.{path}", value=shown_below((path,), values), message=problem[0], remedy=problem[1]
            )
        for index, value in enumerate(values):
            if any(
                _equal_json(*without_queries((value, other))) for other in values[:index]
            ):  # of which nothing is shown
                remedy = "Remove one of the two; repeats run a trial again."
                entry = f"{at}.{path}[{index}]"
                found = shown_below((path,), value)
                yield Problem(path=entry, value=found, message="is listed twice", remedy=remedy)
        for other in matrix:
            if other != path and steps[path][: len(steps[other])] == steps[other]:
                message = f"lies in {other}, which the matrix varies as a whole"
                found = shown_below((path,), values)
                yield Problem(path=f"{at}.{path}", value=found, message=message, remedy="Keep one of the two.")


def _equal_json(one: Any, other: Any) -> bool:  # noqa: ANN401 -- any JSON
    """Compare as JSON: 1 and true are two values, though Python calls them equal."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _path_problem(path: str, document: dict[str, Any]) -> tuple[str, str] | None:
    """Return message and remedy; None where the path leads to a field of the trial."""
    if not _PATH.fullmatch(path):
        return "is no path", _FORM
    steps = steps_of(path)
    if steps[0] in _NOT_VARIED or steps == ("phases",):
        return "cannot be varied", "Name a field of the trial, such as phases[0].load[0].rate_per_s."
    value: Any = document
    for depth, step in enumerate(steps):
        if isinstance(value, dict) and step not in value:
            known = [name for name in value if depth or name not in _NOT_VARIED]
            where = path_text(steps[:depth]) if depth else "a trial"
            remedy = f"{near_miss(step, known)}Known there: {alternatives(known) or 'nothing'}."
            return f"leads nowhere: {step} is no field of {where}", remedy
        if isinstance(value, list) and step not in range(len(value)):
            where = path_text(steps[:depth])
            last = f"leads nowhere: the last of {where} is {where}[{len(value) - 1}]"
            return last if value else f"leads nowhere: {where} is empty", "Mend the number; counting begins at 0."
        if not isinstance(value, dict | list):
            where = path_text(steps[:depth])
            return (
                f"leads nowhere: {where} is {shown_below(steps[:depth], value)} in this trial",
                f"Vary {where} as a whole.",
            )
        inner: Any = value
        value = inner[step]
    return None


def _own_fields(target: AnyTarget) -> dict[str, Any]:
    """Return a target's fields that differ from their defaults: a matrix may vary the store, which has others."""
    document = target.model_dump(mode="json")
    fields = type(target).model_fields
    return {name: document[name] for name in document if getattr(target, name) != fields[name].default}


def _build_trial(sparse: dict[str, Any], point: Mapping[str, Any], full: dict[str, Any]) -> AnyTrial | list[Problem]:
    """
    Return the trial with the values put in, or its problems, with the paths of a plan's first trial.

    Where a path leads through what `sparse` does not have, it is taken from `full`.
    """
    trial = copy.deepcopy(sparse)
    for path, value in point.items():
        put_value(trial, full, steps_of(path), value)
    plan = {"name": "x", "trials": [trial]}
    try:
        return Plan.model_validate_json(json.dumps(plan), strict=True).trials[0]
    except ValidationError as error:
        return problems_of(error, plan)


def _locate_in_matrix(
    problem: Problem, matrix: Mapping[str, list[Any]], point: Mapping[str, Any], number: int
) -> tuple[tuple[str, str, str], Problem]:
    """
    Return a key that equal problems of other combinations share, and the problem with a path in the matrix.

    The path is that of the entry that it is about, or of the whole matrix where it is about no single entry.
    """
    within = problem.path.removeprefix("trials[0].")
    together = ", ".join(f"{path}={shown_below((path,), value)}" for path, value in point.items())
    at = f"trials[{number}].matrix"
    entry = next((path for path in point if within == path or within.startswith((f"{path}.", f"{path}["))), None)
    if entry is None:
        message = f"makes a trial whose {within} (here {problem.value}) {problem.message}"
        whole = Problem(path=at, value=together, message=message, remedy=problem.remedy)
        return (within, problem.value, problem.message), whole
    index = next(index for index, value in enumerate(matrix[entry]) if _equal_json(value, point[entry]))
    below = within.removeprefix(entry)
    message = f"{problem.message}, in the combination {together}" if len(point) > 1 else problem.message
    path = f"{at}.{entry}[{index}]{below}"
    one = Problem(path=path, value=problem.value, message=message, remedy=problem.remedy)
    return (path, problem.value, problem.message), one
