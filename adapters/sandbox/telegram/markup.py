"""Telegram's text rules: cleaning, the HTML parse mode, the links it finds by itself, and lengths in UTF-16 units."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from adapters.sandbox.telegram.records import Entity

_TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
}
_REFERENCE = re.compile(r"&(?:#(\d{1,8})|#[xX]([0-9a-fA-F]{1,8})|(lt|gt|amp|quot)(?![a-zA-Z]));?")
_TAG_NAME = re.compile(r"[a-zA-Z0-9-]*")
_ATTRIBUTE = re.compile(r"\s*([a-zA-Z0-9-]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([a-zA-Z0-9.-]+)))?")
_ORDER = ("blockquote", "expandable_blockquote", "pre", "code", "text_link", "text_mention", "bold", "italic")
_LIVE = re.compile(
    r"(?P<url>(?:https?|ftp)://[^\s<>\"']+"
    r"|(?<![\w@./:-])(?:[\w-]+\.)+(?:com|net|org|io|dev|app|sh|py|rs|md|me|ai|co|uk|de|fr|ru|info|zip|mov|pl|cc|tv|so|gg)"
    r"(?![\w-])(?::\d{1,5})?(?:[/?#][^\s<>\"']*)?"
    r"|(?<![\w@./:-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-])(?::\d{1,5})?(?:[/?#][^\s<>\"']*)?)"
    r"|(?P<email>(?<![\w.+-])[\w.+-]+@(?:[\w-]+\.)+[a-zA-Z]{2,})"
    r"|(?P<mention>(?<!\w)@[a-zA-Z]\w{2,31}(?!\w))"
    r"|(?P<hashtag>(?<![\w#])#(?=\w*[^\W\d])\w{1,256})"
    r"|(?P<cashtag>(?<![\w$])\$[A-Z]{1,8}(?!\w))"
    r"|(?P<bot_command>(?<![\w/<>])/[a-zA-Z0-9_]{1,64}(?:@[a-zA-Z]\w{2,31})?(?![\w/]))",
    re.ASCII,
)


class BadMarkup(Exception):
    """The text cannot be parsed; the message is what Telegram says after "can't parse entities: "."""


@dataclass(slots=True)
class _Open:
    name: str
    offset: int
    at_byte: int
    attributes: dict[str, str]


def units(text: str) -> int:
    """The length Telegram counts: UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2


def cut(text: str, offset: int, length: int) -> str:
    """The stretch that an entity covers; offset and length in UTF-16 units."""
    return text.encode("utf-16-le")[offset * 2 : (offset + length) * 2].decode("utf-16-le", "replace")


def clean(text: str) -> str:
    """Drop or blank what Telegram does: carriage returns, control characters, U+2028 to U+202E, stray marks."""
    kept = []
    for char in text:
        if char == "\r" or "\u2028" <= char <= "\u202e" or char in "\u0333\u033f\u030a":
            continue
        kept.append(" " if char < " " and char != "\n" else char)
    return "".join(kept)


def parse_html(source: str) -> tuple[str, list[Entity]]:
    """Plain text and entities of HTML parse mode. Raises BadMarkup as Telegram refuses it."""
    text: list[str] = []
    length = 0
    open_tags: list[_Open] = []
    entities: list[Entity] = []
    position = 0
    while position < len(source):
        char = source[position]
        if char == "&" and (match := _REFERENCE.match(source, position)):
            decoded = _referenced(match)
            text.append(decoded)
            length += units(decoded)
            position = match.end()
        elif char != "<":
            text.append(char)
            length += units(char)
            position += 1
        elif source.startswith("</", position):
            position, entity = _close(source, position, open_tags, length)
            if entity is not None:
                entities.append(entity)
        else:
            position, tag = _open(source, position, length)
            open_tags.append(tag)
    if open_tags:
        tag = open_tags[-1]
        raise BadMarkup(f'Can\'t find end tag corresponding to start tag "{tag.name}"')
    return "".join(text), _merge_code(entities)


def _byte(source: str, position: int) -> int:
    return len(source[:position].encode("utf-8", "replace"))


def _referenced(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        return html.unescape(f"&{name};")
    number = int(decimal) if decimal else int(hexadecimal, 16)
    valid = 0 < number < 0x110000 and not 0xD800 <= number < 0xE000
    return chr(number) if valid else match.group()


def _open(source: str, start: int, length: int) -> tuple[int, _Open]:
    at_byte = _byte(source, start)
    name_match = _TAG_NAME.match(source, start + 1)
    name = name_match.group().lower() if name_match else ""
    position = start + 1 + len(name)
    if name not in _TAGS:
        raise BadMarkup(f'Unsupported start tag "{name}" at byte offset {at_byte}')
    attributes: dict[str, str] = {}
    while True:
        while position < len(source) and source[position].isspace():
            position += 1
        if position >= len(source):
            raise BadMarkup(f'Unclosed start tag "{name}" at byte offset {at_byte}')
        if source[position] == ">":
            break
        match = _ATTRIBUTE.match(source, position)
        if match is None:
            raise BadMarkup(f'Unexpected character in the start tag "{name}" at byte offset {at_byte}')
        value = next((group for group in match.groups()[1:] if group is not None), "")
        attributes[match.group(1).lower()] = _REFERENCE.sub(_referenced, value)
        position = match.end()
    if name == "span" and attributes.get("class") != "tg-spoiler":
        raise BadMarkup(f'Tag "span" must have class "tg-spoiler" at byte offset {at_byte}')
    return position + 1, _Open(name, length, at_byte, attributes)


def _close(source: str, start: int, open_tags: list[_Open], length: int) -> tuple[int, Entity | None]:
    at_byte = _byte(source, start)
    name_match = _TAG_NAME.match(source, start + 2)
    name = name_match.group().lower() if name_match else ""
    if not open_tags:
        raise BadMarkup(f"Unexpected end tag at byte offset {at_byte}")
    position = start + 2 + len(name)
    while position < len(source) and source[position].isspace():
        position += 1
    if position >= len(source) or source[position] != ">":
        raise BadMarkup(f"Unclosed end tag at byte offset {at_byte}")
    tag = open_tags.pop()
    if name and name != tag.name:
        raise BadMarkup(f'Unmatched end tag at byte offset {at_byte}, expected "</{tag.name}>", found "</{name}>"')
    return position + 1, _entity(tag, length - tag.offset, {outer.name for outer in open_tags})


def _entity(tag: _Open, length: int, outer: set[str]) -> Entity | None:
    if length == 0:
        return None
    entity = Entity(type=_TAGS[tag.name], offset=tag.offset, length=length)
    if tag.name == "a":
        url = tag.attributes.get("href", "")
        person = re.fullmatch(r"tg://user\?id=(\d{1,15})", url)
        if person:
            return entity.model_copy(update={"type": "text_mention", "user": int(person.group(1))})
        if not re.match(r"(?:https?|ftp|tg|ton)://[^\s]+\Z|[\w-]+(?:\.[\w-]+)+\S*\Z", url):
            return None
        return entity.model_copy(update={"url": url if "://" in url else f"http://{url}"})
    if tag.name == "blockquote" and "expandable" in tag.attributes:
        return entity.model_copy(update={"type": "expandable_blockquote"})
    if tag.name == "code" and "pre" in outer:
        language = tag.attributes.get("class", "").removeprefix("language-")
        return entity.model_copy(update={"language": language})
    return None if tag.name == "tg-emoji" else entity


def _merge_code(entities: list[Entity]) -> list[Entity]:
    """`<pre><code class="language-x">` is one pre entity with a language; nothing else nests in pre or code."""
    inner = [entity for entity in entities if entity.type == "code" and entity.language is not None]
    kept: list[Entity] = []
    for entity in entities:
        if entity in inner:
            continue
        if entity.type == "pre":
            same = [code for code in inner if (code.offset, code.length) == (entity.offset, entity.length)]
            kept.append(entity.model_copy(update={"language": same[0].language or None}) if same else entity)
        else:
            kept.append(entity)
    return settle(kept)


def settle(entities: list[Entity]) -> list[Entity]:
    """Entities in Telegram's order, without those that stand inside code or pre, and without doubles."""
    solid = [(e.offset, e.offset + e.length) for e in entities if e.type in ("code", "pre")]

    def inside(entity: Entity) -> bool:
        end = entity.offset + entity.length
        return entity.type not in ("code", "pre", "blockquote", "expandable_blockquote") and any(
            entity.offset < stop and start < end for start, stop in solid
        )

    def place(entity: Entity) -> tuple[int, int, int]:
        order = _ORDER.index(entity.type) if entity.type in _ORDER else len(_ORDER)
        return entity.offset, -entity.length, order

    settled: list[Entity] = []
    for entity in sorted(entities, key=place):
        if not inside(entity) and entity not in settled:
            settled.append(entity)
    return settled


def trim(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Cut the blank ends as Telegram does, and move the entities along."""
    first = min((entity.offset for entity in entities), default=units(text))
    blank = 0
    while blank < len(text) and text[blank] in " \n" and units(text[: blank + 1]) <= first:
        blank += 1
    shift = units(text[:blank])
    text = text[blank:].rstrip(" \n")
    end = units(text)
    moved = []
    for entity in entities:
        offset = entity.offset - shift
        length = min(entity.length, end - offset)
        if offset >= 0 and length > 0 and cut(text, offset, length).strip():
            moved.append(entity.model_copy(update={"offset": offset, "length": length}))
    return text, moved


def find_live(text: str, entities: list[Entity]) -> list[Entity]:
    """The entities plus what Telegram makes live by itself: links, addresses, mentions, tags and commands."""
    taken = [
        (e.offset, e.offset + e.length)
        for e in entities
        if e.type in ("code", "pre", "text_link", "text_mention", "url")
    ]
    found = list(entities)
    for match in _LIVE.finditer(text):
        kind = str(match.lastgroup)
        raw = match.group().rstrip(".,:;!?)") if kind == "url" else match.group()
        offset = units(text[: match.start()])
        length = units(raw)
        if not any(offset < stop and start < offset + length for start, stop in taken):
            found.append(Entity(type=kind, offset=offset, length=length))
    return settle(found)
