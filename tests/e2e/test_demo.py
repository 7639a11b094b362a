"""The demo, as a newcomer meets it: one command, one page with three chats, presses and replies, and starting again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser import a_browser
from tests.e2e.demonstration import PLATFORMS, WAIT_MS, Chats, Demo, demonstrating
from tests.looks import hard_to_read, without_name

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[2]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with a_browser() as launched:
        yield launched


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Demo]:
    async with demonstrating(tmp_path_factory.mktemp("demo") / "demo") as made:
        made.address = await made.start()
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chats(demo: Demo, browser: Browser) -> AsyncIterator[Chats]:
    page = await browser.new_page(viewport={"width": 1680, "height": 950})
    chats = Chats(page)
    page.on("pageerror", lambda error: chats.complaints.append(str(error)))
    page.on("console", lambda line: chats.complaints.append(line.text) if line.type == "error" else None)
    page.on("request", lambda sent: None if sent.url.startswith(demo.address) else chats.complaints.append(sent.url))
    await page.goto(demo.address)
    yield chats
    await page.close()


async def test_the_demo_begins_with_one_card_in_three_chats(demo: Demo, chats: Chats) -> None:
    page, api = demo.out.read_text().splitlines()
    assert demo.address in page
    assert f". {demo.folder}/demo.env" in api
    for platform in PLATFORMS:
        card = chats.card(platform, "Delete the old exports")
        await expect(card).to_contain_text("find exports -name '*.csv' -delete", timeout=WAIT_MS)
        await expect(card.get_by_role("button", name="Allow")).to_be_visible()


async def in_a_terminal(demo: Demo, command: str) -> tuple[int, str]:
    """What a command prints in a terminal that was told where the demo is; and its exit code."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_shell(
        f". {demo.folder}/demo.env && {command}", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ | {"PATH": path}, cwd=ROOT,
    )  # fmt: skip
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, printed.decode()


async def test_another_terminal_finds_the_demo(demo: Demo, chats: Chats) -> None:
    code, listed = await in_a_terminal(demo, "placet approvals")
    assert code == 0, listed
    assert "sage" in listed
    code, found = await in_a_terminal(demo, "placet doctor")
    assert code == 0, found
    assert "is off" not in found
    assert "placet_demo_bot" in found


async def test_a_task_that_the_sample_agent_does_not_know_ends_at_once(demo: Demo, chats: Chats) -> None:
    code, said = await in_a_terminal(demo, "python -m adapters.sample_agent frob")
    assert code == 2
    assert "choose from" in said
    code, said = await in_a_terminal(demo, "python -m adapters.sample_agent --help")
    assert code == 0
    assert "TEMPORAL_ADDRESS" in said


async def test_the_agent_adapts_to_a_note_and_goes_on(demo: Demo, chats: Chats) -> None:
    await chats.act_as("discord", "Kim Sato")
    await chats.press("discord", "Delete the old exports", "Decline with a note")
    await chats.page.get_by_test_id("form-note").fill("Only list them first")
    await chats.page.get_by_test_id("form-submit").click()
    await chats.everywhere("Delete the old exports", "Declined by Kim Sato through Discord")
    await chats.everywhere("Delete the old exports", "Only list them first")
    again = chats.card("telegram", "List the old exports")
    await expect(again).to_contain_text("You wrote: Only list them first", timeout=WAIT_MS)
    await chats.press("telegram", "List the old exports", "Allow")
    await expect(chats.story("case")).to_contain_text("exports/march.csv", timeout=WAIT_MS)
    await chats.press("slack", "Write to a customer", "Allow")
    await chats.press("discord", "Refund a duplicate charge", "Decline")
    await expect(chats.story("case")).to_contain_text("Declined by Kim Sato. Nothing was run.", timeout=WAIT_MS)
    states = ["Ended", "Declined", "Allowed", "Allowed", "Declined"]
    await expect(chats.story("case").locator("header .pill")).to_have_text(states, timeout=WAIT_MS)
    assert (demo.folder / "exports" / "march.csv").exists()
    assert (demo.folder / "outbox.jsonl").read_text().count("\n") == 1
    assert not (demo.folder / "refunds.jsonl").exists()


async def test_a_press_in_one_chat_settles_the_others(demo: Demo, chats: Chats) -> None:
    await chats.ask("message", "Write to a customer")
    await chats.act_as("slack", "Ola Berg")
    await chats.press("slack", "Write to a customer", "Allow")
    await expect(chats.card("slack", "Allowed. sage may go on")).to_contain_text("Only you see this")
    await chats.everywhere("Write to a customer", "Allowed by Ola Berg through Slack")
    await chats.everywhere("Write to a customer", "Done.")
    await expect(chats.story("message")).to_contain_text("Approved by Ola Berg and done.", timeout=WAIT_MS)
    await expect(chats.story("message")).to_contain_text("msg_2")
    assert (demo.folder / "outbox.jsonl").read_text().count("\n") == 2


async def test_a_stranger_is_refused_in_words_that_only_he_sees(chats: Chats) -> None:
    await chats.ask("refund", "Refund a duplicate charge")
    for platform in ("slack", "discord"):
        await chats.act_as(platform, "Sam Stranger")
        await chats.press(platform, "Refund a duplicate charge", "Decline")
        told = chats.card(platform, "account is linked to nobody here")
        await expect(told).to_contain_text("Only you see this", timeout=WAIT_MS)
        await chats.act_as(platform, "Dana Reyes")
        await expect(chats.card(platform, "account is linked to nobody here")).to_have_count(0)
        await expect(
            chats.card(platform, "Refund a duplicate charge").get_by_role("button", name="Allow")
        ).to_be_visible()
    await chats.act_as("telegram", "Sam Stranger")
    await chats.press("telegram", "Refund a duplicate charge", "Decline")
    await expect(chats.page.get_by_test_id("alert-text")).to_contain_text("linked to nobody")
    await chats.page.get_by_test_id("alert-ok").click()
    await expect(chats.column("telegram")).not_to_contain_text("linked to nobody")
    await chats.act_as("telegram", "Dana Reyes")


async def test_money_is_confirmed_and_a_reply_in_the_thread_declines(chats: Chats) -> None:
    await chats.card("slack", "Refund a duplicate charge").get_by_role("button", name="Allow").click()
    await expect(chats.page.get_by_test_id("form")).to_contain_text("It spends money or deletes something.")
    await chats.page.get_by_test_id("form-close").click()
    await chats.card("slack", "Refund a duplicate charge").get_by_role("button", name="Reply").click()
    await expect(chats.page.get_by_test_id("reply-bar-slack")).to_contain_text("Reply to Placet")
    await chats.write("slack", "Not before Monday")
    await chats.everywhere("Refund a duplicate charge", "Dana Reyes replied: Not before Monday")
    thread = chats.column("slack").locator("li.under").filter(has_text="Not before Monday")
    await expect(thread.first).to_be_visible()
    half = chats.card("telegram", "Refund half of a charge")
    await expect(half).to_contain_text("You wrote: Not before Monday", timeout=WAIT_MS)


async def test_a_prompt_of_telegram_is_answered(chats: Chats) -> None:
    await chats.press("telegram", "Refund half of a charge", "Decline with a note")
    await expect(chats.page.get_by_test_id("reply-bar-telegram")).to_contain_text("Tell sage what to do instead")
    await chats.write("telegram", "Not at all")
    await chats.everywhere("Refund half of a charge", "Declined by Dana Reyes through Telegram")
    await expect(chats.story("refund")).to_contain_text("Note: Not at all", timeout=WAIT_MS)


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_commands_are_typed(chats: Chats, platform: str) -> None:
    if platform == "telegram":
        await chats.column("telegram").get_by_role("navigation").get_by_role("button", name="Placet").click()
    await chats.write(platform, "/pending" if platform == "telegram" else "/placet pending")
    await expect(chats.column(platform)).to_contain_text("Nothing waits for you.", timeout=WAIT_MS)


async def test_an_edit_in_a_form_changes_the_card_in_all_chats(demo: Demo, chats: Chats) -> None:
    await chats.column("telegram").get_by_role("navigation").get_by_role("button", name="Approvals").click()
    await chats.ask("message", "Write to a customer")
    await chats.card("slack", "Write to a customer").get_by_role("button", name="Edit").click()
    form = chats.page.get_by_test_id("form")
    subject = form.get_by_label("Subject")
    await expect(subject).to_have_value("Your refund")
    await subject.fill("Your second refund")
    await chats.page.get_by_test_id("form-submit").click()
    for platform in PLATFORMS:
        card = chats.card(platform, "Write to a customer")
        await expect(card).to_contain_text("Your second refund", timeout=WAIT_MS)
    await chats.press("discord", "Write to a customer", "Allow")
    await chats.everywhere("Write to a customer", "Done.")
    assert "Your second refund" in (demo.folder / "outbox.jsonl").read_text()
    edited = chats.story("message").locator("li.edited")
    await expect(edited).to_contain_text("to this, which is what ran:", timeout=WAIT_MS)
    await expect(edited.locator("pre")).to_contain_text("Your second refund")


async def test_the_chats_stand_side_by_side_and_on_a_phone_under_each_other(chats: Chats) -> None:
    async def corners() -> list[tuple[float, float]]:
        boxes = [await chats.column(platform).bounding_box() for platform in PLATFORMS]
        return [(box["x"], box["y"]) for box in boxes if box]

    await chats.page.set_viewport_size({"width": 1280, "height": 800})
    across = await corners()
    assert len({y for _, y in across}) == 1
    assert across == sorted(across)
    assert len({x for x, _ in across}) == len(PLATFORMS)
    for platform in PLATFORMS:
        await expect(chats.column(platform)).to_be_in_viewport(ratio=1)
    await chats.page.set_viewport_size({"width": 390, "height": 844})
    down = await corners()
    assert len({x for x, _ in down}) == 1
    assert [y for _, y in down] == sorted({y for _, y in down})
    await chats.page.get_by_test_id("tab-discord").click()
    await expect(chats.page.get_by_test_id("composer-discord")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_all_that_is_left_on_the_page_can_be_read(chats: Chats, scheme: str) -> None:
    for width in (1280, 390):
        await chats.page.set_viewport_size({"width": width, "height": 844})
        await chats.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert await hard_to_read(chats.page) == [], (width, scheme)
        assert await without_name(chats.page) == []
        assert await chats.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert chats.complaints == []


@pytest.mark.parametrize("by", ["option", "terminal"])
async def test_a_second_demo_on_the_same_folder_is_refused_in_one_line(demo: Demo, by: str) -> None:
    command = [sys.executable, "-m", "adapters", "demo", "--no-browser", "--port", "0"]
    # A terminal that has read demo.env has the folder as its data folder.
    terminal = os.environ | ({"PLACET_DATA_DIR": str(demo.folder)} if by == "terminal" else {})
    command += [] if by == "terminal" else ["--data-dir", str(demo.folder)]
    second = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, env=terminal)
    assert second.returncode == 1
    assert second.stdout == ""
    assert len(second.stderr.splitlines()) == 1
    assert f"{demo.folder} is in use" in second.stderr


@pytest.mark.parametrize(("command", "fix"), [
    (("demo", "--no-browser", "--port", "{port}"), 'make demo ARGS="--port 8500"'),
    (("serve",), "PLACET_HTTP_BIND: 127.0.0.1:{port} cannot be used"),
])  # fmt: skip
async def test_a_port_that_a_demo_has_is_told_with_what_to_do(
    demo: Demo, tmp_path: Path, command: tuple[str, ...], fix: str
) -> None:
    words = [word.format(port=demo.port) for word in command]
    own = {"XDG_DATA_HOME": str(tmp_path / "share"), "PLACET_HTTP_BIND": f"127.0.0.1:{demo.port}"}
    second = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "adapters", *words], capture_output=True, text=True, timeout=60,
        env=os.environ | own, cwd=Path.cwd(),
    )  # fmt: skip
    assert second.returncode == 1
    told = second.stderr.splitlines()[-1]
    assert fix.format(port=demo.port) in told
    assert "another" in told
    assert "demo" in told
    # Placet's data folder is as private where the demo made it as where `serve` does, which makes none for nothing.
    placets = tmp_path / "share" / "placet"
    assert placets.stat().st_mode & 0o777 == 0o700 if command[0] == "demo" else not placets.exists()


async def test_ctrl_c_ends_the_demo_with_one_more_line(demo: Demo, chats: Chats) -> None:
    await chats.page.close()
    await demo.stop(signal.SIGINT)
    assert demo.child.returncode == 0
    _, _, *last = demo.out.read_text().splitlines()
    assert last == ["Stopped. Started again, it goes on where it was."]


async def test_a_demo_speaks_the_language_that_is_set_and_obeys_no_file_that_happens_to_lie_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "placet.toml").write_text(
        'public_url = "https://placet.example"\ntelegram_webhook_secret = "only-for-the-real-one"\n'
        "presses_per_minute = 0\n"
    )
    set_for_a_real_one = {"PLACET_DATABASE_URL": "postgresql://127.0.0.1:9/placet", "PLACET_LANGUAGE": "de"}
    async with demonstrating(tmp_path / "demo", tmp_path, **set_for_a_real_one) as demo:
        address = await demo.start()
        async with (
            asyncio.timeout(60),
            httpx.AsyncClient(trust_env=False, timeout=None) as page,
            page.stream("GET", f"{address}/sandbox/events") as events,
        ):
            shown = ""
            async for line in events.aiter_lines():
                shown += line
                if shown.count("Erlauben") >= len(PLATFORMS):
                    break
        events_logged = [json.loads(line)["event"] for line in (demo.folder / "placet.log").read_text().splitlines()]
        assert "polling" in events_logged
        assert "webhook set" not in events_logged
        await demo.stop(signal.SIGTERM)


async def test_the_demo_killed_leaves_no_orphans_and_runs_again_on_the_same_data(
    tmp_path: Path, browser: Browser
) -> None:
    async with demonstrating(tmp_path / "demo") as demo:
        page = await browser.new_page(viewport={"width": 1680, "height": 950})
        chats = Chats(page)
        await page.goto(await demo.start())
        for platform in PLATFORMS:
            card = chats.card(platform, "Delete the old exports")
            await expect(card.get_by_role("button", name="Allow")).to_be_visible(timeout=WAIT_MS)
        await demo.stop(signal.SIGKILL)
        await page.goto(await demo.start())
        for platform in PLATFORMS:
            cards = chats.column(platform).get_by_test_id(re.compile(r"^message-[\d.]+$"))
            await expect(cards.filter(has_text="Delete the old exports")).to_have_count(1)
        # Whoever was killed still has the bots for some seconds; Telegram keeps a press for as long.
        await chats.card("telegram", "Delete the old exports").get_by_role("button", name="Allow").click()
        for platform in PLATFORMS:
            await expect(chats.card(platform, "Delete the old exports")).to_contain_text("Done.", timeout=90_000)
        assert list((demo.folder / "exports").iterdir()) == []
        await page.close()
        await demo.stop(signal.SIGTERM)
