"""The sandbox's records as the JSON objects of Slack."""

from __future__ import annotations

from typing import Any

from adapters.sandbox.slack.holdings import Holdings
from adapters.sandbox.slack.records import Channel, File, Message, Person, Press, View

Json = dict[str, Any]


def user(person: Person) -> Json:
    name = person.name.lower().replace(" ", ".")
    return {"id": person.id, "username": name, "name": name, "team_id": person.team}


def profile(person: Person) -> Json:
    """A user object of users.info."""
    return {
        "id": person.id, "team_id": person.team, "name": person.name.lower().replace(" ", "."),
        "deleted": person.deactivated,
        "real_name": person.name, "is_bot": False, "is_restricted": person.restricted, "is_ultra_restricted": False,
        "profile": {"real_name": person.name, "display_name": person.name},
    }  # fmt: skip


def file(of: File) -> Json:
    return {"id": of.id, "name": of.name, "title": of.name, "size": of.size, "mimetype": "text/plain"}


def message(held: Holdings, within: Channel, of: Message, *, metadata: bool = False) -> Json:
    shown: Json = {"type": "message", "ts": of.ts, "text": of.text}
    team = held.team_of(within)
    if of.sender == team.bot:
        shown |= {"user": team.bot, "bot_id": f"B{team.id[1:]}", "app_id": held.app.id, "team": team.id}
    else:
        shown |= {"user": of.sender, "team": held.people[of.sender].team}
        if within.shared and held.people[of.sender].team != team.id:
            shown |= {"user_team": held.people[of.sender].team, "source_team": held.people[of.sender].team}
    if of.blocks:
        shown["blocks"] = of.blocks
    if of.thread_ts is not None:
        shown["thread_ts"] = of.thread_ts
        root = within.history.get(of.thread_ts)
        if root is not None and root.ts != of.ts:
            shown["parent_user_id"] = root.sender
    elif within.thread(of.ts):
        shown |= {"thread_ts": of.ts, "reply_count": len(within.thread(of.ts))}
    if of.files:
        shown |= {"subtype": "file_share", "files": [file(each) for each in of.files]}
    if of.edited:
        shown["edited"] = {"user": of.sender, "ts": of.ts}
    if metadata and of.metadata:
        shown["metadata"] = of.metadata
    return shown


def place(of: Channel) -> Json:
    return {"id": of.id, "name": "directmessage" if of.im else "privategroup" if of.private else of.name}


def said(held: Holdings, within: Channel, of: Message) -> Json:
    """The event of a new message."""
    kind = "im" if within.im else "group" if within.private else "channel"
    return message(held, within, of) | {"channel": within.id, "channel_type": kind, "event_ts": of.ts}


def changed(held: Holdings, within: Channel, of: Message) -> Json:
    """The event of an edited message."""
    event = {"type": "message", "subtype": "message_changed", "hidden": True, "channel": within.id, "ts": held.new_ts()}
    return event | {"message": message(held, within, of), "previous_message": message(held, within, of),
                    "event_ts": held.new_ts()}  # fmt: skip


def pressed(held: Holdings, press: Press, who: Person, within: Channel, on: Message, action: Json) -> Json:
    """A block_actions payload."""
    team = held.team_of(within)
    shown: Json = {
        "type": "block_actions", "user": user(who), "api_app_id": held.app.id, "token": "-",
        "container": {"type": "message", "message_ts": on.ts, "channel_id": within.id,
                      "is_ephemeral": on.only is not None},
        "trigger_id": press.trigger_id, "team": {"id": team.id, "domain": team.name.lower()}, "enterprise": None,
        "is_enterprise_install": False, "channel": place(within), "state": {"values": {}},
        "response_url": press.response_url,
        "actions": [{"action_id": action["action_id"], "block_id": on.block_of(action), "text": action["text"],
                     "value": action.get("value", ""), "type": "button", "action_ts": held.new_ts()}],
    }  # fmt: skip
    # Slack keeps no ephemeral message that it could tell of.
    return shown if on.only is not None else shown | {"message": message(held, within, on)}


def view(held: Holdings, of: View) -> Json:
    keys = ("type", "title", "submit", "close", "blocks", "private_metadata", "callback_id")
    shown = {key: of.view[key] for key in keys if key in of.view}
    return shown | {"id": of.id, "team_id": of.team, "app_id": held.app.id, "hash": "1.a", "state": {"values": {}}}


def submitted(held: Holdings, press: Press, of: View, values: Json) -> Json:
    """A view_submission payload."""
    team = held.teams[of.team]
    return {
        "type": "view_submission", "team": {"id": team.id, "domain": team.name.lower()},
        "user": user(held.people[of.person]), "api_app_id": held.app.id, "token": "-", "trigger_id": press.trigger_id,
        "view": view(held, of) | {"state": {"values": values}}, "response_urls": [], "is_enterprise_install": False,
        "enterprise": None,
    }  # fmt: skip


def commanded(held: Holdings, press: Press, who: Person, within: Channel, name: str, text: str) -> Json:
    """A slash command's fields."""
    team = held.team_of(within)
    return {
        "token": "-", "team_id": team.id, "team_domain": team.name.lower(), "channel_id": within.id,
        "channel_name": place(within)["name"], "user_id": who.id, "user_name": user(who)["name"], "command": name,
        "text": text, "api_app_id": held.app.id, "is_enterprise_install": "false", "trigger_id": press.trigger_id,
        "response_url": press.response_url,
    }  # fmt: skip
