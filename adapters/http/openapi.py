"""The API's description: every status, every schema, and bodies that are read by hand."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from adapters.http.problems import CODES, MEDIA_TYPE

REF = "#/components/schemas/"
_bodies: dict[str, type[BaseModel]] = {}

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "An error (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong and what to do."},
        "code": {"type": "string", "enum": sorted(CODES), "description": "Stable: decide by this."},
        "field": {"type": "string", "description": "The path of the field that is wrong."},
        "line": {"type": "integer", "description": "The line of the directory file that is wrong."},
        "checks": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problem documents that an operation may answer with, and their codes."""
    documents: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        codes = [code for code, (of, _) in CODES.items() if of == status]
        documents[status] = {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in codes)}",
            "content": {MEDIA_TYPE: {"schema": {"$ref": REF + "Problem"}}},
        }
        if status == 401:
            documents[status]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}}
        if status == 503:
            documents[status]["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    return documents


def body_of(model: type[BaseModel], description: str) -> dict[str, Any]:
    """The body of an operation that reads its bytes itself."""
    _bodies[model.__name__] = model
    schema = {"schema": {"$ref": REF + model.__name__}}
    return {"requestBody": {"required": True, "description": description, "content": {"application/json": schema}}}


def follow_ups(**operations: dict[str, Any]) -> dict[str, Any]:
    """Links from an approval that was answered to what can be done with it next; values are the bodies to send."""
    return {
        operation: {
            "operationId": operation,
            "parameters": {"approval_id": "$response.body#/id"},
            **({"requestBody": body} if body else {}),
        }
        for operation, body in operations.items()
    }


def description_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Placet", version=app.version, routes=app.routes, tags=app.openapi_tags,
            summary="A person's yes or no in front of what an agent or a workflow is about to do",
        )  # fmt: skip
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = PROBLEM
        for model in _bodies.values():
            schema = model.model_json_schema(ref_template=REF + "{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas[model.__name__] = schema
        if "Ask" in schemas:
            as_asked_over_http(schemas)
        app.openapi_schema = document
    return app.openapi_schema


def as_asked_over_http(schemas: dict[str, Any]) -> None:
    """What the model checks in code, said in the schema as far as a schema can."""
    ask, presentation = schemas["Ask"], schemas["Presentation"]
    ask["properties"]["runtime"] = {
        "enum": ["external", "draft", None], "default": None,
        "description": "Who runs the call: its asker (external, the default), or Placet (draft).",
    }  # fmt: skip
    ask["oneOf"] = [
        {"properties": {"runtime": {"const": "draft"}, "run": {"type": "object"}}, "required": ["runtime", "run"]},
        {"properties": {"runtime": {"enum": ["external", None]}, "run": {"type": "null"}}},
    ]
    line = presentation["properties"]["lines"]["items"]
    line.update(minItems=2, maxItems=3, description="Label, a JSON pointer into arguments or a literal, and a format.")
    ask["examples"] = [
        {
            "agent": "billing", "tool": "stripe.refund", "operation": "create", "effect": "money",
            "arguments": {"charge": "ch_1", "amount": 4900, "currency": "GBP"},
            "presentation": {"title": "Refund a duplicate charge", "lines": [["Amount", "/amount", "money:/currency"]]},
            "reasoning": "The customer was charged twice.",
        }
    ]  # fmt: skip
