"""
A plan in YAML, by the core schema of YAML 1.2: `on`, `no` and `1:30` are text, as they look, not true, false and 90.

Names given twice, tags and names that are no text are problems, with line and column.
"""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode
from ruamel.yaml.resolver import BaseResolver

from stepbench.errors import HIDDEN, PlanError, Problem
from stepbench.planning.reading import parse_integer

if TYPE_CHECKING:
    from ruamel.yaml.error import StringMark
    from ruamel.yaml.nodes import Node

MAX_NODES = 50_000
"""Ten times what a plan of 100 trials has. A text of a few lines can name itself again and again (`*alias`)."""
_TAG = "tag:yaml.org,2002:"
_QUOTED, _SHORTEST = re.compile(r"""["']([^"']*)["']"""), 2
_BASES = {"0o": 8, "0x": 16}


class _Resolver(BaseResolver):
    """What a scalar without quotes is, by the core schema; ruamel's own has dates, `1_000` and `0b1` as well."""

    def __init__(self, version: object = None, loader: Any = None, loadumper: Any = None) -> None:  # noqa: ANN401, ARG002 -- ruamel's
        super().__init__(loader or loadumper)

    @property
    def processing_version(self) -> tuple[int, int]:
        """Return the version of YAML, whatever a text says of itself."""
        return 1, 2


for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("merge", r"<<", "<"),
):
    _Resolver.add_implicit_resolver_base(f"{_TAG}{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = _Resolver
    return yaml


def to_yaml(document: dict[str, Any]) -> str:
    """Return a plan as YAML that `read_yaml` reads as the same plan; aliases are written out, to be changed apart."""
    yaml = _yaml()
    yaml.default_flow_style, yaml.width, yaml.allow_unicode = False, 100, True
    yaml.representer.sort_base_mapping_type_on_output = False
    yaml.representer.ignore_aliases = lambda _data: True
    written = io.StringIO()
    yaml.dump(json.loads(json.dumps(document)), written)
    return written.getvalue()


def read_yaml(text: str) -> Any:  # noqa: ANN401 -- any JSON
    """
    Return what a YAML text holds.

    Raises:
        PlanError: it is no YAML, or one of the problems above.
    """
    try:
        node = _yaml().compose(text)
        if node is None:
            return None
        _count(node, {})
        return _value(node)
    except MarkedYAMLError as error:
        raise PlanError([_syntax_problem(text, error)]) from error
    except YAMLError as error:
        remedy = "Remove the character."
        raise PlanError([Problem("plan", "a control character", f"is not YAML: {error}", remedy)]) from error
    except RecursionError as error:
        raise PlanError([Problem("plan", "a deep nesting", "is nested too deeply", "Remove inner levels.")]) from error


def _value(node: Node) -> Any:  # noqa: ANN401 -- any JSON
    kind = str(node.tag).removeprefix(_TAG)
    match kind:
        case "map" if isinstance(node, MappingNode):
            return _object(node)
        case "seq" if not isinstance(node, MappingNode | ScalarNode):
            return [_value(each) for each in node.value]
        case "str" | "bool" | "null" | "int" | "float" if isinstance(node, ScalarNode):
            return _scalar(node, kind)
    raise _refusal(node, HIDDEN, "is not YAML: a tag that plans do not have", "Remove the tag.")


def _object(node: MappingNode) -> dict[str, Any]:
    """Return an object whose names are text, each given once; what `<<` names stands below what is its own."""
    own: dict[str, Any] = {}
    merged: list[tuple[Node, Node]] = []
    for key, value in node.value:
        kind = str(key.tag).removeprefix(_TAG)
        if not isinstance(key, ScalarNode) or kind not in {"str", "merge"}:
            raise _refusal(key, HIDDEN, "is no name", 'Write it as text, in quotes: "1".')
        if key.value in own or (kind == "merge" and merged):
            raise _refusal(key, json.dumps(key.value), "is given twice in one object", "Keep one of the two.")
        if kind == "merge":
            merged.append((key, value))
        else:
            own[key.value] = _value(value)
    below = {name: value for key, each in merged for name, value in _merged(key, each).items()}
    return below | own


def _merged(key: Node, node: Node) -> dict[str, Any]:
    """Return what `<<` brings: an object, or several, of which the first with a name has it."""
    found = _value(node)
    objects = found if isinstance(found, list) else [found]
    if not all(isinstance(each, dict) for each in objects):
        raise _refusal(key, '"<<"', "merges what is no object", "Name an object, or a list of them.")
    return {name: value for each in reversed(objects) for name, value in each.items()}


def _scalar(node: ScalarNode, kind: str) -> Any:  # noqa: ANN401 -- any JSON
    text: str = node.value
    try:
        match kind:
            case "null":
                return None
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "int":
                return parse_integer(text, _BASES.get(text[:2], 10))
            case "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except (KeyError, ValueError) as error:
        raise _refusal(node, HIDDEN, f"is not YAML: no {kind}", "Remove the tag, or mend the value.") from error
    return text


def _count(node: Node, counted: dict[int, int]) -> int:
    """Return how many values a node stands for, aliases written out."""
    if id(node) in counted:
        if not counted[id(node)]:
            raise _refusal(node, "an alias", "contains itself", "Write it out.")
        return counted[id(node)]
    counted[id(node)] = 0
    inner = [each for pair in node.value for each in pair] if isinstance(node, MappingNode) else node.value
    total = 1 + (0 if isinstance(node, ScalarNode) else sum(_count(each, counted) for each in inner))
    if total > MAX_NODES:
        raise _refusal(node, f"{total:,} values", f"holds more than {MAX_NODES:,} values", "Split the plan.")
    counted[id(node)] = total
    return total


def _refusal(node: Node, found: str, message: str, remedy: str) -> PlanError:
    return PlanError([Problem(_place(node.start_mark), found, message, remedy)])


def _place(mark: StringMark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _syntax_problem(text: str, error: MarkedYAMLError) -> Problem:
    """Return where a text is no YAML, and nothing of it: what stands there may be a secret, or somebody's row."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem("plan", "a text", f"is not YAML: {_without_content(error.problem)}", "Mend the text.")
    lines = text.splitlines()
    rest = lines[mark.line][mark.column :].strip() if mark.line < len(lines) else ""
    remedy = "Indent with spaces." if rest.startswith("\t") or "\\t" in str(error.problem) else "Mend the text there."
    context = f" {error.context}" if error.context else ""
    message = f"is not YAML: {_without_content(f'{error.problem}{context}')}"
    return Problem(_place(mark), HIDDEN if rest else "the end of the text", message, remedy)


def _without_content(said: str | None) -> str:
    """Return a message of ruamel's without what it quotes of the text, such as an alias; its own words are `<...>`."""
    return _QUOTED.sub(
        lambda found: found[0] if found[1][:1] == "<" or len(found[1]) < _SHORTEST else HIDDEN, str(said)
    )
