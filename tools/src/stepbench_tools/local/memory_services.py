"""The results table and bucket in memory, or a bucket in a folder: short calibration runs, local reports, datasets."""

from __future__ import annotations

import contextlib
import io
import stat
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from stepbench.errors import CorruptRecordsError
from stepbench.records.storage.run_register import RunRegister
from stepbench.records.storage.run_store import RunStore
from stepbench.records.storage.trial_table import TrialTable
from stepbench.services import Services
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from boto3.dynamodb.conditions import ConditionBase
    from mypy_boto3_dynamodb.service_resource import Table
    from mypy_boto3_s3 import S3Client

    from stepbench.clock import Clock

Item = dict[str, Any]


class MemoryTable:
    """The table does as much of a boto3 DynamoDB `Table` (keys `pk`, `sk`) as `TrialTable` uses."""

    name = "memory"

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], Item] = {}

    def put_item(self, *, Item: Item, ConditionExpression: ConditionBase | None = None) -> None:  # noqa: N803 -- boto3's
        """Store one item, if the condition holds for what is there."""
        key = (str(Item["pk"]), str(Item["sk"]))
        self._check("PutItem", key, ConditionExpression)
        self.items[key] = dict(Item)

    def get_item(self, *, Key: Item, **_: object) -> Item:  # noqa: N803 -- boto3's
        """Return one item, if there is one."""
        found = self.items.get((Key["pk"], Key["sk"]))
        return {} if found is None else {"Item": found}

    def delete_item(self, *, Key: Item, ConditionExpression: ConditionBase | None = None) -> None:  # noqa: N803 -- boto3's
        """Remove one item, if the condition holds for it."""
        key = (Key["pk"], Key["sk"])
        self._check("DeleteItem", key, ConditionExpression)
        self.items.pop(key, None)

    def query(self, *, KeyConditionExpression: ConditionBase, **_: object) -> Item:  # noqa: N803 -- boto3's
        """Return all items of one partition key that fulfil the condition, by sort key."""
        return {"Items": [item for _, item in sorted(self.items.items()) if _holds(KeyConditionExpression, item)]}

    def _check(self, operation: str, key: tuple[str, str], condition: ConditionBase | None) -> None:
        if condition is not None and not _holds(condition, self.items.get(key, {})):
            raise ClientError({"Error": {"Code": "ConditionalCheckFailedException", "Message": ""}}, operation)


def _holds(condition: Any, item: Item) -> bool:  # noqa: ANN401 -- boto3 condition
    expression = condition.get_expression()
    operator, values = expression["operator"], expression["values"]
    if operator in {"AND", "OR"}:
        return (all if operator == "AND" else any)(_holds(part, item) for part in values)
    value, arguments = item.get(values[0].name), values[1:]
    if operator == "attribute_not_exists":
        return value is None
    return value is not None and _COMPARE[operator](value, *arguments)


_COMPARE: Mapping[str, Callable[..., bool]] = {
    "=": lambda value, other: bool(value == other),
    "<": lambda value, other: bool(value < other),
    "begins_with": lambda value, prefix: str(value).startswith(prefix),
    "BETWEEN": lambda value, low, high: bool(low <= value <= high),
}


def write_file(folder: Path, name: str, body: bytes) -> None:
    """Write a file of a run whole or not at all. Raises CorruptRecordsError for a name that leads out of its folder."""
    folder = folder.resolve()
    target = (folder / name).resolve()
    if not target.is_relative_to(folder):
        message = f"{name} is no name for a file of run {folder.name}"
        raise CorruptRecordsError(message)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.part")
    try:
        draft.write_bytes(body)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


class FolderFiles(MutableMapping[str, bytes]):
    """The files below a folder, by keys as in a bucket, which all begin with a prefix that stands for the folder."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix

    def __setitem__(self, key: str, body: bytes) -> None:
        write_file(self._folder, key.removeprefix(self._prefix), body)

    def __getitem__(self, key: str) -> bytes:
        path = self._folder / key.removeprefix(self._prefix)
        if not path.is_file():
            raise KeyError(key)
        return path.read_bytes()

    def __delitem__(self, key: str) -> None:
        (self._folder / key.removeprefix(self._prefix)).unlink()

    def __iter__(self) -> Iterator[str]:
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return (f"{self._prefix}{path.relative_to(self._folder).as_posix()}" for path in files)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class MemoryBucket:
    """The bucket does as much of a boto3 S3 client as `RunStore` uses; its objects are in memory."""

    def __init__(self, objects: MutableMapping[str, bytes] | None = None) -> None:
        self.objects: MutableMapping[str, bytes] = {} if objects is None else objects

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> None:  # noqa: N803 -- boto3's
        """Store one object."""
        self.objects[Key] = Body

    def copy_object(self, *, Key: str, CopySource: Mapping[str, str], **_: object) -> None:  # noqa: N803 -- boto3's
        """Store one object once more."""
        self.put_object(Key=Key, Body=self.objects[CopySource["Key"]])

    def upload_file(self, Filename: str, _bucket: str, Key: str) -> None:  # noqa: N803 -- boto3's
        """Store a file from disk."""
        self.objects[Key] = Path(Filename).read_bytes()

    def get_object(self, *, Key: str, **_: object) -> dict[str, io.BytesIO]:  # noqa: N803 -- boto3's
        """Return one object, or raise the error that S3 answers."""
        try:
            return {"Body": io.BytesIO(self.objects[Key])}
        except KeyError:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": Key}}, "GetObject") from None

    def get_paginator(self, _operation: str) -> MemoryBucket:
        """Return the paginator of `list_objects_v2`, which has one page."""
        return self

    def paginate(self, *, Prefix: str, Delimiter: str = "", **_: object) -> Iterator[Item]:  # noqa: N803 -- boto3's
        """Yield keys and sizes under a prefix, or the folders right below it."""
        sizes = self._sizes(Prefix)
        if not Delimiter:
            yield {"Contents": [{"Key": key, "Size": size} for key, size in sizes.items()]}
            return
        names = (key.removeprefix(Prefix).partition(Delimiter) for key in sizes)
        folders = dict.fromkeys(f"{Prefix}{name}{Delimiter}" for name, delimiter, _ in names if delimiter)
        yield {"CommonPrefixes": [{"Prefix": folder} for folder in folders]}

    def _sizes(self, prefix: str) -> dict[str, int]:
        """Return the size in bytes of each object under a prefix, in order of their keys."""
        return {key: len(self.objects[key]) for key in sorted(self.objects) if key.startswith(prefix)}


class FolderBucket(MemoryBucket):
    """A bucket whose objects are the files below a folder, for which the beginning of all keys stands."""

    def __init__(self, folder: Path, root: str) -> None:
        super().__init__(FolderFiles(folder, root))
        self._folder, self._root = folder, root

    def _sizes(self, prefix: str) -> dict[str, int]:
        found = {}  # without reading a file: a dataset may hold years
        below = self._folder / prefix.removeprefix(self._root)
        for path in [below] if below.is_file() else below.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # a draft, or somebody has removed it since
                if stat.S_ISREG((status := path.stat()).st_mode):
                    found[f"{self._root}{path.relative_to(self._folder).as_posix()}"] = status.st_size
        return dict(sorted(found.items()))


class MemoryServices:
    """
    The services for stages, with the table and bucket behind them.

    `aws` are boto3 clients by service name, `settings` fields that differ from the defaults here. `bucket` is used in
    place of `self.bucket`.
    """

    def __init__(
        self,
        clock: Clock,
        aws: Mapping[str, object] | None = None,
        bucket: object | None = None,
        **settings: str | float | bool,
    ) -> None:
        self.table = MemoryTable()
        self.bucket = MemoryBucket()
        clients = dict(aws or {})
        defaults = {
            "results_table": "memory",
            "results_bucket": "results",
            "target_bucket": "target",
            "target_table_prefix": "target-",
            "postgresql_endpoint": "127.0.0.1:5432/postgres",
            "etcd_endpoint": "127.0.0.1:2379",
        }
        self.services = Services(
            settings=Settings.model_validate({**defaults, **settings}),
            runs=RunStore(cast("S3Client", bucket or self.bucket), "results"),
            table=TrialTable(cast("Table", self.table)),
            clock=clock,
            aws=clients.__getitem__,
            register=RunRegister(cast("Table", self.table)),
        )
