"""Plans strictly from text: duplicate names, NaN and a wrong encoding are problems, too."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stepbench.contracts.base import FIELDS_ALONE, find_broken_rules
from stepbench.contracts.plan import Plan
from stepbench.contracts.trial import MAX_TRIALS
from stepbench.errors import HIDDEN, PlanError, Problem, raise_problems
from stepbench.planning.expansion import expanded
from stepbench.planning.problems import describe_kind, expectation, problems_of, rule_problems, shown_below
from stepbench.planning.references import application_problems, judge_problems, threshold_problems
from stepbench.planning.schedule import schedule_problems
from stepbench.planning.schema import ROOT, node_at, path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.planning.expansion import Expanded

MAX_PLAN_BYTES = 252 * 1024
"""Step Functions takes 256 KiB as an execution's, or a state's, input; whose run it is, its id and start are added."""
MAX_DEPTH, MAX_DIGITS = 64, 100
_NUMBER_OF_YAML = re.compile(r"[+-]?\.?[0-9]")
_EMPTY_REMEDY = "Give a plan as a JSON object; `stepbench plans` lists ready ones."


class _Object(dict[str, Any]):
    """A JSON object that remembers which names came twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.repeated = sorted({name for name in names if names.count(name) > 1}) if len(self) < len(names) else []


def read_json(source: object) -> dict[str, Any]:
    """
    Return a plan's JSON object, from text or already parsed.

    Raises:
        PlanError: with every problem of the text, such as line and column of a syntax error.
    """
    document, problems = _read(source)
    raise_problems(problems)
    return document


def _read(source: object) -> tuple[dict[str, Any], list[Problem]]:
    """Return the object, and what JSON lets pass in silence: names given twice, numbers too large or none."""
    value = decode_json(source) if isinstance(source, str | bytes | bytearray) else source
    if not isinstance(value, dict):
        raise PlanError([Problem(ROOT, describe_kind(value), "is not an object", "Put the plan between { and }.")])
    return value, list(_silent_problems(value, (), value))


def decode_text(source: str | bytes | bytearray) -> str:
    """
    Return a plan's text.

    Raises:
        PlanError: it is not UTF-8, is empty, or is too long.
    """
    text = source if isinstance(source, str) else _text(bytes(source))
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise PlanError([Problem(ROOT, "nothing", "is empty", _EMPTY_REMEDY)])
    size = len(text.encode(errors="surrogatepass"))
    check_size(size)
    return text


def check_size(size: int) -> None:
    """Raise PlanError where a plan, or the request that it is part of, has more bytes than an execution takes."""
    if size > MAX_PLAN_BYTES:
        remedy = "Split it into several plans; Step Functions takes no larger input."
        raise PlanError([Problem(ROOT, f"{size:,} bytes", f"is larger than {MAX_PLAN_BYTES:,} bytes", remedy)])


def decode_json(source: str | bytes | bytearray) -> Any:  # noqa: ANN401 -- any JSON
    """
    Return what a JSON text holds, with what JSON lets pass in silence, which `read_json` and `parse_plan` refuse.

    Raises:
        PlanError: it is not JSON, with line and column.
    """
    text = decode_text(source)
    try:
        return json.loads(text, object_pairs_hook=_Object, parse_int=parse_integer)
    except json.JSONDecodeError as error:
        raise PlanError([_syntax_problem(text, error)]) from error
    except RecursionError as error:
        raise PlanError([_too_deep(ROOT)]) from error


class HugeInteger(str):
    """An integer's digits, which are too many to be one: Python converts none of more than 4,300."""

    __slots__ = ()


def parse_integer(text: str, base: int = 10) -> int | HugeInteger:
    """Return the integer that a text spells, or its digits, which `read_json` refuses with their path."""
    return int(text, base) if len(text) <= MAX_DIGITS else HugeInteger(text)


def _text(source: bytes) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{source[error.start]:02x} at offset {error.start}"
        raise PlanError([Problem(ROOT, found, "is not UTF-8 text", "Save the file as UTF-8.")]) from error


def _syntax_problem(text: str, error: json.JSONDecodeError) -> Problem:
    """Return where a text is no JSON, and nothing of it: what stands there may be a secret, or somebody's row."""
    at = _find_fault(text, error)
    found = HIDDEN if text[at:].strip() else "the end of the text"
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    message = f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
    return Problem(f"line {line}, column {column}", found, message, _syntax_remedy(text[at:].lstrip(), error.msg))


def _find_fault(text: str, error: json.JSONDecodeError) -> int:
    """Return where to mend the text. A comma too many is the place itself, as from Python 3.13 on."""
    before, rest = text[: error.pos].rstrip(), text[error.pos :].lstrip()
    return len(before) - 1 if before.endswith(",") and rest[:1] in {"}", "]"} else error.pos


def _syntax_remedy(rest: str, message: str) -> str:
    if rest[:1] == "," and rest[1:].lstrip()[:1] in {"}", "]"}:
        return "Remove the comma before the closing bracket."
    if rest.startswith("'"):
        return "Use double quotes: \"name\", not 'name'."
    if rest.startswith(("//", "/*", "#")):
        return "Remove the comment; JSON has none."
    if _NUMBER_OF_YAML.match(rest):
        return "Write a number as JSON has it: 0.5, not .5 or +0.5."
    if not rest:
        return "Something is cut off: close what is open."
    return "Remove what follows the closing bracket." if message.startswith("Extra data") else "Mend the text there."


def _silent_problems(value: Any, steps: tuple[str | int, ...], document: dict[str, Any]) -> Iterator[Problem]:  # noqa: ANN401 -- any JSON
    if len(steps) > MAX_DEPTH:
        raise PlanError([_too_deep(path_text(steps[:3]))])
    elif isinstance(value, HugeInteger):
        node = node_at(steps, document)
        remedy = f"Give {expectation(node)}." if node else "Write a smaller number."
        yield Problem(path_text(steps), shown_below(steps, f"{value[:20]}..."), f"has {len(value):,} digits", remedy)
    elif isinstance(value, dict):
        for name in getattr(value, "repeated", ()):
            path = path_text((*steps, name))
            yield Problem(
                path, shown_below((*steps, name), value[name]), "is given twice in one object", "Keep one of the two."
            )
        for name, child in value.items():
            yield from _silent_problems(child, (*steps, str(name)), document)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _silent_problems(child, (*steps, index), document)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(
            path_text(steps), shown_below(steps, value), "is not a finite number", "Write a number in digits."
        )
    elif not (value is None or isinstance(value, str | int | float)):
        remedy = "Give text, numbers, lists and objects."
        raise PlanError([Problem(path_text(steps), shown_below(steps, value), "is no JSON value", remedy)])


def _too_deep(path: str) -> Problem:
    return Problem(path, "a deep nesting", f"is nested deeper than {MAX_DEPTH} levels", "Remove the inner levels.")


def parse_plan(source: str | bytes | Mapping[str, Any]) -> Plan:
    """Return the plan of a JSON text, or of JSON already parsed; raises as `parse_expanded` does."""
    return parse_expanded(source)[0]


def parse_expanded(source: str | bytes | Mapping[str, Any]) -> tuple[Plan, tuple[Expanded, ...]]:
    """
    Return the plan of a JSON text, or of JSON already parsed (an execution's input), and its trials.

    Types are taken strictly: "20" is no number and true is no count, since a benchmark of a guess is worse than none.

    Raises:
        PlanError: with every problem that makes sense beside the others. Rules that span fields are looked at where the
            fields themselves are right, at every depth; combinations of a matrix where the plan is right without them.
    """
    document, problems = _read(source)
    plan, wrong = _read_fields(document)
    if plan is None:
        known = {problem.path for problem in problems}  # what is no number, for one, is also none in the range
        more = [problem for problem in wrong if problem.path not in known]
        raise PlanError([*problems, *more, *_problems_of_names(document)])
    raise_problems(problems)
    trials = expanded(plan)
    of_trials = (*schedule_problems(trials), *application_problems(trials))
    raise_problems([*threshold_problems(plan.thresholds, trials), *judge_problems(plan.judge, trials), *of_trials])
    return plan, trials


def _read_fields(document: dict[str, Any]) -> tuple[Plan | None, list[Problem]]:
    """Return the plan, or what is wrong with it: its rules all at once where its fields are right by themselves."""
    text = json.dumps(document)
    try:
        return Plan.model_validate_json(text, strict=True), []
    except ValidationError as error:
        refused = error
    try:
        plan = Plan.model_validate_json(text, strict=True, context=FIELDS_ALONE)
    except ValidationError:
        return None, problems_of(refused, document)  # with the rules of parts whose fields are right
    return None, rule_problems(find_broken_rules(plan)[0], document)


def _problems_of_names(document: Mapping[str, Any]) -> list[Problem]:
    """Return what a wrong plan's thresholds and judge name, and its trials have not, where these make sense."""
    texts, judge = document.get("thresholds"), document.get("judge")
    alone = {"name": "plan", "trials": document.get("trials")}
    try:
        plan = Plan.model_validate_json(json.dumps(alone), strict=True, context=FIELDS_ALONE)
        trials = () if find_broken_rules(plan)[1] or plan.size > MAX_TRIALS else expanded(plan)
    except (ValidationError, PlanError):
        return []
    known = threshold_problems(texts if isinstance(texts, list) else [], trials) + judge_problems(judge, trials)
    return known if trials else []
