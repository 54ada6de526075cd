"""
Files of rows that callers bring: where one is uploaded, and how one that came with a form gets its place in a plan.

Rows pass through no log and no answer. A file is named by its content, so that equal files are one, and what a plan
names is what was uploaded: S3 itself compares the content with the digest, and the length, that the link is signed for.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from stepbench.api.runs import LINK_S
from stepbench.contracts.api import Upload
from stepbench.contracts.values import FORMATS, VALUES, content_key, form_of, most_bytes
from stepbench.errors import PlanError, Problem
from stepbench.planning.problems import shown
from stepbench.planning.values import place_rows

if TYPE_CHECKING:
    from stepbench.api.forms import FormFile
    from stepbench.contracts.api import RowsFile
    from stepbench.services import Services

CHECKSUM = "x-amz-checksum-sha256"
MOST_OF_A_FORM = 4 * 1024 * 1024
"""Of a file that comes with a form: Lambda takes 6 MB as text, in which bytes are a third longer."""


def with_file(document: dict[str, Any], file: FormFile, services: Services) -> dict[str, Any]:
    """
    Store a file of rows that came with a form, and return the plan that names it by its content.

    Raises:
        PlanError: it has no format of rows or too many bytes, or the plan has no place for it.
    """
    form, found = form_of(file.name.lower()), shown(file.name)
    if form not in FORMATS:
        remedy = f"Give a .{', .'.join(FORMATS)}; bodies, such as images, go into a ZIP."
        raise PlanError([Problem("file", found, "has no format of rows", remedy)])
    if len(file.body) > MOST_OF_A_FORM:
        remedy = "Upload it by POST /values or the command line, and give its key in the plan."
        raise PlanError([Problem("file", found, f"has more than {MOST_OF_A_FORM:,} bytes", remedy)])
    key = content_key(file.body, form)
    if not place_rows(document, key):
        remedy = "Remove the rows that stand in the plan."
        raise PlanError([Problem("file", found, "has no place in the plan, whose trials have rows", remedy)])
    services.runs.put_bytes(key, file.body)
    return document


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
