"""UUIDv7 identifiers (RFC 9562): sortable by time, random enough not to be guessed."""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime


def new_id(now: datetime) -> str:
    """A UUIDv7 of this instant, as text."""
    milliseconds = int(now.timestamp() * 1000) & ((1 << 48) - 1)
    value = milliseconds << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))
