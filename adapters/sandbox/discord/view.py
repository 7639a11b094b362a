"""The Discord chats as the page shows them, and what a person does on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adapters.sandbox.discord import markdown
from adapters.sandbox.discord.records import EPHEMERAL, FORUM, LOADING, PRIVATE, Channel, Interaction, Message
from adapters.sandbox.discord.world import Answer, World, inputs_of

Json = dict[str, Any]
_SHOWN = 200
_ANSWER_S = 15
_STYLES = {1: "primary", 3: "success", 4: "danger"}


def _button(button: Json) -> Json:
    return {"text": button.get("label", ""), "style": _STYLES.get(button["style"], ""), "url": button.get("url"),
            "disabled": button.get("disabled", False)}  # fmt: skip


def _options(words: list[str], names: list[str]) -> dict[str, str]:
    """Words as a command's options: `name:value`, or in their order; what is left over goes to the last."""
    given: dict[str, str] = {}
    for word in words:
        name, colon, value = word.partition(":")
        left = [each for each in names if each not in given]
        if colon and name in left:
            given[name] = value
        elif left:
            given[left[0]] = word
        elif names:
            given[names[-1]] += f" {word}"
        else:
            raise ValueError(f"{word}: this command takes nothing more")
    return given


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
            "members": [self._name(each) for each in ids], "messages": messages, "command": self._example(channel),
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
        opened, values = self._world.interactions.get(int(body["opened"])), body["values"]
        if opened is None:
            raise ValueError("This form is not open any more. Close it, and press its button again.")
        if not isinstance(values, dict):
            raise ValueError("values: the text of each input, by its name")
        texts = {str(name): str(text) for name, text in values.items()}
        return await self._answered(self._world.submit(int(body["person"]), opened, texts))

    async def say(self, body: Json) -> Json:
        """Write a message, or send a slash command, its options named or in order: `/placet link code:CODE`."""
        person, text = int(body["person"]), str(body["text"])
        if text.strip().startswith("/"):
            return await self._command(person, int(body["chat"]), text.strip()[1:])
        reply_to = body.get("reply_to")
        message = self._world.say(person, int(body["chat"]), text, reply_to=None if reply_to is None else int(reply_to))
        return {"message": str(message.id)}

    async def start(self, body: Json) -> Json:
        """Open a private chat."""
        person, bot = self._pair(str(body["chat"]))
        channel = self._world.private(person, bot)
        self._world.announce(channel)
        return {"chat": str(channel.id)}

    async def _command(self, person: int, chat: int, text: str) -> Json:
        first, *words = text.split() or [""]
        bots = [bot for bot in self._world.bots_of(self._world.channel(chat)) if bot.commands]
        known = [(bot, each) for bot in bots for each in bot.commands if each["name"] == first]
        if not known:
            raise ValueError(f"There is no command /{first}.")
        bot, command = known[0]
        offered, name = command.get("options", []), first
        if subs := {option["name"]: option for option in offered if option["type"] == 1}:
            if not words or words[0] not in subs:
                raise ValueError(f"/{first} goes on with one of: {', '.join(subs)}")
            name, offered = f"{first} {words[0]}", subs[words.pop(0)].get("options", [])
        options = _options(words, [option["name"] for option in offered])
        for option in offered:
            if option.get("required") and not options.get(option["name"]):
                raise ValueError(f"{option['name']}: This option is required. Specify a value.")
        return {"message": None} | await self._answered(
            self._world.command(person, name, options, channel=chat, bot=bot)
        )

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
                "hint": holder.get("description", ""),
                "value": field.get("value", ""),
                "least": field.get("min_length", 0),
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

    def _example(self, channel: Channel) -> str:
        """A command that a person may use in a channel, and that needs nothing more."""
        for command in (each for bot in self._world.bots_of(channel) for each in bot.commands):
            for sub in command.get("options", []):
                if sub["type"] == 1 and not sub.get("options"):
                    return f"/{command['name']} {sub['name']}"
        return ""

    def _private(self, person: int, bot: int) -> Json:
        of = self._world.bots[bot]
        return {"kind": "private", "people": [str(person)], "bot": of.username, "title": of.name, "topics": [],
                "members": [self._name(person), of.name], "closed": False}  # fmt: skip

    def _name(self, user: int) -> str:
        found = self._world.people.get(user) or self._world.bots.get(user)
        return found.name if found else "Deleted User"

    def _message(self, channel: Channel, message: Message) -> Json:
        parts = markdown.parts(message)
        shown: Json = {
            "id": str(message.id), "at": message.at, "edited": message.edited_at is not None, "thread": None,
            "author": {"id": str(message.author), "name": self._name(message.author),
                       "bot": message.author in self._world.bots},
            "text": "\n".join(part["text"] for part in parts),
            "parts": [{"kind": "small", "text": "Thinking…", "entities": []}] if message.flags & LOADING else parts,
            "buttons": [[_button(button) for button in row["components"]] for row in message.components],
            "documents": [{"file_id": str(file.id), "name": file.name, "size": file.size}
                          for file in message.attachments],
        }  # fmt: skip
        if message.flags & EPHEMERAL:
            shown["only"] = str(message.only_for)
        replied = channel.history.get(message.reference or 0)
        if replied is not None:
            said = "Deleted message" if replied.deleted else markdown.shown(replied)[0]
            shown["reply"] = {"id": str(replied.id), "name": self._name(replied.author), "text": said[:160]}
        return shown
