"""What people do and see on the sandbox's Slack; `sandbox.slack` is one of these.

    team = world.add_team("T01", "Acme", token="xoxb-...", app_token="xapp-...")
    dana = world.add_person("U01", "Dana Reyes")
    world.add_channel("C01", "billing", [dana])
    press = world.press(dana, "C01", card.ts, label="Allow")   # or value="..." that no button carries
    await world.until(lambda: press.words)                     # what the presser alone was told
    view = await world.opened(press)                           # a modal
    world.submit(view, "Wrong customer")
    world.reply(dana, "C01", card.ts, "no"); world.command(dana, "C01", "pending"); world.direct_message(dana, "hello")

Wrong use (a stranger's press, a button that is not there) raises ValueError.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from adapters.sandbox.change import Change
from adapters.sandbox.shelf import Shelf
from adapters.sandbox.slack import blocks, wire
from adapters.sandbox.slack.faults import ApiError, Pace
from adapters.sandbox.slack.holdings import Holdings
from adapters.sandbox.slack.records import Channel, Envelope, Message, Person, Press, Team, Usergroup, View

Json = dict[str, Any]


class World(Holdings):
    """The people's side of the sandbox: acts, views, and scripted refusals."""

    def __init__(self, shelf: Shelf, change: Change, *, rate_scale: float = 1) -> None:
        super().__init__(shelf, change)
        self.pace = Pace(self.now, rate_scale)
        self.sockets_refused = 0
        self._cut: list[Callable[[bool], None]] = []

    # Who and what there is. Adding what exists already changes nothing but names.

    def add_team(
        self, id: str, name: str, *, token: str, app_token: str = "", signing_secret: str = "", bot_name: str = "Placet"
    ) -> Team:
        """A workspace with the app installed. The app's own tokens are one for all workspaces."""
        if not token.startswith("xoxb-") or (app_token and not app_token.startswith("xapp-")):
            raise ValueError("token: a bot's token starts with xoxb-, an app's with xapp-")
        team = Team(id=id, name=name, token=token, bot=f"UB{id[1:]}", bot_name=bot_name)
        self.teams[id] = team
        self.app.token = app_token or self.app.token
        self.app.signing_secret = signing_secret or self.app.signing_secret
        self.keep(team, self.app)
        self.announce()
        return team

    def add_person(self, id: str, name: str, *, team: str = "", restricted: bool = False) -> Person:
        """Somebody; without a team a member of the first. Guests are `restricted`."""
        if id[:1] not in ("U", "W"):
            raise ValueError("id: people's ids start with U or W")
        person = Person(id=id, name=name, team=team or next(iter(self.teams)), restricted=restricted)
        self.people[id] = person
        self.keep(person)
        self.announce()
        return person

    def add_channel(
        self, id: str, name: str, members: Iterable[Person | str], *, team: str = "", private: bool = False,
        with_bot: bool = True,
    ) -> Channel:  # fmt: skip
        if id[:1] not in ("C", "G"):
            raise ValueError("id: channels' ids start with C or G")
        if existing := self.channels.get(id):
            return existing
        of = self.teams[team or next(iter(self.teams))]
        ids = {_id(member) for member in members}
        shared = any(self.people[each].team != of.id for each in ids)
        channel = Channel(id=id, name=name, team=of.id, members=ids | ({of.bot} if with_bot else set()),
                          private=private, shared=shared)  # fmt: skip
        self.channels[id] = channel
        self.keep(channel)
        self.announce(channel)
        return channel

    def set_usergroup(self, id: str, members: Iterable[Person | str], *, team: str = "") -> Usergroup:
        """A user group, and who is in it now."""
        if not id.startswith("S"):
            raise ValueError("id: user groups' ids start with S")
        group = Usergroup(id=id, team=team or next(iter(self.teams)), members={_id(member) for member in members})
        self.usergroups[id] = group
        self.keep(group)
        self.announce()
        return group

    # What people do.

    def press(
        self, person: Person | str, channel: str, ts: str, *, label: str | None = None, value: str | None = None
    ) -> Press:
        """Press a button by its label; or send a `value` that need not be on any button."""
        who, within = self._in(person, channel)
        message = within.message(ts)
        if message.deleted:
            raise ValueError("ts: the message is gone")
        if message.only not in (None, who.id):
            raise ValueError("ts: this person does not see that message")
        button = next((each for each in message.buttons if label in (None, each["text"]["text"])), None)
        if value is None:
            if button is None:
                raise ValueError("label: that message has no such button")
            action = button
        else:
            text = {"type": "plain_text", "text": "?"}
            action = button if button and label else {"type": "button", "action_id": "forged", "text": text}
            action = action | {"value": value}
        press = self.new_press(who.id, channel, ts)
        press.envelope = self.tell("interactive", wire.pressed(self, press, who, within, message, action)).id
        self.announce()
        return press

    def submit(self, view: View, text: str | Mapping[str, str]) -> Press:
        """Fill in a modal and submit it: the text of its one field, or of each field by its action_id."""
        if view.state != "open":
            raise ValueError("view: it is no longer open")
        fields = view.fields
        given = {fields[0]["element"]["action_id"]: text} if isinstance(text, str) else text
        values: Json = {}
        for field in fields:
            element = field["element"]
            value = given.get(element["action_id"], "")
            if (value or not field.get("optional")) and not (
                int(element.get("min_length", 0)) <= len(value) <= int(element.get("max_length", 3000))
            ):
                raise ValueError("text: too short or too long for this field")
            if not value.strip() and not field.get("optional"):
                raise ValueError("text: this field needs a text")
            filled = {"type": "plain_text_input", "value": value or None}
            values[field["block_id"]] = {element["action_id"]: filled}
        view.state = "submitted"
        self.keep_view(view)
        press = self.new_press(view.person, "", "")
        press.envelope = self.tell("interactive", wire.submitted(self, press, view, values)).id
        self.announce()
        return press

    def close(self, view: View) -> None:
        """Cancel a modal; the app is not told."""
        view.state = "closed"
        self.keep_view(view)
        self.announce()

    def say(
        self, person: Person | str, channel: str, text: str, *, thread: str | None = None, file: str = ""
    ) -> Message:
        """Write a message, in a channel or under a message (`thread`); with `file`, as a file's comment."""
        who, within = self._in(person, channel)
        if within.archived or within.moved_to:
            raise ValueError("channel: nobody writes there any more")
        if not (text.strip() or file):
            raise ValueError("text: an empty message cannot be sent")
        files = [self.keep_file(file, 0)] if file else []
        message = Message(ts=self.new_ts(), sender=who.id, text=blocks.escaped(text), thread_ts=thread, files=files)
        self.keep_message(within, message)
        if self.team_of(within).bot in within.members:
            self.event(self.team_of(within), wire.said(self, within, message))
        self.announce(within)
        return message

    def reply(self, person: Person | str, channel: str, ts: str, text: str) -> Message:
        """Reply in the thread of a message."""
        self.channels[channel].message(ts)
        return self.say(person, channel, text, thread=ts)

    def direct_message(self, person: Person | str, text: str, *, team: str = "") -> Message:
        """Write to the app in private."""
        who = self.people[_id(person)]
        return self.say(who, self.direct(who, self.teams[team or next(iter(self.teams))]).id, text)

    def edit(self, person: Person | str, channel: str, ts: str, text: str) -> Message:
        """Change one's own message."""
        who, within = self._in(person, channel)
        message = within.message(ts)
        if message.sender != who.id:
            raise ValueError("ts: people edit their own messages only")
        message.text, message.edited = blocks.escaped(text), True
        self.keep_message(within, message)
        self.event(self.team_of(within), wire.changed(self, within, message))
        self.announce(within)
        return message

    def command(self, person: Person | str, channel: str, text: str, *, name: str = "/placet") -> Press:
        """Use a slash command."""
        who, within = self._in(person, channel)
        press = self.new_press(who.id, channel, "")
        press.envelope = self.tell("slash_commands", wire.commanded(self, press, who, within, name, text)).id
        self.announce()
        return press

    def repeat(self, what: Press | Envelope) -> Envelope:
        """Deliver the same payload again, in a new envelope."""
        old = self.envelopes[what.envelope if isinstance(what, Press) else what.id]
        again = self.tell(old.kind, old.payload)
        self.announce()
        return again

    def delete_message(self, channel: str, ts: str) -> None:
        within = self.channels[channel]
        within.message(ts).deleted = True
        self.keep_message(within, within.message(ts))
        self.announce(within)

    def archive(self, channel: str) -> None:
        within = self.channels[channel]
        within.archived = True
        self.keep(within)
        self.announce(within)

    def remove_bot(self, channel: str) -> None:
        within = self.channels[channel]
        within.members.discard(self.team_of(within).bot)
        self.keep(within)
        self.announce(within)

    def change_channel_id(self, channel: str) -> str:
        """A private channel is shared and gets a new id; the app is told. The messages go along."""
        old = self.channels[channel]
        new = old.model_copy(update={"id": f"C{secrets.token_hex(5).upper()}", "shared": True, "moved_to": None})
        new._history = old.history
        old.moved_to = new.id
        self.channels[new.id] = new
        self.keep(old, new)
        for message in new.messages:
            self.keep_message(new, message)
        self.event(self.team_of(new), {"type": "channel_id_changed", "old_channel_id": old.id, "new_channel_id": new.id,
                                       "event_ts": self.new_ts()})  # fmt: skip
        self.announce(old, new)
        return new.id

    def deactivate(self, person: Person | str) -> None:
        """Somebody leaves the workspace."""
        who = self.people[_id(person)]
        who.deactivated = True
        self.keep(who)
        self.announce()

    def revoke(self, team: str = "") -> None:
        """The bot's token is revoked."""
        of = self.teams[team or next(iter(self.teams))]
        of.revoked = True
        self.keep(of)
        self.announce()

    # What people see.

    async def opened(self, press: Press, timeout: float = 5) -> View:
        """The modal that a press opened."""
        return self.views[await self.until(lambda: press.view, timeout)]

    def told(self, person: Person | str) -> list[str]:
        """The ephemeral messages in channels that this person alone saw, oldest first."""
        found = [each for channel in self.channels.values() for each in channel.messages if each.only == _id(person)]
        return [each.shown for each in sorted(found, key=lambda each: each.ts)]

    def acked(self, press: Press) -> bool:
        return self.envelopes[press.envelope].acked_at is not None

    # What goes wrong.

    def fail(
        self, method: str, *, error: str = "internal_error", status: int = 200, retry_after: int | None = None,
        times: int | None = 1, chat: str | None = None,
    ) -> None:  # fmt: skip
        """The next `times` calls of a method (`*`: any; None: until `mend`) are refused and change nothing."""
        refusal = ApiError(error, status=status)
        if retry_after is not None:
            refusal = ApiError("ratelimited", status=429, retry_after=retry_after)
        self.refuse(method, refusal, times=times, chat=chat)

    def mend(self) -> None:
        """Forget every scripted fault."""
        super().mend()
        self.sockets_refused = 0

    def cut_sockets(self, *, refuse: int = 0, warn: bool = False) -> None:
        """Every socket breaks off, and the next `refuse` attempts to open one fail.

        With `warn` the app is told to connect anew instead, as Slack does every few hours.
        """
        self.sockets_refused = refuse
        for cut in list(self._cut):
            cut(warn)

    def on_cut(self, cut: Callable[[bool], None]) -> Callable[[], None]:
        """Have `cut` called by `cut_sockets`, with whether to warn; answers how to take it back."""
        self._cut.append(cut)
        return lambda: self._cut.remove(cut)

    @property
    def connected(self) -> int:
        """How many sockets are open."""
        return len(self._cut)

    def signed(self, payload: Json, *, at: float | None = None, secret: str = "") -> tuple[dict[str, str], bytes]:
        """Headers and body of a payload as Slack sends it over HTTP, signed at an instant (Unix seconds)."""
        form = payload.get("type") in ("block_actions", "view_submission") or "command" in payload
        if "command" in payload:
            body = urlencode(payload).encode()
        else:
            body = urlencode({"payload": json.dumps(payload)}).encode() if form else json.dumps(payload).encode()
        stamp = str(int(self.now() if at is None else at))
        key = (secret or self.app.signing_secret).encode()
        digest = hmac.new(key, f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        return {"content-type": kind, "x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={digest}"}, body

    def _in(self, person: Person | str, channel: str) -> tuple[Person, Channel]:
        who, within = self.people.get(_id(person)), self.channels.get(channel)
        if who is None or within is None:
            raise ValueError("person, channel: nobody, or nothing, has that id")
        if who.id not in within.members:
            raise ValueError(f"person: {who.id} is not in {channel}")
        return who, within


def _id(of: Person | str) -> str:
    return of if isinstance(of, str) else of.id
