"""The Discord chats as the page shows them, and what a person does on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from adapters.sandbox.discord import markdown
from adapters.sandbox.discord.records import EPHEMERAL, FORUM, LOADING, PRIVATE, Channel, Interaction, Message
from adapters.sandbox.discord.world import Answer, World, inputs_of

Json = dict[str, Any]
_SHOWN = 200
_ANSWER_S = 15
_STYLES = {1: "primary", 3: "success", 4: "danger"}


class DiscordView:
    """One platform of the page: its people, its channels, and the acts press, say, start and submit.

    Ids are texts here: a snowflake is more than a script's numbers hold. Threads are chats of their own.
    """

    name = "discord"
    title = "Discord"

    def __init__(self, world: World) -> None:
        self._world = world

    def people(self) -> list[Json]:
        return [{"id": str(person.id), "name": person.name} for person in self._world.people.values()]

    def versions(self) -> Iterator[tuple[str, int]]:
        """The key and version of each channel; a private chat that nobody has opened yet has version -1."""
        opened = set()
        for channel in self._world.channels.values():
            opened.add((channel.recipient, channel.bot))
            if channel.type != FORUM:
                yield str(channel.id), channel.version
        for person in self._world.people:
            for bot in self._world.bots:
                if (person, bot) not in opened:
                    yield f"{person}:{bot}", -1

    def chat(self, key: str) -> Json:
        """A chat for the page: who sees it, and its newest 200 messages."""
        if ":" in key:
            person, bot = self._pair(key)
            shown = self._private(person, bot) | {"key": key, "started": False, "messages": []}
            return shown
        channel = self._world.channels[int(key)]
        messages = [self._message(channel, message) for message in channel.messages[-_SHOWN:]]
        if channel.type == PRIVATE:
            return self._private(channel.recipient or 0, channel.bot or 0) | {
                "key": key, "started": True, "messages": messages, "replaces": f"{channel.recipient}:{channel.bot}",
            }  # fmt: skip
        guild = self._world.guild_of(channel)
        ids = guild.members if guild is not None else {}
        root = self._world.root_of(channel)
        return {
            "key": key, "kind": "group", "started": True, "closed": channel.deleted or channel.locked, "topics": [],
            "title": f"#{channel.name}" if root is channel else f"#{root.name} › {channel.name}",
            "people": [str(each) for each in ids if each in self._world.people], "bot": "",
            "members": [self._name(each) for each in ids], "messages": messages,
        }  # fmt: skip

    def file(self, file_id: str) -> tuple[str, bytes] | None:
        """Name and bytes of a file."""
        attachment = self._world.file(file_id)
        return None if attachment is None else (attachment.name, self._world.content(attachment))

    async def press(self, body: Json) -> Json:
        """Press the button at (row, column) and wait for the answer: a word to oneself, or a modal."""
        place = int(body["row"]), int(body["column"])
        pressed = self._world.press(int(body["person"]), int(body["chat"]), int(body["message"]), button=place)
        return await self._answered(pressed)

    async def submit(self, body: Json) -> Json:
        """Send the modal that the interaction `opened` opened, with `values` by the inputs' names."""
        opened, values = self._world.interactions[int(body["opened"])], body["values"]
        if not isinstance(values, dict):
            raise ValueError("values: the text of each input, by its name")
        texts = {str(name): str(text) for name, text in values.items()}
        return await self._answered(self._world.submit(int(body["person"]), opened, texts))

    async def say(self, body: Json) -> Json:
        """Write a message, or send a slash command: `/placet link code:CODE` or `/placet link CODE`."""
        person, text = int(body["person"]), str(body["text"])
        if command := re.fullmatch(r"/(\w+ \w+)(?: +(?:\w+:)?(\S+))?", text.strip()):
            chat = int(body["chat"])
            name, value = command.groups()
            channel = self._world.channel(chat)
            bots = [bot for bot in self._world.bots_of(channel) if bot.commands]
            options = {self._option(name, bots[0].commands): value} if value and bots else {}
            asked = self._world.command(person, name, options, channel=chat, bot=bots[0] if bots else None)
            return await self._answered(asked)
        reply_to = body.get("reply_to")
        message = self._world.say(person, int(body["chat"]), text, reply_to=None if reply_to is None else int(reply_to))
        return {"message": str(message.id)}

    async def start(self, body: Json) -> Json:
        """Open a private chat."""
        person, bot = self._pair(str(body["chat"]))
        channel = self._world.private(person, bot)
        self._world.announce(channel)
        return {"chat": str(channel.id)}

    @staticmethod
    def _option(name: str, commands: list[Json]) -> str:
        first, _, sub = name.partition(" ")
        offered = [option for command in commands if command["name"] == first for option in command["options"]]
        options: list[Json] = next((option.get("options", []) for option in offered if option["name"] == sub), [])
        return str(options[0]["name"]) if options else "value"

    async def _answered(self, interaction: Interaction) -> Json:
        try:
            answer = await self._world.answer(interaction, _ANSWER_S)
        except TimeoutError:
            return {"answered": False}
        # A word that only the presser sees stands in the chat; a toast would say it twice.
        return {"answered": True, "text": "", "alert": False} | self._form(interaction, answer)

    @staticmethod
    def _form(interaction: Interaction, answer: Answer) -> Json:
        if answer.modal is None:
            return {}
        holders = answer.modal["components"]
        fields = [
            {
                "name": field["custom_id"],
                "label": field.get("label") or holder.get("label", ""),
                "long": field["style"] == 2,
                "placeholder": field.get("placeholder", ""),
                "value": field.get("value", ""),
                "most": field.get("max_length", 4000),
                "required": field.get("required", True),
            }
            for holder, field in zip(holders, inputs_of(answer.modal), strict=True)
        ]
        return {
            "form": {
                "opened": str(interaction.id), "title": answer.modal["title"], "words": [], "fields": fields,
                "submit": "Submit", "close": "Cancel",
            }
        }  # fmt: skip

    def _pair(self, key: str) -> tuple[int, int]:
        person, _, bot = key.partition(":")
        if not (person.isdecimal() and bot.isdecimal()) or int(person) not in self._world.people:
            raise ValueError(f"chat: there is no chat {key}")
        return self._world.people[int(person)].id, self._world.bots[int(bot)].id

    def _private(self, person: int, bot: int) -> Json:
        of = self._world.bots[bot]
        return {"kind": "private", "people": [str(person)], "bot": of.username, "title": of.name, "topics": [],
                "members": [self._name(person), of.name], "closed": False}  # fmt: skip

    def _name(self, user: int) -> str:
        found = self._world.people.get(user) or self._world.bots.get(user)
        return found.name if found else "Deleted User"

    def _message(self, channel: Channel, message: Message) -> Json:
        text, entities = markdown.shown(message)
        shown: Json = {
            "id": str(message.id), "at": message.at, "edited": message.edited_at is not None, "thread": None,
            "author": {"id": str(message.author), "name": self._name(message.author),
                       "bot": message.author in self._world.bots},
            "text": "Thinking…" if message.flags & LOADING else text, "entities": entities,
            "buttons": [
                [{"text": button["label"], "style": _STYLES.get(button["style"], "")} for button in row["components"]]
                for row in message.components
            ],
        }  # fmt: skip
        if message.flags & EPHEMERAL:
            shown["only"] = str(message.only_for)
        if message.attachments:
            first = message.attachments[0]
            shown["document"] = {"file_id": str(first.id), "name": first.name, "size": first.size}
        replied = channel.history.get(message.reference or 0)
        if replied is not None:
            said = "Deleted message" if replied.deleted else markdown.shown(replied)[0]
            shown["reply"] = {"id": str(replied.id), "name": self._name(replied.author), "text": said[:160]}
        return shown
