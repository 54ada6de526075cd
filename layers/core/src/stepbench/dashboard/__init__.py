"""
The dashboard: its pages, rendered from contracts of the API to HTML.

No script and no style stands in a page: its policy allows those of this room's own addresses. Every text that came from
outside passes Jinja's escaping.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader

from stepbench import digits
from stepbench.contracts.api import PlanList
from stepbench.contracts.runs import DEFAULT_TEAM, ENDED_STATES, WAITING_STATES
from stepbench.report.html import template_environment
from stepbench.report.run import fit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from stepbench.contracts.across_trials import RunComparison
    from stepbench.contracts.api import (
        CheckedForm,
        PlanInfo,
        PlanTrend,
        ProblemDetails,
        QueuedRun,
        RunFilter,
        RunList,
        RunView,
    )

_COMMENT = re.compile(r"^ */\*.*?\*/\n", re.DOTALL | re.MULTILINE)
STATES = ("submitted", "queued", "running", *ENDED_STATES)
MOST_CHARTS = 9
"""Series of a plan; the others are in the table of verdicts, and in the runs' reports."""
MOST_OF_ANSWER = 170
"""Characters of a run's answer in the list of runs: a sentence of 25 words."""
MOST_RECORDS = 12
"""Links to trials' records; a run of more trials has them at the API's own address."""


def render_runs(  # noqa: PLR0913, PLR0917 -- what the page shows
    runs: RunList,
    queue: tuple[QueuedRun, ...],
    plans: PlanList,
    wanted: RunFilter,
    forms: tuple[CheckedForm, CheckedForm],
    team: str,
) -> str:
    """Render the first page: a team's runs, the queue, and the forms that start a preset, and a plan of one's own."""
    asked = {"plan": wanted.plan, "team": wanted.team, "state": next(iter(wanted.state), "")}
    asked |= {"since": wanted.since, "until": wanted.until}
    following = _address("/dashboard", {**asked, "page": runs.next or ""}) if runs.next else ""
    going_on = bool(queue) or any(run.state not in ENDED_STATES for run in runs.runs)
    runnable = PlanList(plans=tuple(plan for plan in plans.plans if not plan.refused))
    refused: dict[str, list[str]] = {}
    for plan in plans.plans:
        if plan.refused:
            refused.setdefault(plan.refused, []).append(plan.name)
    shown = {"runs": runs.runs, "queue": queue, "wanted": wanted, "team": team, "following": following}
    menu = {"questions": list(_by_question(runnable)), "refused": refused, "form": forms[0], "own": forms[1]}
    return _render("runs", **shown, **menu, going_on=going_on)


def render_run(run: RunView, others: RunList | None, *, may_change: bool) -> str:
    """Render a run; `others` are those that it can be compared with. `may_change`: it is the caller's."""
    beside = [each for each in others.runs if each.run_id != run.run_id] if others else []
    return _render("run", run=run, others=beside, may_change=may_change, going_on=run.state not in ENDED_STATES)


def render_plan(name: str, trend: PlanTrend | None, form: CheckedForm) -> str:
    """Render a plan: its numbers run after run, with what was found in them, and the form that starts it changed."""
    section, runs, left_out = "", 0, 0
    if trend is not None:
        from stepbench.report.regressions import render_trends  # noqa: PLC0415 -- for this page alone

        section = render_trends(trend.series, trend.found, MOST_CHARTS, "/dashboard/runs/")
        runs, left_out = len(trend.series.runs), trend.left_out
    return _render("plan", plan=name, trend=section, runs=runs, left_out=left_out, form=form)


def render_comparison(  # noqa: PLR0913 -- a form, and what came of it
    offered: RunList,
    a: str,
    b: str,
    found: RunComparison | None = None,
    *,
    studied: str = "",
    problem: ProblemDetails | None = None,
) -> str:
    """Render what a comparison of two runs found, or why there is none, above the form that chooses two."""
    from stepbench.report import verdicts  # noqa: PLC0415 -- with the analysis, for this page alone
    from stepbench.report.html import items_to_html  # noqa: PLC0415

    first = verdicts.first_reported(found.verdicts, verdicts.MOST_SHOWN) if found else ()
    sentences, choice = items_to_html(map(verdicts.verdict_sentence, first)), {"a": a, "b": b, "studied": studied}
    return _render(
        "compare", offered=offered.runs, found=found, sentences=sentences, problem=problem, words=verdicts, **choice
    )


def render_outcome(form: CheckedForm) -> str:
    """Render what became of a form that was checked, and the plan that stands in it, for the page that shows it."""
    return _render("outcome", form=form)


def render_problem(problem: ProblemDetails) -> str:
    """Render what went wrong, and what to do."""
    return _render("problem", problem=problem)


def render_shell() -> str:
    """Render the page that asks for a token; its script fetches the other pages."""
    return _render("shell")


def find_asset(name: str) -> tuple[str, str] | None:
    """Return content type and text of a file that pages refer to."""
    match name:
        case "dashboard.css":
            return "text/css; charset=utf-8", _own("report", "page.css") + _own("dashboard", name)
        case "dashboard.js":
            return "text/javascript; charset=utf-8", _own("dashboard", name)
        case _:
            return None


def _own(room: str, name: str) -> str:
    """Return a file without its comments and indentation, which are for who edits it."""
    text = _COMMENT.sub("", files(f"stepbench.{room}").joinpath("templates", name).read_text("utf-8"))
    return "\n".join(line.strip() for line in text.splitlines())


def _by_question(plans: PlanList) -> Iterator[tuple[str, list[PlanInfo]]]:
    for question, found in groupby(plans.plans, key=lambda plan: plan.question):
        yield question or "Others", list(found)


def _address(path: str, query: dict[str, str]) -> str:
    """Return a path with those parameters that have a value."""
    known = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(known)}" if known else path


def _moment(time: datetime) -> str:
    return digits.moment(time.isoformat())


def _took_s(run: RunView) -> float | None:
    """Return how long a run that is over took from its turn on."""
    if run.started_at is None or run.finished_at is None:
        return None
    return (run.finished_at - run.started_at).total_seconds()


def _plan_address(name: str) -> str:
    return f"/dashboard/plans/{quote(name, safe='')}"


def _render(name: str, **values: Any) -> str:  # noqa: ANN401 -- what the template uses
    return _environment().get_template(f"{name}.html.j2").render(**values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = template_environment(PackageLoader("stepbench.dashboard"))
    environment.globals.update(
        address=_address,
        default_team=DEFAULT_TEAM,
        digits=digits,
        fit=fit,
        going_on=False,
        moment=_moment,
        most_of_answer=MOST_OF_ANSWER,
        most_records=MOST_RECORDS,
        plan_address=_plan_address,
        states=STATES,
        took_s=_took_s,
        waiting_states=WAITING_STATES,
    )
    return environment
