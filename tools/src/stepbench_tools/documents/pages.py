"""
The generated parts of pages: drawings of state machines, presets by question, costs, parameters, stores, columns.

`python -m stepbench_tools.documents.pages` writes them anew, between marks in all pages or in those that it is given;
tests hold the pages against them. The drawings are Mermaid's flow charts, which GitHub renders, in the reader's own
theme, and which show in a diff what has changed.
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from stepbench.costs import prices
from stepbench.costs.prices import HOURS_PER_MONTH, bill, line
from stepbench.costs.standing import DEFAULT_TYPES, NETWORK, Deployment, standing
from stepbench.digits import count, dollars
from stepbench.experiments.dataflow.files import describe_dag_columns
from stepbench.experiments.estimates import budgeted, estimate
from stepbench.planning.expansion import expanded
from stepbench.planning.presets import find_plan, list_plans, preset_directory, questions
from stepbench.planning.reading import parse_plan
from stepbench.records.export import describe_event_columns
from stepbench.records.storage.transfer_datasets import describe_transfer_columns
from stepbench_tools.documents.stores import describe_features, list_fields, list_stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from stepbench.costs.prices import Amount

State = dict[str, Any]
_MARK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
_SHAPES = {
    "Task": '["{}"]',
    "Choice": '{{"{}"}}',
    "Wait": '(["{}"])',
    "Pass": '("{}")',
    "Fail": '[/"{}"\\]',
    "Succeed": '(("{}"))',
}
SWEEP_GB_S = 2 * 0.5
"""Of the hourly SweepTargets: a cold start and a look at the leases, two seconds of 512 MB, generously."""
OPTIONS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("`AuroraPostgresql=provisioned`, {AuroraInstanceClass}", "postgresql", {"AuroraPostgresql": "provisioned"}),
    ("`AuroraPostgresql=serverless`, at its least (0.5 ACU)", "postgresql", {"AuroraPostgresql": "serverless"}),
    ("`EtcdNodes=on`, three {EtcdInstanceType}", "etcd", {"EtcdNodes": "on"}),
    ("`ElastiCache=node`, {ElastiCacheNodeType}", "redis", {"ElastiCache": "node"}),
    ("`ElastiCache=serverless`, at its least (100 MB)", "redis", {"ElastiCache": "serverless"}),
    ("`CassandraNode=on`, {CassandraInstanceType}", "cassandra", {"CassandraNode": "on"}),
    ("`LoadHost=on`, {LoadHostInstanceType}", "load-host", {"LoadHost": "on"}),
    ("`LoadHost=on`, m6g.xlarge", "load-host", {"LoadHost": "on", "LoadHostInstanceType": "m6g.xlarge"}),
    ("the network of any of these, in two zones", NETWORK, {"EtcdNodes": "on"}),
    ("the same with Aurora in it", NETWORK, {"AuroraPostgresql": "provisioned"}),
)


def draw_machine(definition: State) -> str:
    """
    Return a machine of Amazon's States Language as a flow chart.

    A Map or Parallel is a box around its states, and its arrows begin and end at them, since Mermaid cannot lay out
    arrows to boxes in boxes. A dotted arrow is an error's way. A Task that is asked again until a Choice lets it go has
    a sign in place of the loop.
    """
    return "\n".join(["flowchart TB", *_indented(_draw(definition)), "  classDef failure stroke-dasharray: 4"])


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _draw(machine: State) -> Iterator[str]:
    states, loops = machine["States"], _loops(machine["States"])
    hidden = {name for loop in loops.values() for name in loop[:2]}
    for name, state in states.items():
        if name in hidden:
            continue
        yield from _node(name, state, f"{name} ↻" if name in loops else name)
        ways = [loops[name][2]] if name in loops else _ways(state)
        for target in ways:
            for begin, end in product(_exits(name, state), _entries(target, states[target])):
                yield f"{begin} --> {end}"
        for rule in state.get("Catch", ()):
            if rule["Next"] in ways:  # an error changes nothing
                continue
            errors = ", ".join(error for error in rule["ErrorEquals"] if error != "States.ALL") or "any error"
            text = f"{errors} in {name}" if _machines(state) else errors
            yield f'{_raising(name, state)} -. "{text}" .-> {_entries(rule["Next"], states[rule["Next"]])[0]}'


def _machines(state: State) -> list[State]:
    """Return the machines that a Map or a Parallel holds."""
    return [state["ItemProcessor"]] if "ItemProcessor" in state else list(state.get("Branches", ()))


def _node(name: str, state: State, label: str) -> Iterator[str]:
    inner = _machines(state)
    if not inner:
        yield f"{name}{_SHAPES[state['Type']].format(label)}{':::failure' if state['Type'] == 'Fail' else ''}"
        return
    yield f'subgraph {name}Box["{name}{" (for each)" if state["Type"] == "Map" else ""}"]'
    for number, machine in enumerate(inner):
        if len(inner) == 1:
            yield from _indented(_draw(machine))
        else:
            yield f'  subgraph {name}Box{number}[" "]'
            yield from _indented(_indented(_draw(machine)))
            yield "  end"
    yield "end"


def _ways(state: State) -> list[str]:
    following = [rule["Next"] for rule in state.get("Choices", ())]
    following += [state[key] for key in ("Default", "Next") if key in state]
    return list(dict.fromkeys(following))


def _entries(name: str, state: State) -> list[str]:
    """Return the innermost states with which a state begins."""
    starts = [(machine["StartAt"], machine["States"][machine["StartAt"]]) for machine in _machines(state)]
    return [entry for start in starts for entry in _entries(*start)] or [name]


def _exits(name: str, state: State) -> list[str]:
    """Return the innermost states with which a state ends."""
    ends = [each for machine in _machines(state) for each in machine["States"].items() if each[1].get("End")]
    return [found for end in ends for found in _exits(*end)] or [name]


def _raising(name: str, state: State) -> str:
    """Return the innermost state from which a state's error is drawn: a Fail that is in it, or its beginning."""
    failing = (
        inner for machine in _machines(state) for inner, body in machine["States"].items() if body["Type"] == "Fail"
    )
    return next(failing, _entries(name, state)[0])


def _loops(states: dict[str, State]) -> dict[str, tuple[str, str, str]]:
    """Return the Tasks that are asked again, with the Choice, the Wait, and what follows in the end."""
    found = {}
    for name, state in states.items():
        choice = states.get(state.get("Next", ""), {})
        wait = choice.get("Default", "")
        asks_again = states.get(wait, {}).get("Type") == "Wait" and states[wait].get("Next") == name
        if state["Type"] == "Task" and asks_again and len(choice["Choices"]) == 1:
            found[name] = (state["Next"], wait, choice["Choices"][0]["Next"])
    return found


def describe_states(definition: State) -> Iterator[str]:
    """Yield a row of a table for each state that says what it does, in the machine's order."""
    for name, state in definition["States"].items():
        if "Comment" in state:
            yield f"| `{name}` | {state['Comment']} |"
        for machine in _machines(state):
            yield from describe_states(machine)


def list_inputs(directory: Path) -> Iterator[str]:
    """Yield a table of the presets by the question that they ask; a preset's name is its input."""
    yield "| question | preset |"
    yield "|---|---|"
    for question, presets in questions(directory):
        yield f"| {question or 'How good is the instrument?'} | {', '.join(f'`{name}`' for name in presets)} |"


def _idle() -> Iterator[str]:
    yield "| | an hour | a month |"
    yield "|---|---:|---:|"
    sweeps = (line(prices.LAMBDA_REQUEST, 1), line(prices.LAMBDA_GB_S, SWEEP_GB_S))
    yield _row("the stack with its defaults: an hourly sweep, without what is stored", sweeps)
    for text, name, options in OPTIONS:
        own = {**DEFAULT_TYPES, **options}
        yield _row(text.format(**own), standing(Deployment(options=own))[name])
    yield "| `Dsql=on` | nothing | storage alone |"


def _row(text: str, amounts: tuple[Amount, ...]) -> str:
    usd = bill(*amounts).total_usd
    return f"| {text} | {dollars(usd)} | {dollars(usd * HOURS_PER_MONTH)} |"


def _presets() -> Iterator[str]:
    yield "| preset | trials | events at most | dollars | dollars at most |"
    yield "|---|---:|---:|---:|---:|"
    for name in list_plans():
        trials = [trial.plan for trial in expanded(parse_plan(find_plan(name)))]
        expected, most = (sum(price(trial).total_usd for trial in trials) for price in (estimate, budgeted))
        events = count(sum(trial.events for trial in trials))
        yield f"| `{name}` | {len(trials)} | {events} | {dollars(expected)} | {dollars(most)} |"


def _parameters(root: Path) -> Iterator[str]:
    """Yield what a stack can be deployed with, as the template describes it, in the template's order."""
    yield "| name | default | values | |"
    yield "|---|---|---|---|"
    yield from _parameter_rows(YAML().load((root / "template.yaml").read_text("utf-8"))["Parameters"])


def _parameter_rows(parameters: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, body in parameters.items():
        default = f"`{body['Default']}`" if body.get("Default", "") != "" else "empty"
        yield f"| `{name}` | {default} | {_values(body)} | {body['Description'].strip()} |"


def _values(body: dict[str, Any]) -> str:
    """Return the values that a parameter takes, as far as the template lists them or bounds them by number."""
    if "AllowedValues" in body:
        return ", ".join(str(each) for each in body["AllowedValues"])
    if "MaxValue" in body:
        return f"{body['MinValue']} to {body['MaxValue']}"
    return f"from {body['MinValue']}" if "MinValue" in body else ""


def _machine(name: str, root: Path) -> Iterator[str]:
    """Yield a machine's comment, its drawing, and a table of its states."""
    definition = json.loads((root / f"statemachines/{name}.asl.json").read_bytes())
    yield from (definition["Comment"], "", "```mermaid", draw_machine(definition), "```", "")
    yield from ("| state | what it does |", "|---|---|", *describe_states(definition))


PARTS: Mapping[str, Callable[[Path], Iterable[str]]] = {
    "benchmark": partial(_machine, "benchmark"),
    "trial": partial(_machine, "trial"),
    "inputs": lambda root: list_inputs(root / "events/plans"),
    "idle": lambda _root: _idle(),
    "presets": lambda _root: _presets(),
    "parameters": _parameters,
    "features": lambda _root: describe_features(),
    "stores": lambda _root: list_stores(),
    "targets": lambda _root: list_fields(),
    "dag-columns": lambda _root: [describe_dag_columns()],
    "event-columns": lambda _root: [describe_event_columns()],
    "transfer-columns": lambda _root: [describe_transfer_columns()],
}
"""Lines by the name of their mark."""


def part(name: str, root: Path) -> str:
    """Return a generated part of a page; `root` is the checkout."""
    return "\n".join((*PARTS[name](root), ""))


def updated(page: str, root: Path) -> str:
    """Return the page with its generated parts as they have to be."""
    return _MARK.sub(lambda found: f"{found[1]}{part(found[2], root)}{found[3]}", page)


def generated_pages(root: Path) -> list[Path]:
    """Return the pages of a checkout that have generated parts."""
    pages = (root / "README.md", *sorted((root / "docs").glob("*.md")))
    return [page for page in pages if _MARK.search(page.read_text("utf-8"))]


if __name__ == "__main__":
    checkout = preset_directory().parents[1]
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else generated_pages(checkout):
        path.write_text(updated(path.read_text("utf-8"), checkout), "utf-8")
