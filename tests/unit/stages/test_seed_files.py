"""Files are made once: whole or not at all, with the digest that their seed gives."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from tests.samples.records import REF
from tests.samples.services import MemoryServices
from tests.samples.transfer_processes import digest, transfer_spec

from stepbench.contracts.transfer.rows import SeedFilesInput
from stepbench.errors import TargetUnavailableError, TargetUnreachableError, TrialCancelledError
from stepbench.experiments.transfer.program.contents import digest_of, pieces
from stepbench.records.storage import layout
from stepbench.stages import seed_files as stage
from stepbench.stages.seed_files import PART_MIB, read_digests, seed_files
from stepbench_tools.local.memory_services import MemoryBucket

if TYPE_CHECKING:
    from pathlib import Path

TASK = SeedFilesInput(ref=REF)
LARGE_MIB = PART_MIB + 1


class Files(MemoryBucket):
    """The bucket of files: as much of a boto3 S3 client as the stage uses; `uploads` are those under way."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: dict[str, dict[str, str]] = {}
        self.uploads: dict[str, list[bytes]] = {}
        self.written: list[str] = []
        self.fails_at: int | None = None

    def put_object(self, *, Key: str, Body: bytes, **more: Any) -> None:  # noqa: N803, ANN401 -- boto3's
        """Store one object."""
        super().put_object(Key=Key, Body=Body)
        self.metadata[Key] = more.get("Metadata", {})
        self.written.append(Key)

    def head_object(self, *, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803 -- boto3's
        """Tell of one object, or raise what S3 answers."""
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "404", "Message": "Not Found"}}, "HeadObject")
        return {"ContentLength": len(self.objects[Key]), "Metadata": self.metadata[Key]}

    def create_multipart_upload(self, *, Key: str, Metadata: dict[str, str], **_: object) -> dict[str, str]:  # noqa: N803
        """Begin one; its id is the key."""
        self.uploads[Key], self.metadata[Key] = [], Metadata
        return {"UploadId": Key}

    def upload_part(self, *, UploadId: str, PartNumber: int, Body: bytes, **_: object) -> dict[str, str]:  # noqa: N803
        """Take a part, or fail."""
        if self.fails_at == PartNumber:
            raise ClientError({"Error": {"Code": "SlowDown", "Message": ""}}, "UploadPart")
        self.uploads[UploadId].append(Body)
        return {"ETag": str(PartNumber)}

    def complete_multipart_upload(self, *, UploadId: str, MultipartUpload: dict[str, Any], **_: object) -> None:  # noqa: N803
        """Make the object of its parts."""
        parts = self.uploads.pop(UploadId)
        assert [part["PartNumber"] for part in MultipartUpload["Parts"]] == [*range(1, len(parts) + 1)]
        self.objects[UploadId] = b"".join(parts)
        self.written.append(UploadId)

    def abort_multipart_upload(self, *, UploadId: str, **_: object) -> None:  # noqa: N803 -- boto3's
        """Forget its parts."""
        del self.uploads[UploadId]


class Scene:
    """A trial, a bucket and a folder."""

    def __init__(self, folder: Path, *sizes_mib: int, **plan: Any) -> None:  # noqa: ANN401 -- a plan's fields
        self.files = Files()
        self.folder = folder
        self.memory = MemoryServices(aws={"s3": self.files}, files_bucket="files", files_folder=str(folder))
        spec = transfer_spec(file_sizes_mib=sizes_mib, **plan)
        self.memory.services.runs.put_model(layout.trial_key(REF, "trial.json"), spec)

    def seed(self) -> bool:
        """Call the stage once."""
        return seed_files(TASK, self.memory.services).done


def test_a_file_is_on_both_sources_with_the_digest_of_its_seed(tmp_path: Path) -> None:
    """What is read is compared with what was planned, and that is what its seed gives."""
    scene = Scene(tmp_path, 1, LARGE_MIB)
    assert scene.seed()
    for size_mib in (1, LARGE_MIB):
        path = f"files/7/{size_mib}.bin"
        body = b"".join(pieces(7, size_mib))
        assert scene.files.objects[path] == body
        assert (tmp_path / path).read_bytes() == body
        assert scene.files.metadata[path] == {"xxh3": digest(body)}
        assert (tmp_path / f"{path}.xxh3").read_text() == f"{digest(body)}\n"


def test_the_digests_can_be_looked_up(tmp_path: Path) -> None:
    """PlanPhase gives each read its own."""
    scene = Scene(tmp_path, 1, 2)
    assert scene.seed()
    assert read_digests(scene.memory.services, 7) == {1: digest_of(7, 1), 2: digest_of(7, 2)}
    assert json.loads(scene.files.objects["files/7/digests.json"])["1"] == digest_of(7, 1)


def test_digests_of_other_trials_stay(tmp_path: Path) -> None:
    """Two trials of a seed may have different sizes."""
    scene = Scene(tmp_path, 2)
    scene.files.objects["files/7/digests.json"] = b'{"5": "aa"}'
    assert scene.seed()
    assert read_digests(scene.memory.services, 7) == {2: digest_of(7, 2), 5: "aa"}


def test_what_is_there_is_left(tmp_path: Path) -> None:
    """Each trial asks for its files, and only the first one waits for them."""
    scene = Scene(tmp_path, 1, 2)
    assert scene.seed()
    written, before = len(scene.files.written), (tmp_path / "files/7/2.bin").stat()
    assert scene.seed()
    after = (tmp_path / "files/7/2.bin").stat()
    assert (len(scene.files.written), after.st_ino, after.st_mtime_ns) == (written, before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("spoil", ["short", "other digest", "no note"])
def test_what_is_not_as_it_has_to_be_is_made_anew(tmp_path: Path, spoil: str) -> None:
    """A file that was cut off, or is of an older version, would fail every read."""
    scene = Scene(tmp_path, 1)
    assert scene.seed()
    file, key, body = tmp_path / "files/7/1.bin", "files/7/1.bin", scene.files.objects["files/7/1.bin"]
    if spoil == "short":
        file.write_bytes(b"short")
        scene.files.objects[key] = b"short"
    elif spoil == "other digest":
        (tmp_path / f"{key}.xxh3").write_text("0\n")
        scene.files.objects[key] = bytes(len(body))
        scene.files.metadata[key] = {"xxh3": "0"}
        file.write_bytes(bytes(len(body)))
    else:
        (tmp_path / f"{key}.xxh3").unlink()
        scene.files.metadata[key] = {}
    assert scene.seed()
    assert (scene.files.objects[key], file.read_bytes()) == (body, body)
    assert scene.files.metadata[key] == {"xxh3": digest(body)}


@pytest.mark.parametrize("source", ["s3", "efs"])
def test_what_a_read_has_found_damaged_is_made_anew_once(tmp_path: Path, source: str) -> None:
    """Its size and its noted digest are right; only who reads it whole sees that eight bytes are others."""
    scene = Scene(tmp_path, 1)
    assert scene.seed()
    key, table = "files/7/1.bin", scene.memory.services.table
    file, body = tmp_path / key, scene.files.objects[key]
    spoilt = body[:1_000] + bytes(8) + body[1_008:]
    scene.files.objects[key] = spoilt
    file.write_bytes(spoilt)
    table.set_flag(layout.FILES, layout.damaged_flag(source, "", key), "wrong-digest")
    assert scene.seed()
    assert (scene.files.objects[key] == body, file.read_bytes() == body) == (source == "s3", source == "efs")
    scene.files.objects[key] = spoilt
    assert scene.seed()
    assert scene.files.objects[key] == spoilt  # the flag is down: each trial asks, and one alone has to wait


def test_a_digest_that_is_kept_wrong_is_found_again(tmp_path: Path) -> None:
    """Files would be made by it, for ever, and each read of them be wrong."""
    scene = Scene(tmp_path, 1, sources=("efs",))
    scene.files.objects["files/7/digests.json"] = b'{"1": "aa"}'
    assert scene.seed()
    assert (tmp_path / "files/7/1.bin.xxh3").read_text() == "aa\n"
    scene.memory.services.table.set_flag(layout.FILES, layout.damaged_flag("efs", "", "files/7/1.bin"), "wrong-digest")
    assert scene.seed()
    assert (tmp_path / "files/7/1.bin.xxh3").read_text() == f"{digest_of(7, 1)}\n"
    assert read_digests(scene.memory.services, 7) == {1: digest_of(7, 1)}


@pytest.mark.parametrize("spoilt", [b"\xff{", b'{"1": "a', b"[1]", b'{"a": "b"}'])
def test_damaged_digests_are_found_again(tmp_path: Path, spoilt: bytes) -> None:
    """The seed gives them; a trial failed without an end of it."""
    scene = Scene(tmp_path, 1)
    assert scene.seed()
    scene.files.objects["files/7/digests.json"] = spoilt
    (tmp_path / "files/7/1.bin.xxh3").write_bytes(b"\xff\xfe")
    assert scene.seed()
    assert read_digests(scene.memory.services, 7) == {1: digest_of(7, 1)}
    assert (tmp_path / "files/7/1.bin.xxh3").read_text() == f"{digest_of(7, 1)}\n"


@pytest.mark.parametrize("name", ["files/7/1.bin/kept", "files/7/1.bin.xxh3/kept", "files"])
def test_what_stands_in_a_files_place_is_not_tried_again(tmp_path: Path, name: str) -> None:
    """Nobody but its owner may remove it, and it stands there the second time, too."""
    scene = Scene(tmp_path, 1, sources=("efs",))
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"somebody's")
    with pytest.raises(TargetUnreachableError, match=r"not ours to remove: look at it, and take it away\.$"):
        scene.seed()
    assert (tmp_path / name).read_bytes() == b"somebody's"


def test_a_call_ends_when_its_time_is_over_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function has 15 minutes, and 5 GB may take longer."""
    scene = Scene(tmp_path, 1, 2, 3)
    now_ns = itertools.count(step=stage.BUDGET_S * 10**9)
    monkeypatch.setattr(scene.memory.services.clock, "now_ns", lambda: next(now_ns))
    assert [scene.seed(), scene.seed(), scene.seed()][:2] == [False, False]
    assert sorted(read_digests(scene.memory.services, 7)) == [1]
    monkeypatch.setattr(scene.memory.services.clock, "now_ns", lambda: 0)
    assert scene.seed()
    assert sorted(read_digests(scene.memory.services, 7)) == [1, 2, 3]


def test_an_upload_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its parts would be paid for, month after month; and no digest says that the file is there."""
    scene = Scene(tmp_path, LARGE_MIB)
    scene.files.fails_at = 2
    with pytest.raises(TargetUnavailableError, match="SlowDown"):
        scene.seed()
    assert (scene.files.uploads, read_digests(scene.memory.services, 7)) == ({}, {})


def test_a_folder_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that dies in the middle must not leave what looks like a file."""
    scene = Scene(tmp_path, LARGE_MIB, sources=("efs",))

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(TargetUnavailableError, match="No space left"):
        scene.seed()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("source", ["s3", "efs"])
def test_a_trial_that_is_cancelled_stops_within_a_file(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest takes minutes on EFS, and the trial's target would be free long before that."""
    scene = Scene(tmp_path, LARGE_MIB, sources=(source,))
    table, shown = scene.memory.services.table, list[str]()

    def beat(_tag: str, who: str, _progress: dict[str, int], *, ended: bool = False) -> None:
        shown.extend([who] * (not ended))
        if len(shown) == len(["before the file", "before its first piece", "before its second"]):
            table.set_flag(REF.tag, layout.CANCELLED, "by a test")

    monkeypatch.setattr(table, "beat", beat)
    with pytest.raises(TrialCancelledError):
        scene.seed()
    assert shown == [stage.SEEDER] * 3  # who clears up waits for it from piece to piece
    assert (scene.files.uploads, scene.files.written) == ({}, [])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_a_killed_attempt_left_of_a_file_goes_when_it_is_written_again(tmp_path: Path) -> None:
    """It would stay on EFS, and be paid for, as long as the stack; another file's may be under way."""
    scene = Scene(tmp_path, 1, sources=("efs",))
    (tmp_path / "files/7").mkdir(parents=True)
    for name in ("1.bin.0123abcd.partial", "11.bin.0123abcd.partial"):
        (tmp_path / "files/7" / name).write_bytes(b"part")
    assert scene.seed()
    found = sorted(path.name for path in (tmp_path / "files/7").iterdir())
    assert found == ["1.bin", "1.bin.xxh3", "11.bin.0123abcd.partial"]


@pytest.mark.parametrize(("sources", "names"), [(("s3",), {"bucket"}), (("efs",), {"folder"})])
def test_only_the_trials_sources_get_files(tmp_path: Path, sources: tuple[str, ...], names: set[str]) -> None:
    """Without EFS there is no folder to write to."""
    scene = Scene(tmp_path, 1, sources=sources)
    assert scene.seed()
    found = {"bucket"} if "files/7/1.bin" in scene.files.objects else set()
    found |= {"folder"} if (tmp_path / "files/7/1.bin").exists() else set()
    assert found == names


@pytest.mark.parametrize(("setting", "said"), [("files_bucket", "no bucket"), ("files_folder", "no mounted folder")])
def test_a_stack_without_files_says_so(tmp_path: Path, setting: str, said: str) -> None:
    """The remedy is in the message."""
    scene = Scene(tmp_path, 1)
    object.__setattr__(
        scene.memory.services, "settings", scene.memory.services.settings.model_copy(update={setting: ""})
    )
    with pytest.raises(TargetUnavailableError, match=said):
        scene.seed()
