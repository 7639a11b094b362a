"""The Slack channels as the page shows them, and what a person does on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adapters.sandbox.slack.blocks import texts, unescaped
from adapters.sandbox.slack.holdings import ACK_S
from adapters.sandbox.slack.records import Channel, Message, Person, Press, Team, View, direct_channel
from adapters.sandbox.slack.world import World

Json = dict[str, Any]
_SHOWN, _SLOW_S = 200, 10
_PARTS = {"header": "title", "section": "text", "context": "small", "divider": "divider", "rich_text": "text"}
_STRETCHES = {"rich_text_preformatted": "pre", "rich_text_quote": "blockquote"}
_STYLES = {"bold": "bold", "italic": "italic", "strike": "strikethrough", "code": "code"}


def _rows(message: Message) -> list[list[Json]]:
    """The buttons of a message, a row for each of its blocks."""
    return [block["elements"] for block in message.blocks if block["type"] == "actions"]


def _part(block: Json) -> Json:
    if block["type"] == "rich_text":
        return _rich(block)
    said = "\n".join(unescaped(text) if of["type"] == "mrkdwn" else text for of, text in texts([block]))
    return {"kind": _PARTS[block["type"]], "text": said, "entities": []}


def _rich(block: Json) -> Json:
    """Rich text with what marks it, outer before inner, each by its place in UTF-16 units."""
    text, marks = "", []
    for stretch in block["elements"]:
        text += "\n" if text else ""
        start = _units(text)
        inside = []
        for each in stretch["elements"]:
            length = _units(each["text"])
            inside += [{"type": _STYLES[style], "offset": _units(text), "length": length}
                       for style, on in each.get("style", {}).items() if on]  # fmt: skip
            text += each["text"]
        if kind := _STRETCHES.get(stretch["type"]):
            marks.append({"type": kind, "offset": start, "length": _units(text) - start})
        marks += inside
    return {"kind": _PARTS[block["type"]], "text": text, "entities": marks}


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class SlackView:
    """One platform of the page: its people, its channels, and the acts press, submit, say and start."""

    name = "slack"
    title = "Slack"

    def __init__(self, world: World) -> None:
        self._world = world

    def people(self) -> list[Json]:
        return [{"id": person.id, "name": person.name} for person in self._world.people.values()]

    def versions(self) -> Iterator[tuple[str, int]]:
        """The key and version of each channel; a private chat that is not open yet has version -1."""
        for channel in self._world.channels.values():
            yield channel.id, channel.version
        for key in self._unopened():
            yield key, -1

    def chat(self, key: str) -> Json:
        """A channel for the page: who sees it, and its newest 200 messages."""
        channel = self._world.channels.get(key) or direct_channel(*self._unopened()[key])
        people = self._world.people
        return {
            "key": channel.id,
            "kind": "private" if channel.im else "channel",
            "title": channel.name if channel.im else f"#{channel.name}",
            "people": sorted(channel.members & people.keys()),
            "bot": self._world.team_of(channel).bot_name,
            "members": [self._name(channel, member) for member in sorted(channel.members)],
            "started": True,
            "closed": channel.archived or channel.moved_to is not None,
            "topics": [],
            "command": "/placet pending",
            "messages": [self._message(channel, each) for each in channel.messages[-_SHOWN:]],
        }

    def file(self, file_id: str) -> tuple[str, bytes] | None:
        """Name and bytes of a file."""
        file = self._world.files.get(file_id)
        return None if file is None else (file.name, self._world.content(file))

    async def press(self, body: Json) -> Json:
        """Press the button at (row, column) and wait for what comes of it: words, a form, or the acknowledgement."""
        channel = self._world.channels[str(body["chat"])]
        message = channel.message(str(body["message"]))
        button = _rows(message)[int(body["row"])][int(body["column"])]
        label, value = button["text"]["text"], button.get("value", "")
        press = self._world.press(str(body["person"]), channel.id, message.ts, label=label, value=value)
        return await self._answer(press)

    async def submit(self, body: Json) -> Json:
        """Submit the modal `opened`, with the texts of its fields in `values`, by the fields' names.

        What the app objects to comes back as the same form, with an `error` at the field.
        """
        view, values = self._world.views.get(str(body["opened"])), body["values"]
        if view is None:
            raise ValueError("This form is not open any more. Close it, and press its button again.")
        if view.person != str(body["person"]):
            raise ValueError("opened: it is somebody else's")
        if not isinstance(values, dict):
            raise ValueError("values: the text of each input, by its name")
        texts = {str(name): str(text) for name, text in values.items()}
        press = self._world.submit(view, texts)
        answer = await self._answer(press)
        refused = self._world.envelopes[press.envelope].answer or {}
        if refused.get("response_action") == "errors":
            view.state = "open"
            self._world.keep_view(view)
            self._world.announce()
            answer["form"] = self._form(view, texts, refused["errors"])
        return answer

    async def say(self, body: Json) -> Json:
        person, key, text = str(body["person"]), str(body["chat"]), str(body["text"])
        if key not in self._world.channels:
            self._world.direct(*self._unopened()[key])
        name, _, rest = text.partition(" ")
        if name.startswith("/"):
            answer = await self._answer(self._world.command(person, key, rest.strip(), name=name))
            return {"message": None} | answer
        thread = body.get("reply_to")
        replied = self._world.channels[key].message(str(thread)) if thread else None
        root = (replied.thread_ts or replied.ts) if replied else None
        return {"message": self._world.say(person, key, text, thread=root).ts}

    async def start(self, body: Json) -> Json:
        raise ValueError("chat: on Slack nothing needs to be started")

    async def _answer(self, press: Press) -> Json:
        try:
            await self._world.until(lambda: press.view or self._world.acked(press), ACK_S)
            if press.view is None:
                await self._world.until(lambda: press.view or press.words, _SLOW_S if press.ts else 1)
        except TimeoutError:
            return {"answered": self._world.acked(press), "text": "", "alert": False}
        # The words themselves stand in the channel, for this person alone.
        shown: Json = {"answered": True, "text": "", "alert": False}
        if press.view is not None:
            shown["form"] = self._form(self._world.views[press.view])
        return shown

    @staticmethod
    def _form(view: View, texts: Mapping[str, str] | None = None, errors: Mapping[str, str] | None = None) -> Json:
        """A modal as the page's form, with what was written into it already and what is wrong with that."""
        modal, fields = view.view, []
        for block in view.fields:
            element, name = block["element"], block["element"]["action_id"]
            fields.append({
                "name": name, "label": block["label"]["text"], "long": element.get("multiline", False),
                "hint": block.get("hint", {"text": ""})["text"],
                "placeholder": element.get("placeholder", {"text": ""})["text"],
                "value": (texts or {}).get(name, element.get("initial_value", "")),
                "least": element.get("min_length", 0), "most": element.get("max_length", 3000),
                "required": not block.get("optional", False), "error": (errors or {}).get(block["block_id"], ""),
            })  # fmt: skip
        return {
            "opened": view.id, "title": modal["title"]["text"], "fields": fields,
            "words": [block["text"]["text"] for block in modal["blocks"] if block["type"] == "section"],
            "submit": modal.get("submit", {"text": "Submit"})["text"],
            "close": modal.get("close", {"text": "Cancel"})["text"],
        }  # fmt: skip

    def _unopened(self) -> dict[str, tuple[Person, Team]]:
        """Whose private chats with the app nobody has opened yet, by the ids of the chats."""
        world = self._world
        pairs = [(each, world.teams[each.team]) for each in world.people.values() if each.team in world.teams]
        return {key: pair for pair in pairs if (key := direct_channel(*pair).id) not in world.channels}

    def _name(self, channel: Channel, sender: str) -> str:
        team = self._world.team_of(channel)
        return team.bot_name if sender == team.bot else self._world.people[sender].name

    def _message(self, channel: Channel, message: Message) -> Json:
        bot = message.sender == self._world.team_of(channel).bot
        return {
            "id": message.ts,
            "at": float(message.ts),
            "author": {"id": message.sender, "name": self._name(channel, message.sender), "bot": bot},
            "text": message.shown,
            "parts": [_part(block) for block in message.blocks if block["type"] in _PARTS]
            or [{"kind": "text", "text": message.shown, "entities": []}],
            "buttons": [[self._button(button) for button in row] for row in _rows(message)],
            "thread": None,
            "under": message.thread_ts if message.thread_ts != message.ts else None,
            "only": message.only,
            "edited": message.edited,
            "documents": [{"file_id": file.id, "name": file.name, "size": file.size} for file in message.files],
        }

    @staticmethod
    def _button(button: Json) -> Json:
        shown: Json = {"text": button["text"]["text"], "style": button.get("style"), "url": button.get("url")}
        if asked := button.get("confirm"):
            title, text, yes, no = (asked[name]["text"] for name in ("title", "text", "confirm", "deny"))
            shown["confirm"] = {"title": title, "words": [text], "fields": [], "submit": yes, "close": no}
        return shown
