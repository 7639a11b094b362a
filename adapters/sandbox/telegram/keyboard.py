"""What may stand under a message: inline buttons and ForceReply, with Telegram's limits."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from adapters.sandbox.telegram.faults import ApiError
from adapters.sandbox.telegram.params import Params
from adapters.sandbox.telegram.records import Button, ForceReply

_STYLES = ("danger", "success", "primary")


def read(params: Params) -> tuple[list[list[Button]], ForceReply | None]:
    """The reply_markup parameter. Raises ApiError as Telegram refuses it."""
    markup: dict[str, Any] | None = params.parsed("reply_markup", dict)
    if markup is None:
        return [], None
    if "inline_keyboard" in markup:
        return _rows(markup["inline_keyboard"]), None
    if markup.get("force_reply") is True:
        placeholder = markup.get("input_field_placeholder", "")
        if not isinstance(placeholder, str) or len(placeholder) > 64:
            raise ApiError(400, "Bad Request: input field placeholder must be at most 64 characters")
        return [], ForceReply(placeholder=placeholder, selective=bool(markup.get("selective", False)))
    raise ApiError(400, "Bad Request: the sandbox shows inline keyboards and ForceReply only")


def _rows(rows: object) -> list[list[Button]]:
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ApiError(400, 'Bad Request: field "inline_keyboard" must be of type Array of Array')
    keyboard = [[_button(button) for button in row] for row in rows if row]
    if any(len(row) > 8 for row in keyboard) or sum(map(len, keyboard)) > 100:
        raise ApiError(400, "Bad Request: reply markup is too long")
    return keyboard


def _button(button: object) -> Button:
    if not isinstance(button, dict):
        raise ApiError(400, "Bad Request: can't parse inline keyboard button: button must be an Object")
    text, data, url, style = (button.get(name) for name in ("text", "callback_data", "url", "style"))
    if not isinstance(text, str) or not text.strip():
        raise ApiError(400, "Bad Request: inline keyboard button text must be non-empty")
    if style is not None and style not in _STYLES:
        raise ApiError(400, "Bad Request: can't parse inline keyboard button: invalid button style specified")
    if isinstance(data, str) and url is None:
        if not 1 <= len(data.encode()) <= 64:
            raise ApiError(400, "Bad Request: BUTTON_DATA_INVALID")
    elif isinstance(url, str) and data is None:
        address = urlsplit(url)
        if address.scheme not in ("http", "https", "tg") or (
            address.scheme != "tg" and "." not in (address.hostname or "")
        ):
            raise ApiError(400, f"Bad Request: inline keyboard button URL '{url}' is invalid: Wrong HTTP URL")
    else:
        raise ApiError(
            400,
            "Bad Request: can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
        )
    return Button(text=text, data=data, url=url, style=style)
