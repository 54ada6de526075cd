from __future__ import annotations

import json

import pytest

from stepbench.errors import MOST_CHARACTERS, PlanError, Problem, harmless


def test_a_refusal_fits_an_executions_cause_and_keeps_every_problem() -> None:
    """Step Functions cuts a cause at 32,768 characters, and what is cut is no JSON any more."""
    problems = [Problem(f"trials[{number}]", '"x"' * 20, "is wrong", "Mend it.") for number in range(1_000)]
    error = PlanError(problems)
    assert len(error.problems) == 1_000
    assert len(json.dumps({"errorMessage": str(error)})) < 25_000
    *lines, last = str(error).splitlines()
    assert lines == [str(problem) for problem in problems[: len(lines)]]
    assert last == "and more: 1000 problems in all"
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
            "https://b/k?X-Amz-Credential=(hidden)&X-Amz-Signature=(hidden)",
        ),
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


@pytest.mark.parametrize("piece", ["x", "passw", "password", "password=", "//a:", "//", "a:", "token-", '"secret" '])
def test_long_texts_are_looked_at_once(piece: str) -> None:
    """A plan of 250 kB of colons kept the API for minutes: what repeats without bound would not end here either."""
    text = f"//{piece * 50_000}"
    assert harmless(text).startswith("//")
