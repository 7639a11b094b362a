"""Discord's markdown as its clients show it: the text without marks, and its formatted and live stretches."""

from __future__ import annotations

import re
from typing import Any

Json = dict[str, Any]

# Tried in this order at each place. What has a group `inner` is formatted and read on inside, unless it is code.
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.DOTALL))
    for name, pattern in (
        ("escape", r"\\(?P<inner>[^0-9A-Za-z\s])"),
        ("pre", r"```(?:[a-zA-Z0-9_+\-.#]+\n)?\n*(?P<inner>[^\n].*?)\n*```"),
        ("code", r"(?P<ticks>`+)(?P<inner>.*?[^`])(?P=ticks)(?!`)"),
        ("everyone", r"@(?:everyone|here)\b"),
        ("mention", r"<@!?\d+>|<@&\d+>|<#\d+>|<id:\w+>"),
        ("bot_command", r"</[^<>:]+:\d+>"),
        ("emoji", r"<a?:\w+:\d+>|:[\w+-]+(?:::skin-tone-\d)?:"),
        ("timestamp", r"<t:-?\d+(?::\w)?>"),
        ("email", r"<[^\s<>@]+@[^\s<>]+\.[^\s<>]+>"),
        ("phone_number", r"<\+[\d ().-]+>"),
        ("text_link", r"\[(?P<inner>[^\]\n]+)\]\(<?(?P<url>https?://[^\s)]+?)>?(?: [\"'][^\n]*[\"'])?\)"),
        ("url", r"<?https?://[^\s<>]+[^\s<>.,:;\"')\]]>?"),
        ("url", r"<?(?:discord|steam)://[^\s<>]+>?"),
        ("bold", r"\*\*(?P<inner>(?:\\.|[^\\])+?)\*\*(?!\*)"),
        ("underline", r"__(?P<inner>(?:\\.|[^\\])+?)__(?!_)"),
        ("italic", r"\*(?=\S)(?P<inner>(?:\\.|[^\\*])+?)(?<=\S)\*(?!\*)"),
        ("italic", r"\b_(?P<inner>(?:\\.|[^\\_])+?)_\b"),
        ("strikethrough", r"~~(?P<inner>(?:\\.|[^\\])+?)~~"),
        ("spoiler", r"\|\|(?P<inner>(?:\\.|[^\\])+?)\|\|"),
    )
)
_AT_LINE_START: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("blockquote", re.compile(r"(?:> [^\n]*(?:\n|$))+")),
    ("blockquote", re.compile(r">>> (?P<inner>.+)", re.DOTALL)),
    ("bold", re.compile(r"#{1,3} +(?P<inner>[^\n]+)")),
    ("italic", re.compile(r"-# +(?P<inner>[^\n]+)")),
    ("list", re.compile(r" *(?:[-*]|\d+\.) +(?=\S)")),
)
_RAW = {"escape", "pre", "code"}
LIVE = {"everyone", "mention", "bot_command", "emoji", "timestamp", "email", "phone_number", "text_link", "url"}
LIVE |= {"list", "spoiler"}


class _Reading:
    """What was read so far; offsets count UTF-16 units, as the page does."""

    def __init__(self) -> None:
        self.text = ""
        self.entities: list[Json] = []

    def inside(self, kind: str, inner: str, *, raw: bool, **more: str) -> None:
        start, at = units(self.text), len(self.entities)
        if raw:
            self.text += inner
        else:
            self.read(inner, line_start=kind == "blockquote")
        if kind != "escape":
            entity = {"type": kind, "offset": start, "length": units(self.text) - start, **more}
            self.entities.insert(at, entity)

    def read(self, text: str, *, line_start: bool = True) -> None:
        at = 0
        while at < len(text):
            fresh = text[at - 1] == "\n" if at else line_start
            found = self._rule(text, at, _AT_LINE_START if fresh else ()) or self._rule(text, at, _RULES)
            if found is None:
                self.text += text[at]
                at += 1
                continue
            kind, match = found
            groups = match.groupdict()
            inner = groups.get("inner")
            if kind == "blockquote" and inner is None:
                inner = "\n".join(line.removeprefix("> ") for line in match[0].split("\n"))
            url = {"url": groups["url"]} if groups.get("url") else {}
            self.inside(kind, match[0] if inner is None else inner, raw=inner is None or kind in _RAW, **url)
            at = match.end()

    @staticmethod
    def _rule(text: str, at: int, rules: tuple[tuple[str, re.Pattern[str]], ...]) -> tuple[str, re.Match[str]] | None:
        for kind, pattern in rules:
            if (match := pattern.match(text, at)) is not None:
                return kind, match
        return None


def read(text: str) -> tuple[str, list[Json]]:
    """The shown text, and its entities `{"type", "offset", "length"}` in UTF-16 units."""
    reading = _Reading()
    reading.read(text)
    return reading.text, reading.entities


def parts(message: Any) -> list[Json]:
    """What a message is made of: its content and its embeds, each with its text and entities; a footer is no markup.

    The kind is `text`, or `embed`, with its `color` (a number) and the text of its `footer`.
    """
    found: list[Json] = []
    if message.content:
        text, entities = read(message.content)
        found.append({"kind": "text", "text": text, "entities": entities})
    for embed in message.embeds:
        reading = _Reading()
        named = [(embed.get("title"), "bold"), (embed.get("description"), "")]
        for field in embed.get("fields", []):
            named += [(field["name"], "bold"), (field["value"], "")]
        for said, kind in named:
            if said:
                reading.text += "\n" if reading.text else ""
                reading.inside(kind, said, raw=False) if kind else reading.read(said)
        found.append({
            "kind": "embed", "text": reading.text, "entities": reading.entities, "color": embed.get("color"),
            "footer": embed.get("footer", {}).get("text", ""),
        })  # fmt: skip
    return found


def shown(message: Any) -> tuple[str, list[Json]]:
    """A whole message as one text with its entities, embeds under its content."""
    text, entities = "", []
    for part in parts(message):
        for said, found in ((part["text"], part["entities"]), (part.get("footer", ""), [])):
            if said:
                text += "\n" if text else ""
                entities += [{**entity, "offset": entity["offset"] + units(text)} for entity in found]
                text += said
    return text, entities


def live(message: Any) -> list[str]:
    """Every stretch of a message that a client makes live: mentions, links, emoji, lists, spoilers."""
    text, entities = shown(message)
    data = text.encode("utf-16-le", "surrogatepass")
    return [
        data[entity["offset"] * 2 : (entity["offset"] + entity["length"]) * 2].decode("utf-16-le", "replace")
        for entity in entities
        if entity["type"] in LIVE
    ]


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
