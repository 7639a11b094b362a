"""Text in which nothing is hidden: characters that cannot be seen are shown as escapes, without ambiguity."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

MARKS_LIMIT = 4
_PLAIN = re.compile(r"[\x20-\x5b\x5d-\x7e\n\t]*")
# Blank or ignorable, though their category says letter, mark or symbol.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINER, _EMOJI_STYLE, _KEYCAP = "\u200d", "\ufe0f", "\u20e3"
_SKIN = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")


def visible(text: str, *, lines: bool = True) -> str:
    r"""The text with every unseen character as `\uXXXX` or `\UXXXXXXXX`; different texts stay different.

    Escaped: controls, bidi and zero-width characters, tags, variation selectors, odd spaces, line and paragraph
    separators, unassigned and private characters, blank letters, and combining marks without a base or beyond four on
    one. Kept: tabs, the ideographic space, and the joiners inside an emoji; newlines too, unless `lines` is False.
    Backslashes are doubled before an escape and before a literal `u` or `U`, so that no text can imitate an escape.
    """
    if _PLAIN.fullmatch(text) and (lines or "\n" not in text):
        return text
    out: list[str] = []
    slashes = 0
    for character, kept in _walk(text, lines):
        if character == "\\":
            slashes += 1
            continue
        if slashes:
            out.append("\\" * (slashes if kept and character not in "uU" else 2 * slashes))
            slashes = 0
        out.append(character if kept else _escape(character))
    out.append("\\" * slashes)
    return "".join(out)


def visible_json(document: str) -> str:
    r"""The same for JSON text: unseen characters as JSON's own `\uXXXX`, so that it stays JSON of the same value."""
    if _PLAIN.fullmatch(document):
        return document
    return "".join(
        character if kept else "".join(f"\\u{unit:04x}" for unit in _utf16(character))
        for character, kept in _walk(document, True)
    )


def units(text: str) -> int:
    """The length in UTF-16 units, as Telegram counts it; never less than the characters."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


@lru_cache(maxsize=4096)
def is_unseen(character: str) -> bool:
    """Whether a character, on its own, cannot be told from nothing or from a plain space."""
    category = unicodedata.category(character)
    if category == "Zs":
        return character not in " \u3000"
    return category in _UNSEEN or character in _BLANK or _selects(character)


def _walk(text: str, lines: bool) -> Iterator[tuple[str, bool]]:
    """Every character, and whether it is shown as itself."""
    room = 0
    for at, character in enumerate(text):
        if character in "\n\t":
            room = 0
            yield character, lines or character == "\t"
        elif is_unseen(character):
            kept = _in_emoji(text, at)
            room = room if kept else 0
            yield character, kept
        elif _is_mark(character):
            yield character, room > 0
            room = max(0, room - 1)
        else:
            room = 0 if character in " \u3000" else MARKS_LIMIT
            yield character, True


def _in_emoji(text: str, at: int) -> bool:
    character, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if character == _JOINER:
        return (before == _EMOJI_STYLE or before in _SKIN or _is_picture(before)) and _is_picture(after)
    if character == _EMOJI_STYLE:
        return _is_picture(before) or (before != "" and before in "0123456789#*" and after == _KEYCAP)
    return False


@lru_cache(maxsize=1024)
def _is_picture(character: str) -> bool:
    if character == "" or character in _BLANK:
        return False
    return character in "\u00a9\u00ae\u203c\u2049" or (
        character >= "\u2100" and unicodedata.category(character) in ("So", "Sm")
    )


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me")


def _selects(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _escape(character: str) -> str:
    point = ord(character)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _utf16(character: str) -> tuple[int, ...]:
    point = ord(character)
    if point <= 0xFFFF:
        return (point,)
    point -= 0x10000
    return 0xD800 + (point >> 10), 0xDC00 + (point & 0x3FF)
