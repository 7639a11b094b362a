"""The sandbox's page in a real browser: what a person sees, presses and writes; and what other sites cannot do."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from slack_sdk.web.async_client import AsyncWebClient
from telegram import Bot, ForceReply, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters, Update

from adapters.sandbox import Sandbox
from tests.browser import a_browser
from tests.looks import hard_to_read, without_name

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKEN = "7000000001:sandbox-token"
FORUM = -1001234
AT_24_HOURS = re.compile(r"^([01][0-9]|2[0-3]):[0-5][0-9]$")
TOPIC = 31
CARD = InlineKeyboardMarkup(
    [[InlineKeyboardButton("Allow", callback_data="a.t.1"), InlineKeyboardButton("Decline", callback_data="d.t.1")]]
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with a_browser() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(rate_scale=math.inf) as started:
        started.add_bot(TOKEN, "placet_bot", name="Placet")
        dana = started.add_person(1001, "Dana Reyes", "dana")
        ola = started.add_person(1002, "Ola Berg", "ola")
        started.add_group(FORUM, "Billing", [dana, ola], forum=True, topics={TOPIC: "Refunds"})
        started.telegram.start(dana)
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def bot(sandbox: Sandbox) -> AsyncIterator[Bot]:
    base, files = sandbox.telegram_base_url, sandbox.telegram_file_url
    async with Bot(TOKEN, base_url=base, base_file_url=files) as client:
        await client.get_updates(offset=-1)
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, sandbox: Sandbox) -> AsyncIterator[Page]:
    opened = await browser.new_page(viewport={"width": 1360, "height": 820})
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda line: complaints.append(line.text) if "Content Security" in line.text else None)
    await opened.goto(sandbox.url)
    await expect(opened.get_by_test_id("connection")).to_have_text("Live")
    yield opened
    await opened.close()
    assert complaints == []


async def told(bot: Bot, act: Coroutine[Any, Any, None]) -> Update:
    """What a bot is told of what a person does."""
    before = await bot.get_updates(offset=-1, timeout=0)
    await act
    (update,) = await bot.get_updates(offset=before[-1].update_id + 1 if before else None, timeout=5)
    return update


async def test_a_card_appears_is_pressed_and_settles(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    card = await bot.send_message(
        1001, "<b>billing wants to use shell.run</b>\n<pre>ls &lt;dir&gt;</pre>", parse_mode="HTML", reply_markup=CARD
    )
    text = page.get_by_test_id(f"text-{card.message_id}")
    await expect(text.locator("strong")).to_have_text("billing wants to use shell.run")
    await expect(page.get_by_test_id(f"message-{card.message_id}").locator("time")).to_have_text(AT_24_HOURS)
    await expect(text.locator("pre")).to_have_text("ls <dir>")
    allow = page.get_by_test_id(f"button-{card.message_id}-0-0")
    query = (await told(bot, allow.click())).callback_query
    await expect(allow).to_have_attribute("aria-busy", "true")
    assert query is not None
    assert (query.data, query.from_user.id) == ("a.t.1", 1001)
    await query.answer("Allowed. It runs now.")
    await bot.edit_message_text("Allowed by Dana Reyes", 1001, card.message_id)
    await expect(page.get_by_test_id("toast")).to_have_text("Allowed. It runs now.")
    await expect(text).to_have_text("Allowed by Dana Reyes")
    await expect(allow).to_have_count(0)
    await expect(page.get_by_test_id(f"message-{card.message_id}")).to_contain_text("edited")


async def test_an_alert_waits_to_be_closed(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    card = await bot.send_message(1001, "card", reply_markup=CARD)
    query = (await told(bot, page.get_by_test_id(f"button-{card.message_id}-0-1").click())).callback_query
    assert query is not None
    await query.answer("Too late: it was decided.", show_alert=True)
    await expect(page.get_by_test_id("alert-text")).to_have_text("Too late: it was decided.")
    await page.get_by_test_id("alert-ok").click()
    await expect(page.get_by_test_id("alert")).to_be_hidden()


async def test_the_keyboard_alone_can_press_reply_and_send(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    card = await bot.send_message(1001, "card", reply_markup=CARD)
    await page.get_by_test_id(f"reply-{card.message_id}").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("reply-bar-telegram")).to_contain_text("Reply to Placet")
    await expect(page.get_by_test_id("composer-telegram")).to_be_focused()
    await page.keyboard.type("Not today")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("please")
    heard = (await told(bot, page.keyboard.press("Enter"))).message
    assert heard is not None
    assert heard.reply_to_message is not None
    assert (heard.text, heard.reply_to_message.message_id) == ("Not today\nplease", card.message_id)
    await expect(page.get_by_test_id("reply-bar-telegram")).to_be_hidden()
    await expect(page.get_by_test_id(f"message-{heard.message_id}")).to_contain_text("Not today")
    await page.get_by_test_id(f"button-{card.message_id}-0-0").focus()
    query = (await told(bot, page.keyboard.press("Enter"))).callback_query
    assert query is not None
    await query.answer("done")
    await expect(page.get_by_test_id("toast")).to_have_text("done")


async def test_a_prompt_opens_the_reply_of_the_person_it_addresses(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    ask = ForceReply(selective=True, input_field_placeholder="Why not?")
    await page.get_by_test_id(f"chat-{FORUM}").click()
    await page.get_by_test_id("topic-general").click()
    await bot.send_message(FORUM, "Your note, @ola?", reply_markup=ask)
    await expect(page.get_by_text("Your note, @ola?").first).to_be_visible()
    await expect(page.get_by_test_id("reply-bar-telegram")).to_be_hidden()
    await page.get_by_test_id("acting-as-telegram").select_option(label="Ola Berg")
    await expect(page.get_by_test_id("reply-bar-telegram")).to_contain_text("Your note, @ola?")
    await expect(page.get_by_test_id("composer-telegram")).to_have_attribute("placeholder", "Why not?")
    await page.get_by_test_id("reply-bar-telegram").get_by_test_id("reply-cancel").click()
    await expect(page.get_by_test_id("reply-bar-telegram")).to_be_hidden()


async def test_a_prompt_comes_into_view_and_its_long_hint_needs_no_scrollbar(
    page: Page, bot: Bot, sandbox: Sandbox
) -> None:
    await page.get_by_test_id("chat-1001:7000000001").click()
    for number in range(12):
        await bot.send_message(1001, f"card {number}\n" + "line\n" * 6)
    log, field = page.get_by_test_id("messages-telegram"), page.get_by_test_id("composer-telegram")
    await expect(log).to_contain_text("card 11")
    await log.evaluate("node => { node.scrollTop = 0; }")
    await page.wait_for_function("document.querySelector('[data-testid=messages-telegram]').scrollTop === 0")
    hint = "One line for each text, number first; the rest stays as it is"
    prompt = await bot.send_message(1001, "What shall it say?", reply_markup=ForceReply(input_field_placeholder=hint))
    await expect(page.get_by_test_id(f"message-{prompt.message_id}")).to_be_in_viewport()
    await expect(field).to_have_attribute("placeholder", hint)
    scrolls = "node => [node.scrollHeight > node.clientHeight, node.scrollWidth > node.clientWidth]"
    overflow = "node => [getComputedStyle(node).overflowX, getComputedStyle(node).overflowY]"
    assert await field.evaluate(overflow) == ["hidden", "hidden"]
    drawn = page.locator(".telegram .ghost")
    await expect(drawn).to_have_text(hint)
    assert await drawn.evaluate("node => getComputedStyle(node).textOverflow") == "ellipsis"
    inside = "node => node.getBoundingClientRect().right <= node.previousSibling.getBoundingClientRect().right"
    assert await drawn.evaluate(inside)
    await field.fill("one\ntwo")
    await expect(drawn).to_be_hidden()
    assert await field.evaluate(scrolls) == [False, False]
    await field.fill("line\n" * 30)
    assert (await field.evaluate(overflow))[1] == "auto"


async def test_the_tabs_of_a_phone_lead_to_each_pane_and_leave_the_page_in_place(
    browser: Browser, sandbox: Sandbox, bot: Bot
) -> None:
    await bot.send_message(1001, "card " * 50, reply_markup=CARD)
    sandbox.slack.add_team("T01", "Acme", token="xoxb-sandbox")
    sandbox.slack.add_channel("C01", "billing", [sandbox.slack.add_person("U01", "Dana Reyes")])
    discord = sandbox.discord
    discord.add_bot(8000000001, "placet", name="Placet")
    discord.add_channel(600, discord.add_guild(500, "Acme", [discord.add_person(4201, "Dana Reyes")]), "billing")
    page = await browser.new_page(viewport={"width": 390, "height": 844})
    await page.goto(sandbox.url)
    await expect(page.get_by_test_id("connection")).to_have_text("Live")
    for tab, pane in (("agent", "agent"), ("slack", "platform-slack"), ("discord", "platform-discord"),
                      ("agent", "agent"), ("telegram", "platform-telegram")):  # fmt: skip
        await page.get_by_test_id(f"tab-{tab}").click()
        await expect(page.locator(".tabs [aria-current]")).to_have_attribute("data-testid", f"tab-{tab}")
        await expect(page.get_by_test_id(pane)).to_be_in_viewport(ratio=0.6)
        assert await page.evaluate("scrollY") == 0
        await expect(page.get_by_test_id("connection")).to_be_in_viewport()
    await page.close()


async def test_a_document_is_read_as_text(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    whole = "<script>document.title = 'owned'</script>\n" + "line\n" * 50
    card = await bot.send_message(1001, "card")
    reply = ReplyParameters(card.message_id)
    await bot.send_document(1001, whole.encode(), filename="whole.html", caption="All of it", reply_parameters=reply)
    await page.get_by_test_id("document-whole.html").click()
    await expect(page.get_by_test_id("document-text")).to_contain_text("<script>document.title = 'owned'</script>")
    assert await page.title() == "Placet sandbox"
    async with page.expect_download() as download:
        await page.get_by_test_id("document-download").click()
    assert (await (await download.value).path()).read_text() == whole
    await page.get_by_test_id("document-close").click()
    await expect(page.get_by_test_id("document-dialog")).to_be_hidden()


async def test_nothing_that_is_said_becomes_markup(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    nasty = "<img src=x onerror=\"document.title='owned'\"> &amp; javascript:alert(1)"
    sandbox.add_person(1003, nasty)
    sandbox.telegram.start(1003)
    sandbox.agent_said("asked", nasty, ask=nasty, title=nasty, detail=nasty)
    link = InlineKeyboardMarkup([[InlineKeyboardButton(nasty, callback_data="x")]])
    message = await bot.send_message(1001, nasty, reply_markup=link)
    await expect(page.get_by_test_id(f"text-{message.message_id}")).to_have_text(nasty)
    await expect(page.get_by_test_id(f"button-{message.message_id}-0-0")).to_have_text(nasty)
    await expect(page.get_by_test_id("agent").locator("h3")).to_have_text(nasty)
    await page.get_by_test_id("acting-as-telegram").select_option(label=nasty)
    assert await page.locator("main img").count() == 0
    assert await page.title() == "Placet sandbox"


async def test_a_chat_that_was_not_started_offers_to_start(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    await page.get_by_test_id("acting-as-telegram").select_option(label="Ola Berg")
    await page.get_by_test_id("chat-1002:7000000001").click()
    await expect(page.get_by_test_id("composer-telegram")).to_be_hidden()
    heard = (await told(bot, page.get_by_test_id("start-1002:7000000001").click())).message
    assert heard is not None
    assert heard.from_user is not None
    assert (heard.text, heard.from_user.id) == ("/start", 1002)
    await expect(page.get_by_test_id("composer-telegram")).to_be_visible()


async def test_topics_stay_apart_and_show_what_is_unread(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    await page.get_by_test_id(f"chat-{FORUM}").click()
    await page.get_by_test_id("topic-general").click()
    card = await bot.send_message(FORUM, "in the topic", message_thread_id=TOPIC, reply_markup=CARD)
    await expect(page.get_by_test_id(f"topic-{TOPIC}")).to_contain_text("unread")
    await expect(page.get_by_test_id(f"message-{card.message_id}")).to_have_count(0)
    await page.get_by_test_id(f"topic-{TOPIC}").click()
    await expect(page.get_by_test_id(f"message-{card.message_id}")).to_be_visible()
    await page.get_by_test_id("composer-telegram").fill("@placet_bot hello")
    heard = (await told(bot, page.get_by_test_id("send-telegram").click())).message
    assert heard is not None
    assert heard.message_thread_id == TOPIC


async def test_the_agents_column_tells_each_story_and_asks_again(page: Page, sandbox: Sandbox) -> None:
    pressed: list[str] = []

    async def ask(id: str) -> None:
        pressed.append(id)
        sandbox.agent_said("asked", "to refund 49.00 GBP", ask="run-1", title="Refund")
        if len(pressed) > 1:
            raise RuntimeError("the agent is gone")

    await page.set_viewport_size({"width": 1640, "height": 820})
    await expect(page.get_by_test_id("asks-empty")).to_be_visible()
    sandbox.add_action("refund", "Refund a charge", ask)
    await page.get_by_test_id("action-refund").click()
    turn, call = page.get_by_test_id("agent-ask-run-1"), page.get_by_test_id("agent-call-run-1-1")
    await expect(turn).to_have_attribute("data-state", "waiting")
    await expect(call).to_have_attribute("data-kind", "asked")
    await expect(page.get_by_test_id("asks-empty")).to_have_count(0)
    sandbox.agent_said("allowed", "by Dana Reyes and done.", ask="run-1", detail='{"refund": "re_1"}')
    await expect(call).to_have_attribute("data-kind", "allowed")
    await expect(call).to_contain_text('{"refund": "re_1"}')
    await page.get_by_test_id("action-refund").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("That did not work")
    assert pressed == ["refund", "refund"]


async def test_each_call_of_a_turn_has_its_own_state_and_the_turn_has_one(page: Page, sandbox: Sandbox) -> None:
    title, latest = "Close the case", page.get_by_test_id("latest")
    turn = page.get_by_test_id("agent-ask-run-1")
    pills, calls = turn.locator("header .pill"), turn.get_by_test_id(re.compile("^agent-call"))
    sandbox.agent_said("asked", "Write a mail", ask="run-1", title=title, detail='"Dear Ada"')
    await expect(pills).to_have_text(["Waits", "Waits"])
    sandbox.agent_said("edited", "to this, which is what ran:", ask="run-1", title=title, detail='"Dear Ada!"')
    sandbox.agent_said("allowed", "and told: done", ask="run-1", title=title)
    await expect(pills).to_have_text(["Allowed"])
    sandbox.agent_said("asked", "Refund a charge", ask="run-1", title=title)
    await expect(pills).to_have_text(["Waits", "Allowed", "Waits"])
    await expect(latest).to_have_text("Waits Refund a charge")
    sandbox.agent_said("declined", "and told: no", ask="run-1", title=title)
    sandbox.agent_said("ended", "", ask="run-1", title=title)
    await expect(pills).to_have_text(["Ended", "Allowed", "Declined"])
    await expect(calls.first).to_contain_text("Edited to this, which is what ran:")
    await expect(calls.first.locator("pre")).to_have_text(['"Dear Ada"', '"Dear Ada!"'])
    await expect(calls.nth(1)).not_to_contain_text("Edited")
    await expect(latest).to_have_text("Declined Refund a charge")


async def test_it_says_when_the_sandbox_is_gone_and_comes_back(browser: Browser) -> None:
    async with Sandbox(rate_scale=math.inf) as first:
        first.add_bot(TOKEN, "placet_bot")
        first.telegram.start(first.add_person(1001, "Dana Reyes"))
        page = await browser.new_page()
        await page.goto(first.url)
        await expect(page.get_by_test_id("connection")).to_have_text("Live")
        port = first.port
    await expect(page.get_by_test_id("banner")).to_be_visible()
    await expect(page.get_by_test_id("composer-telegram")).to_be_disabled()
    async with Sandbox(port, rate_scale=math.inf) as second:
        second.add_bot(TOKEN, "placet_bot")
        second.telegram.start(second.add_person(1002, "Ola Berg"))
        await expect(page.get_by_test_id("connection")).to_have_text("Live", timeout=15_000)
        await expect(page.get_by_test_id("banner")).to_be_hidden()
        await expect(page.get_by_test_id("acting-as-telegram")).to_have_value("1002")
        await expect(page.get_by_test_id("composer-telegram")).to_be_enabled()
        await page.close()


async def test_an_empty_sandbox_says_so(browser: Browser) -> None:
    async with Sandbox() as sandbox:
        page = await browser.new_page()
        await page.goto(sandbox.url)
        await expect(page.get_by_test_id("no-chats")).to_be_visible()
        await expect(page.get_by_test_id("acting-as-telegram")).to_be_disabled()
        await page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1360, 1640])
async def test_it_fits_narrow_and_wide_and_reads_in_both_schemes(
    browser: Browser, sandbox: Sandbox, bot: Bot, width: int, scheme: str
) -> None:
    card = await bot.send_message(1001, "a" * 400 + " " + "word " * 100, reply_markup=CARD)
    sandbox.agent_said("waiting", "for Dana Reyes", title="A" * 200, ask="one")
    page = await browser.new_page(viewport={"width": width, "height": 740}, color_scheme=scheme)  # type: ignore[arg-type]
    await page.goto(sandbox.url)
    await expect(page.get_by_test_id(f"message-{card.message_id}")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = await page.get_by_test_id(f"button-{card.message_id}-0-1").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= width
    if width == 360:
        await page.get_by_test_id("tab-agent").click()
    if width == 1360:
        await page.get_by_test_id("agent-toggle").click()
    await expect(page.get_by_test_id("agent-ask-one")).to_be_in_viewport()
    assert await hard_to_read(page) == []
    assert await without_name(page) == []
    await page.close()


async def test_other_sites_are_kept_out(sandbox: Sandbox) -> None:
    say = {"person": 1001, "chat": "1001:7000000001", "text": "hi"}
    own = {"x-placet-sandbox": "1"}
    async with httpx.AsyncClient(base_url=sandbox.url, trust_env=False) as http:
        assert (await http.post("/sandbox/telegram/say", json=say, headers=own)).status_code == 200
        same = own | {"origin": sandbox.url}
        assert (await http.post("/sandbox/telegram/say", json=say, headers=same)).status_code == 200
        assert (await http.post("/sandbox/telegram/say", json=say)).status_code == 403
        for foreign in ("https://evil.example", "null", "http://127.0.0.1:1"):
            headers = own | {"origin": foreign}
            assert (await http.post("/sandbox/telegram/say", json=say, headers=headers)).status_code == 403
            assert (await http.post(f"/bot{TOKEN}/getMe", headers={"origin": foreign})).status_code == 403
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80"):
            assert (await http.get("/sandbox/events", headers={"host": host})).status_code == 403
        assert (await http.get("/", headers={"host": f"localhost:{sandbox.port}"})).status_code == 200
        index = await http.get("/")
        policy = index.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert index.headers["x-content-type-options"] == "nosniff"


async def test_a_bad_act_is_refused_with_what_to_mend(sandbox: Sandbox) -> None:
    async with httpx.AsyncClient(base_url=sandbox.url, trust_env=False, headers={"x-placet-sandbox": "1"}) as http:

        async def act(path: str, **body: object) -> tuple[int, str]:
            response = await http.post(f"/sandbox/{path}", json=body)
            return response.status_code, response.json()["error"]

        assert await act("telegram/say", person=1001, chat="1001:7000000001") == (400, "text: missing, or unknown here")
        assert await act("telegram/say", person=77, chat=str(FORUM), text="x") == (
            400,
            "person: nobody has the id 77; add_person first",
        )
        assert await act("telegram/press", person=1001, chat=str(FORUM), message=9, row=0, column=0) == (
            400,
            "button: that message has no such button with data",
        )
        assert (await act("telegram/dance"))[0] == 404
        assert (await act("fax/say"))[0] == 404
        assert (await act("action", id="nothing"))[0] == 404
        assert (await act("agent", kind="sings", text="la"))[0] == 400
        fed = await http.post("/sandbox/agent", json={"kind": "waiting", "text": "for Dana", "ask": "one"})
        assert fed.json() == {"id": 1}
        missing = await http.get("/sandbox/telegram/file/nothing")
        assert missing.status_code == 404


async def test_the_stream_says_everything_first_then_what_changed(sandbox: Sandbox) -> None:
    async with (
        httpx.AsyncClient(base_url=sandbox.url, trust_env=False) as http,
        http.stream("GET", "/sandbox/events") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "event: hello"
        assert '"Billing"' in await anext(lines)
        assert await anext(lines) == ""
        sandbox.telegram.say(1001, 1001, "only this chat")
        async with asyncio.timeout(5):
            assert await anext(lines) == "event: change"
            data = await anext(lines)
        assert "only this chat" in data
        assert '"Billing"' not in data


async def test_discord_stands_beside_it_with_its_form_and_words_for_one(page: Page, sandbox: Sandbox) -> None:
    world = sandbox.discord
    bot = world.add_bot(8000000001, "placet", name="Placet")
    dana, ola = world.add_person(4201, "Dana Reyes"), world.add_person(4202, "Ola Berg")
    world.add_channel(600, world.add_guild(500, "Acme", [dana, ola]), "billing")
    headers = {"authorization": f"Bot {bot.token}"}
    async with httpx.AsyncClient(base_url=sandbox.discord_base_url, headers=headers, trust_env=False) as rest:
        button = {"type": 2, "style": 4, "label": "Decline with a note", "custom_id": "n.t.1"}
        card = {"embeds": [{"description": "**billing** wants \\*this\\*"}],
                "components": [{"type": 1, "components": [button]}]}  # fmt: skip
        sent = (await rest.post("/channels/600/messages", json=card)).json()["id"]
        await page.get_by_test_id("chat-600").click()
        await expect(page.get_by_test_id(f"text-{sent}")).to_have_text("billing wants *this*")
        await page.get_by_test_id(f"button-{sent}-0-0").click()
        press = await world.until(lambda: list(world.interactions.values())[-1])
        field = {"type": 4, "custom_id": "note", "style": 2, "label": "Note"}
        known = {"type": 4, "custom_id": "amount", "style": 1, "label": "Amount", "value": "49.00", "max_length": 9}
        modal = {"custom_id": "n", "title": "Why?",
                 "components": [{"type": 1, "components": [each]} for each in (field, known)]}  # fmt: skip
        await rest.post(f"/interactions/{press.id}/{press.token}/callback", json={"type": 9, "data": modal})
        await expect(page.get_by_test_id("form")).to_contain_text("Why?")
        await expect(page.get_by_test_id("form-note")).to_be_focused()
        await expect(page.get_by_test_id("form-amount")).to_have_value("49.00")
        await page.get_by_test_id("form-amount").fill("24.50")
        await page.get_by_test_id("form-note").fill("Wrong customer")
        await page.get_by_test_id("form-submit").click()
        sent_form = await world.until(lambda: list(world.interactions.values())[1:][-1])
        values = [row["components"][0]["value"] for row in sent_form.data["components"]]
        assert values == ["Wrong customer", "24.50"]
        word = {"type": 4, "data": {"content": "Declined.", "flags": 64}}
        await rest.post(f"/interactions/{sent_form.id}/{sent_form.token}/callback", json=word)
    column = page.get_by_test_id("messages-discord")
    await expect(column).to_contain_text("Declined.")
    await expect(page.get_by_test_id(f"only-{sent_form.reply}")).to_have_text("Only you see this")
    await page.get_by_test_id("acting-as-discord").select_option(label="Ola Berg")
    await expect(column).not_to_contain_text("Declined.")
    await page.get_by_test_id("chat-4202:8000000001").click()
    await expect(page.get_by_text("A bot cannot write first")).to_be_hidden()
    await expect(page.get_by_test_id("start-4202:8000000001")).to_have_text("Open")
    await page.get_by_test_id("start-4202:8000000001").click()
    await expect(page.get_by_test_id(f"chat-{world.private_of(ola).id}")).to_be_visible()


def plain(text: str) -> dict[str, object]:
    return {"type": "plain_text", "text": text}


def written(name: str, label: str, **more: object) -> dict[str, object]:
    element = {"type": "plain_text_input", "action_id": name, **more}
    return {"type": "input", "block_id": f"block_{name}", "label": plain(label), "element": element}


async def test_a_form_of_slack_has_its_fields_filled_in_and_says_what_is_wrong(page: Page, sandbox: Sandbox) -> None:
    world = sandbox.slack
    world.add_team("T01", "Acme", token="xoxb-sandbox")
    world.add_channel("C01", "billing", [world.add_person("U01", "Dana Reyes")])
    client = AsyncWebClient("xoxb-sandbox", base_url=sandbox.slack_base_url)
    client.proxy = None
    edit = {"type": "button", "text": plain("Edit"), "action_id": "e", "value": "e.t.1"}
    card = await client.chat_postMessage(channel="C01", text="card", blocks=[{"type": "actions", "elements": [edit]}])
    view = {"type": "modal", "title": plain("Edit"), "submit": plain("Save"), "blocks": [
        written("subject", "Subject", initial_value="Your refund", max_length=80),
        written("body", "Text", initial_value="Dear Ada,\nwe owe you.", multiline=True) | {"hint": plain("Plain text")},
        written("note", "Note") | {"optional": True},
    ]}  # fmt: skip
    await page.get_by_test_id(f"button-{card['ts']}-0-0").click()
    press = await world.until(lambda: list(world.presses.values())[-1])
    world.acknowledge(press.envelope, None)
    await client.views_open(trigger_id=press.trigger_id, view=view)
    await expect(page.get_by_test_id("form-subject")).to_have_value("Your refund")
    await expect(page.get_by_test_id("form-body")).to_have_value("Dear Ada,\nwe owe you.")
    await expect(page.get_by_test_id("form")).to_contain_text("Plain text")
    await page.get_by_test_id("form-body").fill("Dear Ada,")
    (form,) = world.views.items()
    world.views.clear()
    await page.get_by_test_id("form-submit").click()
    await expect(page.get_by_test_id("form-problem")).to_contain_text("not open any more")
    await expect(page.get_by_test_id("form-body")).to_have_value("Dear Ada,")
    world.views |= [form]
    await page.get_by_test_id("form-submit").click()
    first = await world.until(lambda: list(world.presses.values())[1:][-1])
    world.acknowledge(first.envelope, {"response_action": "errors", "errors": {"block_body": "Say what for."}})
    await expect(page.get_by_test_id("form")).to_contain_text("Say what for.")
    await expect(page.get_by_test_id("form-body")).to_be_focused()
    await expect(page.get_by_test_id("form-body")).to_have_value("Dear Ada,")
    assert await hard_to_read(page) == []
    await page.get_by_test_id("form-body").fill("Dear Ada, for March.")
    await page.get_by_test_id("form-submit").click()
    second = await world.until(lambda: list(world.presses.values())[2:][-1])
    world.acknowledge(second.envelope, None)
    await expect(page.get_by_test_id("form")).to_have_count(0)
    sent = world.envelopes[second.envelope].payload["view"]["state"]["values"]
    assert {name: field["value"] for of in sent.values() for name, field in of.items()} == {
        "subject": "Your refund", "body": "Dear Ada, for March.", "note": None,
    }  # fmt: skip


LABELS = [
    "Allow",
    "Decline",
    "Edit",
    "Always allow stripe.refund create for billing, up to 49.00 GBP",
    "Undo",
    "Restore",
]


async def test_any_number_of_buttons_fits_a_narrow_column(page: Page, bot: Bot, sandbox: Sandbox) -> None:
    slack, discord = sandbox.slack, sandbox.discord
    slack.add_team("T01", "Acme", token="xoxb-sandbox")
    slack.add_channel("C01", "billing", [slack.add_person("U01", "Dana Reyes")])
    discord_bot = discord.add_bot(8000000001, "placet", name="Placet")
    discord.add_channel(600, discord.add_guild(500, "Acme", [discord.add_person(4201, "Dana Reyes")]), "billing")
    elements = [{"type": "button", "text": plain(label), "action_id": str(number), "value": "v"}
                for number, label in enumerate(LABELS)]  # fmt: skip
    client = AsyncWebClient("xoxb-sandbox", base_url=sandbox.slack_base_url)
    client.proxy = None
    await client.chat_postMessage(channel="C01", text="card", blocks=[{"type": "actions", "elements": elements}])
    headers = {"authorization": f"Bot {discord_bot.token}"}
    buttons = [{"type": 2, "style": 2, "label": label, "custom_id": label} for label in LABELS]
    rows = [{"type": 1, "components": buttons[:5]}, {"type": 1, "components": buttons[5:]}]
    async with httpx.AsyncClient(base_url=sandbox.discord_base_url, headers=headers, trust_env=False) as rest:
        await rest.post("/channels/600/messages", json={"content": "card", "components": rows})
    keys = [InlineKeyboardButton(label, callback_data="x") for label in LABELS]
    await bot.send_message(1001, "card", reply_markup=InlineKeyboardMarkup([keys[:2], keys[2:4], keys[4:]]))
    await page.set_viewport_size({"width": 1000, "height": 820})
    for platform in ("telegram", "slack", "discord"):
        column = page.get_by_test_id(f"platform-{platform}")
        await expect(column.locator(".key")).to_have_text(LABELS)
        # Nothing is cut, and nothing reaches over the column's edge.
        assert await column.evaluate(CLIPPED) == []


CLIPPED = """
(column) => {
  const edge = column.getBoundingClientRect().right;
  return [...column.querySelectorAll(".key")]
    .filter((key) => key.scrollWidth > key.clientWidth + 1 || key.getBoundingClientRect().right > edge)
    .map((key) => key.textContent);
}
"""
