"""What a closed call means, and the answer that the caller is given."""

from __future__ import annotations

import json
import re

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType

from core.approvals import Outcome
from workflows.payloads import Call, Row

JSON = "json/plain"
ERROR_LIMIT = 500
# With the arguments (256 KB at most) and the rest, the answer stays under the 2 MB that the server takes.
RESULT_LIMIT = 1536 * 1024

# What the SDKs say, whole, when a worker took up an activity that it has not registered: the error's type, and the
# message with the activity's name in the place of {name}. Python, Ruby, .NET and Rust name the workflow or not.
UNREGISTERED = {
    "NotFoundError": (
        r"Activity (?:function )?{name}(?: for workflow \S+)? is not registered on this worker, "
        r"(?:available activities: .*|no available activities\.?)",
        r"Activity function {name} is not registered on this Worker, available activities: \[.*\]",
    ),
    "ActivityNotRegisteredError": (r"unable to find activityType={name}\. Supported types: \[.*\]",),
    "java.lang.IllegalArgumentException": (
        r'Activity Type "{name}" is not registered with a worker\. Known types are: .*',
    ),
}


def arguments_of(text: str) -> RawValue:
    """The one argument of the call: the very text that was approved."""
    return json_value(text.encode())


def json_value(data: bytes) -> RawValue:
    return RawValue(Payload(metadata={"encoding": JSON.encode()}, data=data))


def outcome_of(failure: ActivityError, call: Call) -> tuple[Outcome, str]:
    """What a call that did not complete came to, and why (design section 5, step 4)."""
    cause = failure.cause
    if isinstance(cause, TimeoutError):
        if cause.type is TimeoutType.SCHEDULE_TO_START:
            return Outcome.NOT_SENT, f"no worker took it up within {call.schedule_to_start_s} s"
        return Outcome.UNKNOWN, f"it did not end within {call.start_to_close_s} s"
    if isinstance(cause, CancelledError):
        return Outcome.UNKNOWN, "it was cancelled while it ran"
    if isinstance(cause, ApplicationError):
        refused = cause.type == "NotSent" or unregistered(cause, call.activity)
        return Outcome.NOT_SENT if refused else Outcome.UNKNOWN, error_text(cause.type, cause.message)
    return Outcome.UNKNOWN, error_text(type(cause or failure).__name__, str(cause or failure))


def unregistered(error: ApplicationError, activity: str) -> bool:
    """Whether a worker said that it has no such activity; judged on the whole message, which others cannot forge by
    containing it."""
    name = re.escape(activity)
    patterns = UNREGISTERED.get(error.type or "", ())
    return any(re.fullmatch(pattern.format(name=name), error.message, re.DOTALL) for pattern in patterns)


def error_text(kind: str | None, message: str) -> str:
    text = f"{kind}: {message}" if kind else message
    return text if len(text) <= ERROR_LIMIT else f"{text[: ERROR_LIMIT - 1]}…"


def result_of(value: RawValue | None) -> tuple[str, str | None]:
    """The JSON text of a call's result, and what is wrong where it has none (then the text is `null`)."""
    if value is None:
        return "null", None
    encoding = value.payload.metadata.get("encoding", b"").decode("ascii", "replace")
    if encoding == "binary/null":
        return "null", None
    if not encoding.startswith("json/"):
        return "null", f"it ran, but its result cannot be read as JSON (its encoding is {encoding[:60] or 'unknown'})"
    if len(value.payload.data) > RESULT_LIMIT:
        return "null", f"it ran, but its result is larger than {RESULT_LIMIT // 1024} KB and is not handed on"
    try:
        text = value.payload.data.decode()
        json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return "null", "it ran, but its result cannot be read as JSON"
    return text, None


def no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def answer_of(row: Row, arguments: str | None, result: str = "null") -> RawValue:
    """The caller's answer; `arguments` and `result` go in as the texts they are, digit for digit."""
    assert row.answer is not None, "a row that is not final has no answer"
    fields = {name: json.dumps(value) for name, value in row.answer.model_dump(mode="json").items()}
    fields |= {"result": result, "arguments": arguments or "null"}
    names = ("approval_id", "status", "outcome", "result", "error", "arguments", "decided_by", "decided_at", "note",
             "by_message", "text")  # fmt: skip
    return json_value(("{" + ", ".join(f'"{name}": {fields[name]}' for name in names) + "}").encode())
