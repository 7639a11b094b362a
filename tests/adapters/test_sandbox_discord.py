"""The sandbox's Discord: its limits, refusals and flows, so that it is never lenient."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from adapters.sandbox import Sandbox
from adapters.sandbox.discord import Bot, World, markdown, token_of, wire

BOT, DANA, OLA, GUILD, CHANNEL, FORUM = 8000000001, 4201, 4202, 500, 600, 610
Json = dict[str, Any]
ALLOW = {"type": 2, "style": 3, "label": "Allow", "custom_id": "a.t.1"}
FIELD: Json = {"type": 4, "custom_id": "note", "style": 2, "label": "Note", "max_length": 10}
NOTE = {"type": 1, "components": [FIELD]}
INTENTS = (1 << 0) | (1 << 9) | (1 << 12)
PROPERTIES = {"os": "linux", "browser": "test", "device": "test"}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with opened() as started:
        yield started


@asynccontextmanager
async def opened(rate_scale: float = float("inf"), data: Path | None = None) -> AsyncIterator[Sandbox]:
    async with Sandbox(rate_scale=rate_scale, data=data) as started:
        world = started.discord
        world.add_bot(BOT, "placet", name="Placet")
        guild = world.add_guild(GUILD, "Acme", [world.add_person(DANA, "Dana Reyes"), world.add_person(OLA, "Ola")])
        world.add_channel(CHANNEL, guild, "billing")
        world.add_channel(FORUM, guild, "requests", forum=True)
        yield started


@pytest.fixture
def world(sandbox: Sandbox) -> World:
    return sandbox.discord


@pytest.fixture
async def rest(sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bot {token_of(BOT)}"}
    async with httpx.AsyncClient(base_url=sandbox.discord_base_url, headers=headers, trust_env=False) as client:
        yield client


async def send(rest: httpx.AsyncClient, body: Json, channel: int = CHANNEL) -> Json:
    answer: Json = (await rest.post(f"/channels/{channel}/messages", json=body)).json()
    return answer


class Socket:
    """A gateway client that says what it is told to."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, *, compressed: bool) -> None:
        self.socket = socket
        self._zlib = zlib.decompressobj() if compressed else None

    async def send(self, op: int, data: object) -> None:
        await self.socket.send_str(json.dumps({"op": op, "d": data}))

    async def next(self) -> Json:
        message = await self.socket.receive(timeout=5)
        if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
            return {"closed": self.socket.close_code}
        if self._zlib is not None:
            assert message.data.endswith(b"\x00\x00\xff\xff")
            payload: Json = json.loads(self._zlib.decompress(message.data))
            return payload
        payload = json.loads(message.data)
        return payload

    async def identify(self, **more: object) -> Json:
        await self.send(2, {"token": token_of(BOT), "intents": INTENTS, "properties": PROPERTIES} | more)
        return await self.next()


@asynccontextmanager
async def connected(sandbox: Sandbox, *, compress: bool = False) -> AsyncIterator[Socket]:
    query = "?v=10&encoding=json" + ("&compress=zlib-stream" if compress else "")
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(sandbox.discord_gateway_url + query) as socket,
    ):
        client = Socket(socket, compressed=compress)
        assert (await client.next())["op"] == 10
        yield client


# REST


async def test_a_wrong_token_is_401(sandbox: Sandbox) -> None:
    async with httpx.AsyncClient(base_url=sandbox.discord_base_url, trust_env=False) as client:
        for headers in ({}, {"authorization": "Bot wrong"}, {"authorization": token_of(BOT)}):
            assert (await client.get("/users/@me", headers=headers)).status_code == 401


async def test_answers_are_json_by_their_exact_type_and_carry_via(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/oauth2/applications/@me")
    assert answer.headers["content-type"] == "application/json"
    assert "via" in answer.headers
    assert answer.json()["id"] == str(BOT)


EMBED_6001 = {"embeds": [{"description": "x" * 4000}, {"description": "x" * 2001}]}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"content": "x" * 2001}, "content"),
        ({"content": 5}, "content"),
        ({"embeds": [{"title": "x" * 257}]}, "embeds.0.title"),
        ({"embeds": [{"description": "x" * 4097}]}, "embeds.0.description"),
        ({"embeds": [{}]}, "embeds.0.description"),
        ({"embeds": [{"footer": {"text": "x" * 2049}}]}, "embeds.0.footer.text"),
        ({"embeds": [{"fields": [{"name": "n", "value": "x" * 1025}]}]}, "embeds.0.fields.0.value"),
        ({"embeds": [{"fields": [{"name": "", "value": "v"}]}]}, "embeds.0.fields.0.name"),
        ({"embeds": [{"fields": [{"name": "n", "value": "v"}] * 26}]}, "embeds.0.fields"),
        ({"embeds": [{"description": "x", "color": 2**24}]}, "embeds.0.color"),
        ({"embeds": [{"description": "x"}] * 11}, "embeds"),
        (EMBED_6001, "embeds"),
        ({"content": "x", "components": [{"type": 1, "components": [ALLOW]}] * 6}, "components"),
        ({"content": "x", "components": [{"type": 1, "components": [ALLOW] * 6}]}, "components.0.components"),
        ({"content": "x", "components": [{"type": 1, "components": []}]}, "components.0.components"),
        ({"content": "x", "components": [{"type": 1, "components": [ALLOW, ALLOW]}]},
         "components.0.components.1.custom_id"),
        ({"content": "x", "components": [{"type": 1, "components": [ALLOW | {"custom_id": ""}]}]},
         "components.0.components.0.custom_id"),
        ({"content": "x", "components": [{"type": 1, "components": [ALLOW | {"custom_id": "x" * 101}]}]},
         "components.0.components.0.custom_id"),
        ({"content": "x", "components": [{"type": 1, "components": [ALLOW | {"label": "x" * 81}]}]},
         "components.0.components.0.label"),
        ({"content": "x", "components": [{"type": 1, "components": [ALLOW | {"style": 9}]}]},
         "components.0.components.0.style"),
        ({"content": "x", "components": [ALLOW]}, "components.0.type"),
        ({"content": "x", "allowed_mentions": {"parse": ["all"]}}, "allowed_mentions.parse.0"),
        ({"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}}, "allowed_mentions"),
        ({"content": "x", "nonce": "x" * 26}, "nonce"),
        ({"content": "x", "flags": 64}, "flags"),
        ({"content": "x", "message_reference": {"message_id": "1"}}, "message_reference"),
    ],
)  # fmt: skip
async def test_a_wrong_form_is_50035_with_the_fields_path(
    rest: httpx.AsyncClient, world: World, body: Json, path: str
) -> None:
    answer = await send(rest, body)
    assert answer["code"] == 50035
    errors = answer["errors"]
    for part in path.split("."):
        errors = errors[part]
    assert errors["_errors"][0]["message"]
    assert world.channel(CHANNEL).messages == []


async def test_what_just_fits_is_taken(rest: httpx.AsyncClient, world: World) -> None:
    body = {
        "content": "😀" * 2000,
        "embeds": [{"description": "x" * 4000}, {"description": "x" * 2000}],
        "components": [{"type": 1, "components": [ALLOW | {"custom_id": f"{y}{x}"} for x in range(5)]}
                       for y in range(5)],
    }  # fmt: skip
    assert (await send(rest, body))["id"] == str(world.channel(CHANNEL).last().id)


async def test_errors_name_what_is_missing(rest: httpx.AsyncClient, world: World) -> None:
    assert (await send(rest, {"content": " "}))["code"] == 50006
    assert (await send(rest, {"content": "x"}, 999))["code"] == 10003
    assert (await send(rest, {"content": "x"}, FORUM))["code"] == 50008
    assert (await rest.patch(f"/channels/{CHANNEL}/messages/1", json={"content": "x"})).json()["code"] == 10008
    theirs = world.say(DANA, CHANNEL, "mine")
    edit = await rest.patch(f"/channels/{CHANNEL}/messages/{theirs.id}", json={"content": "x"})
    assert edit.json()["code"] == 50005
    world.mute(CHANNEL)
    assert (await send(rest, {"content": "x"}))["code"] == 50013
    world.hide(CHANNEL)
    assert (await send(rest, {"content": "x"}))["code"] == 50001


async def test_private_chats_refuse_as_discord_does(rest: httpx.AsyncClient, world: World) -> None:
    channel = int((await rest.post("/users/@me/channels", json={"recipient_id": str(DANA)})).json()["id"])
    assert (await send(rest, {"content": "x"}, channel))["content"] == "x"
    world.add_person(DANA, "Dana Reyes", accepts=False)
    assert (await send(rest, {"content": "x"}, channel))["code"] == 50007
    world.leave(DANA, GUILD)
    assert (await send(rest, {"content": "x"}, channel))["code"] == 50278
    assert (await rest.post("/users/@me/channels", json={"recipient_id": "1"})).status_code == 400


async def test_mentions_ping_unless_they_are_ruled_out_also_on_an_edit(rest: httpx.AsyncClient, world: World) -> None:
    text = f"<@{DANA}> @everyone"
    sent = await send(rest, {"content": text, "allowed_mentions": {"parse": []}})
    kept = world.channel(CHANNEL).last()
    assert kept.pinged == []
    await rest.patch(f"/channels/{CHANNEL}/messages/{sent['id']}", json={"content": text})
    assert kept.pinged == ["everyone", str(DANA)]
    assert await send(rest, {"content": text, "allowed_mentions": {"users": [str(DANA)]}})
    assert world.channel(CHANNEL).last().pinged == [str(DANA)]


async def test_an_edit_leaves_what_it_does_not_name(rest: httpx.AsyncClient, world: World) -> None:
    rows = [{"type": 1, "components": [ALLOW]}]
    sent = await send(rest, {"content": "a", "embeds": [{"description": "b"}], "components": rows})
    await rest.patch(f"/channels/{CHANNEL}/messages/{sent['id']}", json={"content": "c"})
    kept = world.channel(CHANNEL).last()
    assert (kept.content, kept.labels, kept.embeds) == ("c", ["Allow"], [{"description": "b"}])
    await rest.patch(f"/channels/{CHANNEL}/messages/{sent['id']}", json={"components": []})
    assert kept.labels == []


async def test_an_enforced_nonce_gives_the_first_message_back(rest: httpx.AsyncClient, world: World) -> None:
    body = {"content": "x", "nonce": "n1", "enforce_nonce": True}
    first = await send(rest, body)
    assert (await send(rest, body))["id"] == first["id"]
    assert (await send(rest, body | {"enforce_nonce": False}))["id"] != first["id"]
    world.delete_message(CHANNEL, int(first["id"]))
    other = body | {"nonce": "n2"}
    deleted = await send(rest, other)
    world.delete_message(CHANNEL, int(deleted["id"]))
    assert (await send(rest, other))["code"] == 10008
    world.skip(600)
    assert "id" in await send(rest, other)


async def test_files_come_with_their_message(rest: httpx.AsyncClient, world: World) -> None:
    form = {"payload_json": json.dumps({"content": "see"})}
    await rest.post(f"/channels/{CHANNEL}/messages", data=form, files={"files[0]": ("a.txt", b"whole", "text/plain")})
    (file,) = world.channel(CHANNEL).last("see").attachments
    assert (file.name, world.content(file)) == ("a.txt", b"whole")


async def test_limits_are_told_in_headers_and_then_429() -> None:
    async with opened(rate_scale=1) as sandbox:
        headers = {"authorization": f"Bot {token_of(BOT)}"}
        async with httpx.AsyncClient(base_url=sandbox.discord_base_url, headers=headers, trust_env=False) as rest:
            answers = [await rest.post(f"/channels/{CHANNEL}/messages", json={"content": "x"}) for _ in range(6)]
            left = [answer.headers.get("x-ratelimit-remaining") for answer in answers]
            assert left == ["4", "3", "2", "1", "0", None]
            assert answers[0].headers["x-ratelimit-bucket"]
            assert answers[5].status_code == 429
            assert 0 < answers[5].json()["retry_after"] <= 5
            sandbox.discord.skip(5)
            assert (await rest.post(f"/channels/{CHANNEL}/messages", json={"content": "x"})).status_code == 200


async def test_what_is_kept_outlives_the_process(tmp_path: Path) -> None:
    async with opened(data=tmp_path) as sandbox:
        said = sandbox.discord.say(DANA, CHANNEL, "Hello")
        sandbox.discord.add_thread(CHANNEL, "Refunds", id=601)
    async with opened(data=tmp_path) as sandbox:
        assert sandbox.discord.channel(CHANNEL).message(said.id).content == "Hello"
        assert sandbox.discord.channel(601).parent == CHANNEL


# Interactions


async def card(rest: httpx.AsyncClient) -> int:
    return int((await send(rest, {"content": "card", "components": [{"type": 1, "components": [ALLOW]}]}))["id"])


def callback(interaction: Any) -> str:
    return f"/interactions/{interaction.id}/{interaction.token}/callback"


async def test_an_interaction_is_answered_once_and_within_3_s(rest: httpx.AsyncClient, world: World) -> None:
    message = await card(rest)
    press = world.press(DANA, CHANNEL, message, label="Allow")
    body = {"type": 4, "data": {"content": "done", "flags": 64}}
    assert (await rest.post(callback(press), json=body)).status_code == 204
    assert (await rest.post(callback(press), json=body)).json()["code"] == 40060
    answer = await world.answer(press)
    assert (answer.text, answer.ephemeral) == ("done", True)
    late = world.press(DANA, CHANNEL, message, label="Allow")
    world.skip(3.1)
    assert world.failed(late)
    assert (await rest.post(callback(late), json=body)).json()["code"] == 10062
    assert (await rest.post("/interactions/1/x/callback", json=body)).json()["code"] == 10062


async def test_a_deferred_answer_is_filled_in_within_15_minutes(rest: httpx.AsyncClient, world: World) -> None:
    press = world.press(DANA, CHANNEL, await card(rest), label="Allow")
    await rest.post(callback(press), json={"type": 5, "data": {"flags": 64}})
    with pytest.raises(TimeoutError):
        await world.answer(press, 0.05)
    original = f"/webhooks/{BOT}/{press.token}/messages/@original"
    assert (await rest.patch(original, json={"content": "done"})).status_code == 200
    answer = await world.answer(press)
    assert (answer.text, answer.ephemeral) == ("done", True)
    more = await rest.post(f"/webhooks/{BOT}/{press.token}", json={"content": "more", "flags": 64})
    assert more.status_code == 200
    world.skip(900)
    assert (await rest.patch(original, json={"content": "late"})).json()["code"] == 50027


async def test_an_answer_with_buttons_says_what_it_answered_and_can_be_replaced(
    rest: httpx.AsyncClient, world: World
) -> None:
    message = await card(rest)
    menu: Json = {"content": "Which?", "flags": 64, "components": [{"type": 1, "components": [ALLOW]}]}
    await rest.post(callback(world.press(DANA, CHANNEL, message, label="Allow")), json={"type": 4, "data": menu})
    shown = world.channel(CHANNEL).last("Which?")
    pick = world.press(DANA, CHANNEL, shown.id, label="Allow")
    event = wire.interaction(world, pick)["message"]
    assert (event["flags"], event["interaction_metadata"]["interacted_message_id"]) == (64, str(message))
    await rest.post(callback(pick), json={"type": 7, "data": {"content": "Done.", "components": []}})
    answer = await world.answer(pick)
    assert (answer.text, answer.ephemeral) == ("Done.", True)
    assert (shown.content, shown.buttons) == ("Done.", [])


async def test_a_modal_opens_first_or_never(rest: httpx.AsyncClient, world: World) -> None:
    message = await card(rest)
    modal = {"type": 9, "data": {"custom_id": "n", "title": "Note", "components": [NOTE]}}
    deferred = world.press(DANA, CHANNEL, message, label="Allow")
    await rest.post(callback(deferred), json={"type": 5})
    assert (await rest.post(callback(deferred), json=modal)).json()["code"] == 40060
    press = world.press(DANA, CHANNEL, message, label="Allow")
    assert (await rest.post(callback(press), json=modal)).status_code == 204
    with pytest.raises(ValueError, match="1 to 10"):
        world.submit(DANA, press, {"note": "x" * 11})
    with pytest.raises(ValueError, match="1 to 10"):
        world.submit(DANA, press, {})
    sent = world.submit(DANA, press, {"note": "no"})
    assert sent.message == message
    assert (await rest.post(callback(sent), json=modal)).json()["code"] == 50035


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"title": "x" * 46}, "data.title"),
        ({"custom_id": ""}, "data.custom_id"),
        ({"components": [NOTE] * 6}, "data.components"),
        ({"components": [NOTE, NOTE]}, "data.components.1.components.0.custom_id"),
        ({"components": [{"type": 1, "components": [FIELD | {"label": "x" * 46}]}]},
         "data.components.0.components.0.label"),
        ({"components": [{"type": 1, "components": [FIELD | {"max_length": 4001}]}]},
         "data.components.0.components.0.max_length"),
        ({"components": [{"type": 1, "components": [ALLOW]}]}, "data.components.0.components.0.type"),
    ],
)  # fmt: skip
async def test_a_wrong_modal_is_50035(rest: httpx.AsyncClient, world: World, change: Json, path: str) -> None:
    press = world.press(DANA, CHANNEL, await card(rest), label="Allow")
    data = {"custom_id": "n", "title": "Note", "components": [NOTE]} | change
    answer = (await rest.post(callback(press), json={"type": 9, "data": data})).json()
    assert answer["code"] == 50035
    errors = answer["errors"]
    for part in path.split("."):
        errors = errors[part]
    assert errors["_errors"]
    assert press.modal is None


async def test_commands_are_checked_and_offered_where_they_may_be_used(rest: httpx.AsyncClient, world: World) -> None:
    link = {"type": 1, "name": "link", "description": "Link", "options": [
        {"type": 3, "name": "code", "description": "The code", "required": True}]}  # fmt: skip
    command: dict[str, Any] = {"name": "placet", "description": "Approvals", "options": [link], "contexts": [1]}
    path = f"/applications/{BOT}/commands"
    assert (await rest.put(path, json=[command | {"name": "Bad Name"}])).json()["code"] == 50035
    for wrong in ({"german": "x"}, {"de": ""}, {"de": "x" * 101}):
        assert (await rest.put(path, json=[command | {"description_localizations": wrong}])).json()["code"] == 50035
    command |= {"description_localizations": {"de": "Freigaben"}}
    assert (await rest.put(path, json=[command])).status_code == 200
    assert world.command(DANA, "placet link", {"code": "x"}).data["options"][0]["options"][0]["value"] == "x"
    with pytest.raises(ValueError, match="code is required"):
        world.command(DANA, "placet link")
    with pytest.raises(ValueError, match="not offered here"):
        world.command(DANA, "placet link", {"code": "x"}, channel=CHANNEL)


# The gateway


@pytest.mark.parametrize("compress", [False, True])
async def test_identify_ready_and_events(sandbox: Sandbox, world: World, compress: bool) -> None:
    async with connected(sandbox, compress=compress) as socket:
        ready = await socket.identify()
        assert ready["t"] == "READY"
        assert ready["d"]["resume_gateway_url"] == sandbox.discord_gateway_url
        await socket.send(1, ready["s"])
        assert (await socket.next())["op"] == 11
        world.say(DANA, CHANNEL, "secret")
        event = await socket.next()
        assert (event["t"], event["d"]["content"], event["s"]) == ("MESSAGE_CREATE", "", 2)


async def test_content_comes_where_the_bot_may_read_it(sandbox: Sandbox, world: World, rest: httpx.AsyncClient) -> None:
    message = await card(rest)
    async with connected(sandbox) as socket:
        await socket.identify()
        world.say(DANA, CHANNEL, "one", reply_to=message)
        world.say(DANA, CHANNEL, "two", reply_to=message, ping=False)
        world.say(DANA, CHANNEL, f"<@{BOT}> three")
        world.say(DANA, world.private_of(DANA).id, "four")
        read = [(await socket.next())["d"]["content"] for _ in range(4)]
        assert read == ["one", "", f"<@{BOT}> three", "four"]


async def test_a_reply_carries_what_it_replies_to(sandbox: Sandbox, world: World, rest: httpx.AsyncClient) -> None:
    message = await card(rest)
    async with connected(sandbox) as socket:
        await socket.identify()
        world.say(DANA, CHANNEL, "no", reply_to=message)
        event = (await socket.next())["d"]
        assert event["type"] == 19
        assert event["message_reference"]["message_id"] == event["referenced_message"]["id"] == str(message)
        world.say(DANA, CHANNEL, "", reply_to=message, forward=True)
        assert (await socket.next())["d"]["message_reference"]["type"] == 1


async def test_a_session_is_resumed_with_what_it_missed(
    sandbox: Sandbox, world: World, rest: httpx.AsyncClient
) -> None:
    message = await card(rest)
    async with connected(sandbox) as socket:
        session = (await socket.identify())["d"]["session_id"]
        await socket.socket.close(code=4000)
    await world.until(lambda: not world.online())
    world.press(DANA, CHANNEL, message, label="Allow")
    async with connected(sandbox) as socket:
        await socket.send(6, {"token": token_of(BOT), "session_id": session, "seq": 1})
        missed = await socket.next()
        assert (missed["t"], missed["d"]["data"]["custom_id"]) == ("INTERACTION_CREATE", "a.t.1")
        assert (await socket.next())["t"] == "RESUMED"


@pytest.mark.parametrize("code", [1000, 1001])
async def test_a_goodbye_ends_the_session(sandbox: Sandbox, world: World, code: int) -> None:
    async with connected(sandbox) as socket:
        session = (await socket.identify())["d"]["session_id"]
        await socket.socket.close(code=code)
    await world.until(lambda: not world.online())
    async with connected(sandbox) as socket:
        await socket.send(6, {"token": token_of(BOT), "session_id": session, "seq": 1})
        assert await socket.next() == {"op": 9, "d": False}


async def test_a_session_is_kept_for_two_minutes(sandbox: Sandbox, world: World) -> None:
    async with connected(sandbox) as socket:
        session = (await socket.identify())["d"]["session_id"]
        await socket.socket.close(code=4000)
    await world.until(lambda: not world.online())
    world.skip(121)
    world.say(DANA, CHANNEL, "x")
    async with connected(sandbox) as socket:
        await socket.send(6, {"token": token_of(BOT), "session_id": session, "seq": 1})
        assert (await socket.next())["op"] == 9


@pytest.mark.parametrize(
    ("data", "code"),
    [({"token": "wrong"}, 4004), ({"intents": -1}, 4013), ({"intents": 1 << 15}, 4014), ({"properties": {}}, 4002)],
)
async def test_a_wrong_identify_is_closed_with_its_code(sandbox: Sandbox, data: Json, code: int) -> None:
    async with connected(sandbox) as socket:
        assert await socket.identify(**data) == {"closed": code}


async def test_wrong_words_are_closed_with_their_code(sandbox: Sandbox) -> None:
    async with connected(sandbox) as socket:
        await socket.send(14, {})
        assert await socket.next() == {"closed": 4003}
    async with connected(sandbox) as socket:
        await socket.socket.send_str("not json")
        assert await socket.next() == {"closed": 4002}
    async with connected(sandbox) as socket:
        await socket.identify()
        assert await socket.identify() == {"closed": 4005}


async def test_a_web_page_may_not_listen(sandbox: Sandbox) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(sandbox.discord_gateway_url, headers={"origin": "http://evil.example"})


async def test_a_press_goes_to_the_endpoint_where_one_is_set(
    sandbox: Sandbox, world: World, rest: httpx.AsyncClient
) -> None:
    world.add_bot(BOT, "placet", interactions_endpoint_url="https://example.com")
    message = await card(rest)
    async with connected(sandbox) as socket:
        await socket.identify()
        world.press(DANA, CHANNEL, message, label="Allow")
        world.say(DANA, CHANNEL, "after")
        assert (await socket.next())["t"] == "MESSAGE_CREATE"


# People, and what they see


async def test_people_do_what_people_can(world: World, rest: httpx.AsyncClient) -> None:
    message = await card(rest)
    with pytest.raises(ValueError, match="no such button"):
        world.press(DANA, CHANNEL, message, label="Maybe")
    with pytest.raises(ValueError, match="not in it"):
        world.say(world.add_person(4999, "Stranger"), CHANNEL, "hi")
    with pytest.raises(ValueError, match="empty"):
        world.say(DANA, CHANNEL, " ")
    with pytest.raises(ValueError, match="no modal"):
        world.submit(DANA, world.press(DANA, CHANNEL, message, label="Allow"), {})


async def test_faults_are_met_as_scripted(world: World, rest: httpx.AsyncClient) -> None:
    world.fail("create_message", status=403, code=50013)
    assert (await send(rest, {"content": "x"}))["code"] == 50013
    world.fail("create_message", retry_after=33, via=False)
    wall = await rest.post(f"/channels/{CHANNEL}/messages", json={"content": "x"})
    assert (wall.status_code, wall.headers["retry-after"], "via" in wall.headers) == (429, "33", False)
    for when, count in (("before", 0), ("after", 1)):
        world.drop("create_message", when=when)  # type: ignore[arg-type]
        with pytest.raises(httpx.HTTPError):
            await send(rest, {"content": "x"})
        assert len(world.channel(CHANNEL).messages) == count
    world.fail("create_message", times=None)
    assert (await rest.post(f"/channels/{CHANNEL}/messages", json={"content": "x"})).status_code == 500
    world.mend()
    assert "id" in await send(rest, {"content": "x"})
    assert [call.status for call in world.calls_of("create_message")] == [403, 429, 0, 0, 500, 200]


@pytest.mark.parametrize(
    ("text", "shown", "kinds"),
    [
        ("**b** _i_ ~~s~~ `c`", "b i s c", ["bold", "italic", "strikethrough", "code"]),
        ("```py\nx = 1\n```", "x = 1", ["pre"]),
        ("> a\n> b", "a\nb", ["blockquote"]),
        ("[go](https://evil.example)", "go", ["text_link"]),
        ("see https://evil.example.", "see https://evil.example.", ["url"]),
        ("<@1> @everyone <#2> <t:1:R> :a:", "<@1> @everyone <#2> <t:1:R> :a:",
         ["mention", "everyone", "mention", "timestamp", "emoji"]),
        ("\\*a\\* \\<@1>", "*a* <@1>", []),
        ("# head", "head", ["bold"]),
    ],
)  # fmt: skip
def test_markdown_is_read_as_a_client_reads_it(text: str, shown: str, kinds: list[str]) -> None:
    read, entities = markdown.read(text)
    assert read == shown
    assert [entity["type"] for entity in entities] == kinds


async def test_the_page_acts_on_discord(sandbox: Sandbox, world: World, rest: httpx.AsyncClient) -> None:
    message = await card(rest)

    async def act(name: str, body: Json) -> Json:
        async with httpx.AsyncClient(base_url=sandbox.url, trust_env=False) as page:
            answer = await page.post(f"/sandbox/discord/{name}", json=body, headers={"x-placet-sandbox": "1"})
            result: Json = answer.json() | {"status": answer.status_code}
            return result

    place = {"person": str(DANA), "chat": str(CHANNEL)}
    pressing = asyncio.create_task(act("press", place | {"message": str(message), "row": 0, "column": 0}))
    press = await world.until(lambda: list(world.interactions.values())[-1])
    modal = {"type": 9, "data": {"custom_id": "n", "title": "Note", "components": [NOTE]}}
    await rest.post(callback(press), json=modal)
    form = (await pressing)["form"]
    assert (form["title"], form["fields"][0]["name"], form["fields"][0]["long"]) == ("Note", "note", True)
    sending = asyncio.create_task(
        act("submit", {"person": str(DANA), "opened": form["opened"], "values": {"note": "no"}})
    )
    sent = await world.until(lambda: list(world.interactions.values())[1])
    await rest.post(callback(sent), json={"type": 4, "data": {"content": "noted", "flags": 64}})
    assert (await sending)["answered"]
    said = await act("say", place | {"text": "hello", "reply_to": str(message)})
    assert world.channel(CHANNEL).message(int(said["message"])).reference == message
    opened_chat = await act("start", {"chat": f"{OLA}:{BOT}"})
    assert opened_chat["chat"] == str(world.private_of(OLA).id)
    assert (await act("say", place | {"text": " "}))["status"] == 400


def test_a_token_says_whose_it_is() -> None:
    assert token_of(BOT).startswith("ODAwMDAwMDAwMQ.")
    assert Bot(id=1, token=token_of(1), username="a", name="A").commands == []
