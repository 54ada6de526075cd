from __future__ import annotations

from typing import Any

import pytest

from stepbench.drivers.s3.versions import ObjectVersions
from stepbench.errors import TargetUnavailableError


class EndlessList:
    """A bucket whose every page says that there is another."""

    def __init__(self) -> None:
        self.pages = 0

    async def client(self) -> Any:  # noqa: ANN401 -- boto3's
        """Return what `call` is given a method of."""
        return self

    def list_object_versions(self) -> None:
        """Name the method."""

    async def call(self, _method: object, **_request: object) -> dict[str, Any]:
        """Answer."""
        self.pages += 1
        return {"IsTruncated": True, "NextKeyMarker": f"{self.pages}", "NextVersionIdMarker": "v"}


async def test_a_list_without_end_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its pages is in time."""
    monkeypatch.setattr("stepbench.drivers.s3.versions.LISTED_FOR_S", 0.05)
    bucket: Any = EndlessList()
    with pytest.raises(TargetUnavailableError, match="its objects were not listed"):
        await ObjectVersions(bucket, "bucket", "tag").keys()
    assert bucket.pages > 0
