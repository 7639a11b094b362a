"""Hides secrets in what is shown, never in what runs, and lets nothing else hide behind a hidden value."""

from __future__ import annotations

import hmac
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from core.visible import is_unseen

_RUN = r"[A-Za-z0-9._~+/=-]"
# More runs of the same word: these characters end no word in a shell, a URL or a list.
_WORD = rf"{_RUN}++(?:[!#%^*]++{_RUN}++)*+"
_QUOTE = r"(?:\\*[\"'])?"
_HINT = re.compile(r"(?i)auth|cookie|token|secret|pass|pwd|key|cred|bearer|sig|://|-u")
# A value follows `=` only without spaces, or with them on both sides: `PASSWORD= rm x` runs rm.
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z0-9_.-]++)"
    rf"(?:{_QUOTE}(?:[ \t]*+=>[ \t]*+|[ \t]*+:[ \t]*+|[ \t]++=[ \t]++|=)|(?P<space>[ \t]++)){_QUOTE}(?={_RUN})"
)
_RUNS = re.compile(rf"{_RUN}+")
_VALUE = re.compile(_WORD)
_NEXT_WORD = re.compile(rf"[ \t]++(?P<value>{_WORD})")
_PARAMETER = re.compile(rf"[ \t,]*+[A-Za-z0-9_-]++={_QUOTE}(?P<value>{_WORD})\\*\"?(?:;[A-Za-z0-9-]++)*+")
_CRUMB = re.compile(rf"[A-Za-z0-9_.~+/-]++={_QUOTE}(?P<value>(?:{_WORD})?)\\*\"?(?:;[ \t]*+)?")
_BEARER = re.compile(rf"(?i)(?<![A-Za-z0-9_-])bearer[ \t]++(?P<value>(?=[^\s]*[0-9]){_RUN}{{12,}}+)")
_USER = re.compile(
    r"://(?:[^\s/?#:@\"'<>\\]*+:(?P<password>[^\s/?#@\"'<>\\]++)@|(?P<token>[A-Za-z0-9._~+=-]{20,}+)@)"
    r"|(?<!\S)(?:-u[ \t]*+|--(?:proxy-)?user[ \t=]++)\\*[\"']?[^\s:\"'\\]++:(?P<user>(?![0-9]+(?!\S))"
    rf"{_WORD})"
)
_SCHEMES = frozenset((
    "basic", "bearer", "token", "digest", "apikey", "api-key", "key", "bot", "oauth", "dpop", "hawk", "negotiate",
    "ntlm", "hmac", "signature", "splunk", "geniekey", "ssws", "sharedkey", "googlelogin", "aws4-hmac-sha256",
))  # fmt: skip
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ENDINGS = (
    "authorization", "cookie", "cookies", "token", "tokens", "secret", "secrets", "password", "passwords", "passwd",
    "pwd", "passphrase", "passcode", "apikey", "apikeys", "privatekey", "secretkey", "accesskey", "signingkey",
    "encryptionkey", "masterkey", "sharedkey", "sessionkey", "accountkey", "authkey", "credential", "credentials",
    "amzsignature", "dbpass", "userpass", "rootpass", "adminpass", "smtppass", "redispass",
)  # fmt: skip
_TRAILING = frozenset((
    "value", "values", "header", "headers", "hash", "plain", "plaintext", "raw", "text", "string", "str", "b64", "base",
    "encoded", "encrypted", "new", "old", "current", "previous", "confirm", "confirmation", "again", "repeat", "env",
    "var",
))  # fmt: skip
_COUNTING = frozenset((
    "max", "min", "num", "number", "total", "count", "limit", "per", "used", "usage", "prompt", "completion", "input",
    "output", "cached",
))  # fmt: skip
_VOCABULARY = frozenset(("stop", "eos", "bos", "pad", "sep", "cls", "mask", "unk", "special", "start", "end"))
# How objects name what they say the value of.
_NAMING, _VALUED = frozenset(("name", "key", "header", "field", "variable", "parameter")), frozenset(("value", "val"))
_NAME_LIMIT = 200
_NOTHING_TO_HIDE = frozenset(("", "true", "false", "null", "none"))
_FAKE = re.compile(r"(?<!\[)\[++(?=hidden)")


def is_secret_name(name: str, value: object = None) -> bool:
    """Whether a key, header, flag or variable of this name holds a secret, in any spelling and casing.

    The last words count: `x-api-key`, `PGPASSWORD`, `clientSecret2` are secret; `token_count`, `password_policy` are
    not, and `tokens` is not where it is a number or counts something (`max_tokens`).
    """
    words = [word.lower() for word in _PART.findall(name[-_NAME_LIMIT:])]
    while words and (words[-1].isdecimal() or (len(words) > 1 and words[-1] in _TRAILING)):
        words.pop()
    joined = "".join(words)
    if joined == "sig":
        return True
    if not joined.endswith(_ENDINGS):
        return False
    if joined.endswith("token") and (not _COUNTING.isdisjoint(words) or words[0] in _VOCABULARY):
        return False
    if joined.endswith("tokens"):
        return _COUNTING.isdisjoint(words) and not _is_number(value)
    return True


class Redaction:
    """Hides secrets; `key` makes the printed hashes useless for guessing (design section 8).

    A hidden value reads `[hidden: 40 characters, #a1b2c3]`: the same secret gives the same hash. A literal
    `[hidden` in the input is shown as `[[hidden`.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def hide(self, secret: str) -> str:
        """The mark that stands for this secret; not translated, so that it is the same wherever it is seen."""
        tag = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256").hex()[:6]
        return f"[hidden: {len(secret)} character{'' if len(secret) == 1 else 's'}, #{tag}]"

    def value(self, value: Any) -> Any:
        """A JSON value with what stands under secret names hidden at any depth, and secrets inside its texts."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return self._list(value)
        if isinstance(value, dict):
            paired = any(
                key.lower() in _NAMING
                and isinstance(name, str)
                and any(is_secret_name(name, each) for each in _valued(value))
                for key, name in value.items()
            )
            return self._object(
                (
                    key,
                    self._whole(member)
                    if is_secret_name(key, member) or (paired and key.lower() in _VALUED)
                    else self.value(member),
                )
                for key, member in value.items()
            )
        return value

    def text(self, text: str) -> str:
        """A text with the values of secret headers, flags, variables and URL parts hidden.

        Names are found whatever unseen characters stand in them; of a value only runs of `[A-Za-z0-9._~+/=-]` are
        hidden, so that no command, host or separator can hide. The rest comes back unchanged, unseen characters too.
        """
        plain, places = _without_unseen(text)
        out: list[str] = []
        done = 0
        for start, end in _merged(_secrets(plain)) if _HINT.search(plain) else ():
            first, last = (start, end) if places is None else (places[start], places[end - 1] + 1)
            for run in _RUNS.finditer(text, first, last):
                out += self._literal(text[done : run.start()], before_mark=True), self.hide(run[0])
                done = run.end()
        out.append(self._literal(text[done:], before_mark=False))
        return "".join(out)

    def _whole(self, value: Any) -> Any:
        """Everything under a secret name: keys stay, every value in it is hidden whole."""
        if isinstance(value, dict):
            return self._object((key, self._whole(member)) for key, member in value.items())
        if isinstance(value, list):
            return [self._whole(member) for member in value]
        if value is None or isinstance(value, bool) or value == "":
            return value
        return self.hide(value if isinstance(value, str) else json.dumps(value))

    def _object(self, members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for key, member in members:
            name = self.text(key)
            # Two secrets may have the same short hash: neither member may hide the other.
            while name in shown:
                name += "'"
            shown[name] = member
        return shown

    def _list(self, items: list[Any]) -> list[Any]:
        pairs = all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in items)
        if pairs:
            return [
                [self.text(name), self._whole(value) if is_secret_name(name, value) else self.value(value)]
                for name, value in items
            ]
        out: list[Any] = []
        flag = False
        for item in items:
            follows = flag and isinstance(item, str) and not item.startswith("-")
            out.append(_RUNS.sub(lambda run: self.hide(run[0]), item) if follows else self.value(item))
            flag = isinstance(item, str) and item.startswith("-") and "=" not in item and is_secret_name(item)
        return out

    @staticmethod
    def _literal(piece: str, *, before_mark: bool) -> str:
        if "[" not in piece:
            return piece
        piece = _FAKE.sub(lambda brackets: 2 * brackets[0], piece)
        if before_mark and piece.endswith("["):
            piece += "[" * (len(piece) - len(piece.rstrip("[")))
        return piece


def _valued(pair: dict[str, Any]) -> list[Any]:
    """What an object that names something, as in `{"name": ..., "value": ...}`, says of it."""
    return [member for key, member in pair.items() if key.lower() in _VALUED]


def _without_unseen(text: str) -> tuple[str, list[int] | None]:
    """The text as a program would match names in it, and where each of its characters stood (None: where it is)."""
    if text.isascii() and not any(character < " " and character not in "\t\n" for character in text):
        return text, None
    places: list[int] = []
    plain: list[str] = []
    for at, character in enumerate(text):
        if unicodedata.category(character) == "Zs":
            character = " "
        elif character not in "\t\n\r" and is_unseen(character):
            continue
        places.append(at)
        plain.append(character)
    return "".join(plain), places


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """The spans of secret values in a text."""
    for found in _BEARER.finditer(text):
        yield found.span("value")
    for found in _USER.finditer(text):
        yield found.span(found.lastgroup or 0)
    at = 0
    while named := _NAMED.search(text, at):
        at = named.end()
        name = named["name"]
        if named["space"] is not None and (not name.startswith("-") or text.startswith("-", at)):
            continue
        value = _VALUE.match(text, at) if is_secret_name(name) else None
        if value is None or value[0].lower() in _NOTHING_TO_HIDE or not is_secret_name(name, value[0]):
            continue
        # Names inside a hidden value are not looked for again: what is searched once is searched once.
        for span in _values(text, "".join(_PART.findall(name[-_NAME_LIMIT:])).lower(), value):
            yield span
            at = max(at, span[1])


def _values(text: str, name: str, value: re.Match[str]) -> Iterator[tuple[int, int]]:
    if name.endswith("authorization"):
        return _credentials(text, value)
    if name.endswith(("cookie", "cookies")):
        return _crumbs(text, value)
    return iter((value.span(),))


def _credentials(text: str, first: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Of `Bearer abc` the abc, of `Digest a="b", c=d` the b and d, of an unknown scheme both words when so long."""
    after = _NEXT_WORD.match(text, first.end())
    if first[0].lower() not in _SCHEMES:
        yield first.span()
        if after is not None and len(after["value"]) >= 16 and re.search("[0-9]", after["value"]):
            yield after.span("value")
        return
    at = first.end()
    parameter = _PARAMETER.match(text, at)
    if parameter is None and after is not None:
        yield after.span("value")
    while parameter is not None:
        yield parameter.span("value")
        at = parameter.end()
        parameter = _PARAMETER.match(text, at) if text.startswith(",", at) else None


def _crumbs(text: str, first: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Of `a=b; c=d` the b and d; a cookie without a name is hidden whole."""
    crumb = _CRUMB.match(text, first.start())
    if crumb is None:
        yield first.span()
    while crumb is not None:
        yield crumb.span("value")
        crumb = _CRUMB.match(text, crumb.end()) if ";" in crumb[0] else None


def _merged(spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    done = 0
    for start, end in sorted(spans):
        if end > max(start, done):
            yield max(start, done), end
            done = end


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"[0-9][0-9_.,]*", value) is not None
    return isinstance(value, int | float)


# Only asked whether it would hide something; the hashes it shows go nowhere.
SECRETS = Redaction(bytes(32))
