"""Errors as RFC 9457 problem documents: a stable code, and a detail that names the field and the fix."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from core.fields import problem_text
from core.people import Refusal
from core.ports import Unavailable

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2

# code -> (status, title). The codes are part of the contract: they are added to, never renamed.
CODES: dict[str, tuple[int, str]] = {
    "bad_request": (400, "The request cannot be read"),
    "no_token": (401, "A bearer token is needed"),
    "bad_token": (401, "This bearer token is not known"),
    "needs_admin": (403, "Only an administrator may do this"),
    "needs_person": (403, "Answering takes a person's token"),
    "needs_agent": (403, "This takes the asking agent's own token"),
    "needs_permission": (403, "The person's roles do not permit this"),
    "other_agent": (403, "This token is another agent's"),
    "not_yours": (403, "This is for the agent's owner and administrators"),
    "own_request": (403, "Somebody else must answer this person's own request"),
    "not_entitled": (403, "This person may not answer this approval"),
    "run_not_listed": (403, "The directory does not list this run for the agent's tool"),
    "not_found": (404, "There is no such approval"),
    "unknown_rule": (404, "There is no such rule"),
    "unknown_person": (404, "There is no such person in the directory"),
    "unknown_agent": (404, "There is no such agent in the directory"),
    "no_such_path": (404, "There is nothing at this path"),
    "method_not_allowed": (405, "This path does not take this method"),
    "idempotency_conflict": (409, "This Idempotency-Key was used for another body"),
    "already_decided": (409, "Already decided"),
    "expired": (409, "Nobody decided in time"),
    "cancelled": (409, "The request was withdrawn"),
    "changed": (409, "The request has changed since it was read"),
    "generation_over": (409, "The agent was reset since it asked this"),
    "paused": (409, "The agent is paused"),
    "not_external": (409, "Only an external call is claimed over HTTP"),
    "not_approved": (409, "Not approved"),
    "already_claimed": (409, "Already claimed"),
    "too_late": (409, "The leave to run has passed"),
    "not_claimed": (409, "This claim token is not the one that was given"),
    "already_recorded": (409, "Another outcome is recorded already"),
    "too_large": (413, "The body is too large"),
    "wrong_content_type": (415, "The body's content type cannot be taken"),
    "invalid": (422, "A field is wrong"),
    "note_too_long": (422, "The note is too long"),
    "note_empty": (422, "The message is empty"),
    "press_allow_instead": (422, "A message that only says yes decides nothing"),
    "bad_edit": (422, "A text cannot be changed to this"),
    "unchanged": (422, "Nothing would change"),
    "bad_rule": (422, "There can be no such rule"),
    "invalid_directory": (422, "The directory file is wrong"),
    "fault": (500, "A fault in Placet; nothing was approved by it"),
    "webhook_refused": (502, "The platform's update was not taken"),
    "unavailable": (503, "A service that this needs cannot be reached now"),
    "not_ready": (503, "Not ready"),
}

# What parameters of a form of their own look like.
FORMS = {
    "wait": "must be a length of time of at most 60s, such as 30s, 1m or 500ms",
    "Idempotency-Key": "must be visible ASCII characters without spaces",
    "Last-Event-ID": "must be the id of an event",
}


class Problem(Exception):
    """An answer that is an error; `members` become extra members of the document (`field`, `line`)."""

    def __init__(
        self, code: str, detail: str, *, status: int | None = None, headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:  # fmt: skip
        super().__init__(code)
        self.code, self.detail, self.members = code, detail, members
        self.status = status or CODES[code][0]
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        document = {
            "type": f"urn:placet:problem:{self.code}", "title": CODES[self.code][1], "status": self.status,
            "detail": self.detail, "code": self.code, **self.members,
        }  # fmt: skip
        return JSONResponse(document, self.status, self.headers, MEDIA_TYPE)


def invalid(field: str, problem: str) -> Problem:
    """A field that cannot be taken; `problem` says what to do and carries no value."""
    return Problem("invalid", f"{field}: {problem}", field=field)


def refused(refusal: Refusal) -> Problem:
    """What the door refused, as a problem."""
    return Problem(refusal.code, refusal.text)


def unavailable() -> Problem:
    return Problem(
        "unavailable", "A service that this needs cannot be reached now. Nothing was decided; try again.",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )  # fmt: skip


def fault() -> Problem:
    return Problem("fault", "Something in Placet broke; the log has the details. Nothing was approved by this.")


async def on_problem(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, Problem)
    return problem.response()


async def on_unavailable(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Unavailable)
    return unavailable().response()


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = str(first["loc"][-1]) if first["loc"] else "(the request)"
    form = FORMS.get(field) if first["type"] == "string_pattern_mismatch" else None
    return invalid(field, form or problem_text(first["type"], first["msg"])).response()


async def on_http(request: Request, error: Exception) -> JSONResponse:
    """What the router says by itself: no such path, no such method, an unreadable request."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return Problem("no_such_path", "Nothing is at this path; /openapi.json lists what there is.").response()
    if error.status_code == 405:
        allowed = request.app.state.methods_at(request.url.path)
        detail = f"This path takes {allowed}."
        return Problem("method_not_allowed", detail, headers={"Allow": allowed}).response()
    return Problem("bad_request", HTTPStatus(error.status_code).phrase, status=error.status_code).response()
