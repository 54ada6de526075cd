"""Pages show the machines, the presets and the columns of files as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.statemachines.conftest import MACHINES, load_machine

from stepbench.planning import find_plan, parse_plan
from stepbench.planning.requests import parse_request, requested_plan
from stepbench_tools.documents.pages import PARTS, draw_machine, generated_pages, updated

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/console.md").read_text()
ASKED_AGAIN = {
    "StartAt": "Ask",
    "States": {
        "Ask": {"Type": "Task", "Next": "IsDone", "Catch": [{"ErrorEquals": ["OddError"], "Next": "Sorry"}]},
        "IsDone": {"Type": "Choice", "Choices": [{"Next": "Each"}], "Default": "Rest"},
        "Rest": {"Type": "Wait", "Next": "Ask"},
        "Each": {
            "Type": "Map",
            "ItemProcessor": {"StartAt": "One", "States": {"One": {"Type": "Pass", "End": True}}},
            "Next": "Over",
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Sorry"}],
        },
        "Over": {"Type": "Succeed"},
        "Sorry": {"Type": "Fail"},
    },
}


PAGES = generated_pages(ROOT)
ELSEWHERE = {"costs", "parameters"}
"""Whose tests are beside those of prices and of the template."""


@pytest.mark.parametrize("page", [each for each in PAGES if each.stem not in ELSEWHERE], ids=lambda page: page.stem)
def test_a_page_is_current(page: Path) -> None:
    """If not: `make generated`."""
    text = page.read_text("utf-8")
    assert updated(text, ROOT) == text


def test_every_generated_part_stands_in_a_page() -> None:
    """Without its marks it would grow old there unnoticed."""
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    assert set(re.findall(r"<!-- begin (\S+) -->", pages)) == PARTS.keys()


def test_a_machine_is_drawn_with_its_loops_errors_and_boxes() -> None:
    """By hand: Mermaid takes no arrows to boxes in boxes, so they end at the states inside."""
    assert [line.strip() for line in draw_machine(ASKED_AGAIN).splitlines()] == [
        "flowchart TB",
        'Ask["Ask ↻"]',
        "Ask --> One",
        'Ask -. "OddError" .-> Sorry',
        'subgraph EachBox["Each (for each)"]',
        'One("One")',
        "end",
        "One --> Over",
        'One -. "any error in Each" .-> Sorry',
        'Over(("Over"))',
        'Sorry[/"Sorry"\\]:::failure',
        "classDef failure stroke-dasharray: 4",
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_every_state_is_in_the_drawing(name: str) -> None:
    """But the Choice and the Wait of a loop, which stand as a sign at the state that is asked again."""
    machine = load_machine(name)
    drawing = draw_machine(machine.definition)
    drawn = set(re.findall(r"^ *(?:subgraph )?(\w+?)(?:Box)?[\[({]", drawing, re.MULTILINE))
    folded = {state.name for state in machine.states} - drawn
    assert drawn <= {state.name for state in machine.states} | {
        f"{state.name}Box{number}" for state in machine.states for number in range(3)
    }
    assert len(folded) == 2 * drawing.count("↻")
    assert {machine[state].type for state in folded} <= {"Choice", "Wait"}
    arrows = set(re.findall(r"(?:-->|\.->) (\w+)$", drawing, re.MULTILINE))
    assert {machine[target].type for target in arrows}.isdisjoint({"Map", "Parallel"})


def test_every_preset_has_an_input_that_is_accepted() -> None:
    """Its name is enough; each stands once."""
    table = PAGE.partition("<!-- begin inputs -->")[2].partition("<!-- end inputs -->")[0]
    named = re.findall(r"`([\w-]+)`", table)
    assert sorted(named) == sorted(json.loads((ROOT / "events/presets.json").read_text()))
    for name in named:
        assert requested_plan(parse_request({"plan": name}))[0] == parse_plan(find_plan(name))


def test_other_inputs_of_the_page_are_accepted_too() -> None:
    """Presets with changes, and a plan of one's own."""
    shown = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    *with_changes, own = (requested_plan(parse_request(given))[0] for given in shown)
    for changed, given in zip(with_changes, shown, strict=False):
        assert changed != parse_plan(find_plan(given["plan"]))
    assert own.name == "mine"
