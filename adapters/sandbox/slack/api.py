"""The methods of Slack's Web API that a bot of Placet's kind needs, as strict as Slack's."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from adapters.sandbox.slack import blocks, wire
from adapters.sandbox.slack.faults import ApiError
from adapters.sandbox.slack.records import Channel, Message, Team, View
from adapters.sandbox.slack.world import World

Json = dict[str, Any]
Method = Callable[[Team, Json], Awaitable[Json]]

SCOPES = (
    "chat:write,commands,files:write,im:write,channels:history,groups:history,im:history,channels:read,groups:read,"
    "metadata.message:read,usergroups:read,users:read"
)
UPDATE_LIMIT, TEXT_LIMIT, PAGE = 4000, 40_000, 100


class WebApi:
    """`method(name)` finds a method; each answers the fields beside `ok` or raises ApiError."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.tickets: set[str] = set()
        self._methods: dict[str, Method] = {
            "auth.test": self.auth_test,
            "chat.postMessage": self.post,
            "chat.update": self.update,
            "chat.postEphemeral": self.post_ephemeral,
            "conversations.open": self.open,
            "conversations.info": self.info,
            "conversations.history": self.history,
            "conversations.replies": self.replies,
            "views.open": self.views_open,
            "users.info": self.users_info,
            "usergroups.users.list": self.usergroup_members,
            "files.getUploadURLExternal": self.upload_url,
            "files.completeUploadExternal": self.complete_upload,
        }

    def method(self, name: str) -> Method | None:
        return self._methods.get(name)

    def open_connection(self) -> Json:
        """What apps.connections.open answers: a web socket's URL, which works once."""
        ticket = secrets.token_urlsafe(18)
        self.tickets.add(ticket)
        return {"url": f"{self._world.url.replace('http', 'ws', 1)}/slack/socket?ticket={ticket}&app_id=A01"}

    async def auth_test(self, team: Team, params: Json) -> Json:
        return {"url": f"https://{team.name.lower()}.slack.example/", "team": team.name, "user": "placet",
                "team_id": team.id, "user_id": team.bot, "bot_id": f"B{team.id[1:]}",
                "is_enterprise_install": False}  # fmt: skip

    async def post(self, team: Team, params: Json) -> Json:
        channel = self._writable(team, params)
        thread = params.get("thread_ts")
        if thread is not None and (thread not in channel.history or channel.history[thread].deleted):
            raise ApiError("thread_not_found")
        text, shown = self._content(params, TEXT_LIMIT)
        metadata = params.get("metadata")
        if metadata is not None and set(metadata) != {"event_type", "event_payload"}:
            raise ApiError("invalid_metadata_format")
        message = Message(ts=self._world.new_ts(), sender=team.bot, text=text, blocks=shown, metadata=metadata,
                          thread_ts=thread)  # fmt: skip
        self._world.keep_message(channel, message)
        self._world.announce(channel)
        return {"channel": channel.id, "ts": message.ts, "message": wire.message(self._world, channel, message)}

    async def update(self, team: Team, params: Json) -> Json:
        channel = self._channel(team, params)
        if channel.archived:
            raise ApiError("is_archived")
        message = channel.history.get(str(params.get("ts")))
        if message is None or message.deleted or message.only:
            raise ApiError("message_not_found")
        if message.sender != team.bot:
            raise ApiError("cant_update_message")
        text, shown = self._content(params, UPDATE_LIMIT)
        if blocks.length(text) > UPDATE_LIMIT:
            raise ApiError("msg_too_long")
        # A text without blocks takes the place of the old blocks too.
        message.text, message.blocks, message.edited = text, shown, True
        self._world.keep_message(channel, message)
        self._world.announce(channel)
        return {"channel": channel.id, "ts": message.ts, "text": message.text}

    async def post_ephemeral(self, team: Team, params: Json) -> Json:
        channel = self._writable(team, params)
        user = str(params.get("user"))
        if user not in channel.members:
            raise ApiError("user_not_in_channel")
        text, shown = self._content(params, TEXT_LIMIT)
        message = Message(ts=self._world.new_ts(), sender=team.bot, text=text, blocks=shown, only=user,
                          thread_ts=params.get("thread_ts"))  # fmt: skip
        self._world.keep_message(channel, message)
        self._world.announce(channel)
        return {"message_ts": message.ts}

    async def open(self, team: Team, params: Json) -> Json:
        users = str(params.get("users", ""))
        person = self._world.people.get(users)
        if person is None:
            raise ApiError("user_not_found")
        if person.team != team.id:
            raise ApiError("cannot_dm_user" if person.team in self._world.teams else "user_not_visible")
        if person.deactivated:
            raise ApiError("user_disabled")
        return {"channel": {"id": self._world.direct(person, team).id}, "no_op": True, "already_open": True}

    async def info(self, team: Team, params: Json) -> Json:
        channel = self._channel(team, params)
        return {"channel": {"id": channel.id, "name": channel.name, "is_archived": channel.archived,
                            "is_im": channel.im is not None, "is_private": channel.private,
                            "is_ext_shared": channel.shared, "is_member": team.bot in channel.members}}  # fmt: skip

    async def history(self, team: Team, params: Json) -> Json:
        """Newest first, without the replies in threads."""
        channel = self._readable(team, params)
        top = [each for each in channel.messages if each.only is None and each.thread_ts in (None, each.ts)]
        return self._page(channel, top[::-1], params)

    async def replies(self, team: Team, params: Json) -> Json:
        """A thread, its first message at the beginning."""
        channel = self._readable(team, params)
        root = channel.history.get(str(params.get("ts")))
        if root is None or root.deleted:
            raise ApiError("thread_not_found")
        return self._page(channel, [root, *(each for each in channel.thread(root.ts) if each.only is None)], params)

    async def views_open(self, team: Team, params: Json) -> Json:
        try:
            view = blocks.check_view(params.get("view"))
        except blocks.Invalid as why:
            raise ApiError("invalid_arguments", f"[ERROR] {why}") from None
        press = self._world.take_trigger(str(params.get("trigger_id", "")))
        if isinstance(press, str):
            raise ApiError(press)
        opened = View(id=f"V{secrets.token_hex(5).upper()}", person=press.person, team=team.id, view=view)
        self._world.keep_view(opened)
        press.view = opened.id
        self._world.announce()
        return {"view": wire.view(self._world, opened)}

    async def users_info(self, team: Team, params: Json) -> Json:
        person = self._world.people.get(str(params.get("user")))
        if person is None:
            raise ApiError("user_not_found")
        return {"user": wire.profile(person)}

    async def usergroup_members(self, team: Team, params: Json) -> Json:
        """The members of a user group."""
        group = self._world.usergroups.get(str(params.get("usergroup", "")))
        if group is None or group.team != team.id:
            raise ApiError("no_such_subteam")
        return {"users": sorted(group.members)}

    async def upload_url(self, team: Team, params: Json) -> Json:
        name, size = params.get("filename"), int(params.get("length") or 0)
        if not isinstance(name, str) or not name or size < 1:
            raise ApiError("invalid_arguments")
        file = self._world.keep_file(name, size)
        return {"file_id": file.id, "upload_url": f"{self._world.url}/slack/upload/{file.id}"}

    async def complete_upload(self, team: Team, params: Json) -> Json:
        named = [each for each in params.get("files") or () if isinstance(each, dict)]
        files = [self._world.files.get(str(each.get("id"))) for each in named]
        if not files or any(file is None for file in files):
            raise ApiError("file_not_found")
        done = [file for file in files if file is not None]
        if any(file.done or len(self._world.content(file)) != file.size for file in done):
            raise ApiError("file_update_failed")
        for file in done:
            file.done = True
        if "channel_id" in params:
            channel = self._writable(team, params | {"channel": params["channel_id"]})
            thread = params.get("thread_ts")
            if thread is not None and thread not in channel.history:
                raise ApiError("thread_not_found")
            message = Message(ts=self._world.new_ts(), sender=team.bot, text="", files=done, thread_ts=thread)
            self._world.keep_message(channel, message)
            self._world.announce(channel)
        return {"files": [wire.file(file) | {"shares": {}} for file in done]}

    def respond(self, secret: str, body: Json) -> str:
        """Take what came to a response_url: "ok", or Slack's error."""
        press = self._world.take_response(secret)
        if press is None:
            return "used_url"
        channel = self._world.channels.get(press.channel)
        pressed = channel.history.get(press.ts) if channel is not None else None
        if body.get("response_type") != "ephemeral" or body.get("delete_original"):
            return "unsupported here: only ephemeral words"
        text, shown = self._content(body, TEXT_LIMIT)
        if body.get("replace_original"):
            if channel is None or pressed is None or pressed.only is None:
                return "unsupported here: only ephemeral words"
            pressed.text, pressed.blocks = text, shown
            press.words.append(pressed.shown)
            self._world.keep_message(channel, pressed)
            self._world.announce(channel)
            return "ok"
        words = Message(ts=self._world.new_ts(), sender="", text=text, blocks=shown, only=press.person,
                        thread_ts=body.get("thread_ts"))  # fmt: skip
        press.words.append(words.shown)
        if channel is not None:
            words.sender = self._world.team_of(channel).bot
            self._world.keep_message(channel, words)
        self._world.announce(*([channel] if channel else ()))
        return "ok"

    def _content(self, params: Json, limit: int) -> tuple[str, list[Json]]:
        text = params.get("text") or ""
        if not isinstance(text, str):
            raise ApiError("invalid_arguments")
        try:
            shown = blocks.check_message(params["blocks"]) if params.get("blocks") else []
        except blocks.Invalid as why:
            error = "msg_blocks_too_long" if "too much" in str(why) else "invalid_blocks"
            raise ApiError(error, f"[ERROR] {why}") from None
        if not text and not shown:
            raise ApiError("no_text")
        return text[:limit] if limit > UPDATE_LIMIT else text, shown

    def _channel(self, team: Team, params: Json) -> Channel:
        channel = self._world.channels.get(str(params.get("channel", "")))
        if channel is None or channel.team != team.id or channel.moved_to is not None:
            raise ApiError("channel_not_found")
        if channel.private and team.bot not in channel.members:
            raise ApiError("channel_not_found")
        return channel

    def _readable(self, team: Team, params: Json) -> Channel:
        channel = self._channel(team, params)
        if team.bot not in channel.members:
            raise ApiError("not_in_channel")
        return channel

    def _writable(self, team: Team, params: Json) -> Channel:
        channel = self._readable(team, params)
        # The private chat with somebody who left is closed.
        if channel.archived or (channel.im is not None and self._world.people[channel.im].deactivated):
            raise ApiError("is_archived")
        return channel

    def _page(self, channel: Channel, messages: list[Message], params: Json) -> Json:
        oldest, limit = str(params.get("oldest") or "0"), min(int(params.get("limit") or PAGE), 999)
        metadata = str(params.get("include_all_metadata", "")).lower() in ("1", "true")
        found = [each for each in messages if float(each.ts) > float(oldest)]
        shown = [wire.message(self._world, channel, each, metadata=metadata) for each in found[:limit]]
        return {"messages": shown, "has_more": len(found) > limit}


def parameters(query: Json, kind: str, body: bytes) -> Json:
    """The parameters of a call, from a query, a form or JSON; JSON inside a form is read. Raises ApiError."""
    params: Json = dict(query)
    if kind.startswith("application/json"):
        try:
            given = json.loads(body or b"{}")
        except ValueError:
            raise ApiError("invalid_json") from None
        if not isinstance(given, dict):
            raise ApiError("json_not_object")
        params |= given
    for name in ("blocks", "view", "metadata", "files"):
        if isinstance(params.get(name), str):
            try:
                params[name] = json.loads(params[name])
            except ValueError:
                raise ApiError("invalid_arguments" if name == "view" else "invalid_blocks") from None
    return params
