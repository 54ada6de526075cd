from __future__ import annotations

import subprocess
import sys

import pytest

from stepbench.observability import is_sampled

PROGRAM = """
import sys
from types import SimpleNamespace
from stepbench.observability import observed
context = SimpleNamespace(function_name="f", memory_limit_in_mb=1, invoked_function_arn="arn", aws_request_id="r")
print(observed(lambda event, _context: event)({"answer": 42}, context)["answer"], "aws_xray_sdk" in sys.modules)
"""


@pytest.mark.parametrize(("sampled", "imported"), [("0", "False"), ("1", "True")])
def test_only_a_traced_invocation_pays_for_tracing(sampled: str, imported: str) -> None:
    """X-Ray's SDK was a third of most cold starts."""
    environ = {"_X_AMZN_TRACE_ID": f"Root=1-5;Parent=2;Sampled={sampled}", "LAMBDA_TASK_ROOT": "/var/task"}
    environ |= {"AWS_XRAY_CONTEXT_MISSING": "IGNORE_ERROR", "AWS_REGION": "us-east-1"}
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.splitlines()[-1] == f"42 {imported}"


def test_without_a_word_from_lambda_nothing_is_traced() -> None:
    """Functions whose tracing is off get no such variable."""
    assert not is_sampled({})
    assert is_sampled({"_X_AMZN_TRACE_ID": "Root=1-5;Parent=2;Sampled=1"})
