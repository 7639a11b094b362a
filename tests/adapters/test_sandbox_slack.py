"""The sandbox's Slack held to Slack's own limits and errors, through the real SDK."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.sandbox import Sandbox
from adapters.sandbox.slack import World

TOKEN, APP_TOKEN = "xoxb-sandbox", "xapp-sandbox"
CHANNEL, DANA, OTTO = "C01", "U01", "U91"


def people(sandbox: Sandbox) -> World:
    world = sandbox.slack
    world.add_team("T01", "Acme", token=TOKEN, app_token=APP_TOKEN)
    dana, otto = world.add_person(DANA, "Dana Reyes"), world.add_person(OTTO, "Otto", team="T99")
    world.add_channel(CHANNEL, "billing", [dana])
    world.add_channel("C02", "shared", [dana, otto])
    world.add_channel("C03", "without-us", [dana], with_bot=False)
    return world


def client_of(sandbox: Sandbox, token: str = TOKEN) -> AsyncWebClient:
    client = AsyncWebClient(token, base_url=sandbox.slack_base_url, retry_handlers=[])
    client.proxy = None
    return client


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(rate_scale=math.inf) as opened:
        people(opened)
        yield opened


@pytest.fixture
def world(sandbox: Sandbox) -> World:
    return sandbox.slack


@pytest.fixture
def client(sandbox: Sandbox) -> AsyncWebClient:
    return client_of(sandbox)


async def refusal(call: Any) -> str:
    with pytest.raises(SlackApiError) as caught:
        await call
    error: str = caught.value.response["error"]
    return error


def text(words: str, kind: str = "plain_text") -> dict[str, Any]:
    return {"type": kind, "text": words}


def button(**changed: Any) -> dict[str, Any]:
    return {"type": "button", "text": text("Allow"), "action_id": "a", "value": "v"} | changed


def confirm(**changed: Any) -> dict[str, Any]:
    asked = {"title": text("t"), "text": text("x"), "confirm": text("y"), "deny": text("n")} | changed
    return {"type": "actions", "elements": [button(confirm=asked)]}


def rich(*elements: dict[str, Any], kind: str = "rich_text_section") -> dict[str, Any]:
    return {"type": "rich_text", "elements": [{"type": kind, "elements": list(elements)}]}


SECTION = {"type": "section", "text": text("x")}
FITTING = [
    [{"type": "header", "text": text("h" * 150)}],
    [{"type": "section", "text": text("s" * 3000)}],
    [{"type": "section", "fields": [text("f" * 200)] * 10}],
    [{"type": "actions", "elements": [button(value="v" * 2000, action_id="a" * 255, text=text("b" * 75))]}],
    [{"type": "actions", "elements": [button(action_id=str(number)) for number in range(25)]}],
    [confirm(title=text("t" * 100), text=text("x" * 300), confirm=text("y" * 30), deny=text("n" * 30))],
    [SECTION] * 50,
    [rich(text("a", "text") | {"style": {"bold": True}}, text(" b", "text"))],
    [rich(text("a", "text"), kind="rich_text_preformatted"), rich(text("a", "text"), kind="rich_text_quote")],
]
BREAKING = [
    [{"type": "header", "text": text("h" * 151)}],
    [{"type": "header", "text": text("h", "mrkdwn")}],
    [{"type": "section", "text": text("s" * 3001)}],
    [{"type": "section", "text": text("&" * 601)}],
    [{"type": "section", "text": text("")}],
    [{"type": "section", "fields": [text("f")] * 11}],
    [{"type": "section", "text": text("s") | {"colour": "red"}}],
    [{"type": "actions", "elements": [button(value="v" * 2001)]}],
    [{"type": "actions", "elements": [button(action_id="a" * 256)]}],
    [{"type": "actions", "elements": [button(text=text("b" * 76))]}],
    [{"type": "actions", "elements": [button(style="success")]}],
    [{"type": "actions", "elements": [button(), button()]}],
    [{"type": "actions", "elements": [button(action_id=str(number)) for number in range(26)]}],
    [confirm(title=text("t" * 101))],
    [confirm(text=text("x" * 301))],
    [confirm(deny=text("n" * 31))],
    [SECTION] * 51,
    [{"type": "marquee", "text": text("x")}],
    [{"type": "rich_text", "elements": []}],
    [rich()],
    [rich(text("", "text"))],
    [rich(text("x"))],
    [rich(text("x", "text"), kind="rich_text_poem")],
    [rich(text("x", "text") | {"style": {"big": True}})],
    [rich(text("x", "text") | {"style": {"bold": True}}, kind="rich_text_preformatted")],
]


@pytest.mark.parametrize("blocks", FITTING)
async def test_blocks_at_their_limits_are_taken(client: AsyncWebClient, blocks: list[dict[str, Any]]) -> None:
    assert (await client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks))["ok"]


@pytest.mark.parametrize("blocks", BREAKING)
async def test_blocks_beyond_their_limits_are_refused(client: AsyncWebClient, blocks: list[dict[str, Any]]) -> None:
    assert await refusal(client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks)) == "invalid_blocks"


async def test_too_much_text_in_all_is_refused(client: AsyncWebClient) -> None:
    blocks = [{"type": "section", "text": text("s" * 3000)}] * 5
    assert await refusal(client.chat_postMessage(channel=CHANNEL, blocks=blocks)) == "msg_blocks_too_long"


async def test_what_is_live_is_seen(client: AsyncWebClient, world: World) -> None:
    sent = await client.chat_postMessage(channel=CHANNEL, text="<!channel> <@U01> *b* :x: https://a.example")
    message = world.channels[CHANNEL].message(sent["ts"])
    assert message.live == ["<!channel>", "<@U01>", "*b*", "https://a.example", ":x:"]
    sent = await client.chat_postMessage(channel=CHANNEL, text="&lt;!channel&gt; a &amp; b")
    message = world.channels[CHANNEL].message(sent["ts"])
    assert (message.live, message.shown) == ([], "<!channel> a & b")
    blocks = [{"type": "section", "text": text("`<!here>` :x:", "mrkdwn")}, {"type": "section", "text": text(":y:")}]
    sent = await client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks)
    assert world.channels[CHANNEL].message(sent["ts"]).live == ["<!here>", ":x:", ":y:"]
    literal = [rich(text("<!here> *b* :x: https://a.example", "text"))]
    sent = await client.chat_postMessage(channel=CHANNEL, text="x", blocks=literal)
    message = world.channels[CHANNEL].message(sent["ts"])
    assert (message.live, message.shown) == ([], "<!here> *b* :x: https://a.example")


async def test_places_that_are_not_for_the_bot(client: AsyncWebClient, world: World) -> None:
    assert await refusal(client.chat_postMessage(channel="C99", text="x")) == "channel_not_found"
    assert await refusal(client.chat_postMessage(channel="C03", text="x")) == "not_in_channel"
    assert await refusal(client.chat_postMessage(channel=CHANNEL, text="x", thread_ts="1.000001")) == "thread_not_found"
    assert await refusal(client.chat_postMessage(channel=CHANNEL)) == "no_text"
    theirs = world.say(DANA, CHANNEL, "hello")
    assert await refusal(client.chat_update(channel=CHANNEL, ts=theirs.ts, text="x")) == "cant_update_message"
    assert await refusal(client.chat_update(channel=CHANNEL, ts="1.000001", text="x")) == "message_not_found"
    assert await refusal(client.chat_postEphemeral(channel=CHANNEL, user=OTTO, text="x")) == "user_not_in_channel"
    assert await refusal(client.conversations_open(users=OTTO)) == "user_not_visible"
    world.archive(CHANNEL)
    assert await refusal(client.chat_postMessage(channel=CHANNEL, text="x")) == "is_archived"


async def test_tokens(sandbox: Sandbox, client: AsyncWebClient, world: World) -> None:
    assert (await client.auth_test())["team_id"] == "T01"
    assert await refusal(client_of(sandbox, "xoxb-other").auth_test()) == "invalid_auth"
    assert await refusal(client.apps_connections_open(app_token=TOKEN)) == "invalid_auth"
    assert await refusal(client.api_call("chat.dance")) == "unknown_method"
    world.revoke()
    assert await refusal(client.auth_test()) == "token_revoked"


async def test_a_text_without_blocks_takes_their_place(client: AsyncWebClient, world: World) -> None:
    sent = await client.chat_postMessage(channel=CHANNEL, text="x", blocks=[SECTION])
    await client.chat_update(channel=CHANNEL, ts=sent["ts"], text="y")
    assert world.channels[CHANNEL].message(sent["ts"]).blocks == []
    assert await refusal(client.chat_update(channel=CHANNEL, ts=sent["ts"], text="y" * 4001)) == "msg_too_long"


MODAL = {
    "type": "modal",
    "title": text("t"),
    "submit": text("s"),
    "callback_id": "c",
    "private_metadata": "m",
    "blocks": [
        {
            "type": "input",
            "block_id": "b",
            "label": text("l"),
            "element": {"type": "plain_text_input", "action_id": "a"},
        }
    ],
}


async def pressed(client: AsyncWebClient, world: World) -> Any:
    elements = [{"type": "actions", "elements": [button()]}]
    sent = await client.chat_postMessage(channel=CHANNEL, text="x", blocks=elements)
    return world.press(DANA, CHANNEL, sent["ts"], label="Allow")


async def test_a_trigger_opens_one_form_within_three_seconds(client: AsyncWebClient, world: World) -> None:
    press = await pressed(client, world)
    long = MODAL | {"private_metadata": "m" * 3001}
    assert await refusal(client.views_open(trigger_id=press.trigger_id, view=long)) == "invalid_arguments"
    assert await refusal(client.views_open(trigger_id="1.2", view=MODAL)) == "invalid_trigger_id"
    await client.views_open(trigger_id=press.trigger_id, view=MODAL)
    assert await refusal(client.views_open(trigger_id=press.trigger_id, view=MODAL)) == "exchanged_trigger_id"
    late = await pressed(client, world)
    world.skip(3.1)
    assert await refusal(client.views_open(trigger_id=late.trigger_id, view=MODAL)) == "expired_trigger_id"
    view = await world.opened(press)
    submission = world.submit(view, "no")
    payload = world.envelopes[submission.envelope].payload
    assert payload["view"]["state"]["values"] == {"b": {"a": {"type": "plain_text_input", "value": "no"}}}
    with pytest.raises(ValueError, match="no longer open"):
        world.submit(view, "again")


async def respond(url: str, **more: Any) -> int:
    body = {"response_type": "ephemeral", "replace_original": False, "text": "word"} | more
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        return answer.status


async def test_a_response_url_works_five_times_and_half_an_hour(client: AsyncWebClient, world: World) -> None:
    press = await pressed(client, world)
    assert [await respond(press.response_url) for _ in range(6)] == [200] * 5 + [404]
    assert press.words == ["word"] * 5
    late = await pressed(client, world)
    world.skip(1801)
    assert await respond(late.response_url) == 404


async def test_an_ephemeral_message_is_its_persons_own_and_can_be_replaced_through_a_press(
    client: AsyncWebClient, world: World
) -> None:
    world.channels[CHANNEL].members.add(OTTO)
    rows = [{"type": "actions", "block_id": "menu/1", "elements": [button(text=text("Everything"))]}]
    sent = await client.chat_postEphemeral(channel=CHANNEL, user=DANA, text="Which?", blocks=rows)
    with pytest.raises(ValueError, match="does not see"):
        world.press(OTTO, CHANNEL, sent["message_ts"], label="Everything")
    press = world.press(DANA, CHANNEL, sent["message_ts"], label="Everything")
    payload = world.envelopes[press.envelope].payload
    assert payload["container"]["is_ephemeral"]
    assert "message" not in payload
    assert payload["actions"][0]["block_id"] == "menu/1"
    assert await refusal(client.chat_update(channel=CHANNEL, ts=sent["message_ts"], text="x")) == "message_not_found"
    assert await respond(press.response_url, replace_original=True, text="Done.") == 200
    shown = world.channels[CHANNEL].message(sent["message_ts"])
    assert (shown.shown, shown.buttons) == ("Done.", [])
    on_a_card = await pressed(client, world)
    assert await respond(on_a_card.response_url, replace_original=True) == 400
    assert on_a_card.words == []


async def test_a_user_group_says_who_is_in_it_to_its_own_workspace(sandbox: Sandbox, world: World) -> None:
    client = client_of(sandbox)
    world.add_team("T02", "Bolt", token="xoxb-other")
    world.set_usergroup("S01", [DANA])
    world.set_usergroup("S02", [OTTO], team="T02")
    assert (await client.usergroups_users_list(usergroup="S01"))["users"] == [DANA]
    for group in ("S02", "S99", ""):
        assert await refusal(client.usergroups_users_list(usergroup=group)) == "no_such_subteam"
    world.set_usergroup("S01", [])
    assert (await client.usergroups_users_list(usergroup="S01"))["users"] == []


async def test_nobody_writes_to_somebody_who_left(client: AsyncWebClient, world: World) -> None:
    private = (await client.conversations_open(users=DANA))["channel"]["id"]
    await client.chat_postMessage(channel=private, text="card")
    world.deactivate(DANA)
    assert await refusal(client.chat_postMessage(channel=private, text="card")) == "is_archived"
    assert await refusal(client.conversations_open(users=DANA)) == "user_disabled"
    assert (await client.users_info(user=DANA))["user"]["deleted"]


async def test_a_file_must_be_uploaded_whole_before_it_is_shared(client: AsyncWebClient, world: World) -> None:
    root = await client.chat_postMessage(channel=CHANNEL, text="card")
    await client.files_upload_v2(channel=CHANNEL, thread_ts=root["ts"], filename="a.txt", content="whole ✓")
    (message,) = world.channels[CHANNEL].thread(root["ts"])
    assert world.content(message.files[0]).decode() == "whole ✓"
    wanted = await client.files_getUploadURLExternal(filename="b.txt", length=5)
    done = client.files_completeUploadExternal(files=[{"id": wanted["file_id"], "title": "b"}], channel_id=CHANNEL)
    assert await refusal(done) == "file_update_failed"


async def test_limits_are_slacks_and_name_the_wait() -> None:
    async with Sandbox() as sandbox:
        world, client = people(sandbox), client_of(sandbox)
        for _ in range(3):
            await client.chat_postMessage(channel=CHANNEL, text="x")
        with pytest.raises(SlackApiError) as caught:
            await client.chat_postMessage(channel=CHANNEL, text="x")
        assert (caught.value.response.status_code, caught.value.response["error"]) == (429, "ratelimited")
        assert caught.value.response.headers["retry-after"] == "1"
        await client.chat_postMessage(channel="C02", text="x")
        world.skip(1)
        await client.chat_postMessage(channel=CHANNEL, text="x")


async def opened(client: AsyncWebClient, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    url = (await client.apps_connections_open(app_token=APP_TOKEN))["url"]
    socket = await session.ws_connect(url)
    assert (await socket.receive_json())["type"] == "hello"
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await session.ws_connect(url)
    return socket


async def test_an_event_comes_again_until_it_is_acknowledged_and_a_press_does_not(
    client: AsyncWebClient, world: World
) -> None:
    async with aiohttp.ClientSession() as session:
        socket = await opened(client, session)
        world.say(DANA, CHANNEL, "hello")
        first = await socket.receive_json()
        world.skip(3.1)
        again = await socket.receive_json()
        assert (first["retry_attempt"], again["retry_attempt"]) == (0, 1)
        assert first["envelope_id"] == again["envelope_id"]
        assert first["payload"]["event"]["text"] == "hello"
        await socket.send_json({"envelope_id": first["envelope_id"]})
        await world.until(lambda: world.envelopes[first["envelope_id"]].acked_at)
        press = await pressed(client, world)
        assert (await socket.receive_json())["payload"]["type"] == "block_actions"
        world.skip(400)
        world.command(DANA, CHANNEL, "pending")
        assert (await socket.receive_json())["type"] == "slash_commands"
        assert not world.acked(press)
        await socket.close()


async def test_faults_are_met_once_and_calls_are_recorded(client: AsyncWebClient, world: World) -> None:
    world.fail("chat.postMessage", retry_after=7)
    world.drop("chat.postMessage", when="after")
    assert await refusal(client.chat_postMessage(channel=CHANNEL, text="a")) == "ratelimited"
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel=CHANNEL, text="b")
    await client.chat_postMessage(channel=CHANNEL, text="c")
    assert [call.status for call in world.calls_of("chat.postMessage", chat=CHANNEL)] == [429, 0, 200]
    assert [message.shown for message in world.channels[CHANNEL].messages] == ["b", "c"]


async def test_it_runs_again_on_the_same_data(tmp_path: Path) -> None:
    async with Sandbox(data=tmp_path) as sandbox:
        people(sandbox)
        sent = await client_of(sandbox).chat_postMessage(channel=CHANNEL, text="card", blocks=[SECTION])
    async with Sandbox(data=tmp_path) as sandbox:
        assert sandbox.slack.people[DANA].name == "Dana Reyes"
        message = sandbox.slack.channels[CHANNEL].message(sent["ts"])
        assert message.blocks == [SECTION]
        await client_of(sandbox).chat_update(channel=CHANNEL, ts=sent["ts"], text="settled")
        await asyncio.sleep(0)


async def test_a_form_stays_open_when_the_servers_start_again(tmp_path: Path) -> None:
    async with Sandbox(data=tmp_path) as sandbox:
        people(sandbox)
        blocks = [{"type": "actions", "elements": [button()]}]
        sent = await client_of(sandbox).chat_postMessage(channel=CHANNEL, text="card", blocks=blocks)
        press = sandbox.slack.press(DANA, CHANNEL, sent["ts"], label="Allow")
        note = {"type": "plain_text_input", "action_id": "note"}
        view = {"type": "modal", "title": text("Why?"), "submit": text("Send"), "private_metadata": "n.t.1", "blocks": [
            {"type": "input", "block_id": "note", "label": text("Note"), "element": note},
        ]}  # fmt: skip
        opened = (await client_of(sandbox).views_open(trigger_id=press.trigger_id, view=view))["view"]
    async with Sandbox(data=tmp_path) as sandbox:
        submitted = sandbox.slack.submit(sandbox.slack.views[opened["id"]], "Wrong customer")
        told = sandbox.slack.envelopes[submitted.envelope].payload["view"]
        assert told["private_metadata"] == "n.t.1"
        assert "Wrong customer" in str(told["state"])
    async with Sandbox(data=tmp_path) as sandbox:
        assert opened["id"] not in sandbox.slack.views


async def test_strangers_press_nothing(client: AsyncWebClient, world: World) -> None:
    sent = await client.chat_postMessage(
        channel=CHANNEL, text="x", blocks=[{"type": "actions", "elements": [button()]}]
    )
    with pytest.raises(ValueError, match="is not in"):
        world.press(OTTO, CHANNEL, sent["ts"], label="Allow")
    with pytest.raises(ValueError, match="no such button"):
        world.press(DANA, CHANNEL, sent["ts"], label="Decline")
