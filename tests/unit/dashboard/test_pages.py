"""Pages as text: what they say, and that no text from outside becomes markup."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.samples.run_series import P50, noise, run_series

from stepbench import dashboard as pages
from stepbench.analysis.regressions import find_regressions
from stepbench.contracts.across_trials import ComparedCaveat, Effect, RunComparison, Side, Verdict
from stepbench.contracts.api import (
    CheckedForm,
    Links,
    PlanInfo,
    PlanList,
    PlanTrend,
    ProblemDetails,
    ProblemItem,
    Progress,
    QueuedRun,
    QueuePlace,
    RunFilter,
    RunList,
    RunView,
    StartForm,
    Validation,
    WaitedFor,
)
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import DetectorSettings

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}"
LINKS = Links(self="/runs/r-1", report="/runs/r-1/report", summary="/runs/r-1/summary", records="/runs/r-1/records")
NO_PLANS = PlanList(plans=())
NO_FORMS = (CheckedForm(), CheckedForm())


def _run(**fields: Any) -> RunView:  # noqa: ANN401 -- a run's fields
    known: dict[str, Any] = {
        "run_id": "r-1", "team": "default", "caller": "me", "source": "api", "plan": "quick", "state": "succeeded",
        "submitted_at": NOW, "trials": 2, "estimate_usd": 0.1, "expected_s": 60, "verdict": "", "headline": (),
        "cause": "", "confirms": "", "links": LINKS,
    }  # fmt: skip
    return RunView.model_validate({**known, **fields})


def _progress(**fields: Any) -> Progress:  # noqa: ANN401 -- its fields
    known = {"activity": "phase steady", "share": 0.5, "left_s": 30, "trials": 2, "at": NOW, "sent": 90, "planned": 100}
    return Progress.model_validate(
        {**known, "trial": 0, "trial_name": "s3", "phase": "steady", "received": 80, "lag": 3, **fields}
    )


def _comparison(text: str) -> RunComparison:
    side = Side(name=text, group=text, phase="steady", window="all", runs=1, emulated=True)
    one = Estimate(value=1.2, low=1.1, high=1.3)
    effect = Effect(
        measure="p50", a=Estimate(value=10), b=Estimate(value=12), ratio=one, finding="higher", regressed=True
    )
    told = {"subject": text, "text": text, "doubts": ("host_jitter",)}
    verdict = Verdict(aspect="run", a=side, b=side, effects=(effect,), over_runs=False, **told)
    caveat = ComparedCaveat(kind="host_jitter", side="B", trial=text, trials=1, text=text, remedy=text)
    found = {"verdicts": (verdict,), "only_a": (text,), "caveats": (caveat,)}
    return RunComparison(a=("a",), b=("b",), tolerance=0.05, passed=False, **found)


def _trend(text: str = "etcd") -> PlanTrend:
    """Return a plan's trend in which the last three runs are worse; `text` is the series' name."""
    series = run_series([*noise(40), 13.0, 13.1, 12.9], series=P50.model_copy(update={"group": text}))
    return PlanTrend(series=series, found=find_regressions(series, DetectorSettings()), left_out=2)


def _runs_page(*runs: RunView, queue: tuple[QueuedRun, ...] = (), form: CheckedForm | None = None) -> str:
    forms = (form or CheckedForm(), CheckedForm())
    return pages.render_runs(RunList(runs=runs), queue, NO_PLANS, RunFilter(), forms, "default")


PROBLEM = ProblemItem(path=EVIL, value=EVIL, message=EVIL, remedy=EVIL)
FORM = CheckedForm(
    form=StartForm(plan=EVIL, changes=EVIL, document=f"</textarea>{EVIL}", key=EVIL), problems=(PROBLEM,)
)
DETAILS = ProblemDetails(type="urn:x", title=EVIL, status=404, detail=EVIL, problems=(PROBLEM,))
EVIL_RUN = _run(
    plan=EVIL, cause=EVIL, headline=(EVIL,), caller=EVIL, state="failed", verdict="failed", regressed=(EVIL,)
)
EVIL_PLAN = PlanInfo(name=EVIL, question=EVIL, trials=1, events=1, expected_s=1, estimate_usd=1)
EVIL_PLANS = PlanList(plans=(EVIL_PLAN, EVIL_PLAN.model_copy(update={"refused": EVIL})))
EVIL_QUEUE = (QueuedRun(run_id="r-1", plan=EVIL, targets=(EVIL,), expected_s=1, waiting_since=NOW, expected_start=NOW),)
HOSTILE = {
    "runs": lambda: pages.render_runs(
        RunList(runs=(EVIL_RUN,), next=EVIL),
        EVIL_QUEUE,
        EVIL_PLANS,
        RunFilter(plan=EVIL[:60], team=EVIL),
        (FORM, FORM),
        EVIL,
    ),
    "run": lambda: pages.render_run(EVIL_RUN, RunList(runs=(EVIL_RUN, _run(run_id="r-2", plan=EVIL))), may_change=True),
    "accepted": lambda: pages.render_run(_run(acknowledged=EVIL), None, may_change=True),
    "running": lambda: pages.render_run(
        _run(state="running", progress=_progress(activity=EVIL, trial_name=EVIL, phase=EVIL)), None, may_change=True
    ),
    "plan": lambda: pages.render_plan(EVIL, _trend(EVIL), FORM),
    "compare": lambda: pages.render_comparison(RunList(runs=(EVIL_RUN,)), EVIL, EVIL, _comparison(EVIL)),
    "no comparison": lambda: pages.render_comparison(RunList(runs=()), EVIL, "", problem=DETAILS),
    "problem": lambda: pages.render_problem(DETAILS),
}


class Elements(HTMLParser):
    """It notes elements, and attributes that would run something or carry a style."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.forbidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what stands in a tag."""
        self.names.append(tag)
        self.forbidden += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        addresses = [value or "" for name, value in attrs if name in {"href", "src", "action"}]
        self.forbidden += [address for address in addresses if not _is_ours(address)]


def _is_ours(address: str) -> bool:
    return re.match(r"/(?!/)|#|data:,$", address) is not None


def _elements(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_markup_in_names_stays_text(name: str) -> None:
    """A plan's name, an error's cause and a form's text are written by anybody."""
    page = HOSTILE[name]()
    found = _elements(page)
    assert found.names.count("script") == 1
    assert "img" not in found.names
    assert found.forbidden == []
    assert "{{7*7}}" in page


@pytest.mark.parametrize("name", HOSTILE)
def test_no_script_and_no_style_stands_in_a_page(name: str) -> None:
    """The pages' policy would refuse them."""
    page = HOSTILE[name]()
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert "<style" not in page


def test_a_run_shows_its_headline_and_its_documents() -> None:
    """That is what one comes for."""
    page = pages.render_run(_run(headline=("s3: p50 4 ms",), verdict="passed"), None, may_change=False)
    assert "s3: p50 4 ms" in page
    assert 'href="/runs/r-1/report"' in page
    assert "/runs/r-1/records?trial=1" in page
    assert "Stop this run" not in page
    assert "http-equiv" not in page


def test_a_run_that_left_a_threshold_open_has_not_passed() -> None:
    """Whoever looks at the state alone would take it for kept."""
    run = _run(verdict="undecided")
    assert '<span class="threshold-state undecided">thresholds undecided</span>' in pages.render_run(
        run, None, may_change=False
    )


def test_a_running_run_shows_how_far_it_is_and_can_be_stopped() -> None:
    """Without a script the page asks for itself again."""
    page = pages.render_run(_run(state="running", started_at=NOW, progress=_progress()), None, may_change=True)
    assert re.search(r'data-field="lag">3 events<', page)
    assert re.search(r'data-field="trial">1 of 2: s3<', page)
    assert 'action="/dashboard/runs/r-1/stop"' in page
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in page
    assert "data-going-on" in page


def test_a_run_that_has_just_begun_has_no_numbers_yet() -> None:
    """Its plan is not stored, or nobody beats."""
    page = pages.render_run(_run(state="running", started_at=NOW), None, may_change=False)
    assert "it has just begun" in page


def test_who_waits_sees_whom_it_waits_for() -> None:
    """A run of another team has no name there."""
    waited = (WaitedFor(targets=("s3",), expected_s=60), WaitedFor(run_id="r-0", targets=("s3",), expected_s=60))
    place = QueuePlace(position=3, waits_for=waited, waiting_since=NOW, expected_start=NOW)
    page = pages.render_run(_run(state="queued", queue=place), None, may_change=True)
    assert "Number 3 in the queue" in page
    assert "a run of another team" in page
    assert 'href="/dashboard/runs/r-0"' in page


def test_the_queue_hides_other_teams() -> None:
    """Their runs have a place, and no name."""
    entry = QueuedRun(targets=("s3",), expected_s=60, waiting_since=NOW, expected_start=NOW, waits_for=(1,))
    page = _runs_page(queue=(EVIL_QUEUE[0], entry))
    assert "2. another team's" in page


def test_a_checked_form_keeps_what_was_typed() -> None:
    """And says what the plan would do."""
    checked = Validation(plan="quick", trials=1, events=400, load_s=20, expected_s=60, estimate_usd=0.01, budget_usd=5)
    page = _runs_page(form=CheckedForm(form=StartForm(changes="\n a=1", key="k"), checked=checked))
    assert "Valid: 1 trial, 400 events, about 1 min, $0.010 by estimate (budget $5.00)." in page
    assert "<textarea" in page
    assert "\n\n a=1</textarea>" in page
    assert '<input type="hidden" name="key" value="k">' in page


def test_a_checked_plan_says_what_it_does_beside_measuring() -> None:
    """A copy of a function that mails has mailed."""
    known = {"plan": "own", "trials": 1, "events": 1, "load_s": 1, "expected_s": 1, "estimate_usd": 0, "budget_usd": 1}
    checked = Validation.model_validate({**known, "notes": (f"a copy of {EVIL} is invoked",)})
    page = pages.render_plan("own", None, CheckedForm(checked=checked))
    assert "<p>A copy of &#34;&#39;&gt;&lt;script" in page


def test_a_preset_that_leaves_something_to_its_user_says_what() -> None:
    """Where one chooses it, since a field of changes stands below."""
    known: dict[str, Any] = {"question": "?", "trials": 1, "events": 1, "expected_s": 1, "estimate_usd": 0}
    plans = PlanList(plans=(PlanInfo(name="yours", to_set=("trials[0].a",), **known),))
    page = pages.render_runs(RunList(runs=()), (), plans, RunFilter(), NO_FORMS, "default")
    assert '<option value="yours">yours (1.0 s, $0.00; set trials[0].a)</option>' in page


def test_earlier_runs_keep_the_filter() -> None:
    """A page further on shows the same choice."""
    wanted = RunFilter(plan="a b", state=("failed",))
    page = pages.render_runs(RunList(runs=(_run(),), next="2026#x"), (), NO_PLANS, wanted, NO_FORMS, "default")
    assert 'href="/dashboard?plan=a+b&amp;state=failed&amp;page=2026%23x"' in page


def test_a_plan_shows_its_baseline_and_where_it_got_worse() -> None:
    """In the chart, in words, and in the table that every chart has, whose rows lead to the runs."""
    page = pages.render_plan("nightly", _trend(), CheckedForm())
    assert page.count("<svg") == page.count('role="img"') == page.count("<summary>The runs in a table") == 1
    assert 'class="baseline"' in page
    assert 'data-verdict="regression"' in page
    row = re.search(r'<tr data-run="r040">.*?</tr>', page)
    assert row is not None
    assert '<a href="/dashboard/runs/r040">' in row[0]
    assert "worse from here" in row[0]
    assert "Further series of these runs, in their reports: 2." in page


def test_a_plan_without_runs_says_so() -> None:
    """Its form is there all the same."""
    page = pages.render_plan("nightly", None, CheckedForm())
    assert "No run of it has finished" in page
    assert 'name="document"' in page


def test_a_comparison_says_what_got_worse() -> None:
    """In a sentence, and marked in the table."""
    page = pages.render_comparison(RunList(runs=()), "a", "b", _comparison("s3"))
    assert "1 regression beyond 5 %" in page
    assert 'class="number effect bad" data-label="p50">20 % higher' in page


def test_a_comparison_has_its_quantiles_folded_and_what_makes_it_doubtful_linked() -> None:
    """As a report has: a caveat's name alone would send its reader to two other pages."""
    page = pages.render_comparison(RunList(runs=()), "a", "b", _comparison("s3"))
    assert "<summary>All quantiles</summary>" in page
    assert '<a class="caveat" href="#caveat-host_jitter">host jitter</a>' in page
    assert '<dt id="caveat-host_jitter" tabindex="-1">host jitter</dt>' in page
    assert '<dd>B, s3: s3 <span class="remedy">s3</span></dd>' in page


def test_the_shell_holds_no_data() -> None:
    """It is shown to anybody."""
    page = pages.render_shell()
    assert "data-shell" in page
    assert "/dashboard/runs/" not in page


@pytest.mark.parametrize("name", ["page.css", "../pages.py", "runs.html.j2", ""])
def test_only_two_files_are_served(name: str) -> None:
    """Whatever the name says."""
    assert pages.find_asset(name) is None


def test_the_menu_offers_what_this_stack_runs_and_says_why_not_the_rest() -> None:
    """Whoever starts a preset of a store that is not there learns it a minute later."""
    known: dict[str, Any] = {"question": "How fast?", "trials": 1, "events": 1, "expected_s": 1, "estimate_usd": 0}
    refused = "trials[0].target.endpoint is missing, and this stack has no server of dsql"
    plans = PlanList(
        plans=(
            PlanInfo(name="quick", **known),
            PlanInfo(name="paper-a", refused=refused, **known),
            PlanInfo(name="paper-b", refused=refused, **known),
        )
    )
    page = pages.render_runs(RunList(runs=()), (), plans, RunFilter(), NO_FORMS, "default")
    assert re.findall(r'<option value="([^"]+)"', page) == ["quick"]
    assert "2 presets that this stack does not run" in page
    assert f"<li>paper-a, paper-b: {refused}</li>" in page


def test_a_run_has_its_time_and_its_answer_beside_its_id() -> None:
    """An id may be the digest of a key; an answer is not cut within a number."""
    answer = "batch size 1 is faster at p50: 2.8 against 9.1 ms, 3.2 times [3.0, 3.5]"
    page = _runs_page(_run(run_id="key-0f3a", headline=(answer, "s3: n 1,800, p50 2.8 ms [2.7, 2.9]")))
    assert '<a href="/dashboard/runs/key-0f3a">2026-01-02 03:04:05 UTC <code class="id">key-0f3a</code></a>' in page
    assert f"{answer}; s3: n 1,800, p50 2.8 ms [2.7, 2.9]" in page


def test_a_run_in_the_queue_and_in_a_comparison_has_its_name() -> None:
    """Of a run that is not listed there is its id."""
    queued = QueuedRun(run_id="key-1", plan="nightly", targets=(), expected_s=1, waiting_since=NOW, expected_start=NOW)
    assert '<a href="/dashboard/runs/key-1">nightly <code' in _runs_page(queue=(queued,))
    page = pages.render_comparison(RunList(runs=(_run(run_id="key-2"),)), "key-2", "key-3", _comparison("x"))
    assert '<a href="/dashboard/runs/key-2">quick, 2026-01-02 03:04:05 UTC <code' in page
    assert '<a href="/dashboard/runs/key-3">a run <code' in page
