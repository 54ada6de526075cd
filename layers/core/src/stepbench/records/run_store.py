"""Documents and files of a run in the results bucket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel

from stepbench.errors import RecordsUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

M = TypeVar("M", bound=BaseModel)


class RunStore:
    """The results bucket, by key. All failures surface as RecordsUnavailableError with the key."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def put_bytes(self, key: str, body: bytes, content_type: str = "application/octet-stream") -> None:
        """Store a file."""
        try:
            self._client.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)
        except (BotoCoreError, ClientError) as error:
            message = f"cannot write s3://{self.bucket}/{key}: {error}"
            raise RecordsUnavailableError(message) from error

    def put_file(self, key: str, path: Path) -> None:
        """Store a file from disk, in parts if it is large."""
        try:
            self._client.upload_file(str(path), self.bucket, key)
        except (BotoCoreError, ClientError, Boto3Error) as error:
            message = f"cannot write s3://{self.bucket}/{key}: {error}"
            raise RecordsUnavailableError(message) from error

    def get_bytes(self, key: str) -> bytes:
        """A file's content. A missing file is a RecordsUnavailableError; see `find_bytes`."""
        body = self.find_bytes(key)
        if body is None:
            message = f"s3://{self.bucket}/{key} does not exist"
            raise RecordsUnavailableError(message)
        return body

    def find_bytes(self, key: str) -> bytes | None:
        """A file's content, or None if there is no such file."""
        try:
            return self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in {"NoSuchKey", "404"}:
                return None
            message = f"cannot read s3://{self.bucket}/{key}: {error}"
            raise RecordsUnavailableError(message) from error
        except BotoCoreError as error:
            message = f"cannot read s3://{self.bucket}/{key}: {error}"
            raise RecordsUnavailableError(message) from error

    def put_json(self, key: str, document: Any) -> None:  # noqa: ANN401 -- any JSON
        """Store plain JSON."""
        self.put_bytes(key, json.dumps(document).encode(), "application/json")

    def find_json(self, key: str) -> Any:  # noqa: ANN401 -- any JSON
        """Plain JSON, or None if there is no such document."""
        body = self.find_bytes(key)
        return None if body is None else json.loads(body)

    def put_model(self, key: str, model: BaseModel) -> None:
        """Store a contract as JSON, by alias."""
        self.put_bytes(key, model.model_dump_json(by_alias=True).encode(), "application/json")

    def get_model(self, key: str, model: type[M]) -> M:
        """A contract. Raises pydantic.ValidationError where the stored document is not one."""
        return model.model_validate_json(self.get_bytes(key))

    def find_model(self, key: str, model: type[M]) -> M | None:
        """A contract, or None if there is no such document."""
        body = self.find_bytes(key)
        return None if body is None else model.model_validate_json(body)

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys under a prefix, in order."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        try:
            for page in pages:
                for item in page.get("Contents", []):
                    yield item["Key"]
        except (BotoCoreError, ClientError) as error:
            message = f"cannot list s3://{self.bucket}/{prefix}: {error}"
            raise RecordsUnavailableError(message) from error
