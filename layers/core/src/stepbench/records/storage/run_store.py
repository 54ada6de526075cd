"""The results bucket: a run's documents and files, pages of DynamoDB, and which failures of both pass by themselves."""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel

from stepbench.contracts.base import Contract
from stepbench.contracts.documents import Served
from stepbench.contracts.findings import Utilisation
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.values import MOST_FILE_BYTES
from stepbench.errors import CorruptRecordsError, RecordsRefusedError, RecordsUnavailableError
from stepbench.records.formats.t4_lines import T4Line, parse_t4_line
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from stepbench.contracts.plan import TrialSpec


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


M = TypeVar("M", bound=BaseModel)
ReadT = TypeVar("ReadT")
LineT = TypeVar("LineT", bound="Hashable")


def query_items(query: Callable[[dict[str, Any]], Any], wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items of a query of DynamoDB, page by page, as they are asked for."""
    while True:
        answer = query(wanted)
        yield from answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return
        wanted = {**wanted, "ExclusiveStartKey": answer["LastEvaluatedKey"]}


READ_AT_ONCE = 16
"""Files that are being read while one is worked on: they are small, and S3 takes its time with each."""


def read_ahead(keys: Sequence[str], read: Callable[[str], ReadT]) -> Iterator[tuple[str, ReadT]]:
    """Yield keys and what `read` returns of each, in order; some more are being read meanwhile."""
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        begun = ((key, pool.submit(read, key)) for key in keys)
        waiting = deque(islice(begun, READ_AT_ONCE))
        while waiting:
            key, body = waiting.popleft()
            waiting.extend(islice(begun, 1))
            yield key, body.result()


class RunStore:
    """The results bucket, by key. All failures surface as RecordsUnavailableError with the key (see `unavailable`)."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def put_bytes(self, key: str, body: bytes, content_type: str = "application/octet-stream") -> None:
        """Store a file."""
        with self._request("write", key):
            self._client.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)

    def put_file(self, key: str, path: Path) -> None:
        """Store a file from disk, in parts if it is large."""
        with self._request("write", key):
            self._client.upload_file(str(path), self.bucket, key)

    def get_bytes(self, key: str) -> bytes:
        """Read a file's content. A missing file is a RecordsUnavailableError; see `find_bytes`."""
        body = self.find_bytes(key)
        if body is None:
            message = f"s3://{self.bucket}/{key} does not exist"
            raise RecordsUnavailableError(message)
        return body

    def find_bytes(self, key: str) -> bytes | None:
        """Read a file's content; return None if there is no such file."""
        with self._request("read", key):
            try:
                return self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            except ClientError as error:
                if error.response["Error"]["Code"] not in {"NoSuchKey", "404"}:
                    raise
        return None

    def renew(self, key: str) -> None:
        """Store a file once more as it is, so that its lifetime begins anew; of its metadata and tags nothing stays."""
        replaced: dict[str, Any] = {"MetadataDirective": "REPLACE", "TaggingDirective": "REPLACE"}  # or S3 refuses it
        with self._request("renew", key):
            source: Any = {"Bucket": self.bucket, "Key": key}
            self._client.copy_object(Bucket=self.bucket, Key=key, CopySource=source, **replaced)

    def find_rows(self, key: str) -> bytes | int | None:
        """Read a file of rows; return only the size of one that no trial takes, None if there is no such file."""
        size = next((size for found, size in self.sizes(key) if found == key), None)
        return size if size is None or size > MOST_FILE_BYTES else self.get_bytes(key)

    def put_json(self, key: str, document: Any) -> None:  # noqa: ANN401 -- any JSON
        """Store plain JSON."""
        self.put_bytes(key, json.dumps(document).encode(), "application/json")

    def find_json(self, key: str) -> Any:  # noqa: ANN401 -- any JSON
        """Read plain JSON; return None if there is no such document."""
        body = self.find_bytes(key)
        return None if body is None else json.loads(body)

    def put_model(self, key: str, model: BaseModel) -> None:
        """Store a contract as JSON, by alias."""
        self.put_bytes(key, model.model_dump_json(by_alias=True).encode(), "application/json")

    def get_model(self, key: str, model: type[M]) -> M:
        """Read a contract. Raises pydantic.ValidationError where the stored document is not one."""
        return model.model_validate_json(self.get_bytes(key))

    def find_model(self, key: str, model: type[M]) -> M | None:
        """Read a contract; return None if there is no such document."""
        body = self.find_bytes(key)
        return None if body is None else model.model_validate_json(body)

    def keys(self, prefix: str) -> Iterator[str]:
        """List all keys under a prefix, in order."""
        yield from (key for key, _ in self.sizes(prefix))

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """List all keys under a prefix, in order, with their objects' bytes."""
        for page in self._pages(prefix):
            for item in page.get("Contents", []):
                yield item["Key"], int(item.get("Size", 0))

    def folders(self, prefix: str) -> Iterator[str]:
        """List the names of the folders right below a prefix that is one, in order; not what they hold."""
        for page in self._pages(prefix, Delimiter="/"):
            for item in page.get("CommonPrefixes", []):
                yield item["Prefix"].removeprefix(prefix).removesuffix("/")

    def _pages(self, prefix: str, **more: Any) -> Iterator[Any]:  # noqa: ANN401 -- boto3's
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, **more)
        with self._request("list", prefix):
            yield from pages

    @contextmanager
    def _request(self, verb: str, key: str) -> Iterator[None]:
        """Turn what boto3 raises into an error that names the key."""
        try:
            yield
        except (BotoCoreError, ClientError, Boto3Error) as error:
            message = f"cannot {verb} s3://{self.bucket}/{key}: {error}"
            raise unavailable(message, error) from error


class T4Page(Contract):
    """The content of one page of FilterLogEvents; stored as `t4-logs/<slice>-<page>.json`."""

    lines: tuple[str, ...]


def read_t4_lines(ref: TrialRef, runs: RunStore) -> tuple[tuple[T4Line, ...], tuple[str, ...]]:
    """
    Return the trial's lines, each once, and a message for each that is cut or garbled.

    The log may have been read more than once, with other page limits: equal lines are one. (A retry that Lambda makes
    has another t4, so that no two lines of one trial are equal.)

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    return read_log_lines(ref, runs, lambda message: parse_t4_line(message, ref.tag))


def read_log_lines(
    ref: TrialRef, runs: RunStore, parse: Callable[[str], LineT | None]
) -> tuple[tuple[LineT, ...], tuple[str, ...]]:
    """
    Return what `parse` makes of the trial's stored log, each once, and a message for each line it calls corrupt.

    Args:
        ref: the trial.
        runs: its bucket.
        parse: returns a line's content, or None for a line of another trial.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    lines: dict[LineT, None] = {}
    damaged: dict[str, None] = {}
    for key in runs.keys(layout.trial_key(ref, "t4-logs/")):
        for message in runs.get_model(key, T4Page).lines:
            try:
                line = parse(message)
            except CorruptRecordsError as error:
                damaged[str(error)] = None
            else:
                if line is not None:
                    lines[line] = None
    return tuple(lines), tuple(damaged)


def logged_requests(ref: TrialRef, runs: RunStore) -> set[str]:
    """Return the request ids of which there is a line."""
    return {line.request_id for line in read_t4_lines(ref, runs)[0]}


def read_utilisations(spec: TrialSpec, runs: RunStore) -> tuple[Utilisation, ...]:
    """Read what `MeasureUtilisation` stored of each phase, in the plan's order."""
    ref = spec.ref
    found = (
        runs.find_model(layout.phase_key(ref, index, "utilisation.json"), Utilisation)
        for index, phase in enumerate(spec.plan.phases)
        if phase.probe or phase.uses_found_rate
    )
    return tuple(each for each in found if each is not None)


def find_served(ref: TrialRef, runs: RunStore) -> Served | None:
    """Return what serves the trial's store, as PrepareTarget noted it; None where it did not get there."""
    return runs.find_model(layout.trial_key(ref, "provider.json"), Served)
