"""
A plan in YAML, by the core schema of YAML 1.2: `on`, `no` and `1:30` are text, as they look, not true, false and 90.

Names given twice, tags and names that are no text are problems, with line and column.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import yaml

from stepbench.errors import PlanError, Problem
from stepbench.planning.problems import shown

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

MAX_NODES = 50_000
"""Ten times what a plan of 100 trials has. A text of a few lines can name itself again and again (`*alias`)."""
_TAG = "tag:yaml.org,2002:"


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which quotes what the loader would take for no text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 -- PyYAML's own attribute

    def ignore_aliases(self, _data: object) -> bool:
        """Write everything out: somebody is to change it in one place only."""
        return True


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 -- PyYAML's own attribute

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 -- PyYAML's
        """Return an object whose names are text, each given once."""
        names: set[str] = set()
        for key, _ in node.value:
            name = key.value
            if key.tag not in {f"{_TAG}str", f"{_TAG}merge"}:
                raise _refusal(key, name, "is no name", 'Write it as text, in quotes: "1".')
            if name in names:
                raise _refusal(key, name, "is given twice in one object", "Keep one of the two.")
            names.add(name)
        return super().construct_mapping(node, deep)


for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    ("merge", r"<<", "<"),
):
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))


def to_yaml(document: dict[str, Any]) -> str:
    """Return a plan as YAML that `read_yaml` reads as the same plan."""
    plain = json.loads(json.dumps(document))
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def read_yaml(text: str) -> Any:  # noqa: ANN401 -- any JSON
    """
    Return what a YAML text holds.

    Raises:
        PlanError: it is no YAML, or one of the problems above.
    """
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:
        remedy = "Remove the character."
        raise PlanError([Problem("plan", "a control character", f"is not YAML: {error}", remedy)]) from error
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {})
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise PlanError([_syntax_problem(text, error)]) from error
    except RecursionError as error:
        raise PlanError([Problem("plan", "a deep nesting", "is nested too deeply", "Remove inner levels.")]) from error
    finally:
        loader.dispose()


def _count(node: Node, counted: dict[int, int]) -> int:
    """Return how many values a node stands for, aliases written out."""
    if id(node) in counted:
        if not counted[id(node)]:
            raise _refusal(node, "an alias", "contains itself", "Write it out.")
        return counted[id(node)]
    counted[id(node)] = 0
    inner = [each for pair in node.value for each in pair] if isinstance(node, yaml.MappingNode) else node.value
    total = 1 + (0 if isinstance(node, yaml.ScalarNode) else sum(_count(each, counted) for each in inner))
    if total > MAX_NODES:
        raise _refusal(node, f"{total:,} values", f"holds more than {MAX_NODES:,} values", "Split the plan.")
    counted[id(node)] = total
    return total


def _refusal(node: Node, found: str, message: str, remedy: str) -> PlanError:
    return PlanError([Problem(_place(node.start_mark), shown(found), message, remedy)])


def _place(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _syntax_problem(text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem("plan", "a text", f"is not YAML: {error.problem}", "Mend the text.")
    lines = text.splitlines()
    rest = lines[mark.line][mark.column :].strip() if mark.line < len(lines) else ""
    remedy = "Indent with spaces." if rest.startswith("\t") or "\\t" in str(error.problem) else "Mend the text there."
    if isinstance(error, yaml.constructor.ConstructorError):
        remedy = "Remove the tag; a plan has text, numbers, true, false, null, lists and objects."
    context = f" {error.context}" if error.context else ""
    message = f"is not YAML: {error.problem}{context}"
    return Problem(_place(mark), shown(rest) if rest else "the end of the text", message, remedy)
