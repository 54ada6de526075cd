"""Which failures of table and bucket pass by themselves, and which do not."""

from __future__ import annotations

from botocore.exceptions import ClientError

from stepbench.errors import RecordsRefusedError, RecordsUnavailableError

_REFUSALS = frozenset(
    (
        "AccessDenied",
        "AccessDeniedException",
        "AllAccessDisabled",
        "InvalidAccessKeyId",
        "NoSuchBucket",
        "ResourceNotFoundException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    )
)
"""Codes that the same request meets again a minute later."""


def unavailable(message: str, error: Exception) -> RecordsUnavailableError:
    """Return the error to raise for a request to table or bucket that boto3 has given up."""
    refusal = error if isinstance(error, ClientError) else error.__context__  # an upload's own error hides S3's
    code = refusal.response["Error"]["Code"] if isinstance(refusal, ClientError) else ""
    kind = RecordsRefusedError if code in _REFUSALS else RecordsUnavailableError
    return kind(message)
