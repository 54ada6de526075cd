"""What `make rehearse` refuses before it has asked AWS to make anything."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.stub import Stubber
from tests.unit.tools.rehearsal.samples import rehearsal

from stepbench.loading import read_model
from stepbench_tools.local.stack import local_client
from stepbench_tools.rehearsal import __main__ as command
from stepbench_tools.rehearsal.account import KINDS, Account, find_account, find_names
from stepbench_tools.rehearsal.judges import DOCUMENT, Deletion, Judgement, Rehearsal, _report, write


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the user's own account, and have an endpoint where nobody listens."""
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", ["", "9stack", "Stack", "stack_1", "s" * 25, "stack\n"])
def test_a_name_that_a_bucket_cannot_have_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Buckets and roles begin with the stack's name, which CloudFormation would lower and cut."""
    with pytest.raises(SystemExit, match="2"):
        command.main(["--stack", name])
    assert "--stack" in capsys.readouterr().err


@pytest.mark.parametrize("budget", ["nan", "inf", "0", "-1", "five"])
def test_a_budget_that_bounds_nothing_is_refused(budget: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is above `nan`."""
    with pytest.raises(SystemExit, match="2"):
        command.main(["--budget", budget])
    assert "--budget" in capsys.readouterr().err


def test_another_account_s_rehearsal_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same region a colleague's stack may have the name that would be deleted."""
    found = rehearsal(artefacts=_account("111111111111", "eu-central-1").artefacts("rehearsed"))
    write(tmp_path, found, "111111111111")
    monkeypatch.setattr(command, "find_account", lambda _: _account("222222222222", "eu-central-1"))
    assert command.main(["--delete", str(tmp_path)]) == command.BAD_INPUT
    assert "was made in eu-central-1, and these credentials are of another account" in capsys.readouterr().err


def test_nobody_to_ask_is_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of CI has to say YES=1."""
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(Exception, match=r"YES: is not given, and nobody can be asked"):
        command._agreed()


@pytest.mark.usefixtures("nobody")
def test_without_a_region_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The region is part of what is announced."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    with pytest.raises(Exception, match="AWS_DEFAULT_REGION: names no region"):
        find_account("")


@pytest.mark.usefixtures("nobody")
def test_without_credentials_it_is_bad_input_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It looked like a rehearsal that had failed."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setattr("boto3.session.Session.get_credentials", lambda _: None)
    assert command.main([]) == command.BAD_INPUT
    assert "AWS_PROFILE: gives no credentials (got nothing). Set AWS_PROFILE" in capsys.readouterr().err


@pytest.mark.usefixtures("nobody")
def test_a_profile_that_sends_calls_elsewhere_is_no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What an emulator does must never be taken for AWS's doing, wherever its address stands."""
    config = tmp_path / "config"
    config.write_text("[default]\nregion = eu-central-1\nendpoint_url = http://127.0.0.1:9\n")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    with pytest.raises(Exception, match=r"endpoint_url: is no address of AWS"):
        find_account("")


def test_the_accounts_number_is_in_no_file(tmp_path: Path) -> None:
    """The files are to be sent to others, and AWS's errors cite it."""
    found = rehearsal(ended="arn:aws:iam::123456789012:user/me is not authorized")
    write(tmp_path, found, "123456789012")
    texts = [path.read_text() for path in tmp_path.iterdir()]
    assert len(texts) == 2
    assert all("123456789012" not in text and "arn:aws:iam::000000000000:user/me" in text for text in texts)


def test_the_bucket_for_artefacts_has_a_name_of_its_own_in_each_account_and_region() -> None:
    """Names of buckets are everybody's."""
    names = {_account(number, region).artefacts("s" * 24) for number in "12" for region in ("a", "b")}
    assert len(names) == 4
    assert max(map(len, names)) <= 63


def _account(number: str, region: str) -> Account:
    return Account(number, region, "", None, None, {})  # type: ignore[arg-type]  # no session is needed for a name


def test_a_record_of_a_former_version_is_read_and_kept(tmp_path: Path) -> None:
    """DELETE=… is for a rehearsal that was killed, maybe before an update; what it had found stays in its file."""
    former = {**rehearsal().model_dump(mode="json"), "version": 1, "spent_usd": 0.5, "rounds": [{"name": "dsql"}]}
    (tmp_path / DOCUMENT).write_text(json.dumps(former))
    write(tmp_path, read_model(tmp_path / DOCUMENT, Rehearsal), "123456789012")
    kept = json.loads((tmp_path / DOCUMENT).read_text())
    assert (kept["version"], kept["rounds"], kept["spent_usd"]) == (1, [{"name": "dsql"}], 0.5)


def test_the_report_has_a_row_for_each_assumption() -> None:
    """Whatever stands in the observation."""
    row = Judgement(id="latency", sentence="It holds.", status="refuted", observed="a | b\nc")
    assert "| `latency`: It holds. | *refuted* | a \\| b c |" in [*_report(rehearsal(assumptions=(row,)))]
    assert rehearsal().good
    assert not rehearsal(assumptions=(row,)).good
    assert not rehearsal(deletion=None).good
    assert not rehearsal(deletion=Deletion(seconds=1, unlisted={"hosts": "denied"})).good


QUEUES = next(kind for kind in KINDS if kind.name == "queues")
MAPPINGS = next(kind for kind in KINDS if kind.name == "mappings")

UUID = "00000000-0000-0000-0000-000000000000"


def _listed(kind: Any, answer: dict[str, Any], **asked: str) -> list[str]:  # noqa: ANN401 -- a Kind
    client = local_client(kind.service, "http://127.0.0.1:9")
    account: Any = SimpleNamespace(client=lambda _service: client)
    with Stubber(client) as stub:
        stub.add_response(kind.operation, answer, asked)
        return list(find_names(account, kind, "rehearsed"))


def test_an_answer_without_a_list_is_nothing() -> None:
    """SQS leaves `QueueUrls` out where there is no queue."""
    assert _listed(QUEUES, {}, QueueNamePrefix="rehearsed-") == []


def test_a_mapping_is_the_stacks_by_its_functions_name() -> None:
    """Whose ARN has it last; another stack's function begins otherwise."""
    arn = "arn:aws:lambda:eu-central-1:000000000000:function:"
    mappings = [
        {"FunctionArn": f"{arn}{name}-ReceiveEvents", "UUID": UUID}
        for name in ("rehearsed", "not-rehearsed", "rehearsed2")
    ]
    assert _listed(MAPPINGS, {"EventSourceMappings": mappings}) == [f"{arn}rehearsed-ReceiveEvents {UUID}"]


def test_every_kind_is_an_operation_that_can_be_paged() -> None:
    """What is on the second page is left, too."""
    for kind in KINDS:
        assert local_client(kind.service, "http://127.0.0.1:9").can_paginate(kind.operation), kind.name
