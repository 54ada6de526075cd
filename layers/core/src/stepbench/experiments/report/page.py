"""
The report: one HTML page that opens offline and needs nothing but itself.

Its content security policy allows no connection at all, and no script but the two that it carries (by hash).
Every text that came from outside passes Jinja's escaping, that of `report.html`, or `json_for_script`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import PackageLoader
from markupsafe import Markup

from stepbench import digits
from stepbench.experiments.registry import experiments
from stepbench.experiments.report.answer import answer_section
from stepbench.report import document as doc
from stepbench.report.accounting import accounting_section
from stepbench.report.caveats import caveats_section, problems_section
from stepbench.report.clock_check import clock_section
from stepbench.report.comparisons import published_section, share_rows, shares_section
from stepbench.report.costs import cost_section
from stepbench.report.deliveries import invocations_section, load_section
from stepbench.report.distribution import distribution_section
from stepbench.report.figures import javascript, json_for_script, own_file, page_data
from stepbench.report.groups import groups
from stepbench.report.html import template_environment, to_html
from stepbench.report.matrix import repeats_section
from stepbench.report.run import run_view
from stepbench.report.steps import steps_section
from stepbench.report.thresholds import describe_missed, thresholds_section
from stepbench.report.times import over_time_section, times_section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jinja2 import Environment

    from stepbench.contracts.documents import Manifest
    from stepbench.contracts.result import RunSummary, TrialResult
    from stepbench.experiments.protocol import Report
    from stepbench.report.figures import Drawing
    from stepbench.report.run import RunView


class Script(NamedTuple):
    """It holds an inline script, and the hash by which the page's policy allows it."""

    body: Markup
    source: str


def render_page(
    summary: RunSummary,
    results: Sequence[TrialResult],
    manifest: Manifest,
    plan: Any = None,  # noqa: ANN401 -- the plan as its user wrote it, any JSON
    trends: str = "",
) -> str:
    """
    Render the whole page.

    Args:
        summary: the run, as `summary.json` has it.
        results: the trials' results in the same order; their summaries are not read.
        manifest: the provenance section.
        plan: the plan's JSON for the provenance section; None leaves it out.
        trends: the section on the plan's runs, one after another; empty leaves it out.
    """
    run = run_view(summary, results, manifest)
    return render_document(
        "page",
        (*_first_sections(run), *_answer_sections(run)),
        (*_event_sections(run), *_last_sections(run)),
        run=summary,
        trials=run.trials,
        missed=doc.sentence_case(describe_missed(summary)),
        errors=any(row.window.errors for row in run.rows),
        manifest=manifest,
        plan=None if plan is None else json.dumps(plan, indent=2, ensure_ascii=False),
        trends=Markup(trends),  # noqa: S704 -- its own template has escaped it
    )


def _first_sections(run: RunView) -> Iterator[doc.Node]:
    """Yield what went wrong, then the sections of experiments whose every trial answers by itself."""
    if problems := problems_section(run):
        yield problems
    if run.windowless and run.summary.question:
        yield doc.Sentence(run.summary.question, "description")
    yield from _own_sections(run, lambda report: not report.QUESTION)


def _own_sections(run: RunView, stand_here: Callable[[Report], bool]) -> Iterator[doc.Section]:
    """Yield the sections of those experiments whose place this is."""
    for experiment in experiments():
        if stand_here(experiment.report):
            yield from experiment.report.sections(run)


def _answer_sections(run: RunView) -> Iterator[doc.Node]:
    """Yield the answer, and what is about all trials together."""
    summary, found = run.summary, groups(run.summary.trials)
    if not run.windowless:
        yield answer_section(run, found)
    yield from _own_sections(run, lambda report: report.LEADS)
    yield from filter(None, (thresholds_section(summary, troubled=bool(run.troubled)), published_section(run)))
    yield from _own_sections(run, lambda report: bool(report.QUESTION) and not report.LEADS)
    if not run.windowless:
        yield distribution_section(run)
    shares = shares_section(share_rows(summary.shares, summary.trials))
    repeats = repeats_section(found, summary.trials, run.latency_title)
    clocks = clock_section(summary, run.results)
    yield from filter(None, (load_section(run), shares, clocks, steps_section(run), repeats))


def _event_sections(run: RunView) -> Iterator[doc.Node]:
    """Yield the sections on single events, of which files that are read have none."""
    if not run.windowless:
        yield from (over_time_section(run), accounting_section(run), times_section(run))


def _last_sections(run: RunView) -> Iterator[doc.Node]:
    yield invocations_section(run)
    yield cost_section(run.summary, run.manifest)
    yield caveats_section(run.summary.trials)


def render_document(template: str, before: Sequence[doc.Node], after: Sequence[doc.Node] = (), **values: Any) -> str:  # noqa: ANN401 -- what the template uses
    """
    Render a page.

    Args:
        template: its name.
        before: what stands before the section on the plan's runs, if there is one.
        after: what stands behind it.
        values: what else the template uses.
    """
    nodes = (*before, *after)
    written = to_html(nodes)
    return (
        _environment()
        .get_template(f"{template}.html.j2")
        .render(
            **values,
            before=written[: len(before)],
            after=written[len(before) :],
            links=(links(before), links(after)),
            answer=_answer(nodes),
            style=Markup(own_file("templates/page.css").read_text("utf-8")),  # noqa: S704 -- our own file
            scripts=page_scripts(),
            page_data=Markup(json_for_script(page_data([*drawings(nodes)]))),  # noqa: S704 -- escaped for its place
        )
    )


def _answer(nodes: Sequence[doc.Node]) -> str:
    """Return the name of the section that answers; the first, where there is none but of single trials."""
    names = [node.name for node in nodes if isinstance(node, doc.Section) and node.link]
    return "answer" if "answer" in names else names[0]


def page_scripts() -> list[Script]:
    """Return the two scripts of every page: what draws, and what has it drawn."""
    return [_script(javascript()), _script(own_file("templates/page.js").read_text("utf-8"))]


def _script(text: str) -> Script:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Script(Markup(text), f"'sha256-{digest}'")  # noqa: S704 -- our own files and the bundled runtime


def drawings(nodes: Iterable[doc.Node]) -> Iterator[Drawing]:
    """Yield what a page's script draws, in order."""
    for node in nodes:
        match node:
            case doc.Chart():
                yield node.drawing
            case doc.Multiples():
                yield from (chart.drawing for chart in node.charts)
            case doc.Section() | doc.Group() | doc.Figure() | doc.Fold():
                yield from drawings(node.parts)
            case _:
                pass


def links(nodes: Iterable[doc.Node]) -> tuple[tuple[str, str], ...]:
    """Return names and words of the sections and headings that the navigation leads to, in order."""
    found: list[tuple[str, str]] = []
    for node in nodes:
        if isinstance(node, doc.Section | doc.Heading) and node.link:
            found.append((node.name, node.link))
        if isinstance(node, doc.Section):
            found.extend(links(node.parts))
    return tuple(found)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = template_environment(PackageLoader("stepbench.report"))
    environment.globals.update(digits=digits)
    return environment
