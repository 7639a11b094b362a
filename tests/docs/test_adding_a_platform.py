"""The worked example of a fourth platform works: its surface against a stand-in for the server that it describes."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from core.approvals import Actor, Button, Destination, Message, Press, Reply
from core.buttons import ButtonData, Verb, new_token, unpack
from core.ports import Checking, Forming, Gone, Refused, Saying, Slow, Telling, Unavailable, Webhooked
from tests.bots.contract import CARDS, FILE, PLAIN, Door, settled
from tests.bots.telegram_bench import Chores, hooks
from tests.docs.test_docs import ROOT, blocks

PAGE = ROOT / "docs/adding-a-platform.md"
BOT, DANA, OLA, CHANNEL = "b" * 26, "qmd5oqtwoibz8cuzxzg5ekshgr", "o" * 26, "c4nv6h1yqbd8tyz1r1mtdr3r7o"
TOKEN, SECRET = "t" * 26, "at-least-sixteen-characters"
CARD = Message("mattermost", BOT, CHANNEL, "", "p5q8s3kx7tg9jm5b1m4nq6sz1w")


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mattermost_example", ROOT / "docs/examples/mattermost.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


mattermost = load()


@dataclass
class Server:
    """As much of a Mattermost server as the surface speaks to."""

    posts: dict[str, dict[str, Any]] = field(default_factory=dict)
    dialogs: list[dict[str, Any]] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    refuses: tuple[int, dict[str, str]] | None = None

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self.guarded])
        app.add_routes([
            web.get("/api/v4/users/me", self.me), web.post("/api/v4/posts", self.create),
            web.put("/api/v4/posts/{id}/patch", self.patch), web.post("/api/v4/files", self.upload),
            web.post("/api/v4/channels/direct", self.direct), web.get("/api/v4/websocket", self.listen),
            web.post("/api/v4/actions/dialogs/open", self.open),
        ])  # fmt: skip
        return app

    @web.middleware
    async def guarded(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.refuses is not None:
            (status, headers), self.refuses = self.refuses, None
            return web.json_response({"id": "api.error", "message": "a secret"}, status=status, headers=headers)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"id": "api.context.session_expired.app_error"}, status=401)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def me(self, request: web.Request) -> web.Response:
        return web.json_response({"id": BOT, "username": "placet"})

    async def create(self, request: web.Request) -> web.Response:
        post = await request.json()
        if post["channel_id"] not in (CHANNEL, "d" * 26):
            return web.json_response({"id": "app.channel.get.existing.app_error"}, status=404)
        return self.kept(f"{len(self.posts):026}", post)

    async def patch(self, request: web.Request) -> web.Response:
        return self.kept(request.match_info["id"], self.posts[request.match_info["id"]] | await request.json())

    def kept(self, id: str, post: dict[str, Any]) -> web.Response:
        for attachment in post.get("props", {}).get("attachments", ()):
            assert len(attachment["text"]) <= 16383
            for action in attachment["actions"]:
                assert action["type"] == "button"
                assert action["name"]
                assert action["style"] in ("default", "primary", "success", "good", "warning", "danger")
                assert action["integration"]["url"] == f"https://placet.example/mattermost/{BOT}"
        self.posts[id] = post | {"id": id}
        return web.json_response(self.posts[id])

    async def upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form["files"]
        assert isinstance(file, web.FileField)
        self.files.append((file.filename, file.file.read().decode()))
        return web.json_response({"file_infos": [{"id": "f" * 26}]})

    async def direct(self, request: web.Request) -> web.Response:
        assert await request.json() == [BOT, DANA]
        return web.json_response({"id": "d" * 26})

    async def open(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert len(asked["dialog"]["title"]) <= 24
        assert all(len(element["display_name"]) <= 24 for element in asked["dialog"]["elements"])
        self.dialogs.append(asked)
        return web.json_response({"status": "OK"})

    async def listen(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        async for _ in socket:
            pass
        return socket

    def buttons(self, id: str) -> dict[str, dict[str, Any]]:
        return {action["name"]: action["integration"]["context"]
                for action in self.posts[id]["props"]["attachments"][0]["actions"]}  # fmt: skip

    def text(self, id: str) -> str:
        return str(self.posts[id]["props"]["attachments"][0]["text"])


@dataclass
class Setting:
    server: Server
    surface: Any
    door: Door

    async def card(self, card: Any = PLAIN) -> Message:
        message: Message = await self.surface.post(Destination("mattermost", "", CHANNEL), card, token=new_token())
        return message

    async def pressed(self, message: Message, label: str, by: str = DANA) -> Any:
        """What the server posts when somebody presses a button, and what it is answered."""
        return await self.posted({
            "user_id": by, "user_name": "dana", "channel_id": message.chat, "post_id": message.id,
            "trigger_id": new_token(), "context": self.server.buttons(message.id)[label],
        })  # fmt: skip

    async def submitted(self, values: dict[str, str], by: str = DANA) -> Any:
        state = self.server.dialogs[-1]["dialog"]["state"]
        return await self.posted({"user_id": by, "state": state, "submission": values})

    async def posted(self, body: dict[str, Any]) -> Any:
        return await self.surface.receive(BOT, {}, json.dumps(body).encode())


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    server = Server()
    async with TestServer(server.app()) as running:
        settings = mattermost.Settings(
            mattermost_token=SecretStr(TOKEN), mattermost_secret=SecretStr(SECRET), public_url="https://placet.example",
            mattermost_base_url=str(running.make_url("/")).rstrip("/"),
        )  # fmt: skip
        surface, door = mattermost.Mattermost(settings, hooks(Chores()), pace=0), Door()
        listening = asyncio.create_task(surface.listen(door.on_press))
        async with asyncio.timeout(5):
            while not server.sockets:
                await asyncio.sleep(0.005)
        yield Setting(server, surface, door)
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        await surface.close()


async def test_every_card_is_drawn_dead_with_buttons_that_parse_back(setting: Setting) -> None:
    for kind, card in CARDS.items():
        token = new_token()
        message = await setting.surface.post(Destination("mattermost", "", CHANNEL), card, token=token)
        read = {name: unpack(context["data"]) for name, context in setting.server.buttons(message.id).items()}
        assert read == {
            button.label: ButtonData(button.verb, button.token or token, button.number or card.content_revision)
            for button in card.buttons
        }, kind
        bare = re.sub(r"(`+)(?s:.+?)(?<!`)\1(?!`)", "", setting.server.text(message.id))
        assert not re.search(r"[@#<:]|https?", bare), kind
        await setting.surface.redraw(message, settled(card))
        assert setting.server.buttons(message.id) == {}


async def test_the_powers_of_the_surface_are_those_that_are_told(setting: Setting) -> None:
    for power in (Checking, Forming, Saying, Telling, Webhooked):
        assert isinstance(setting.surface, power)
        assert f"`{power.__name__}`" in PAGE.read_text()
    assert [finding.level for finding in await setting.surface.check()] == ["ok"]


async def test_a_press_is_taken_and_only_with_its_proof(setting: Setting) -> None:
    message = await setting.card()
    assert await setting.pressed(message, "Allow") == (
        200, json.dumps({"ephemeral_text": "`Allowed.`", "skip_slack_parsing": True}))  # fmt: skip
    (press,) = setting.door.presses
    assert (press.verb, press.message, press.actor.id) == (Verb.ALLOW, message, DANA)
    setting.server.posts[message.id]["props"]["attachments"][0]["actions"][0]["integration"]["context"]["proof"] = "0"
    assert await setting.pressed(message, "Allow") == 401
    assert await setting.surface.receive(BOT, {}, b"[]") == 400
    assert len(setting.door.presses) == 1


async def test_a_form_for_a_note_is_its_persons_alone(setting: Setting) -> None:
    message = await setting.card()
    assert await setting.pressed(message, "Decline with a note") == (200, "{}")
    assert await setting.submitted({"note": "Wrong customer"}, by=OLA) == 401
    assert await setting.submitted({"note": "Wrong customer"}) == (200, "{}")
    (press,) = setting.door.presses
    assert (press.text, press.message, press.actor.id) == ("Wrong customer", message, DANA)


async def test_a_menu_is_a_form_with_a_choice(setting: Setting) -> None:
    message = await setting.card()
    setting.door.reply = Reply("Which?", menu=(Button(Verb.ALWAYS_TOOL, "All of it"),))
    assert await setting.pressed(message, "Allow") == (200, "{}")
    (choice,) = setting.server.dialogs[-1]["dialog"]["elements"]
    setting.door.reply = Reply("Saved.")
    assert await setting.submitted({"choice": choice["options"][0]["value"]}) == (200, "{}")
    assert setting.door.presses[-1].verb == Verb.ALWAYS_TOOL


async def test_a_reply_in_the_thread_is_a_note(setting: Setting) -> None:
    message = await setting.card()
    post = {"id": "r" * 26, "user_id": DANA, "channel_id": CHANNEL, "root_id": message.id, "message": "Not this one"}
    event = {"event": "posted", "data": {"channel_type": "O", "sender_name": "@dana", "post": json.dumps(post)}}
    await setting.server.sockets[-1].send_json(event)
    (press,) = await setting.door.pressed()
    assert (press.text, press.message) == ("Not this one", message)


async def test_a_file_goes_into_the_thread_and_a_private_chat_is_opened(setting: Setting) -> None:
    message = await setting.card()
    sent = await setting.surface.attach(message, FILE)
    assert setting.server.files == [(FILE.name, FILE.text)]
    assert setting.server.posts[sent.id]["root_id"] == message.id
    private = await setting.surface.post(Destination("mattermost", "", DANA), PLAIN, token=new_token())
    assert private.chat == "d" * 26


@pytest.mark.parametrize(
    ("status", "headers", "raised"),
    [(404, {}, Gone), (403, {}, Gone), (429, {"X-Ratelimit-Reset": "33"}, Slow), (400, {}, Refused),
     (401, {}, Refused), (503, {}, Unavailable)],
)  # fmt: skip
async def test_what_the_server_refuses_is_one_of_few_errors(
    setting: Setting, status: int, headers: dict[str, str], raised: type[Exception]
) -> None:
    message = await setting.card()
    setting.server.refuses = status, headers
    with pytest.raises(raised) as caught:
        await setting.surface.redraw(message, PLAIN)
    assert "a secret" not in str(caught.value)


def test_the_payloads_of_the_page_are_read_as_it_says() -> None:
    proofs = mattermost.Proofs(SECRET)
    press, form, event = (json.loads(block.text) for block in blocks(PAGE, "json"))
    dana = Actor("mattermost", "", DANA, "dana")
    read = mattermost.read(BOT, press, proofs)
    assert (read.verb, read.token, read.content_revision) == ("a", "A" * 16, 1)
    assert (read.actor, read.message) == (dana, CARD)
    assert mattermost.read(BOT, form, proofs).text == "Wrong customer"
    assert mattermost.read_event(BOT, event) == Press(
        "mm:" + BOT + ":" + json.loads(event["data"]["post"])["id"], dana, CARD, text="Wrong customer"
    )


def test_the_example_has_the_parts_of_the_other_bots_in_their_order() -> None:
    def parts(path: str) -> list[str]:
        return re.findall(r"^(?:    )?# ([A-Z][a-z]+(?: surface)?)$", (ROOT / path).read_text(), re.MULTILINE)

    assert parts("docs/examples/mattermost.py") == parts("bots/discord.py") == parts("bots/slack.py")
    for part in parts("docs/examples/mattermost.py"):
        assert part in PAGE.read_text()
