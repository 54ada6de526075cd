from __future__ import annotations

import sys

import pytest
from tests.samples.records import REF, t4_item

from stepbench.errors import RecordsUnavailableError
from stepbench.records.formats.t4 import Entry
from stepbench.records.formats.t4_lines import is_logged
from stepbench.records.storage.t4_store import REQUEST_AGAIN_NS, T4Log, print_line

T4_NS = 1_800_000_000_000_000_000
ITEM = t4_item([Entry(0, 0, 0, 0, 0, 0, T4_NS)])


class Setting:
    """A trial's `log_t4` that counts who asks, and may be away."""

    def __init__(self, mode: str | None) -> None:
        self.mode = mode
        self.asked = 0
        self.away = False

    def find(self, _tag: str) -> str | None:
        """Answer as `TrialTable.flag` does."""
        self.asked += 1
        if self.away:
            message = "away"
            raise RecordsUnavailableError(message)
        return self.mode


@pytest.mark.parametrize(("mode", "lines"), [("all", 2), (None, 0), ("none", 0)])
def test_one_question_answers_for_the_sandbox(mode: str | None, lines: int) -> None:
    """`none` is an answer, too."""
    setting, printed = Setting(mode), list[str]()
    log = T4Log(setting.find, printed.append)
    assert not log.knows(REF.tag)
    for number in range(2):
        log.add(REF.tag, f"request-{number}", T4_NS, ITEM)
    assert (setting.asked, len(printed)) == (1, lines)
    assert log.knows(REF.tag)


def test_a_sample_is_by_request_id() -> None:
    """The one that analysis expects."""
    printed: list[str] = []
    log = T4Log(lambda _: "sample", printed.append)
    names = [f"request-{number}" for number in range(200)]
    for name in names:
        log.add(REF.tag, name, T4_NS, ITEM)
    assert len(printed) == sum(is_logged("sample", name) for name in names) > 0


def test_while_the_setting_is_not_to_be_had_all_is_printed_and_it_is_asked_once_a_minute() -> None:
    """The log is the only source then; and a question that times out every time would stop the receiver."""
    setting, printed = Setting("none"), list[str]()
    setting.away = True
    log = T4Log(setting.find, printed.append)
    for after_ns in (0, 1, REQUEST_AGAIN_NS - 1):
        log.add(REF.tag, "request", T4_NS + after_ns, ITEM)
    assert (setting.asked, len(printed)) == (1, 3)
    setting.away = False
    log.add(REF.tag, "request", T4_NS + REQUEST_AGAIN_NS, ITEM)
    assert (setting.asked, len(printed)) == (2, 3)


def test_a_table_that_has_failed_just_now_is_not_asked() -> None:
    """It would take as long again. What the sandbox knows holds all the same."""
    setting, printed = Setting("none"), list[str]()
    log = T4Log(setting.find, printed.append)
    log.add(REF.tag, "request", T4_NS, ITEM, may_request=False)
    assert (setting.asked, len(printed)) == (0, 1)
    log.add(REF.tag, "request", T4_NS + 1, ITEM)
    log.add(REF.tag, "request", T4_NS + 2, ITEM, may_request=False)
    assert (setting.asked, len(printed)) == (1, 1)


def test_a_line_is_one_write(capsys: pytest.CaptureFixture[str]) -> None:
    """Lambda makes a log event of each line."""
    print_line("one")
    assert capsys.readouterr().out == "one\n"


def test_a_log_that_is_gone_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is stored; analysis finds that its line is missing."""

    class Gone:
        """A broken pipe."""

        def write(self, _: str) -> int:
            """Fail like a pipe whose reader has ended."""
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    print_line("one")
