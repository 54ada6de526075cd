from __future__ import annotations

import pytest

from stepbench.settings import Settings
from stepbench.stages.custom_resource import is_of_cloudformation

SIGNED = "https://cloudformation-custom-resource-response-useast1.s3.amazonaws.com/answer?signed"


@pytest.mark.parametrize(
    ("url", "on_aws", "emulated"),
    [
        (SIGNED, True, False),
        ("https://cloudformation-custom-resource-response-cnnorth1.s3.cn-north-1.amazonaws.com.cn/a?b", True, False),
        ("http://cloudformation-custom-resource-response-useast1.s3.amazonaws.com/", False, False),
        ("https://amazonaws.com.example.com/", False, False),
        ("http://localhost:4566/_ministack/cfn-response/token", False, True),
        ("http://127.0.0.1:4566/answer", False, True),
        ("https://127.0.0.1.example.com/", False, False),
        ("file:///etc/passwd", False, False),
        ("", False, False),
    ],
)
def test_answers_go_to_cloudformation_only(url: str, *, on_aws: bool, emulated: bool) -> None:
    """Its addresses are in S3, in each partition over https; an emulator's are on this machine."""
    settings = Settings(results_table="t", results_bucket="b")
    assert is_of_cloudformation(url, settings) is on_aws
    assert is_of_cloudformation(url, settings.model_copy(update={"emulator": "MiniStack"})) is emulated
