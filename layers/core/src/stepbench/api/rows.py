"""
Files of rows that callers bring: where one is uploaded, and how one that came with a form gets its place in a plan.

Rows pass through no log and no answer. A file is named by its content, so that equal files are one, and what a plan
names is what was uploaded: S3 itself compares the content with the digest, and the length, that the link is signed for.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import TYPE_CHECKING

from stepbench.api.runs import LINK_S
from stepbench.contracts.api import Upload
from stepbench.contracts.values import VALUES, most_bytes
from stepbench.errors import PlanError, Problem

if TYPE_CHECKING:
    from stepbench.contracts.api import RowsFile
    from stepbench.services import Services

CHECKSUM = "x-amz-checksum-sha256"


def offer_upload(file: RowsFile, services: Services) -> Upload:
    """
    Return where a file of rows is to be put within five minutes, and the key by which plans name it from then on.

    Raises:
        PlanError: it has more bytes than a trial takes.
    """
    if file.size_bytes > (most := most_bytes(file.format)):
        message = f"is more than the {most:,} bytes that a .{file.format} may have"
        raise PlanError(
            [Problem("size_bytes", f"{file.size_bytes:,}", message, "Give fewer rows: events repeat them.")]
        )
    key = f"{VALUES}{file.sha256}.{file.format}"
    digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    signed = {"ContentLength": file.size_bytes, "ChecksumSHA256": digest}
    place = {"Bucket": services.runs.bucket, "Key": key}
    url = services.aws("s3").generate_presigned_url("put_object", Params={**place, **signed}, ExpiresIn=LINK_S)
    expires_at = services.now() + timedelta(seconds=LINK_S)
    return Upload(key=key, url=url, headers={CHECKSUM: digest}, expires_at=expires_at)
