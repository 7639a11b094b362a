"""What is wrong with a field, in plain words: pydantic's own speak of dictionaries and instances."""

from __future__ import annotations

import re

_WORDS = {
    "missing": "required and missing",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "string_pattern_mismatch": "has a form, or characters, that are not taken here",
}
_OPENING = re.compile(r"^(Input should be|(String|List|Dictionary|Value) should have) ")


def problem_text(kind: str, message: str) -> str:
    """One line for a user from an error's type and message; it never holds the value."""
    if kind in _WORDS:
        return _WORDS[kind]
    message = message.partition(" after validation")[0]
    said = _OPENING.sub(lambda found: "must have " if found[2] else "must be ", message)
    return said.removeprefix("Value error, ")
