"""The state of the Slack sandbox: what exists, what the app is still to be told, and the time."""

from __future__ import annotations

import secrets
from typing import Any

from adapters.sandbox.change import Change
from adapters.sandbox.shelf import Shelf
from adapters.sandbox.slack.records import (
    App,
    Channel,
    Envelope,
    File,
    Message,
    Person,
    Press,
    Team,
    Usergroup,
    View,
    direct_channel,
)
from adapters.sandbox.state import State

Json = dict[str, Any]
RESPONSE_USES, RESPONSE_KEPT_S, TRIGGER_S, ACK_S = 5, 1800, 3, 3
# Seconds after an attempt that was not acknowledged at which an event comes again; then Slack gives up.
AGAIN_AFTER_S = (ACK_S, 60, 300)


class Holdings(State):
    """Everything by its id. `keep` puts a record on the shelf, `announce` commits and wakes whoever waits."""

    def __init__(self, shelf: Shelf, change: Change) -> None:
        super().__init__(shelf, change)
        self.app = App()
        self.teams: dict[str, Team] = {}
        self.people: dict[str, Person] = {}
        self.usergroups: dict[str, Usergroup] = {}
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, File] = {}
        self.views: dict[str, View] = {}
        self.presses: dict[str, Press] = {}
        self.envelopes: dict[str, Envelope] = {}
        self.url = ""
        self._triggers: dict[str, tuple[str, float]] = {}
        self._responses: dict[str, tuple[str, float, int]] = {}
        self._last_ts = 0
        self._load()

    def _load(self) -> None:
        self.app = next(self.kept("slack_app", App), self.app)
        self.teams = {team.id: team for team in self.kept("slack_team", Team)}
        self.people = {person.id: person for person in self.kept("slack_person", Person)}
        self.usergroups = {group.id: group for group in self.kept("slack_usergroup", Usergroup)}
        self.channels = {channel.id: channel for channel in self.kept("slack_channel", Channel)}
        self.views = {view.id: view for view in self.kept("slack_view", View)}
        for key, message in self.kept_with_keys("slack_message", Message):
            self.channels[key].history[message.ts] = message
            self.files |= {file.id: file for file in message.files}

    def new_ts(self) -> str:
        """A message's id: seconds and microseconds, never twice."""
        self._last_ts = max(self._last_ts + 1, int(self.now() * 1_000_000))
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06}"

    def keep(self, *records: App | Team | Person | Usergroup | Channel) -> None:
        for record in records:
            self._shelf.put(f"slack_{type(record).__name__.lower()}", record.id, record.model_dump_json())

    def keep_message(self, channel: Channel, message: Message) -> Message:
        channel.history[message.ts] = message
        channel.touch()
        if message.only is None:
            self._shelf.put("slack_message", f"{channel.id}/{message.ts}", f"{channel.id}\n{message.model_dump_json()}")
        return message

    def keep_view(self, view: View) -> None:
        """A form that is open stays open on the person's screen, whatever becomes of the servers."""
        self.views[view.id] = view
        if view.state == "open":
            self._shelf.put("slack_view", view.id, view.model_dump_json())
        else:
            self._shelf.drop("slack_view", view.id)

    def keep_file(self, name: str, size: int) -> File:
        file = File(id=f"F{secrets.token_hex(5).upper()}", name=name, size=size)
        self.files[file.id] = file
        return file

    def fill_file(self, file: File, content: bytes) -> None:
        self._shelf.put_file(f"slack/{file.id}", content)

    def content(self, file: File) -> bytes:
        """The bytes of a file."""
        return self._shelf.file(f"slack/{file.id}") or b""

    def team_of(self, channel: Channel) -> Team:
        return self.teams[channel.team]

    def direct(self, person: Person, team: Team) -> Channel:
        """The private chat of a person with the app, opened where it is not yet."""
        channel = direct_channel(person, team)
        if channel.id not in self.channels:
            self.channels[channel.id] = channel
            self.keep(channel)
        return self.channels[channel.id]

    # What the app is told.

    def tell(self, kind: str, payload: Json) -> Envelope:
        now = self.now()
        envelope = Envelope.model_validate(
            {"id": secrets.token_hex(12), "kind": kind, "payload": payload, "at": now, "due": now}
        )
        self.envelopes[envelope.id] = envelope
        return envelope

    def event(self, team: Team, event: Json) -> Envelope:
        """An event of the Events API."""
        return self.tell("events_api", {
            "token": "-", "team_id": team.id, "api_app_id": self.app.id, "event": event, "type": "event_callback",
            "event_id": f"Ev{secrets.token_hex(5).upper()}", "event_time": int(self.now()),
            "authorizations": [{"enterprise_id": None, "team_id": team.id, "user_id": team.bot, "is_bot": True,
                                "is_enterprise_install": False}],
            "is_ext_shared_channel": bool(
                (channel := self.channels.get(str(event.get("channel")))) is not None and channel.shared
            ),
        })  # fmt: skip

    def due(self) -> list[Envelope]:
        """What is to be sent now."""
        now = self.now()
        return [each for each in self.envelopes.values() if not each.settled and each.due <= now]

    def attempted(self, envelope: Envelope) -> None:
        """It was sent, or could not be: events come again unless they are acknowledged, the rest does not."""
        again = AGAIN_AFTER_S[envelope.attempts : envelope.attempts + 1] if envelope.kind == "events_api" else ()
        envelope.attempts += 1
        if again:
            envelope.due = self.now() + again[0]
        else:
            envelope.settled = True

    def acknowledge(self, envelope_id: str, answer: Json | None) -> None:
        envelope = self.envelopes.get(envelope_id)
        if envelope is not None and envelope.acked_at is None:
            envelope.acked_at, envelope.answer, envelope.settled = self.now(), answer, True
            self.announce()

    def new_press(self, person: str, channel: str, ts: str) -> Press:
        """A press with its trigger_id (3 s, once) and its response_url (30 min, five times); `envelope` comes later."""
        id_, secret = secrets.token_hex(8), secrets.token_urlsafe(18)
        press = Press(id=id_, person=person, channel=channel, ts=ts, envelope="",
                      trigger_id=f"{secrets.randbelow(10**13)}.{secrets.token_hex(12)}",
                      response_url=f"{self.url}/slack/respond/{secret}")  # fmt: skip
        self.presses[id_] = press
        self._triggers[press.trigger_id] = (id_, self.now() + TRIGGER_S)
        self._responses[secret] = (id_, self.now() + RESPONSE_KEPT_S, RESPONSE_USES)
        return press

    def take_trigger(self, trigger_id: str) -> Press | str:
        """The press whose trigger this is, used up; else Slack's error."""
        press_id, until = self._triggers.get(trigger_id, ("", 0.0))
        if not press_id:
            return "invalid_trigger_id"
        if until < 0:
            return "exchanged_trigger_id"
        if until < self.now():
            return "expired_trigger_id"
        self._triggers[trigger_id] = (press_id, -1.0)
        return self.presses[press_id]

    def take_response(self, secret: str) -> Press | None:
        """The press whose response_url this is, used once more; None when it ran out."""
        press_id, until, uses = self._responses.get(secret, ("", 0.0, 0))
        if uses < 1 or until < self.now():
            return None
        self._responses[secret] = (press_id, until, uses - 1)
        return self.presses[press_id]
