"""What a button carries: a verb, the message's token and the content revision it was drawn from."""

from __future__ import annotations

import re
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

DATA_LIMIT = 64
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_DATA = re.compile(r"([a-z])\.([A-Za-z0-9_-]{16})\.([1-9a-z][0-9a-z]{0,11})")


class Verb(StrEnum):
    """What a press asks for; one letter each, so that the data stays short."""

    ALLOW = "a"
    DECLINE = "d"
    NOTE = "n"
    EDIT = "e"
    UNDO = "u"
    RESTORE = "r"
    # Send again asks once more before it does.
    AGAIN = "s"
    AGAIN_SURE = "y"
    DISMISS = "x"
    # Always allow: first what could be covered, then one of these.
    ALWAYS = "w"
    ALWAYS_ARGUMENTS = "p"
    ALWAYS_RECIPIENT = "q"
    ALWAYS_HOST = "h"
    ALWAYS_OPERATION = "o"
    ALWAYS_TOOL = "t"
    # In a list of rules, where the token is a rule's: take it back, or show the page that begins with it.
    REMOVE_RULE = "k"
    RULES_PAGE = "g"


@dataclass(frozen=True, slots=True)
class ButtonData:
    """The data of one button (design section 4, step 1): forgeable, so it only names what the row then judges.

    `token` is a message's token from `new_token`; `content_revision` counts from 1.
    """

    verb: str
    token: str
    content_revision: int

    def pack(self) -> str:
        """`verb.token.n`, n in base 36, under 64 bytes; raises ValueError for what `unpack` would not take."""
        data = f"{self.verb}.{self.token}.{_base36(self.content_revision)}"
        if len(data.encode()) >= DATA_LIMIT or unpack(data) != self:
            raise ValueError("button data needs a known verb, a token from new_token() and a revision from 1")
        return data


def unpack(text: str) -> ButtonData | None:
    """The data of a pressed button; None for anything that `pack` never writes."""
    found = _DATA.fullmatch(text)
    if found is None or found[1] not in _VERBS:
        return None
    return ButtonData(found[1], found[2], int(found[3], 36))


def new_token() -> str:
    """A token for one message: 96 random bits in base64url, 16 characters."""
    return secrets.token_urlsafe(12)


def rule_token(rule_id: str) -> str:
    """What a button about a standing rule carries: 96 of the bits of its id, as long as a message's token."""
    return urlsafe_b64encode(UUID(rule_id).bytes[4:]).decode()


_VERBS = frozenset(verb.value for verb in Verb)


def _base36(number: int) -> str:
    digits = ""
    while number > 0:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
