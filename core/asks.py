"""What a caller asks for: the payload of an approval, checked field by field before anything is written."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from core.approvals import Effect, Runtime
from core.canonical import Unfit, fields_of, value_at
from core.fields import problem_text

ARGUMENTS_LIMIT, ASK_LIMIT = 256 * 1024, 512 * 1024
PLACET_QUEUES = frozenset({"placet", "placet-bots"})
LIFETIME_MIN_S, LIFETIME_DEFAULT_S, LIFETIME_MAX_S = 10, 168 * 3600, 720 * 3600

Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Pointer = Annotated[str, StringConstraints(max_length=500, pattern=r"^(/([^~/]|~0|~1)*)*$")]
# The field of a fault that is not one field's.
WHOLE = "(the whole ask)"
FIELD_LIMIT = 500
_NOTHING = object()
FORMAT = re.compile(r"^(text|code|date|bytes|money:(/([^~/]|~0|~1)*)+)$")


class Invalid(Exception):
    """An ask that cannot be taken: `field` is the path that is wrong, `problem` says what to do; never the value.

    Of a path that is very long, which the asker's own names make it, `field` is the beginning.
    """

    def __init__(self, field: str, problem: str) -> None:
        if len(field) > FIELD_LIMIT:
            field = f"{field[:FIELD_LIMIT]}..."
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class TooLarge(Invalid):
    """An ask over ASK_LIMIT; `field` is the member that makes it so."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class Run(_Strict):
    """The caller's own activity that Placet runs after Allow; durations in seconds."""

    activity: Name
    task_queue: Name
    start_to_close_s: Annotated[int, Field(ge=1, le=86_400)] = 600
    schedule_to_start_s: Annotated[int, Field(ge=1, le=86_400)] = 600

    @field_validator("task_queue")
    @classmethod
    def not_ours(cls, queue: str) -> str:
        if queue in PLACET_QUEUES:
            raise ValueError("this task queue is Placet's own; name the caller's")
        if queue.startswith("/_sys/"):
            raise ValueError("names that begin with /_sys/ are Temporal's own; name the caller's task queue")
        return queue


NOTIFY_SIGNAL = "placet_update"
# Temporal takes no longer names; a signal to one would fail for ever.
WORKFLOW_ID_BYTES = 1000


class Notify(_Strict):
    """The workflow that hears, by a signal, what became of a draft; the signal's argument is the update."""

    workflow_id: Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00-\x1f\x7f]+$")]
    signal: Name = NOTIFY_SIGNAL

    @field_validator("workflow_id")
    @classmethod
    def short_enough(cls, workflow_id: str) -> str:
        if len(workflow_id.encode()) > WORKFLOW_ID_BYTES:
            raise ValueError(f"a workflow id has at most {WORKFLOW_ID_BYTES} bytes")
        return workflow_id


class Presentation(_Strict):
    """How the caller would like the call shown; a line is [label, pointer-or-literal, format]."""

    title: Annotated[str, StringConstraints(max_length=150)] | None = None
    lines: Annotated[list[list[str]], Field(max_length=50)] = []
    editable: Annotated[list[Pointer], Field(max_length=20)] = []
    recipient: str | None = None
    url: str | None = None

    @field_validator("lines")
    @classmethod
    def well_formed(cls, lines: list[list[str]]) -> list[list[str]]:
        for number, line in enumerate(lines):
            if not 2 <= len(line) <= 3:
                raise ValueError(f"line {number} must be [label, pointer or literal] or [label, pointer, format]")
            if len(line[0]) > 80:
                raise ValueError(f"line {number}: a label has at most 80 characters")
            if len(line) == 3 and not FORMAT.fullmatch(line[2]):
                raise ValueError(f"line {number}: the format must be text, code, date, bytes or money:<pointer>")
            if len(line) == 3 and not line[1].startswith("/"):
                raise ValueError(f"line {number}: a format needs a pointer such as /amount")
        return lines


class Ask(_Strict):
    """A call that somebody must allow first (design section 5). `arguments_text` is the JSON text as it came."""

    agent: Name
    tool: Name
    arguments: dict[str, Any]
    operation: Annotated[str, StringConstraints(max_length=200)] = ""
    presentation: Presentation = Presentation()
    effect: Effect | None = None
    reasoning: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    context: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    on_behalf_of: Annotated[str, StringConstraints(max_length=200)] | None = None
    run_id: Annotated[str, StringConstraints(max_length=200)] | None = None
    lane: Annotated[str, StringConstraints(max_length=200)] | None = None
    call_id: Annotated[str, StringConstraints(max_length=200)] | None = None
    timeout_s: Annotated[int, Field(ge=LIFETIME_MIN_S, le=LIFETIME_MAX_S)] | None = None
    runtime: Runtime | None = None
    run: Run | None = None
    notify: Notify | None = None

    @field_validator("effect", "runtime", mode="before")
    @classmethod
    def by_value(cls, value: Any, info: Any) -> Any:
        kinds = {"effect": Effect, "runtime": Runtime}
        if value is None:
            return None
        try:
            return kinds[info.field_name](value)
        except ValueError:
            choices = ", ".join(kinds[info.field_name])
            raise ValueError(f"must be one of {choices}") from None


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked ask together with the text of its arguments, exactly as it came."""

    ask: Ask
    arguments_text: str
    runtime: Runtime


def read_ask(document: bytes | str, *, over: Literal["temporal", "http"]) -> Asked:
    """Check a payload (a JSON object) whole; raises Invalid with the field's path."""
    if len(document) > ASK_LIMIT:
        large = largest_member(document)
        raise TooLarge(large, f"the ask is over {ASK_LIMIT // 1024} KB; pass a reference instead of the content")
    try:
        fields, texts = fields_of(document)
    except Unfit as unfit:
        raise Invalid(unfit.path, unfit.problem) from None
    arguments_text = texts.get("arguments", "")
    if len(arguments_text.encode()) > ARGUMENTS_LIMIT:
        raise Invalid("arguments", f"larger than {ARGUMENTS_LIMIT // 1024} KB; pass a reference instead of the content")
    try:
        ask = Ask.model_validate(fields)
    except ValidationError as error:
        errors = error.errors(include_input=False, include_url=False, include_context=False)
        # A misspelt field is named before the one that is missing because of it.
        first = min(errors, key=lambda each: each["type"] != "extra_forbidden")
        raise Invalid(_path(first["loc"]), _problem(first["type"], first["msg"], first["loc"])) from None
    _check_pointers(ask)
    default = Runtime.TURN if over == "temporal" else Runtime.EXTERNAL
    runtime = ask.runtime or default
    if runtime is Runtime.TURN and over == "http":
        raise Invalid("runtime", "turn needs a waiting workflow; over HTTP use external or draft")
    if runtime is Runtime.EXTERNAL and over == "temporal":
        raise Invalid("runtime", "external is for HTTP; over Temporal use turn or draft")
    if runtime is Runtime.DRAFT and ask.run is None:
        raise Invalid("run", "a draft is sent by Placet, so it must name the activity to run")
    if runtime is not Runtime.DRAFT and ask.notify is not None:
        raise Invalid("notify", "only a draft is told of; whoever waits for a turn or an external call has its answer")
    if over == "http" and ask.notify is not None and ask.notify.signal != NOTIFY_SIGNAL:
        # Who may ask over HTTP has no word in other programs' workflows but this one.
        raise Invalid("notify.signal", f"over HTTP the signal is {NOTIFY_SIGNAL}; leave it out")
    if runtime is Runtime.EXTERNAL and ask.run is not None:
        raise Invalid("run", "an external call is run by its asker; leave run out")
    return Asked(ask, arguments_text, runtime)


def largest_member(document: bytes | str) -> str:
    """Which member makes a document large; the whole of it where that cannot be read."""
    try:
        members = json.loads(document)
        return (
            max(members, key=lambda name: len(name) + len(json.dumps(members[name])))
            if isinstance(members, dict)
            else WHOLE
        )
    except (ValueError, RecursionError):
        return WHOLE


def _check_pointers(ask: Ask) -> None:
    for number, line in enumerate(ask.presentation.lines):
        pointers = [line[1]] if line[1].startswith("/") else []
        if len(line) == 3 and line[2].startswith("money:"):
            pointers.append(line[2].removeprefix("money:"))
        for pointer in pointers:
            if value_at(ask.arguments, pointer, _NOTHING) is _NOTHING:
                raise Invalid(f"presentation.lines.{number}", f"{pointer} points at nothing in arguments")
    for number, pointer in enumerate(ask.presentation.editable):
        if not isinstance(value_at(ask.arguments, pointer), str | int | float | bool):
            raise Invalid(f"presentation.editable.{number}", f"{pointer} does not point at a text, number or flag")


def _path(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc) or WHOLE


def _problem(kind: str, message: str, loc: tuple[int | str, ...]) -> str:
    if kind == "extra_forbidden":
        known = _fields_at(loc)
        near = difflib.get_close_matches(str(loc[-1]), known, n=1)
        return "unknown field; " + (f"did you mean {near[0]}?" if near else f"the fields are {', '.join(known)}")
    if kind == "string_pattern_mismatch":
        pointer = "editable" in loc
        return "must be a JSON pointer such as /amount" if pointer else "must not have control characters"
    return problem_text(kind, message)


def _fields_at(loc: tuple[int | str, ...]) -> list[str]:
    models: dict[str, type[BaseModel]] = {"presentation": Presentation, "run": Run, "notify": Notify}
    model = models.get(str(loc[0]), Ask) if len(loc) > 1 else Ask
    return list(model.model_fields)


def presentation_text(ask: Ask) -> str:
    return ask.presentation.model_dump_json(exclude_none=True)


def run_text(ask: Ask) -> str | None:
    return None if ask.run is None else json.dumps(ask.run.model_dump(), sort_keys=True)


def notify_text(ask: Ask) -> str | None:
    return None if ask.notify is None else json.dumps(ask.notify.model_dump(), sort_keys=True)
