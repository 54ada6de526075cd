"""The API's description, OpenAPI 3.1, of its routes and models: `python -m stepbench_tools.documents.openapi`."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import stepbench
from stepbench.api import app, datasets
from stepbench.api.resolver import CONTENT_TYPE, ErrorKind
from stepbench.contracts.api import Acknowledgement, ProblemDetails, RowsFile, RunFilter, Submission

if TYPE_CHECKING:
    from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

Document = dict[str, Any]
_REFERENCES = "#/components/schemas/{model}"
_ACKNOWLEDGE = ("/runs/{run_id}/acknowledgement", "put")
_BODIES = {
    ("/runs", "post"): Submission,
    ("/plans/validate", "post"): Submission,
    ("/values", "post"): RowsFile,
    _ACKNOWLEDGE: Acknowledgement,
}
_ALWAYS = (ErrorKind.NOT_SIGNED, ErrorKind.NOT_PERMITTED, ErrorKind.UNAVAILABLE, ErrorKind.MISTAKE)
_OF_A_ROUTE = {
    ("/runs", "post"): (ErrorKind.BAD_REQUEST, ErrorKind.CONFLICT, ErrorKind.REFUSED),
    ("/runs", "get"): (ErrorKind.BAD_REQUEST,),
    _ACKNOWLEDGE: (ErrorKind.BAD_REQUEST, ErrorKind.NOT_FOUND, ErrorKind.CONFLICT, ErrorKind.REFUSED),
    ("/plans/{name}", "get"): (ErrorKind.BAD_REQUEST, ErrorKind.NOT_FOUND),
    ("/plans/validate", "post"): (ErrorKind.BAD_REQUEST, ErrorKind.REFUSED),
    ("/values", "post"): (ErrorKind.BAD_REQUEST, ErrorKind.REFUSED),
    ("/datasets/{name}/report", "get"): (ErrorKind.BAD_REQUEST, ErrorKind.NOT_FOUND, ErrorKind.REFUSED),
    ("/datasets/{name}/summary", "get"): (ErrorKind.BAD_REQUEST, ErrorKind.NOT_FOUND, ErrorKind.REFUSED),
    ("/compare", "get"): (ErrorKind.BAD_REQUEST, ErrorKind.NOT_FOUND, ErrorKind.REFUSED),
}
_OF_A_RUN = (ErrorKind.BAD_REQUEST, ErrorKind.NOT_FOUND)
_OF_THE_GATEWAY = frozenset({ErrorKind.NOT_SIGNED, ErrorKind.NOT_PERMITTED, ErrorKind.UNAVAILABLE, ErrorKind.MISTAKE})
_GATEWAY_MESSAGE: Document = {
    "type": "object",
    "description": "What API Gateway answers by itself: the request is not signed, or did not reach Stepbench.",
    "properties": {"message": {"type": ["string", "null"]}},
    "required": ["message"],
}
_DESCRIPTION = """Start benchmark runs, and read their results.

Requests are signed (SigV4, service `execute-api`), or carry a token, as the stack asks for. A team sees its own runs,
and those of the team `default`: runs from the console and of schedules. Errors are problem details (RFC 9457)."""


def openapi() -> Document:
    """Return the document."""
    document, further = _described(app.app), _described(datasets.app)
    document.pop("servers", None)  # each stack has an address of its own
    document["paths"].update(further["paths"])
    schemas = document["components"]["schemas"]
    schemas.update(further["components"]["schemas"])
    for model in (Submission, RowsFile, Acknowledgement, ProblemDetails):
        schema = model.model_json_schema(ref_template=_REFERENCES)
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    for name in (
        "HTTPValidationError",
        "ValidationError",
        "ResponseValidationError",
    ):  # Powertools' own: never answered
        schemas.pop(name, None)
    schemas["GatewayMessage"] = _GATEWAY_MESSAGE
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            of_path = re.sub(r"\W", "_", path)  # Powertools makes names longer by path and method
            operation["operationId"] = operation["operationId"].removesuffix(f"{of_path}_{method}")
            _describe_errors(operation, (*_OF_A_ROUTE.get((path, method), _of_any(path)), *_ALWAYS))
    _describe_filter(document["paths"]["/runs"]["get"]["parameters"])
    for (path, method), body in _BODIES.items():
        content = {"application/json": {"schema": {"$ref": _REFERENCES.format(model=body.__name__)}}}
        document["paths"][path][method]["requestBody"] = {"required": True, "content": content}
    document["components"]["securitySchemes"] = {
        "sigv4": {
            "type": "apiKey",
            "name": "Authorization",
            "in": "header",
            "description": "Signature Version 4, of the service execute-api.",
        },
        "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    }
    document["security"] = [{"sigv4": []}, {"jwt": []}]
    return document


def _described(resolver: APIGatewayHttpResolver) -> Document:
    """Return what Powertools makes of the routes of one function."""
    schema = resolver.get_openapi_schema(title="Stepbench", version=stepbench.__version__, description=_DESCRIPTION)
    described: Document = json.loads(schema.model_dump_json(by_alias=True, exclude_none=True))
    return described


def _describe_filter(parameters: list[Document]) -> None:
    """Give the parameters of a list their bounds, which Powertools leaves out of those that a model holds."""
    properties = RunFilter.model_json_schema()["properties"]
    for parameter in parameters:
        schema = dict(properties[parameter["name"]])
        parameter["description"] = schema.pop("description", parameter.get("description", schema.get("title", "")))
        parameter["schema"] = schema


def _of_any(path: str) -> tuple[ErrorKind, ...]:
    return _OF_A_RUN if path.startswith("/runs/") else ()


def _describe_errors(operation: Document, kinds: tuple[ErrorKind, ...]) -> None:
    """Put problem details in place of what Powertools takes for the answer to a bad request."""
    responses = operation["responses"]
    responses.pop("422", None)
    schema = {"$ref": _REFERENCES.format(model="ProblemDetails")}
    for kind in kinds:
        _, status, title = kind.value
        content = {CONTENT_TYPE: {"schema": schema}}
        if kind in _OF_THE_GATEWAY:
            content["application/json"] = {"schema": {"$ref": _REFERENCES.format(model="GatewayMessage")}}
        responses[str(status)] = {"description": title, "content": content}
    throttled = {"application/json": {"schema": {"$ref": _REFERENCES.format(model="GatewayMessage")}}}
    responses["429"] = {"description": "Too many requests: try again in a second", "content": throttled}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(openapi(), indent=2, ensure_ascii=False) + "\n")
