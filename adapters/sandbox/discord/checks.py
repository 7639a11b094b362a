"""What Discord refuses in a form: each check raises ApiError 50035 with the path of the field."""

from __future__ import annotations

import re
from typing import Any

from adapters.sandbox.discord.faults import ApiError, form_error

Json = dict[str, Any]

CONTENT, TITLE, DESCRIPTION, FIELD_NAME, FIELD_VALUE, FOOTER, EMBED_TOTAL = 2000, 256, 4096, 256, 1024, 2048, 6000
EMBEDS, FIELDS, ROWS, IN_ROW, CUSTOM_ID, LABEL, NONCE = 10, 25, 5, 5, 100, 80, 25
MODAL_TITLE, INPUT_LABEL, INPUT_VALUE, INPUTS = 45, 45, 4000, 5
FILES, FILE_BYTES = 10, 10 * 1024 * 1024
PARSED = {"users", "roles", "everyone"}
ROW, BUTTON, INPUT, LABELLED = 1, 2, 4, 18


def text_at(body: Json, name: str, path: str, limit: int, *, least: int = 0) -> str:
    """A text of `least` to `limit` characters; an absent one counts as empty."""
    value = body.get(name)
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise form_error(f"{path}{name}", "STRING_TYPE_CONVERT", "Could not interpret as string.")
    if not least <= len(value) <= limit:
        words = f"Must be between {least} and {limit} in length." if least else f"Must be {limit} or fewer in length."
        raise form_error(f"{path}{name}", "BASE_TYPE_BAD_LENGTH", words)
    return value


def list_at(body: Json, name: str, path: str, limit: int, *, least: int = 0) -> list[Json]:
    value = body.get(name)
    if value is None:
        value = []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise form_error(f"{path}{name}", "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
    if not least <= len(value) <= limit:
        raise form_error(f"{path}{name}", "BASE_TYPE_BAD_LENGTH", f"Must be between {least} and {limit} in length.")
    return value


def message(body: Json, *, files: int, standing: bool = False) -> None:
    """A message that is created, or an edit of a `standing` one. Raises 50006 for an empty one."""
    content = text_at(body, "content", "", CONTENT)
    embeds = list_at(body, "embeds", "", EMBEDS)
    total = sum(_embed(embed, f"embeds.{at}.") for at, embed in enumerate(embeds))
    if total > EMBED_TOTAL:
        raise form_error("embeds", "MAX_EMBED_SIZE_EXCEEDED", f"Embed size exceeds maximum size of {EMBED_TOTAL}")
    components(body)
    allowed_mentions(body)
    if len(str(body.get("nonce") or "")) > NONCE:
        raise form_error("nonce", "BASE_TYPE_BAD_LENGTH", f"Must be {NONCE} or fewer in length.")
    flags = body.get("flags") or 0
    if type(flags) is not int or flags & ~(4 | 64 | 4096):
        raise form_error("flags", "MESSAGE_FLAGS_INVALID", "Invalid message flags")
    if not (content.strip() or embeds or files or standing):
        raise ApiError(400, 50006)


def _embed(embed: Json, path: str) -> int:
    """The characters of an embed that count towards the total."""
    sizes = [
        len(text_at(embed, "title", path, TITLE).strip()),
        len(text_at(embed, "description", path, DESCRIPTION).strip()),
        len(text_at(_part(embed, "footer", path), "text", f"{path}footer.", FOOTER).strip()),
        len(text_at(_part(embed, "author", path), "name", f"{path}author.", TITLE).strip()),
    ]
    for at, field in enumerate(list_at(embed, "fields", path, FIELDS)):
        where = f"{path}fields.{at}."
        for name, limit in (("name", FIELD_NAME), ("value", FIELD_VALUE)):
            if not str(field.get(name) or "").strip():
                raise form_error(f"{where}{name}", "BASE_TYPE_REQUIRED", "This field is required")
            sizes.append(len(text_at(field, name, where, limit).strip()))
    color = embed.get("color")
    if color is not None and (type(color) is not int or not 0 <= color <= 0xFFFFFF):
        raise form_error(f"{path}color", "NUMBER_TYPE_MAX", "int value should be less than or equal to 16777215.")
    if not any(sizes) and not embed.get("image"):
        raise form_error(f"{path}description", "BASE_TYPE_REQUIRED", "This field is required")
    return sum(sizes)


def _part(embed: Json, name: str, path: str) -> Json:
    part = embed.get(name) or {}
    if not isinstance(part, dict):
        raise form_error(f"{path}{name}", "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    return part


def components(body: Json) -> None:
    """Rows of buttons; every custom_id is there once."""
    seen: set[str] = set()
    for at, row in enumerate(list_at(body, "components", "", ROWS)):
        if row.get("type") != ROW:
            raise form_error(
                f"components.{at}.type", "UNION_TYPE_CHOICES", 'Value of field "type" must be one of (1,).'
            )
        for column, button in enumerate(list_at(row, "components", f"components.{at}.", IN_ROW, least=1)):
            path = f"components.{at}.components.{column}."
            if button.get("type") != BUTTON or button.get("style") not in (1, 2, 3, 4):
                raise form_error(f"{path}style", "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3, 4, 5, 6}.")
            if not text_at(button, "label", path, LABEL):
                raise form_error(f"{path}label", "BUTTON_COMPONENT_LABEL_REQUIRED", "A label or emoji is required")
            _own_id(button, path, seen)


def _own_id(component: Json, path: str, seen: set[str]) -> None:
    custom_id = text_at(component, "custom_id", path, CUSTOM_ID, least=1)
    if custom_id in seen:
        raise form_error(f"{path}custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED",
                         "Component custom id cannot be duplicated")  # fmt: skip
    seen.add(custom_id)


def allowed_mentions(body: Json) -> None:
    allowed = body.get("allowed_mentions")
    if allowed is None:
        return
    if not isinstance(allowed, dict):
        raise form_error("allowed_mentions", "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    parse = allowed.get("parse") or []
    if not isinstance(parse, list) or not set(map(str, parse)) <= PARSED:
        raise form_error("allowed_mentions.parse.0", "BASE_TYPE_CHOICES", "Value must be one of the known types.")
    for name in ("users", "roles"):
        if allowed.get(name) and name in parse:
            raise form_error("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
                             f"parse:[\"{name}\"] and {name}: [ids...] are mutually exclusive.")  # fmt: skip


def modal(data: Json) -> None:
    """A form with up to five text inputs, each in a row or under a label of its own."""
    text_at(data, "custom_id", "data.", CUSTOM_ID, least=1)
    text_at(data, "title", "data.", MODAL_TITLE, least=1)
    seen: set[str] = set()
    for at, holder in enumerate(list_at(data, "components", "data.", INPUTS, least=1)):
        path = f"data.components.{at}."
        if holder.get("type") == LABELLED:
            text_at(holder, "label", path, INPUT_LABEL, least=1)
            text_at(holder, "description", path, 100)
            field, where = holder.get("component"), f"{path}component."
        elif holder.get("type") == ROW:
            field, where = (list_at(holder, "components", path, 1, least=1))[0], f"{path}components.0."
            text_at(field, "label", where, INPUT_LABEL, least=1)
        else:
            raise form_error(f"{path}type", "UNION_TYPE_CHOICES", 'Value of field "type" must be one of (1, 18).')
        if not isinstance(field, dict) or field.get("type") != INPUT or field.get("style") not in (1, 2):
            raise form_error(f"{where}type", "UNION_TYPE_CHOICES", "A text input is required")
        _own_id(field, where, seen)
        text_at(field, "placeholder", where, 100)
        text_at(field, "value", where, INPUT_VALUE)
        for name, least in (("min_length", 0), ("max_length", 1)):
            number = field.get(name, least)
            if type(number) is not int or not least <= number <= INPUT_VALUE:
                raise form_error(f"{where}{name}", "NUMBER_TYPE_MAX", f"int value should be up to {INPUT_VALUE}.")


# https://discord.com/developers/docs/reference#locales
LOCALES = frozenset((
    "id", "da", "de", "en-GB", "en-US", "es-ES", "es-419", "fr", "hr", "it", "lt", "hu", "nl", "no", "pl", "pt-BR",
    "ro", "fi", "sv-SE", "vi", "tr", "cs", "el", "bg", "ru", "uk", "hi", "th", "zh-CN", "ja", "zh-TW", "ko",
))  # fmt: skip


def command(body: Json, path: str) -> None:
    """A slash command, and its subcommands and options."""
    name = text_at(body, "name", path, 32, least=1)
    if not re.fullmatch(r"[-_'\w]{1,32}", name) or name != name.lower():
        raise form_error(f"{path}name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    text_at(body, "description", path, 100, least=1)
    localized = body.get("description_localizations") or {}
    for locale in localized:
        if locale not in LOCALES:
            raise form_error(f"{path}description_localizations.{locale}", "ENUM_TYPE_COERCE",
                             f'Value "{locale}" is not a valid enum value.')  # fmt: skip
        text_at(localized, locale, f"{path}description_localizations.", 100, least=1)
    names = set()
    for at, option in enumerate(list_at(body, "options", path, 25)):
        command(option, f"{path}options.{at}.")
        if type(option.get("type")) is not int or not 1 <= option["type"] <= 11:
            raise form_error(f"{path}options.{at}.type", "BASE_TYPE_CHOICES", "Value must be one of the known types.")
        if option["name"] in names:
            raise form_error(f"{path}options", "APPLICATION_COMMAND_OPTIONS_NAME_INVALID", "Names must be unique")
        names.add(option["name"])
