"""The command line: against a real served API, and as a real process where the process matters."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from adapters.cli import app
from adapters.sandbox import Sandbox
from adapters.settings import admin_token, read_settings
from core.approvals import Status
from tests.adapters.api import ADMIN, DIRECTORY, Api, an_api, served
from tests.services import free_port

EDITABLE: dict[str, Any] = {
    "presentation": {"title": "Refund", "lines": [["Charge", "/charge"]], "editable": ["/charge", "/amount"]}
}
QUORUM = DIRECTORY.replace("    at: [dm]", "    at: [dm]\n    needed: 2").replace(
    "approver: [dana]", "approver: [dana, ola]"
)
NOT_A_PERSONS = (
    "placet: this is no person's token, so it cannot answer or edit an approval: make a person's token with `placet "
    "token PERSON` and set PLACET_TOKEN\n"
)
NEEDS_PERSON = (
    "placet: the admin token cannot answer an approval: make a person's token with `placet token PERSON` and set "
    "PLACET_TOKEN\n"
)
UNKNOWN = "The directory has no {}: add it to placet.yaml and run placet apply."


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting but the test's own, and an empty data folder."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("PLACET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PLACET_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on stderr of a command that was refused."""
        assert self.out == ""
        assert self.err.count("\n") == 1
        assert self.err.startswith("placet: ")
        return self.err.removeprefix("placet: ").rstrip("\n")


async def placet(*arguments: str, **env: str) -> Ended:
    """Run a command line in this process."""
    result = await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=env, prog_name="placet")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


async def process(*arguments: str, **env: str) -> Ended:
    """Run a command line as a process of its own."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters", *arguments), stdin=nothing, stdout=pipe, stderr=pipe,
        env={**os.environ, **env},
    )  # fmt: skip
    out, err = await started.communicate()
    assert started.returncode is not None
    return Ended(started.returncode, out.decode(), err.decode())


@dataclass(frozen=True, slots=True)
class Served:
    """A served API, and the command line with somebody's token."""

    api: Api
    url: str

    def env(self, who: str) -> dict[str, str]:
        return {"PLACET_URL": self.url, "PLACET_TOKEN": self.api.tokens[who]}

    async def run(self, who: str, *arguments: str) -> Ended:
        return await placet(*arguments, **self.env(who))

    async def status(self, row: dict[str, Any]) -> Status:
        approval = await self.api.approvals.get(row["id"])
        assert approval is not None
        return approval.status


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with an_api(tmp_path) as api, served(api) as url:
        api.tokens["nobody"] = "placet_a-token-of-nobody"
        yield Served(api, url)


# Usage


async def test_help_names_every_command() -> None:
    assert (await process("--version")).out == f"placet {version('placet')}\n"
    told = await process("--help")
    assert told.code == 0
    commands = (
        "demo, serve, apply, doctor, approvals, show, approve, decline, edit, mode, rules, pause, resume, reset, link, "
        "token, migrate"
    )
    assert [name for name in commands.split(", ") if f"\n  {name} " not in told.out] == []
    said = " ".join(told.out.split())
    assert "with the token in PLACET_TOKEN, else with the admin token of the data folder" in said


async def test_help_loads_no_model_of_an_ask() -> None:
    """They take longer to load than a person likes to wait for a page of help."""
    code = "import sys, adapters.__main__; print({'pydantic', 'core.rules'} & sys.modules.keys())"
    started = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    out, _ = await started.communicate()
    assert (started.returncode, out.decode()) == (0, "set()\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",), ("show",), ("approvals", "--status", "maybe"), ("serve", "--only", "cook"),
        ("show", "zz"), ("show", "1234567"), ("approve", "01234567@0"), ("approve", "01234567@x"),
        ("demo", "--port", "70000"), ("decline", "01234567", "a", "b"),
        ("mode",), ("mode", "billing", "never"), ("pause",), ("rules",), ("rules", "remove"), ("rules", "a", "b"),
        ("rules", "add", "billing", "--tool", "x"), ("rules", "add", "billing", "--tool", "x", "--scope", "all"),
        ("rules", "add", "billing", "--tool", "x", "--scope", "tool", "--expires", "soon"),
        ("rules", "add", "billing", "--tool", "x", "--scope", "tool", "--ceiling", "much"),
        ("edit", "01234567"), ("edit", "01234567", "reason=x"), ("edit", "01234567", "/reason"),
    ],
)  # fmt: skip
async def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    ended = await placet(*arguments)
    assert ended.code == 2
    assert ended.err
    assert ended.out == ""


async def test_a_word_that_is_none_of_those_taken_is_told_in_plain_words() -> None:
    ended = await placet("approvals", "--status", "maybe")
    assert "'maybe' is not one of 'pending'" in ended.err
    assert "Value error" not in ended.err


async def test_a_bad_setting_is_one_line() -> None:
    ended = await process("approvals", PLACET_HTTP_BIND="planted")
    assert ended.code == 1
    assert ended.line == "PLACET_HTTP_BIND: must be host:port, such as 127.0.0.1:8420"


@pytest.mark.parametrize(("name", "value"), [
    ("PLACET_TELEGRAM_TOKEN", "planted"), ("PLACET_SLACK_BOT_TOKEN", "planted"), ("PLACET_DISCORD_TOKEN", "planted"),
    ("PLACET_TEMPORAL_CODEC", "nowhere.there:planted"), ("PLACET_HTTP_BIND", "127.0.0.1:{taken}"),
])  # fmt: skip
async def test_serve_refuses_a_setting_that_cannot_be_used_before_it_starts_anything(
    tmp_path: Path, name: str, value: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own = {"PLACET_HTTP_BIND": f"127.0.0.1:{free_port()}", name: value.format(taken=taken.getsockname()[1])}
        ended = await process("serve", **own)
    assert ended.code == 1
    assert ended.line.startswith(f"{name}: ")
    assert not (tmp_path / "data").exists()


async def test_parts_of_placet_need_a_database_that_they_share() -> None:
    ended = await placet("serve", "--only", "api")
    assert ended.code == 1
    assert "PLACET_DATABASE_URL" in ended.line


async def test_nothing_at_the_address_is_one_line_with_the_fix() -> None:
    ended = await placet("approvals", PLACET_URL="http://127.0.0.1:9", PLACET_TOKEN="placet_some-token")
    assert ended.code == 1
    assert ended.line == (
        "Placet cannot be reached at http://127.0.0.1:9: start it with `placet serve`, or set PLACET_URL"
    )


async def test_without_a_token_the_fix_is_told(tmp_path: Path) -> None:
    ended = await placet("approvals")
    assert ended.code == 1
    assert f"no token: set PLACET_TOKEN (there is no readable {tmp_path / 'data' / 'admin-token'}" in ended.line


async def test_something_else_at_the_address_is_told() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as stranger:
        url = f"http://127.0.0.1:{stranger.sockets[0].getsockname()[1]}"
        ended = await placet("approvals", PLACET_URL=url, PLACET_TOKEN="placet_some-token")
    assert ended.code == 1
    assert ended.line == f"what answers at {url} is not Placet: set PLACET_URL to where Placet listens"


async def test_a_demos_page_at_the_address_is_told() -> None:
    async with Sandbox() as sandbox:
        ended = await placet("approvals", PLACET_URL=sandbox.url, PLACET_TOKEN="placet_some-token")
    assert ended.code == 1
    assert ended.line == (
        f"what answers at {sandbox.url} is not Placet (404 without a reason; a demo's page is not its API): set "
        "PLACET_URL to where Placet listens, or read the demo's demo.env"
    )


async def test_interrupted_ends_quietly_with_130() -> None:
    asked = asyncio.Event()

    async def keep_waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(keep_waiting, "127.0.0.1", 0) as silent:
        url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "adapters", "approvals"), stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PLACET_URL": url, "PLACET_TOKEN": "placet_some-token"},
        )  # fmt: skip
        await asked.wait()
        started.send_signal(signal.SIGINT)
        assert await started.communicate() == (b"", b"")
    assert started.returncode == 130


# Reading


async def test_nothing_waits(server: Served) -> None:
    ended = await server.run("admin", "approvals")
    assert (ended.code, ended.out) == (0, "Nothing is waiting for an answer.\n")
    ended = await server.run("admin", "approvals", "--status", "declined", "--agent", "billing")
    assert (ended.code, ended.out) == (0, "There are no declined approvals of billing.\n")
    assert json.loads((await server.run("admin", "approvals", "--json")).out) == []


async def test_what_waits_is_listed(server: Served) -> None:
    untitled = {"agent": "support", "tool": "mail", "operation": "", "presentation": {}}
    first, second = await server.api.ask(), await server.api.ask("support", **untitled)
    listed = await server.run("admin", "approvals")
    assert listed.code == 0
    header, *rows = listed.out.splitlines()
    assert header.split() == ["ID", "AGE", "AGENT", "REQUEST", "EFFECT", "STATUS", "EXPIRES"]
    assert rows[0].split() == [second["id"][-8:], "0s", "support", "mail", "send", "pending", "in", "7d"]
    assert rows[1].split()[0] == first["id"][-8:]
    assert "  Refund a duplicate charge  " in rows[1]
    assert len(rows) == 2
    only = json.loads((await server.run("admin", "approvals", "--agent", "billing", "--json")).out)
    assert [row["id"] for row in only] == [first["id"]]


async def test_an_undeliverable_approval_is_marked(server: Served) -> None:
    row = await server.api.ask()
    await server.api.approvals.mark_undeliverable(row["id"], "the chat is gone")
    assert "pending, undeliverable" in (await server.run("admin", "approvals")).out
    assert "\nundeliverable: the chat is gone\n" in (await server.run("admin", "show", row["id"])).out
    await server.run("dana", "decline", row["id"])
    for ended in (
        await server.run("admin", "approvals", "--status", "declined"),
        await server.run("admin", "show", row["id"]),
    ):
        assert "declined" in ended.out
        assert "undeliverable" not in ended.out
    settled = json.loads((await server.run("admin", "show", row["id"], "--json")).out)
    assert (settled["undeliverable"], settled["undeliverable_reason"]) == (False, None)


async def test_a_long_title_is_cut_in_the_list_and_whole_elsewhere(server: Served) -> None:
    title = "Refund the charge of the customer who was charged twice in the spring sale"
    row = await server.api.ask(presentation={"title": title})
    listed = (await server.run("admin", "approvals")).out
    assert "  Refund the charge of the customer who was charg…  money  " in listed
    assert json.loads((await server.run("admin", "approvals", "--json")).out)[0]["card"]["title"] == title
    assert title in (await server.run("admin", "show", row["id"])).out


async def test_s7_an_expired_row_is_not_offered(server: Served) -> None:
    row = await server.api.ask()
    server.api.clock.ahead = timedelta(days=8)
    assert (await server.run("dana", "approvals")).out == "Nothing is waiting for an answer.\n"
    ended = await server.run("dana", "approve", f"{row['id']}@1")
    assert ended.code == 1
    assert "expired" in ended.line.lower()
    assert await server.status(row) is Status.EXPIRED


async def test_a_card_is_shown_whole_with_what_does_not_fit(server: Served) -> None:
    arguments = {"command": "echo \u202e\x1b[2J" + "x" * 5000 + "the-end", "charge": "[red]ch_1"}
    row = await server.api.ask(arguments=arguments)
    shown = await server.run("dana", "show", row["id"])
    assert shown.code == 0
    assert "Charge: [red]ch_1\n" in shown.out
    assert "the-end" in shown.out
    assert "The customer was charged twice." in shown.out
    assert f"\nid: {row['id']}\ncontent revision: 1\n" in shown.out
    assert "\\u202e" in shown.out
    assert "\\\\u202e" not in shown.out
    assert "\u202e" not in shown.out
    assert "\x1b" not in shown.out


async def test_an_id_may_be_cut_short_at_either_end(server: Served) -> None:
    row = await server.api.ask()
    for part in (row["id"][-8:], row["id"][:-1], row["id"].upper()):
        assert json.loads((await server.run("dana", "show", part, "--json")).out)["id"] == row["id"]
    ended = await server.run("dana", "show", "ffffffff-ff")
    assert ended.code == 1
    assert "names no approval" in ended.line


async def test_an_id_that_names_two_is_refused(server: Served) -> None:
    rows = [await server.api.ask(), await server.api.ask()]
    # The first digits of an id are its time, to about a minute.
    begin = {row["id"][:8] for row in rows}
    assert len(begin) == 1
    ended = await server.run("dana", "show", *begin)
    assert ended.code == 1
    assert ended.line == f"{begin.pop()} names 2 approvals: give more of the id"


# Answering


async def test_approve_at_the_revision_that_was_read(server: Served) -> None:
    row = await server.api.ask()
    ended = await server.run("dana", "approve", f"{row['id'][-8:]}@1")
    assert (ended.code, ended.out, ended.err) == (0, "Allowed: stripe.refund create for billing.\n", "")
    again = await server.run("dana", "show", row["id"], "--json")
    decision = json.loads(again.out)["decision"]
    assert (decision["verdict"], decision["by"], decision["via"]) == ("allow", "dana", "cli")
    late = await server.run("dana", "decline", row["id"])
    assert late.code == 1
    assert "already" in late.line.lower()


async def test_approve_at_another_revision_decides_nothing(server: Served) -> None:
    row = await server.api.ask()
    ended = await server.run("dana", "approve", f"{row['id']}@2")
    assert ended.code == 1
    assert ended.line
    assert await server.status(row) is Status.PENDING


async def test_decline_with_a_note(server: Served) -> None:
    row = await server.api.ask()
    ended = await server.run("dana", "decline", row["id"], "Wrong customer.")
    assert (ended.code, ended.out) == (0, "Declined: stripe.refund create for billing.\n")
    approval = await server.api.approvals.get(row["id"])
    assert approval is not None
    assert (approval.status, approval.note, approval.decided_via) == (Status.DECLINED, "Wrong customer.", "cli")


@pytest.mark.parametrize("command", ["approve", "decline"])
async def test_l2_who_may_not_answer_is_refused(server: Served, command: str) -> None:
    row = await server.api.ask()
    for who in ("ola", "kim", "billing"):
        ended = await server.run(who, command, f"{row['id']}@1")
        assert ended.code == 1
        assert ended.line
    assert await server.status(row) is Status.PENDING


@pytest.mark.parametrize("command", ["approve", "decline"])
async def test_l1_without_any_approver_nobody_answers(server: Served, tmp_path: Path, command: str) -> None:
    row = await server.api.ask()
    (tmp_path / "placet.yaml").write_text(
        DIRECTORY.replace("[approvals:view, approvals:answer]", "[approvals:view]").partition("routes:")[0]
    )
    assert (await server.run("admin", "apply", "placet.yaml")).code == 0
    unrouted = await server.api.ask()
    for who in ("dana", "ola", "kim"):
        for each in (row, unrouted):
            ended = await server.run(who, command, f"{each['id']}@1")
            assert ended.code == 1
            assert ended.line
    assert await server.status(row) is await server.status(unrouted) is Status.PENDING


async def test_the_admin_token_answers_nothing_and_says_what_does(server: Served, tmp_path: Path) -> None:
    row = await server.api.ask()
    for who in ("admin", "billing"):
        ended = await server.run(who, "approve", f"{row['id']}@1")
        assert (ended.code, ended.err) == (1, NOT_A_PERSONS)
    # And the other way round: whose token administers nothing.
    for words in (("link", "dana"), ("token", "billing")):
        ended = await server.run("ola", *words)
        assert ended.line.startswith(
            "this token administers nothing: unset PLACET_TOKEN for this machine's admin token"
        )
    # With this machine's admin token it is said before any request.
    admin_token(read_settings(data_dir=tmp_path / "data"))
    for command in ("approve", "decline"):
        ended = await placet(command, f"{row['id']}@1", PLACET_URL="http://127.0.0.1:9")
        assert (ended.code, ended.err) == (1, NEEDS_PERSON)
    assert await server.status(row) is Status.PENDING


async def test_approve_without_a_terminal_wants_the_revision(server: Served) -> None:
    row = await server.api.ask()
    ended = await process("approve", row["id"], **server.env("dana"))
    assert ended.code == 2
    assert "placet approve ID@REVISION" in ended.line
    assert await server.status(row) is Status.PENDING


@pytest.mark.parametrize(("typed", "code", "status"), [("y\n", 0, Status.APPROVED), ("\n", 1, Status.PENDING),
                                                       ("\x04", 1, Status.PENDING)])  # fmt: skip
async def test_approve_on_a_terminal_shows_the_card_and_asks(
    server: Served, typed: str, code: int, status: Status
) -> None:
    row = await server.api.ask()
    master, slave = pty.openpty()
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters", "approve", row["id"]), stdin=slave, stdout=slave, stderr=slave,
        env={**os.environ, **server.env("dana")},
    )  # fmt: skip
    os.close(slave)
    seen = b""
    while b"Allow this?" not in seen:
        seen += await asyncio.to_thread(os.read, master, 4096)
    os.write(master, typed.encode())
    assert await started.wait() == code
    os.close(master)
    assert b"Refund a duplicate charge" in seen
    assert b"Charge: ch_1" in seen
    assert await server.status(row) is status


async def test_w6_nobody_answers_or_edits_their_own_request(server: Served) -> None:
    await server.api.apply(QUORUM.replace("needed: 2", "four_eyes: true"))
    row = await server.api.ask(on_behalf_of="dana", **EDITABLE)
    for arguments in (("approve", f"{row['id']}@1"), ("decline", row["id"]), ("edit", row["id"], "/charge=ch_2")):
        ended = await server.run("dana", *arguments)
        assert ended.code == 1
        assert "your own request" in ended.line
        assert "Ola Berg" in ended.line
    assert await server.status(row) is Status.PENDING
    assert (await server.run("ola", "approve", f"{row['id']}@1")).code == 0


async def test_an_allow_that_is_not_enough_is_said_to_count(server: Served) -> None:
    await server.api.apply(QUORUM)
    row = await server.api.ask()
    first = await server.run("dana", "approve", f"{row['id']}@1")
    counts = "Your Allow counts: 1 of 2. stripe.refund create for billing still waits.\n"
    assert (first.code, first.out) == (0, counts)
    again = await server.run("dana", "approve", f"{row['id']}@1")
    assert again.out == counts.replace("counts:", "counts already:")
    assert "\nallowed by: 1 of 2 (dana)\n" in (await server.run("ola", "show", row["id"])).out
    second = await server.run("ola", "approve", f"{row['id']}@1")
    assert second.out == "Allowed: stripe.refund create for billing.\n"


async def test_what_was_edited_is_allowed_at_its_new_revision(server: Served) -> None:
    row = await server.api.ask(**EDITABLE)
    assert "\neditable: /charge\neditable: /amount\n" in (await server.run("dana", "show", row["id"])).out
    ended = await server.run("dana", "edit", f"{row['id'][-8:]}@1", "/charge=ch=2", "/amount=2500")
    assert ended.code == 0, ended.err
    assert f"placet approve {row['id']}@2" in ended.out
    stale = await server.run("dana", "approve", f"{row['id']}@1")
    assert stale.code == 1
    assert "changed" in stale.line
    approval = await server.api.approvals.get(row["id"])
    assert approval is not None
    assert json.loads(approval.final_arguments) == {"charge": "ch=2", "amount": 2500, "currency": "GBP"}
    assert approval.edited_by == "dana"
    assert (await server.run("dana", "approve", f"{row['id']}@2")).code == 0
    assert "nothing to edit: it is approved" in (await server.run("dana", "edit", row["id"], "/charge=ch_3")).line


async def test_what_cannot_be_edited_is_told(server: Served) -> None:
    row = await server.api.ask(**EDITABLE)
    other = await server.run("dana", "edit", row["id"], "/currency=EUR")
    assert (other.code, other.line) == (1, "/currency cannot be edited; may be edited here: /charge, /amount")
    number = await server.run("dana", "edit", row["id"], "/amount=much")
    assert (number.code, number.line) == (2, "/amount must be a number")
    same = await server.run("dana", "edit", row["id"], "/charge=ch_1")
    assert (same.code, same.line) == (1, "Nothing was changed.")
    assert (await server.run("admin", "edit", row["id"], "/charge=ch_2")).err == NOT_A_PERSONS


# Agents


async def test_the_mode_is_shown_and_set(server: Served) -> None:
    shown = await server.run("dana", "mode", "billing")
    assert (shown.code, shown.out) == (0, "billing asks before anything that reaches outside (outside).\n")
    set_ = await server.run("dana", "mode", "billing", "everything")
    assert set_.code == 0
    assert set_.out.startswith("From its next call on billing asks before everything")
    assert json.loads((await server.run("admin", "mode", "billing", "--json")).out)["mode"] == "everything"
    for who in ("ola", "billing"):
        assert (await server.run(who, "mode", "billing", "money_only")).code == 1
    assert (await server.run("admin", "mode", "zoe")).line == UNKNOWN.format("agent called zoe")
    assert json.loads((await server.run("admin", "mode", "billing", "--json")).out)["mode"] == "everything"


async def test_an_agent_is_paused_resumed_and_reset(server: Served) -> None:
    row = await server.api.ask()
    paused = await server.run("dana", "pause", "billing")
    assert paused.out == "billing is paused. What is allowed takes effect with `placet resume billing`.\n"
    assert (await server.run("dana", "pause", "billing")).out == "billing is paused already.\n"
    assert re.search(
        r"^billing is paused since [A-Z][a-z]{2} \d{1,2}, \d{4}, \d\d:\d\d UTC\.$",
        (await server.run("dana", "mode", "billing")).out,
        re.MULTILINE,
    )
    assert "takes effect when billing resumes" in (await server.run("dana", "show", row["id"])).out
    allowed = await server.run("dana", "approve", f"{row['id']}@1")
    assert "billing is paused: it takes effect when the agent resumes." in allowed.out
    turn = await server.api.turn()
    reset = await server.run("dana", "reset", "billing")
    assert (reset.code, reset.err) == (0, "It is still paused: `placet resume billing`.\n")
    cancelled = await server.api.approvals.get(turn.id)
    assert cancelled is not None
    assert cancelled.status is Status.CANCELLED
    assert (await server.run("dana", "resume", "billing")).out == "billing goes on.\n"
    assert (await server.run("dana", "resume", "billing")).out == "billing is not paused.\n"
    for command in ("pause", "resume", "reset"):
        assert (await server.run("ola", command, "billing")).code == 1


async def test_ac_10_a_rule_is_made_listed_and_removed(server: Served) -> None:
    none = await server.run("admin", "rules", "billing")
    assert none.out == (
        "billing has no standing rules: it asks for whatever its mode asks for.\n"
        "Spending and deleting always ask, unless an administrator made a rule for it.\n"
    )
    assert json.loads((await server.run("admin", "rules", "billing", "--json")).out) == []
    made = await server.run(
        "admin", "rules", "add", "billing", "--tool", "mail.send", "--scope", "recipient=team@example.com"
    )
    assert made.code == 0, made.err
    label = "mail.send to team@example.com, until removed"
    assert made.out.startswith(f"billing does not ask for this any more: {label}.\n")
    (rule,) = json.loads((await server.run("dana", "rules", "billing", "--json")).out)
    mail: dict[str, Any] = {"tool": "mail.send", "operation": "", "presentation": {},
                            "arguments": {"to": "team@example.com"}}  # fmt: skip
    assert (await server.api.ask(**mail))["status"] == "approved"
    listed = (await server.run("dana", "rules", "billing")).out.splitlines()
    assert listed[0].split() == ["ID", "RULE", "BY", "SINCE"]
    assert listed[1].startswith(rule["id"])
    assert label in listed[1]
    assert re.search(r"[A-Z][a-z]{2} \d{1,2}, \d{4}, \d\d:\d\d UTC$", listed[1].rstrip())
    assert listed[-1].startswith("Spending and deleting always ask")
    removed = await server.run("dana", "rules", "remove", rule["id"])
    assert removed.out == f"Removed: {label}. From the next call on billing asks again.\n"
    assert (await server.api.ask(**mail))["status"] == "pending"
    gone = await server.run("dana", "rules", "remove", rule["id"])
    assert gone.line == "no rule has this id: `placet rules AGENT` lists an agent's rules with theirs"


async def test_a_rule_says_of_which_operations_it_is(server: Served) -> None:
    add = ("rules", "add", "billing", "--tool", "mail.send")
    mail: dict[str, Any] = {"tool": "mail.send", "operation": "post", "presentation": {},
                            "arguments": {"to": "team@example.com"}}  # fmt: skip
    team = ("--scope", "recipient=team@example.com")
    assert (
        "\nIt covers calls of mail.send that name no operation; for those that do, give --operation.\n"
        in (await server.run("admin", *add, *team)).out
    )
    assert (await server.api.ask(**mail))["status"] == "pending"
    made = await server.run("admin", *add, *team, "--operation", "post")
    assert "It covers" not in made.out
    assert "mail.send (post) to team@example.com" in made.out
    assert (await server.api.ask(**mail))["status"] == "approved"
    whole = await server.run("admin", *add, "--scope", "tool")
    assert "\nIt covers every call of mail.send, whatever its operation.\n" in whole.out
    elsewhere = mail | {"operation": "draft", "arguments": {"to": "ola@example.com"}}
    assert (await server.api.ask(**elsewhere))["status"] == "approved"


async def test_rules_about_exactly_some_arguments_are_told_apart(server: Served) -> None:
    for name in ("first", "second"):
        row = await server.api.ask(tool="shell", operation="run", arguments={"command": name}, presentation={})
        add = ("rules", "add", "billing", "--tool", "shell", "--operation", "run")
        made = await server.run("admin", *add, "--scope", f"arguments={row['digest']}")
        assert made.code == 0, made.err
        listed = (await server.run("dana", "rules", "billing")).out
        digest = row["digest"][:19]
        assert f"shell (run) with exactly these arguments, until removed ({digest})" in listed
        assert digest in (await server.run("dana", "show", row["id"])).out


async def test_a_rule_for_money_is_made_by_an_administrator_with_a_ceiling_and_an_end(server: Served) -> None:
    arguments = ("rules", "add", "billing", "--tool", "stripe.refund", "--operation", "create", "--scope", "operation")
    endless = await server.run("kim", *arguments, "--ceiling", "50.00 GBP")
    assert endless.code == 2
    assert "must expire: say when with --expires" in endless.line
    money = (*arguments, "--ceiling", "50.00 gbp", "--expires", "30d", "--json")
    assert (await server.run("dana", *money)).code == 1
    made = await server.run("kim", *money)
    assert made.code == 0, made.err
    assert json.loads(made.out)["ceiling"] == {"amount": "50.00", "currency": "GBP"}
    assert (await server.api.ask())["decision"]["by"] == "auto"
    server.api.clock.ahead = timedelta(days=31)
    assert (await server.api.ask())["status"] == "pending"


async def test_an_agent_that_is_called_like_a_command_is_listed(server: Served) -> None:
    assert (await server.run("admin", "rules", "zed")).line == UNKNOWN.format("agent called zed")
    await server.api.apply(DIRECTORY.replace("  support: {owner: dana}", "  remove: {owner: dana}"))
    assert (await server.run("dana", "rules", "list", "remove")).out.startswith("remove has no standing rules")


# The directory


async def test_apply_prints_what_changed_and_then_nothing(server: Served, tmp_path: Path) -> None:
    file = tmp_path / "placet.yaml"
    file.write_text(DIRECTORY.replace("Ola Berg", "Ola B"))
    ended = await server.run("admin", "apply", str(file))
    assert (ended.code, ended.out) == (0, "~ person ola: name Ola Berg -> Ola B\n")
    ended = await server.run("kim", "apply", str(file))
    assert (ended.code, ended.out) == (0, "No changes.\n")
    assert json.loads((await server.run("admin", "apply", str(file), "--json")).out) == {"changes": []}


async def test_a_dry_run_tells_what_would_go_tokens_and_all_and_changes_nothing(server: Served, tmp_path: Path) -> None:
    file = tmp_path / "placet.yaml"
    file.write_text(DIRECTORY.replace("  ola:  {name: Ola Berg}\n", "").replace("  support: {owner: dana}\n", ""))
    for host in ("example.com", "example.org"):
        rule = ("--tool", "http", "--operation", "GET", "--scope", f"host=GET https://{host}")
        assert (await server.run("admin", "rules", "add", "support", *rule)).code == 0
    gone = [
        "- person ola", "- agent support", "- 1 token of person ola", "- 1 token of agent support",
        "- 2 rules of agent support",
    ]  # fmt: skip
    for _ in range(2):
        tried = await server.run("admin", "apply", str(file), "--dry-run")
        assert (tried.code, tried.out.splitlines(), tried.err) == (0, gone, "Nothing was applied.\n")
    assert (await server.run("support", "approvals")).code == 0
    assert "example.org" in (await server.run("admin", "rules", "support")).out
    applied = await server.run("admin", "apply", str(file))
    assert (applied.out.splitlines(), applied.err) == (gone, "")
    assert (await server.run("support", "approvals")).code == 1


async def test_apply_refuses_with_the_file_and_the_line(server: Served, tmp_path: Path) -> None:
    file = tmp_path / "placet.yaml"
    file.write_text(DIRECTORY.replace("    at: [dm]", "    at: [discord:billing]"))
    ended = await server.run("admin", "apply", "placet.yaml")
    assert ended.code == 1
    line = file.read_text().splitlines().index("    at: [discord:billing]") + 1
    form = "discord[@bot]:<channel>[/<thread>], both as their numbers, such as discord:123456/789"
    assert ended.line == f"placet.yaml:{line}: 'discord:billing' is no place: write {form}"
    assert (await server.run("dana", "apply", "placet.yaml")).code == 1
    assert "cannot be read" in (await server.run("admin", "apply", "nothing.yaml")).line


async def test_link_prints_the_line_to_send(server: Served) -> None:
    ended = await server.run("admin", "link", "ola")
    assert ended.code == 0
    assert ended.out.startswith("/start ")
    code = ended.out.split()[1]
    assert len(code) >= 22
    assert "15 minutes" in ended.err
    assert f"/placet link {code}" in ended.err
    assert (await server.run("admin", "link", "zed")).line == UNKNOWN.format("person called zed")
    assert (await server.run("dana", "link", "dana")).code == 1


async def test_token_prints_a_token_that_works(server: Served) -> None:
    ended = await server.run("admin", "token", "dana")
    assert ended.code == 0
    server.api.tokens["dana again"] = ended.out.strip()
    row = await server.api.ask()
    assert (await server.run("dana again", "approve", f"{row['id']}@1")).code == 0
    assert (await server.run("admin", "token", "zed")).line == UNKNOWN.format("agent and no person called zed")
    assert (await server.run("admin", "token", "agent:zed")).line == UNKNOWN.format("agent called zed")
    assert (await server.run("dana", "token", "dana")).code == 1


async def test_a_name_that_is_both_must_be_told_apart(server: Served, tmp_path: Path) -> None:
    (tmp_path / "placet.yaml").write_text(DIRECTORY.replace("  support: {owner: dana}", "  dana: {owner: dana}"))
    assert (await server.run("admin", "apply", "placet.yaml")).code == 0
    assert (await server.run("admin", "token", "dana")).line == (
        "dana is both an agent and a person: write agent:dana or person:dana"
    )
    server.api.tokens["agent"] = (await server.run("admin", "token", "agent:dana")).out.strip()
    row = await server.api.ask("agent", agent="dana")
    assert (await server.run("agent", "approve", f"{row['id']}@1")).code == 1


async def test_an_unknown_token_is_one_line(server: Served) -> None:
    ended = await server.run("nobody", "approvals")
    assert ended.code == 1
    assert "not known" in ended.line
    assert server.api.tokens["nobody"] not in ended.err


async def test_this_machines_admin_token_is_the_default(server: Served) -> None:
    ended = await process("approvals", PLACET_URL=server.url, PLACET_ADMIN_TOKEN=ADMIN)
    assert (ended.code, ended.out, ended.err) == (0, "Nothing is waiting for an answer.\n", "")


# Migrating


async def test_migrate_says_what_it_did(tmp_path: Path) -> None:
    first, second = await process("migrate"), await process("migrate")
    assert first.code == second.code == 0
    assert first.out.startswith("Migrated: 0001")
    assert second.out == "Nothing to do: the database has this version's tables.\n"
    assert (tmp_path / "data" / "placet.db").exists()


async def test_migrate_without_a_database_is_one_line() -> None:
    ended = await placet("migrate", PLACET_DATABASE_URL="postgresql://planted:planted@127.0.0.1:9/placet")
    assert ended.code == 1
    assert ended.line.startswith("PLACET_DATABASE_URL: ")
    assert "planted" not in ended.line
