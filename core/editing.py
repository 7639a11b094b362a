"""Changes the editable texts of a call: the form for them, and the arguments that come of what was filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.approvals import Approval, Field, Form
from core.asks import ARGUMENTS_LIMIT
from core.buttons import Verb
from core.canonical import Unfit, digest_of, parts_of, value_at, with_values
from core.redaction import SECRETS
from core.visible import visible
from core.wording import bounded, fill, say

LABEL_LIMIT = 45
PROMPT_VALUE_LIMIT = 300
# How long a value may get, whatever the platform's form would take.
VALUE_LIMIT = 20_000
_MISSING = object()
_NUMBERED = re.compile(r"^[ \t]*(\d{1,2})[ \t]*[:.)][ \t]?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edited:
    """The new content: the arguments as text, their digest, and where they were changed."""

    arguments: str
    digest: str
    pointers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """What was filled in is what was there."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A value that cannot be taken: `key` are the words that say why, `label` is the field it was for."""

    key: str
    label: str


def editable(approval: Approval) -> list[tuple[str, str, Any]]:
    """Pointer, label and present value of every text that may be changed.

    A value that a card would hide or could not show as it is, is left out: nobody could see what they change.
    """
    presentation = json.loads(approval.presentation)
    if not presentation.get("editable"):
        return []
    arguments = json.loads(approval.final_arguments)
    shown = SECRETS.value(arguments)
    labels = {line[1]: line[0] for line in presentation.get("lines") or [] if line[1].startswith("/")}
    found: list[tuple[str, str, Any]] = []
    for pointer in presentation["editable"]:
        value = value_at(arguments, pointer, _MISSING)
        if not isinstance(value, str | int | float | bool) or value_at(shown, pointer, _MISSING) != value:
            continue
        if _text(value) != visible(_text(value)):
            continue
        # A label, or a key, may hold a secret as well.
        names = (labels.get(pointer), parts_of(pointer)[-1], str(len(found) + 1))
        label = next(name for name in names if name and SECRETS.text(name) == name)
        found.append((pointer, label, value))
    return found


def lengths(approval: Approval) -> tuple[int, ...]:
    """How long the texts are that a form would be filled with."""
    return tuple(len(_text(value)) for _, _, value in editable(approval))


def form_of(approval: Approval, token: str, locale: str = "en") -> Form | None:
    """The form for a row's editable texts, filled with what is there; None where nothing may be changed."""
    found = editable(approval)
    if not found:
        return None
    fields = tuple(
        Field(
            id=str(number),
            label=bounded(label, LABEL_LIMIT),
            value=_text(value),
            multiline=isinstance(value, str) and ("\n" in value or len(value) > 60),
            limit=VALUE_LIMIT,
        )
        for number, (_, label, value) in enumerate(found, 1)
    )
    if len(fields) == 1:
        prompt = say("edit_prompt_one", locale=locale, field=fields[0].label)
    else:
        # The labels stand apart, so that a line that is copied and changed is what is typed.
        labels = [f"{field.id} = {field.label}" for field in fields]
        lines = [f"{field.id}: {bounded(field.value, PROMPT_VALUE_LIMIT)}" for field in fields]
        prompt = "\n".join([fill("edit_prompt_many", locale=locale), *labels, "", *lines])
    title = fill("edit_title", locale=locale)
    return Form(title, fields, Verb.EDIT, token, approval.content_revision, prompt)


def values_of(text: str, form: Form) -> dict[str, str] | None:
    """What a written reply to the form's prompt fills in, by field id: the whole text where there is one field, else
    `1: new text` for each that changes; None where it cannot be read. A label before the new text is no part of it."""
    if len(form.fields) == 1:
        return {form.fields[0].id: text}
    marks = list(_NUMBERED.finditer(text))
    if not marks or text[: marks[0].start()].strip():
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    values = {mark[1]: text[mark.end() : end].strip("\n") for mark, end in zip(marks, ends, strict=True)}
    known = {field.id: field for field in form.fields}
    if not set(values) <= set(known) or len(values) != len(marks):
        return None
    return {number: _without_label(value, known[number]) for number, value in values.items()}


def _without_label(text: str, field: Field) -> str:
    """The text without its field's label typed before it, unless the text that stands there begins so itself."""
    label = re.compile(rf"{re.escape(field.label)}[ \t]*[=:][ \t]*(?=\S)", re.IGNORECASE)
    typed = None if label.match(field.value) else label.match(text)
    return text[typed.end() :] if typed else text


def edited(approval: Approval, values: Mapping[str, str]) -> Edited | Unchanged | Wrong:
    """The content that comes of a form's values, by field id."""
    found = {str(number): each for number, each in enumerate(editable(approval), 1)}
    texts: dict[str, str] = {}
    for field, text in values.items():
        if field not in found:
            return Wrong("edit_unread", field)
        pointer, label, before = found[field]
        # Forms and chats trim what is typed: that alone is no change.
        if text.strip() == _text(before).strip():
            continue
        if len(text) > VALUE_LIMIT:
            return Wrong("edit_too_long", label)
        if isinstance(before, str):
            texts[pointer] = json.dumps(text, ensure_ascii=False)
        elif not _is_like(text.strip(), before):
            return Wrong("edit_not_a_flag" if isinstance(before, bool) else "edit_not_a_number", label)
        else:
            texts[pointer] = text.strip()
    return _applied(approval, texts, {pointer: label for pointer, label, _ in found.values()})


def edited_at(approval: Approval, changes: Mapping[str, Any]) -> Edited | Unchanged | Wrong:
    """The content that comes of values given by pointer, each of the kind that stands there."""
    found = {pointer: (label, before) for pointer, label, before in editable(approval)}
    texts: dict[str, str] = {}
    for pointer, value in changes.items():
        if pointer not in found:
            return Wrong("edit_not_editable", pointer)
        _, before = found[pointer]
        if _kind(value) is not _kind(before):
            return Wrong("edit_other_kind", pointer)
        if value != before:
            texts[pointer] = json.dumps(value, ensure_ascii=False)
    return _applied(approval, texts, {pointer: pointer for pointer in found})


def _applied(approval: Approval, texts: Mapping[str, str], labels: Mapping[str, str]) -> Edited | Unchanged | Wrong:
    if not texts:
        return Unchanged()
    try:
        arguments = with_values(approval.final_arguments, texts)
    except Unfit as unfit:
        where = next((labels[pointer] for pointer in texts if unfit.path == ".".join(parts_of(pointer))), unfit.path)
        return Wrong("edit_unfit", where)
    if len(arguments.encode()) > ARGUMENTS_LIMIT:
        return Wrong("edit_too_long", labels[next(iter(texts))])
    digest = digest_of(approval.tool, approval.operation, approval.run, arguments)
    return Edited(arguments, digest, tuple(texts))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _kind(value: Any) -> type:
    """Text, number or flag."""
    return bool if isinstance(value, bool) else float if isinstance(value, int | float) else type(value)


def _is_like(text: str, before: Any) -> bool:
    try:
        return _kind(json.loads(text, parse_constant=float)) is _kind(before)
    except (ValueError, RecursionError):
        return False
