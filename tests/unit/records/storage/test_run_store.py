from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from botocore.stub import Stubber

from stepbench.errors import RecordsRefusedError, RecordsUnavailableError
from stepbench.records.storage.run_store import RunStore

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS: dict[str, Callable[[RunStore], object]] = {
    "put_object": lambda runs: runs.put_bytes("runs/r/plan.json", b""),
    "get_object": lambda runs: runs.find_bytes("runs/r/plan.json"),
    "list_objects_v2": lambda runs: list(runs.keys("runs/r/plan.json")),
    "upload": lambda runs: runs.put_file("runs/r/plan.json", Path(__file__)),
}


@pytest.mark.parametrize(
    ("code", "refused"),
    [("AccessDenied", True), ("NoSuchBucket", True), ("SlowDown", False), ("InternalError", False)],
)
@pytest.mark.parametrize("call", CALLS)
def test_a_refusal_is_told_from_an_outage_and_names_the_key(call: str, code: str, refused: bool) -> None:  # noqa: FBT001
    """The state machines wait for the one, and not for the other; an upload hides S3's error in one of its own."""
    config = Config(retries={"total_max_attempts": 1})
    client = boto3.client("s3", "us-east-1", aws_access_key_id="a", aws_secret_access_key="s", config=config)  # noqa: S106
    with Stubber(client) as stub:
        stub.add_client_error("put_object" if call == "upload" else call, code)
        with pytest.raises(RecordsUnavailableError, match=r"runs/r/plan\.json") as raised:
            CALLS[call](RunStore(client, "results"))
    assert isinstance(raised.value, RecordsRefusedError) is refused
