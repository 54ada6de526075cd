from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber
from tests.samples.results import sample_results
from tests.samples.services import MemoryServices

from stepbench import __version__
from stepbench.contracts.identity import trial_tag
from stepbench.costs.price_table import table_date
from stepbench.records.storage.layout import ClockSample
from stepbench.stages.run_manifest import FUNCTIONS, code_sha256, libraries, run_manifest

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

ROOT = Path(__file__).parents[3]
TRIALS = tuple(result.summary for result in sample_results())
NOT_FOUND, DENIED = "ResourceNotFoundException", "AccessDeniedException"


def lambda_client() -> LambdaClient:
    """Return a client that reaches nothing."""
    return boto3.client(
        "lambda",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106
    )


class Unreachable:
    """A Lambda that does not answer."""

    def get_function_configuration(self, **_: str) -> None:
        """Fail as botocore does."""
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")


def test_the_functions_are_those_of_the_repository() -> None:
    """One that is not asked for would be missing from the provenance, silently."""
    files = sorted(path.stem for path in (ROOT / "events/tasks").glob("*.json"))
    assert ["".join(part.title() for part in name.split("_")) for name in files] == sorted(FUNCTIONS)


def test_configurations_that_shape_a_latency_are_kept() -> None:
    """Memory decides a function's share of a CPU; what the stack does not have is left out, what it hides is said."""
    client = lambda_client()
    with Stubber(client) as stub:
        for name in FUNCTIONS:
            asked = {"FunctionName": f"bench-{name}"}
            if name == "RunWriter":
                answer = {
                    "Runtime": "python3.13",
                    "Architectures": ["arm64"],
                    "MemorySize": 1_769,
                    "Timeout": 900,
                    "CodeSha256": "abc=",
                    "Layers": [{"Arn": "arn:aws:lambda:us-east-1:000000000000:layer:bench-core:3"}],
                    "Description": "left out",
                }
                stub.add_response("get_function_configuration", answer, asked)
            else:
                code = DENIED if name == "ReceiveEvents" else NOT_FOUND
                stub.add_client_error("get_function_configuration", code, expected_params=asked)
        memory = MemoryServices(aws={"lambda": client}, function_prefix="bench")
        functions = run_manifest("run-1", TRIALS, memory.services).functions
    assert functions == {
        "bench-ReceiveEvents": {"error": DENIED},
        "bench-RunWriter": {
            "runtime": "python3.13",
            "architecture": "arm64",
            "memory_mb": 1_769,
            "timeout_s": 900,
            "code_sha256": "abc=",
            "layers": "bench-core:3",
        },
    }


def test_a_lambda_that_does_not_answer_costs_no_report() -> None:
    """Provenance is worth having, not worth failing for."""
    memory = MemoryServices(aws={"lambda": Unreachable()}, function_prefix="bench")
    functions = run_manifest("run-1", TRIALS, memory.services).functions
    assert functions["bench-RunWriter"] == {"error": "EndpointConnectionError"}


def test_the_manifest_says_what_ran_where() -> None:
    """Two runs are comparable only as far as these agree."""
    manifest = run_manifest("run-1", TRIALS, MemoryServices(emulator="MiniStack 1.5.33").services)
    assert (manifest.run_id, manifest.stepbench_version, manifest.price_table_date) == (
        "run-1",
        __version__,
        table_date(),
    )
    assert (manifest.region, manifest.emulated, manifest.functions) == ("us-east-1", True, {})
    assert re.fullmatch(r"python3\.\d+\.\d+.*", manifest.runtime)
    assert (manifest.stores["etcd"], manifest.libraries["boto3"]) == ("etcd 3.5.1 (wheel)", boto3.__version__)
    assert list(libraries()) == sorted(libraries(), key=str.lower)


@pytest.mark.parametrize(("samples", "sandboxes"), [(("a", "b", "a"), 2), ((), 24)])
def test_sandboxes_are_counted_by_clock_or_else_by_cold_starts(samples: tuple[str, ...], sandboxes: int) -> None:
    """Each sandbox measures its clock; where there is no reference, each has at least started."""
    memory = MemoryServices()
    for at_ns, sandbox in enumerate(samples):
        memory.services.table.add_clock(trial_tag("run-1", 1), ClockSample("writer", sandbox, at_ns, 5, 10))
    assert run_manifest("run-1", TRIALS, memory.services).sandboxes == sandboxes


def test_writers_on_a_host_are_no_sandboxes() -> None:
    """They measure their clocks as those do."""
    memory = MemoryServices()
    hosted = TRIALS[1].model_copy(update={"load_hosts": ("i4i.2xlarge",)})
    for role in ("writer", "receiver"):
        memory.services.table.add_clock(trial_tag("run-1", hosted.index), ClockSample(role, role, 1, 5, 10))
    assert run_manifest("run-1", (hosted,), memory.services).sandboxes == 1


def test_the_code_hash_is_of_the_files_that_run() -> None:
    """64 hexadecimal digits; the same as long as no file changes."""
    assert re.fullmatch(r"[0-9a-f]{64}", code_sha256())
    code_sha256.cache_clear()
    assert code_sha256() == code_sha256()
