"""Where a URL goes, as one text for one place: two spellings of a host are equal, and one that is doubtful is none."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

# Anything unseen, blank or backwards in a URL is read differently by different clients.
_URL = re.compile(r"(https?)://([^/?#]+)(?:[/?#].*)?", re.IGNORECASE)
_DOUBTFUL = re.compile(r"[\x00-\x20\x7f\\\ufffd]")
_PORT = re.compile(r"(?P<host>.+?)(?::(?P<port>[1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORT = {"http": 80, "https": 443}
HOST_LIMIT = 253


def origin_of(url: Any) -> str | None:
    """`https://api.example.com`, with a port that is not the scheme's own; None for what is no plain http(s) URL.

    The host is in lower case, without the dot of the root, in punycode; an IPv4 address in four decimal numbers, an
    IPv6 address in its short form. None: credentials in front of the host, a host in escapes, numbers that some clients
    read as an address, letters that standards of international names translate differently.
    """
    if not isinstance(url, str) or _DOUBTFUL.search(url) or (found := _URL.fullmatch(url)) is None:
        return None
    scheme, authority = found[1].lower(), found[2]
    split = _PORT.fullmatch(authority)
    if split is None or "@" in authority:
        return None
    host = _bracketed(split["host"]) if authority.startswith("[") else _host(split["host"])
    port = int(split["port"] or _DEFAULT_PORT[scheme])
    if host is None or port > 65535:
        return None
    return f"{scheme}://{host}" + (f":{port}" if port != _DEFAULT_PORT[scheme] else "")


def _bracketed(text: str) -> str | None:
    if not text.endswith("]") or "%" in text:
        return None
    try:
        return f"[{ipaddress.IPv6Address(text[1:-1]).compressed}]"
    except ValueError:
        return None


def _host(text: str) -> str | None:
    name = _punycode(text)
    if name is None:
        return None
    labels = name.split(".")
    if labels[-1] == "":
        # A name of one word is looked up in the local domain, with the dot in the root: that one keeps it.
        labels.pop()
        name = name[:-1] if len(labels) > 1 else name
    if len(name) > HOST_LIMIT or not all(map(_LABEL.fullmatch, labels)):
        return None
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            return None
    return name


def _punycode(text: str) -> str | None:
    lower = text.lower()
    if lower.isascii():
        return lower
    try:
        name = lower.encode("idna")
        # What does not come back as it was has been translated on the way; standards differ about that.
        return name.decode("ascii") if name.decode("idna") == lower else None
    except UnicodeError:
        return None
