"""
The generated parts of `docs/console.md`: drawings of the state machines, and the presets by question.

`python -m stepbench_tools.documents.console docs/console.md` writes them anew, between marks in the page. The drawings
are Mermaid's flow charts, which GitHub renders, in the reader's own theme, and which show in a diff what has changed.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepbench.planning.presets import preset_directory, questions

if TYPE_CHECKING:
    from collections.abc import Iterator

State = dict[str, Any]
MACHINES = ("benchmark", "trial")
_MARK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
_SHAPES = {
    "Task": '["{}"]',
    "Choice": '{{"{}"}}',
    "Wait": '(["{}"])',
    "Pass": '("{}")',
    "Fail": '[/"{}"\\]',
    "Succeed": '(("{}"))',
}


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
        for machine in (*state.get("Branches", ()), *([state["ItemProcessor"]] if "ItemProcessor" in state else ())):
            yield from describe_states(machine)


def list_inputs(directory: Path) -> Iterator[str]:
    """Yield a table of the presets by the question that they ask; a preset's name is its input."""
    yield "| question | preset |"
    yield "|---|---|"
    for question, presets in questions(directory):
        yield f"| {question or 'How good is the instrument?'} | {', '.join(f'`{name}`' for name in presets)} |"


def render(page: str, root: Path) -> str:
    """Return the page with its generated parts as they have to be; `root` is the checkout."""
    parts = {"inputs": "\n".join((*list_inputs(root / "events/plans"), ""))}
    for name in MACHINES:
        definition = json.loads((root / f"statemachines/{name}.asl.json").read_bytes())
        rows = "\n".join(("| state | what it does |", "|---|---|", *describe_states(definition)))
        parts[name] = f"{definition['Comment']}\n\n```mermaid\n{draw_machine(definition)}\n```\n\n{rows}\n"
    return _MARK.sub(lambda found: f"{found[1]}{parts[found[2]]}{found[3]}", page)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(render(path.read_text(), preset_directory().parents[1]))
