"""Block Kit as Slack takes it: limits, what a person reads, and what in it is live."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Json = dict[str, Any]

BLOCKS_IN_MESSAGE, BLOCKS_IN_MODAL, ALL_TEXT = 50, 100, 13_200
PREFORMATTED = "rich_text_preformatted"
STRETCHES = frozenset({"rich_text_section", PREFORMATTED, "rich_text_quote"})
_STYLES, _PLAIN_STYLES = frozenset({"bold", "italic", "strike", "code"}), frozenset[str]()
_BUTTON_KEYS = {"type", "text", "action_id", "value", "style", "confirm", "url", "accessibility_label"}
_CONFIRM_KEYS = {"title", "text", "confirm", "deny", "style"}


class Invalid(Exception):
    """Why the blocks are not taken, in Slack's manner."""


def length(text: str) -> int:
    """The length Slack holds a text to: UTF-16 units, after escaping."""
    return len(escaped(text).encode("utf-16-le", "surrogatepass")) // 2


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


# Checking


def check_message(blocks: object) -> list[Json]:
    """The blocks of a message. Raises Invalid."""
    checked = _check(blocks, BLOCKS_IN_MESSAGE, _MESSAGE)
    if sum(length(text) for _, text in texts(checked)) > ALL_TEXT:
        raise Invalid("the blocks hold too much text")
    return checked


def check_view(view: object) -> Json:
    """A modal. Raises Invalid."""
    if not isinstance(view, dict) or view.get("type") != "modal":
        raise Invalid("unsupported type [json-pointer:/view/type]")
    _text(view.get("title"), 24, "/view/title", plain=True)
    for name in ("submit", "close"):
        if name in view:
            _text(view[name], 24, f"/view/{name}", plain=True)
    if length(str(view.get("private_metadata", ""))) > 3000:
        raise Invalid("must be less than 3001 characters [json-pointer:/view/private_metadata]")
    if len(str(view.get("callback_id", ""))) > 255:
        raise Invalid("must be less than 256 characters [json-pointer:/view/callback_id]")
    blocks = _check(view.get("blocks"), BLOCKS_IN_MODAL, _MODAL)
    if any(block["type"] == "input" for block in blocks) and "submit" not in view:
        raise Invalid("a view with inputs needs a submit button [json-pointer:/view/submit]")
    return view


def _check(blocks: object, most: int, kinds: dict[str, Callable[[Json, str], None]]) -> list[Json]:
    if not isinstance(blocks, list) or len(blocks) > most:
        raise Invalid(f"no more than {most} items allowed [json-pointer:/blocks]")
    seen: set[str] = set()
    for number, block in enumerate(blocks):
        at = f"/blocks/{number}"
        if not isinstance(block, dict) or block.get("type") not in kinds:
            raise Invalid(f"unsupported type [json-pointer:{at}/type]")
        block_id = block.get("block_id", f"b{number}")
        if not isinstance(block_id, str) or len(block_id) > 255 or block_id in seen:
            raise Invalid(f"block_id must be unique and under 256 characters [json-pointer:{at}/block_id]")
        seen.add(block_id)
        kinds[block["type"]](block, at)
    return blocks


def _text(text: object, most: int, at: str, *, plain: bool = False) -> None:
    if not isinstance(text, dict) or text.get("type") not in (("plain_text",) if plain else ("plain_text", "mrkdwn")):
        raise Invalid(f"must be a text object [json-pointer:{at}]")
    known = {"type", "text", "emoji"} if text["type"] == "plain_text" else {"type", "text", "verbatim"}
    if set(text) - known:
        raise Invalid(f"invalid additional property [json-pointer:{at}]")
    content = text.get("text")
    if not isinstance(content, str) or not content:
        raise Invalid(f"must be more than 0 characters [json-pointer:{at}/text]")
    if length(content) > most:
        raise Invalid(f"must be less than {most + 1} characters [json-pointer:{at}/text]")


def _texts(texts: Any, at: str) -> None:
    if not isinstance(texts, list) or not 1 <= len(texts) <= 10:
        raise Invalid(f"no more than 10 items allowed [json-pointer:{at}]")
    for number, each in enumerate(texts):
        _text(each, 2000, f"{at}/{number}")


def _header(block: Json, at: str) -> None:
    _text(block.get("text"), 150, f"{at}/text", plain=True)


def _section(block: Json, at: str) -> None:
    fields = block.get("fields")
    if "text" in block:
        _text(block["text"], 3000, f"{at}/text")
    elif not fields:
        raise Invalid(f"a section needs text or fields [json-pointer:{at}]")
    if fields is not None:
        _texts(fields, f"{at}/fields")


def _context(block: Json, at: str) -> None:
    _texts(block.get("elements"), f"{at}/elements")


def _actions(block: Json, at: str) -> None:
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= 25:
        raise Invalid(f"no more than 25 items allowed [json-pointer:{at}/elements]")
    ids = [each.get("action_id") for each in elements if isinstance(each, dict)]
    if len(set(ids)) < len(elements):
        raise Invalid(f"action_id must be unique [json-pointer:{at}/elements]")
    for number, each in enumerate(elements):
        _button(each, f"{at}/elements/{number}")


def _button(button: Json, at: str) -> None:
    if button.get("type") != "button" or set(button) - _BUTTON_KEYS:
        raise Invalid(f"unsupported element [json-pointer:{at}]")
    _text(button.get("text"), 75, f"{at}/text", plain=True)
    if not 1 <= len(str(button.get("action_id") or "")) <= 255:
        raise Invalid(f"must be less than 256 characters [json-pointer:{at}/action_id]")
    if length(str(button.get("value", ""))) > 2000:
        raise Invalid(f"must be less than 2001 characters [json-pointer:{at}/value]")
    if button.get("style", "primary") not in ("primary", "danger"):
        raise Invalid(f"must be one of primary, danger [json-pointer:{at}/style]")
    if "confirm" in button:
        confirm = button["confirm"]
        if not isinstance(confirm, dict) or set(confirm) - _CONFIRM_KEYS:
            raise Invalid(f"must be a confirm dialog [json-pointer:{at}/confirm]")
        for name, most in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
            _text(confirm.get(name), most, f"{at}/confirm/{name}", plain=True)


def _input(block: Json, at: str) -> None:
    _text(block.get("label"), 2000, f"{at}/label", plain=True)
    if "hint" in block:
        _text(block["hint"], 2000, f"{at}/hint", plain=True)
    element = block.get("element")
    if not isinstance(element, dict) or element.get("type") != "plain_text_input":
        raise Invalid(f"unsupported element [json-pointer:{at}/element]")
    if "placeholder" in element:
        _text(element["placeholder"], 150, f"{at}/element/placeholder", plain=True)
    if not 1 <= int(element.get("max_length", 3000)) <= 3000:
        raise Invalid(f"must be less than 3001 [json-pointer:{at}/element/max_length]")
    if length(str(element.get("initial_value", ""))) > 3000:
        raise Invalid(f"must be less than 3001 characters [json-pointer:{at}/element/initial_value]")


def _rich_text(block: Json, at: str) -> None:
    stretches = block.get("elements")
    if not isinstance(stretches, list) or not stretches:
        raise Invalid(f"must be an array of rich text objects [json-pointer:{at}/elements]")
    for number, stretch in enumerate(stretches):
        here = f"{at}/elements/{number}"
        if not isinstance(stretch, dict) or stretch.get("type") not in STRETCHES or set(stretch) - {"type", "elements"}:
            raise Invalid(f"unsupported element [json-pointer:{here}]")
        inside = stretch.get("elements")
        if not isinstance(inside, list) or not inside:
            raise Invalid(f"must be an array of rich text elements [json-pointer:{here}/elements]")
        for place, each in enumerate(inside):
            _styled(each, f"{here}/elements/{place}", _PLAIN_STYLES if stretch["type"] == PREFORMATTED else _STYLES)


def _styled(each: object, at: str, styles: frozenset[str]) -> None:
    if not isinstance(each, dict) or each.get("type") != "text" or set(each) - {"type", "text", "style"}:
        raise Invalid(f"unsupported element [json-pointer:{at}]")
    if not isinstance(each.get("text"), str) or not each["text"]:
        raise Invalid(f"must be more than 0 characters [json-pointer:{at}/text]")
    style = each.get("style", {})
    if not isinstance(style, dict) or set(style) - styles or not all(isinstance(on, bool) for on in style.values()):
        raise Invalid(f"invalid additional property [json-pointer:{at}/style]")


def _divider(block: Json, at: str) -> None:
    return None


_MESSAGE: dict[str, Callable[[Json, str], None]] = {
    "header": _header, "section": _section, "context": _context, "actions": _actions, "divider": _divider,
    "rich_text": _rich_text,
}  # fmt: skip
_MODAL: dict[str, Callable[[Json, str], None]] = {**_MESSAGE, "input": _input}


# Reading


def texts(blocks: Sequence[Json]) -> Iterator[tuple[Json, str]]:
    """Every text object outside buttons with what it says, in order; a stretch of rich text counts as one."""
    for block in blocks:
        if block["type"] == "rich_text":
            yield from (
                (stretch, "".join(each["text"] for each in stretch["elements"])) for stretch in block["elements"]
            )
            continue
        inside = [block.get("text"), *(block.get("fields") or ()), block.get("label")]
        inside += block.get("elements") or () if block["type"] == "context" else ()
        for each in inside:
            if isinstance(each, dict):
                yield each, str(each["text"])


def flat(blocks: Sequence[Json]) -> str:
    """The text of the blocks, a line each, without buttons."""
    return "\n".join(unescaped(text) if each["type"] == "mrkdwn" else text for each, text in texts(blocks))


_TOKEN = re.compile(r"<[!@#][^>]*>|<[a-z]+:[^>]*>")
_FORMAT = re.compile(r"(?<!\w)[*_~`]\S[^\n]*?[*_~`](?!\w)|https?://\S+|\b\S+@\S+\.\w+")
_EMOJI = re.compile(r":[a-z0-9_+-]+:")


def live_mrkdwn(text: str, *, shown: bool = True) -> list[str]:
    """What is live in mrkdwn; where it is not shown, only as a notification, mentions and links alone."""
    found = _TOKEN.findall(text)
    if shown:
        found += _FORMAT.findall(_TOKEN.sub(" ", text)) + _EMOJI.findall(text)
    return [str(each) for each in found]


def live_in(blocks: Sequence[Json]) -> list[str]:
    """What is live in the blocks; in plain_text that is emoji, unless they are switched off, in rich text nothing."""
    found: list[str] = []
    buttons = [each for block in blocks if block["type"] == "actions" for each in block["elements"]]
    asked = [each["confirm"][name] for each in buttons if "confirm" in each for name in ("title", "text")]
    for each in [*(each for each, _ in texts(blocks)), *(button["text"] for button in buttons), *asked]:
        if each["type"] == "mrkdwn":
            found += live_mrkdwn(each["text"])
        elif each["type"] not in STRETCHES and each.get("emoji", True):
            found += _EMOJI.findall(each["text"])
    return found
