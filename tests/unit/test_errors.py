from __future__ import annotations

import json

import pytest

from stepbench.errors import (
    LONGEST_PART,
    MOST_CHARACTERS,
    MOST_FRAMES,
    MOST_PROBLEMS,
    NOT_LISTED,
    PlanError,
    Problem,
    RecordsUnavailableError,
    bounded,
    harmless,
    has_query,
    printable,
    shortened,
    without_queries,
)


def test_a_refusal_fits_an_executions_cause_and_counts_every_problem() -> None:
    """Step Functions cuts a cause at 32,768 characters, and what is cut is no JSON any more."""
    problems = [Problem(f"trials[{number}]", '"x"' * 20, "is wrong", "Mend it.") for number in range(1_000)]
    error = PlanError(problems)
    assert error.problems[:-1] == tuple(problems[:MOST_PROBLEMS])
    assert error.problems[-1] == NOT_LISTED._replace(value="800")
    assert len(json.dumps({"errorMessage": str(error)})) < 25_000
    *lines, last = str(error).splitlines()
    assert lines == [str(problem) for problem in problems[: len(lines)]]
    assert last == "and more: 1,000 problems in all"
    assert len(str(PlanError([Problem("plan", "x" * 100_000, "is long", "Cut it.")]))) < MOST_CHARACTERS + 100
    assert str(PlanError(problems[:2])) == "\n".join(map(str, problems[:2]))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("host=h user=u password=hunter2", "host=h user=u password=(hidden)"),
        ("host=h password='two words' port=1", "host=h password=(hidden) port=1"),
        ("postgresql://h/db?password=hunter2&x=1", "postgresql://h/db?password=(hidden)&x=1"),
        ("redis://u:hunter2@h:6379", "redis://(hidden)@h:6379"),
        ("postgres://u:p/w@h", "postgres://(hidden)@h"),
        ("postgres://u:p@ss@h", "postgres://(hidden)@h"),
        ('{"password": "hunter2", "a": 1}', '{"password": (hidden), "a": 1}'),
        (
            "https://b/k?X-Amz-Credential=AKIA&X-Amz-Signature=abc",
            "https://b/k?(hidden)",
        ),
        ("from https://h/f?sig=abc: 403", "from https://h/f?(hidden) 403"),
        ('{"source": "s3://b/k?versionId=1", "a": 1}', '{"source": "s3://b/k?(hidden)", "a": 1}'),
        ("https://token@h/f", "https://(hidden)@h/f"),
        ("https://h/f?(hidden)", "https://h/f?(hidden)"),
        ("https://h/f is that so?", "https://h/f is that so?"),
        ("aws_secret_access_key=abc", "aws_secret_access_key=(hidden)"),
        ("a%26password%3Dhunter2", "a%26password%3D(hidden)"),
        ("the password is wrong; set PostgresqlSecretArn", "the password is wrong; set PostgresqlSecretArn"),
        ("one\ntwo\x1b[31m\u202e", "one\\ntwo\\x1b[31m\\u202e"),
        ("half a \ud800 letter", "half a ? letter"),
        ("déjà vu: 日本語 🎉 👩\u200d💻", "déjà vu: 日本語 🎉 👩\u200d💻"),
    ],
)
def test_what_a_refusal_repeats_is_harmless(text: str, told: str) -> None:
    """It goes to terminals, logs and executions' histories, whichever part of it repeats the input."""
    for place in range(4):
        parts = ["plan", "value", "is wrong", "Mend it."]
        parts[place] = text
        (problem,) = PlanError([Problem(*parts)]).problems
        assert problem[place] == told


@pytest.mark.parametrize(
    "piece",
    ["x", "passw", "password", "password=", "//a:", "//", "https://", "https://a?", "a:", "token-", '"secret" '],
)
def test_long_texts_are_looked_at_once(piece: str) -> None:
    """A plan of 250 kB of colons kept the API for minutes: what repeats without bound would not end here either."""
    text = f"//{piece * 50_000}"
    assert harmless(text).startswith("//")


def test_parts_of_a_problem_have_a_length() -> None:
    """A field whose name has 100 kB is repeated by its path."""
    (problem,) = PlanError([Problem("f" * 100_000, "1", "is no known field", "Remove it.")]).problems
    assert problem.path == "f" * (LONGEST_PART - 31) + "... (100,000 characters in all)"


@pytest.mark.parametrize("letter", ["x", '"', "\n", "\x1b", "\u65e5", "\N{GRINNING FACE}", "\ud800"])
def test_an_error_that_a_store_has_made_long_keeps_its_name_and_how_it_begins(letter: str) -> None:
    """One of 10 MB ended a whole run by `States.DataLimitExceeded`, and one of 200 kB lost its cause."""
    found = bounded(RecordsUnavailableError(f"no table: {letter * 10_000_000}"))
    assert type(found).__name__ == "RecordsUnavailableError"
    assert str(found).startswith("no table: ")
    assert str(found).endswith("... (10,000,010 characters in all)")
    assert len(json.dumps(str(found))) < 2 * MOST_CHARACTERS + 100


def test_an_error_of_usual_size_is_left_as_it_is() -> None:
    """Its class is caught by name, its stack is in the log."""
    error = RecordsUnavailableError("no table")
    assert bounded(error) is error


def test_a_recursion_without_end_has_a_stack_that_a_state_can_hold() -> None:
    """A thousand frames are some 150 kB of an execution's cause."""

    def call() -> None:
        call()

    with pytest.raises(RecursionError) as caught:
        call()
    found = bounded(caught.value)
    assert (type(found).__name__, found.__traceback__, str(found)) == ("RecursionError", None, str(caught.value))
    assert MOST_FRAMES < 100


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain: d\u00e9j\u00e0 vu, \u65e5\u672c\u8a9e, \U0001f389, \U0001f469\u200d\U0001f4bb", None),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("nul \x00, C1 \x9b31m", r"nul \x00, C1 \u009b31m"),
        ("\u202edrawrof\u202c \u2066x\u2069 \u200fx\u061c", r"\u202edrawrof\u202c \u2066x\u2069 \u200fx\u061c"),
        ("one\ntwo\rthree\u2028four\u2029", r"one\ntwo\rthree\u2028four\u2029"),
    ],
)
def test_what_controls_is_spelled_out(text: str, shown: str | None) -> None:
    """Nobody sees it, and it erases lines, sets titles, or turns what stands beside it round."""
    assert printable(text) == (text if shown is None else shown)
    assert printable("a\nb\tc\x1b", kept="\n\t") == "a\nb\tc\\x1b"


def test_a_short_text_stays_whole() -> None:
    """Only a cut is stated."""
    assert shortened("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS


def test_a_document_is_shown_without_the_queries_of_its_addresses() -> None:
    """Whoever has the query of a signed address has the file; what was shown so is known again."""
    address, shown = "https://h/f?sig=abc", "https://h/f?(hidden)"
    document = {"source": address, "matrix": [{"files": {"m": address}}, 7, None], "name": "p?x=1"}
    assert without_queries(document) == {"source": shown, "matrix": [{"files": {"m": shown}}, 7, None], "name": "p?x=1"}
    assert [has_query(each) for each in (address, shown, "https://h/f", "p?x=1")] == [True, True, False, False]
