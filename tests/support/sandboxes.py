"""A function's sandbox as the embedded run starts it, under a Runtime API, with no emulator around it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from stepbench_tools.local.emulator import lambda_parts
from stepbench_tools.local.emulator.localstack.sandboxes import Sandbox, Sandboxes

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


class Code(SimpleNamespace):
    """Stands for LocalStack's S3Code, of a function whose code is unpacked in a folder."""

    def get_unzipped_code_location(self) -> Path:
        """Return the folder."""
        return Path(self.folder)

    def prepare_for_execution(self) -> None:
        """Do nothing: it is unpacked."""

    def _download_archive_to_file(self, target: Any) -> None:  # noqa: ANN401 -- a file
        self.downloads.append(self.id)
        target.write(self.archive)


def layer(archive: bytes, name: str = "layer") -> SimpleNamespace:
    """Return a layer as LocalStack knows it."""
    return SimpleNamespace(code=Code(id=name, archive=archive, downloads=[]))


def new_sandbox(folder: Path, files: Mapping[str, str], layers_folder: Path, **config: Any) -> Sandbox:  # noqa: ANN401 -- LocalStack's
    """Write a function's files into a folder and return its sandbox, not started."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    kind = Sandboxes(
        python=str(ROOT / ".stepbench/venvs/lambda/bin/python"),
        program=ROOT / "tools/src/stepbench_tools/local/emulator/lambda_sandbox.py",
        parts=lambda_parts,
        layers=lambda_parts.LayerFolders(layers_folder, lambda_parts.extract),
        invocation_result=lambda request_id, payload, **rest: SimpleNamespace(id=request_id, body=payload, **rest),
    )
    settings = {
        "timeout": 20,
        "memory_size": 512,
        "runtime": "python3.11",
        "layers": [],
        "logging_config": {},
        **config,
    }
    version = SimpleNamespace(
        id=SimpleNamespace(qualifier="$LATEST"),
        config=SimpleNamespace(code=Code(folder=str(folder), id="c", downloads=[]), **settings),
    )
    kind.prepare_version(version)
    return kind("id", version)


def start(sandbox: Sandbox, **variables: object) -> Sandbox:
    """Start as LocalStack does."""
    sandbox.start({"_HANDLER": "module.handler", "AWS_REGION": "us-east-1", **variables})
    return sandbox


def call(sandbox: Sandbox, event: object, request_id: str = "r-1") -> tuple[Any, Any]:
    """Invoke; return the result and what its body says."""
    payload = {"invoke-id": request_id, "invoked-function-arn": "arn", "payload": json.dumps(event)}
    result = sandbox.invoke({**payload, "trace-id": "Root=1;Parent=2;Sampled=1"})
    return result, json.loads(result.body)
