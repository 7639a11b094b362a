"""JSON that means one thing: reading without ambiguity, pointers, and the digest over the canonical form."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import rfc8785

INTEGER_LIMIT = 2**53 - 1
DEPTH_LIMIT = 60
_SPACE = " \t\n\r"
_INDEX = re.compile("0|[1-9][0-9]{0,8}")


class Unfit(Exception):
    """JSON that cannot be taken: `path` is where, `problem` is what to do; never the value."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class _Inexact(str):
    """A number as it was written that a double does not carry exactly."""

    __slots__ = ()


class _Doubled(dict[str, Any]):
    """An object in which a key stands twice."""

    __slots__ = ()


def _number(text: str) -> Any:
    value = float(text)
    try:
        exact = abs(value) != float("inf") and Decimal(text) == Decimal(repr(value))
    except InvalidOperation:
        # Its exponent is beyond what a decimal can have.
        exact = False
    return value if exact else _Inexact(text)


def _integer(text: str) -> Any:
    return _Inexact(text) if len(text) > 17 or abs(int(text)) > INTEGER_LIMIT else int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else _Doubled(value)


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_integer, parse_constant=_Inexact, strict=True
)


def fields_of(document: bytes | str) -> tuple[dict[str, Any], dict[str, str]]:
    """The members of a JSON object, and each member's own text as it stood; raises Unfit.

    Refused with the path: text that is not UTF-8 or not JSON, a key that stands twice, a number that RFC 8785 cannot
    carry exactly (send it as a string), a lone surrogate, nesting deeper than 60.
    """
    if isinstance(document, bytes):
        try:
            document = document.decode("utf-8")
        except UnicodeDecodeError:
            raise Unfit("(the whole ask)", "not valid UTF-8") from None
    try:
        fields, texts = _members(document)
    except (ValueError, IndexError) as error:
        where = f" near character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise Unfit("(the whole ask)", f"not a JSON object{where}") from None
    except RecursionError:
        raise Unfit("(the whole ask)", f"nested deeper than {DEPTH_LIMIT}") from None
    _check(fields, "", 0)
    return fields, texts


def _members(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Walk the outermost object only, so that every member's own text can be cut out."""
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("not an object")
    pairs: list[tuple[str, Any]] = []
    texts: dict[str, str] = {}
    at = _skip(text, at + 1)
    if text[at] == "}":
        at += 1
    else:
        while True:
            if text[at] != '"':
                raise ValueError("a key must be a string")
            key, at = scanstring(text, at + 1, True)
            at = _skip(text, at)
            if text[at] != ":":
                raise ValueError("a colon must follow a key")
            start = _skip(text, at + 1)
            value, at = _decoder.raw_decode(text, start)
            pairs.append((key, value))
            texts[key] = text[start:at]
            at = _skip(text, at)
            if text[at] == "}":
                at += 1
                break
            if text[at] != ",":
                raise ValueError("a comma must stand between members")
            at = _skip(text, at + 1)
    if _skip(text, at) != len(text):
        raise ValueError("text after the object")
    return _object(pairs), texts


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _check(value: Any, path: str, depth: int) -> None:
    where = path or "(the whole ask)"
    if depth > DEPTH_LIMIT:
        raise Unfit(where, f"nested deeper than {DEPTH_LIMIT}")
    if isinstance(value, _Inexact):
        raise Unfit(where, "this number cannot be carried exactly; send it as a string")
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, dict):
        if isinstance(value, _Doubled):
            raise Unfit(where, "a key of this object stands twice")
        for key, member in value.items():
            _check_text(key, where)
            _check(member, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for number, member in enumerate(value):
            _check(member, f"{path}.{number}", depth + 1)


def _check_text(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unfit(where, "contains a lone surrogate, which is no character; send such bytes as base64") from None
    if "\x00" in text:
        raise Unfit(where, "contains the character U+0000, which the database cannot hold; leave it out")


def value_at(document: Any, pointer: str, missing: Any = None) -> Any:
    """The value that an RFC 6901 pointer names, or `missing`."""
    value = document
    for part in parts_of(pointer):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return missing
    return value


def parts_of(pointer: str) -> tuple[str, ...]:
    """The keys and list indices that an RFC 6901 pointer leads through."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def pointer_of(parts: Iterable[str]) -> str:
    """The pointer that leads through these keys and list indices."""
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)


def with_values(text: str, changes: Mapping[str, str]) -> str:
    """The JSON text of an object in which the values at these pointers are these JSON texts; all else as it stood.

    Raises LookupError for a pointer to nothing, and Unfit as `fields_of` does.
    """
    for pointer, value in changes.items():
        start, end = _place_of(text, parts_of(pointer))
        text = text[:start] + value + text[end:]
    fields_of(text)
    return text


def _place_of(text: str, parts: tuple[str, ...]) -> tuple[int, int]:
    """Where in a JSON text the value stands that these keys and list indices lead to."""
    start = _skip(text, 0)
    for part in parts:
        opening = text[start]
        if opening not in "{[":
            raise LookupError(f"{pointer_of(parts)} points at nothing")
        at = _skip(text, start + 1)
        number = 0
        while text[at] not in "}]":
            key = str(number)
            if opening == "{":
                key, at = scanstring(text, at + 1, True)
                at = _skip(text, _skip(text, at) + 1)
            if key == part:
                break
            _, at = _decoder.raw_decode(text, at)
            at = _skip(text, at)
            if text[at] == ",":
                at = _skip(text, at + 1)
            number += 1
        else:
            raise LookupError(f"{pointer_of(parts)} points at nothing")
        start = at
    _, end = _decoder.raw_decode(text, start)
    return start, end


def digest_of(tool: str, operation: str, run: str | None, final_arguments: str) -> str:
    """SHA-256 over the canonical JSON (RFC 8785) of tool, operation, run and final arguments, as `sha256:<hex>`."""
    content = {
        "tool": tool,
        "operation": operation,
        "run": None if run is None else json.loads(run),
        "arguments": json.loads(final_arguments),
    }
    return "sha256:" + hashlib.sha256(rfc8785.dumps(content)).hexdigest()
