"""Bodies are read up to a limit, and only of the types that are taken; then checked field by field."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from fastapi import Path, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from adapters.http.edge import with_slashes
from adapters.http.problems import Problem, invalid
from core.asks import Name
from core.canonical import Unfit, fields_of
from core.fields import problem_text
from core.judging import NOTE_LIMIT

JSON = ("application/json",)
YAML_OR_JSON = ("application/yaml", "application/x-yaml", "text/yaml", "application/json")
WHOLE = "(the whole body)"

Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
M = TypeVar("M", bound="Body")


def integral(value: Any) -> Any:
    """JSON has one kind of number: 2.0 is the whole number 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def instant(value: Any) -> datetime:
    """An instant as JSON has it: a text with its offset."""
    if isinstance(value, str):
        with suppress(ValueError, OverflowError):
            if (read := datetime.fromisoformat(value)).utcoffset() is not None:
                return read.astimezone(UTC)
    raise ValueError("must be an instant such as 2027-01-31T00:00:00Z")


def _name(example: str) -> Any:
    return Path(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$", examples=[example])


AgentInPath = Annotated[str, _name("billing"), BeforeValidator(with_slashes)]
LaneInPath = Annotated[str, _name("chat-3"), BeforeValidator(with_slashes)]
RunInPath = Annotated[str, _name("run-7"), BeforeValidator(with_slashes)]
ContentRevision = Annotated[
    int, Field(ge=1, le=2**31 - 1, description="The content revision that was read."), BeforeValidator(integral)
]


class Body(BaseModel):
    """A JSON body of which every field is known."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class DecisionBody(Body):
    """A person's answer; to allow, the content revision that was read must be given."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"verdict": {"const": "decline"}}},
                {"properties": {"content_revision": {"type": "integer"}}, "required": ["content_revision"]},
            ],
            "examples": [
                {"verdict": "allow", "content_revision": 1},
                {"verdict": "decline", "note": "Wrong customer."},
            ],
        }
    )
    verdict: Literal["allow", "decline"]
    content_revision: ContentRevision | None = None
    note: Annotated[Text, StringConstraints(max_length=NOTE_LIMIT)] | None = None
    key: Annotated[
        str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$"),
        Field(description="Sent again with the same key, the same answer comes back."),
    ] | None = None  # fmt: skip

    @model_validator(mode="after")
    def says_what_was_read(self) -> Self:
        if self.verdict == "allow" and self.content_revision is None:
            raise ValueError("content_revision: required to allow; send the content_revision of the approval you read")
        return self


class ClaimBody(Body):
    """The asker takes its leave to run what was approved."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"content_revision": 1}]})
    content_revision: ContentRevision


class OutcomeBody(Body):
    """What became of a claimed call."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"claim_token": "kq3…", "outcome": "sent"}]})
    claim_token: Annotated[Text, StringConstraints(min_length=1, max_length=200)]
    outcome: Literal["sent", "not_sent", "unknown"]
    error: Annotated[Text, StringConstraints(max_length=2000)] | None = None


class EditBody(Body):
    """Texts to change, by JSON pointer into the arguments, each to a value of its kind."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content_revision": 1, "changes": {"/reason": "requested by customer"}}]}
    )
    content_revision: ContentRevision
    changes: Annotated[dict[str, str | bool | int | float], Field(min_length=1)]


class ModeBody(Body):
    """What an agent asks for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"mode": "everything"}]})
    mode: Literal["outside", "everything", "money_only"]


class CeilingBody(Body):
    """The most that one call may move, in the currency's major unit."""

    amount: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,12}(\.[0-9]{1,4})?$")]
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]


class RuleBody(Body):
    """What an agent may do without asking: calls of a tool, as far as the scope reaches."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"tool": "mail.send", "scope": "recipient", "value": "team@example.com"},
                {
                    "tool": "stripe.refund", "operation": "create", "scope": "operation",
                    "ceiling": {"amount": "50.00", "currency": "GBP"}, "expires_at": "2027-01-31T00:00:00Z",
                },
            ]
        }
    )  # fmt: skip
    tool: Name
    operation: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    scope: Annotated[
        Literal["arguments", "recipient", "host", "operation", "tool"],
        Field(
            description="How far it reaches: these very arguments, the recipient, the host, the operation or the tool."
        ),
    ]
    value: Annotated[
        str, StringConstraints(max_length=2000, pattern=r"^[^\x00-\x1f\x7f]*$"),
        Field(description="The digest of a request, a recipient, or a host such as GET https://api.example.com."),
    ] = ""  # fmt: skip
    ceiling: CeilingBody | None = Field(default=None, description="Makes it a rule for money, which must expire.")
    expires_at: Annotated[datetime, BeforeValidator(instant)] | None = None


class MessageBody(Body):
    """What somebody wrote in a lane; `client_message_id` makes a repeat the same message."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "Use the other account.", "client_message_id": "m-17"}]}
    )
    text: Annotated[str, StringConstraints(max_length=NOTE_LIMIT, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
    client_message_id: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class LinkBody(Body):
    """For whom a link code is wanted: the person's name in the directory."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"person": "dana"}]})
    person: Name


class TokenBody(Body):
    """For whom a bearer token is wanted: an agent or a person of the directory."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["agent"]}, {"required": ["person"]}],
            "examples": [{"agent": "billing"}, {"person": "dana"}],
        }
    )
    agent: Name = ""
    person: Name = ""

    @model_validator(mode="after")
    def for_one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("agent: give either an agent or a person")
        return self


async def read_body(request: Request, types: Collection[str], limit: int) -> bytes:
    """The body's bytes, if it is of one of these types (else a Problem, 415) and of at most `limit` bytes (413)."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent not in types:
        raise Problem("wrong_content_type", f"Content-Type must be {' or '.join(types)}.")
    return await read_any(request, limit)


async def read_any(request: Request, limit: int) -> bytes:
    """The body's bytes whatever their type; a Problem (413) before more than `limit` are held."""
    too_large = Problem(
        "too_large", f"At most {limit // 1024} KB are taken; pass a reference instead of the content.",
        headers={"Connection": "close"}, field=WHOLE,
    )  # fmt: skip
    announced = request.headers.get("content-length", "0")
    if announced.isascii() and announced.isdecimal() and int(announced[:20]) > limit:
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise too_large
    return bytes(body)


async def read_json(request: Request, model: type[M], limit: int) -> M:
    """The body as `model`; a Problem that names the first wrong field, never its value."""
    body = await read_body(request, JSON, limit)
    try:
        fields, _ = fields_of(body)
    except Unfit as unfit:
        raise invalid(unfit.path.replace("ask", "body"), unfit.problem) from None
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise wrong_field(error, model) from None


def wrong_field(error: ValidationError, model: type[BaseModel]) -> Problem:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or WHOLE
    if first["type"] == "extra_forbidden":
        return invalid(field, f"unknown field; the fields are {', '.join(model.model_fields)}")
    said = problem_text(first["type"], first["msg"])
    name, colon, problem = said.partition(": ")
    return invalid(name, problem) if field == WHOLE and colon else invalid(field, said)
