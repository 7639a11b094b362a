"""The parameters of a Bot API call, out of a query string, a form, JSON or multipart, as Telegram takes them all."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any
from urllib.parse import parse_qsl

from adapters.sandbox.telegram.faults import ApiError


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a multipart body."""

    name: str
    mime: str
    content: bytes


@dataclass(slots=True)
class Params:
    """Values by name: text, or what JSON gave; and the uploaded files."""

    values: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """The value as text, "" when it is missing."""
        value = self.values.get(name)
        return "" if value is None else value if isinstance(value, str) else json.dumps(value)

    def number(self, name: str, default: int = 0) -> int:
        value = self.text(name)
        if not value:
            return default
        if not re.fullmatch(r"-?\d{1,18}", value):
            raise ApiError(400, f"Bad Request: parameter {name} must be an integer")
        return int(value)

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "yes", "1")

    def parsed(self, name: str, expected: type[dict[str, Any]] | type[list[Any]]) -> Any:
        """A JSON-serialised object or list; None when it is missing."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise ApiError(400, f"Bad Request: can't parse {name} JSON object") from None
        if not isinstance(value, expected):
            raise ApiError(400, f"Bad Request: {'object' if expected is dict else 'array'} expected as {name}")
        return value

    def recorded(self) -> dict[str, Any]:
        """For the record of calls: JSON texts decoded, files by their names."""
        shown: dict[str, Any] = {name: _decoded(value) for name, value in self.values.items()}
        return shown | {name: upload.name for name, upload in self.files.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def read(query: str, content_type: str, body: bytes) -> Params:
    """Raises ApiError for a body that cannot be read."""
    params = Params(dict(parse_qsl(query, keep_blank_values=True)))
    header = EmailMessage()
    header["content-type"] = content_type or "application/x-www-form-urlencoded"
    kind = header.get_content_type()
    if not body:
        return params
    if kind == "application/json":
        try:
            given = json.loads(body)
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise ApiError(400, "Bad Request: can't parse JSON object")
        params.values |= given
    elif kind == "multipart/form-data":
        _read_parts(params, str(header.get_param("boundary", "")), body)
    else:
        params.values |= dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    return params


def _read_parts(params: Params, boundary: str, body: bytes) -> None:
    if not boundary:
        raise ApiError(400, "Bad Request: boundary not found")
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.encode())[1:]:
        if part.startswith(b"--"):
            return
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        header = EmailMessage()
        for line in head.decode("utf-8", "replace").split("\r\n"):
            name, _, value = line.partition(":")
            header[name.strip()] = value.strip()
        field_name = header.get_param("name", header="content-disposition")
        file_name = header.get_filename()
        if file_name is None:
            params.values[str(field_name)] = content.decode("utf-8", "replace")
        else:
            mime = header.get_content_type() if "content-type" in header else "application/octet-stream"
            params.files[str(field_name)] = Upload(file_name, mime, content)
