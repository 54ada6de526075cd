"""What a newcomer meets first: changelog, citation, forms, and links between pages that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import stepbench

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "docs", "docs/decisions", ".github", "layers/core/src/stepbench/drivers/*")
PAGES = [page for folder in FOLDERS for page in sorted(ROOT.glob(f"{folder}/*.md"))]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def slugs(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", each).strip().lower() for each in headings)
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading that it has."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", text)
    places = [(_place(page, path), anchor) for path, anchor in links]
    broken = [(str(at), anchor) for at, anchor in places if not at.exists() or (anchor and anchor not in slugs(at))]
    assert broken == []


def _place(page: Path, path: str) -> Path:
    """Return what a page's link leads to; a slash at its head is the checkout's root, as GitHub has it."""
    if path.startswith("/"):
        return ROOT / path[1:]
    return (page.parent / path).resolve() if path else page


def test_pages_that_sources_name_are_there() -> None:
    """Messages, docstrings, descriptions and comments: `docs/plans.md#target`, or the same without the folder."""
    folders = ("layers/core/src", "tools/src", "functions", "stacks", "statemachines", "tests")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".yaml"}]
    sources += [ROOT / "template.yaml", ROOT / "Makefile"]
    named = {found for path in sources for found in re.findall(r"docs/([\w./-]+\.md)(?:#([\w-]+))?", path.read_text())}
    pages = {(ROOT / "docs" / name, anchor) for name, anchor in named}
    assert [each for each in pages if not each[0].exists() or (each[1] and each[1] not in slugs(each[0]))] == []


def test_each_heading_of_the_changelog_stands_once_a_version() -> None:
    """Who upgrades reads "Changed" once."""
    versions = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]
    names = [each.split()[0] for each in versions]
    assert names[0] == "Unreleased"
    assert len(names) == len(set(names))
    for each in versions:
        headings = re.findall(r"^### (.+)$", each, re.MULTILINE)
        assert len(headings) == len(set(headings))
        assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_version_is_the_same_everywhere() -> None:
    """Package, changelog and citation."""
    citation = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text("utf-8"))
    (version, date), *_ = re.findall(r"^## (\d\S+) - (\S+)$", CHANGELOG, re.MULTILINE)
    assert (citation["version"], str(citation["date-released"])) == (version, date)
    assert stepbench.__version__ == version


@pytest.mark.parametrize("form", [each for each in FORMS if each.stem != "config"], ids=lambda form: form.stem)
def test_a_form_is_one(form: Path) -> None:
    """GitHub leaves out a form that it cannot read."""
    read = YAML(typ="safe").load(form.read_text("utf-8"))
    assert {"name", "description", "body"} <= read.keys()
    fields = [each for each in read["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields) > 0
    assert all(each["attributes"]["label"] for each in fields)
    assert {each["type"] for each in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
