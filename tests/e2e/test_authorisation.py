"""One authorisation: every way in, crossed with everybody who may try it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from adapters.cli import app as command_line
from core.approvals import Actor, Approval, Kind, Message, Mode, Outcome, Posted, Press, Reply, Status, Tone
from core.buttons import Verb, new_token, rule_token
from core.commands import ChatCommands
from core.desk import Desk
from core.identifiers import new_id
from core.ports import Ledger
from core.redaction import Redaction
from core.rules import Rule, ScopeKind
from tests.adapters.api import Api, an_api, served

DIRECTORY = """
people:
  nora: {name: Nora Nil, identities: {telegram: 1}}
  eve: {name: Eve Moss, identities: {telegram: 2}}
  pat: {name: Pat Lund, identities: {telegram: 3}}
  dana: {name: Dana Reyes, identities: {telegram: 4, slack: T01/U04}}
  rita: {name: Rita Roth, identities: {telegram: 5}}
  olga: {name: Olga Owen, identities: {telegram: 6}}
  kim: {name: Kim Sato, identities: {telegram: 7}}
roles:
  approver: [approvals:view, approvals:answer]
  viewer: [approvals:view]
  ruler: [approvals:delegate]
  admin: [admin]
members: {approver: [eve, dana, rita], viewer: [pat], ruler: [rita], admin: [kim]}
agents:
  billing: {owner: olga, runs: [{tool: notes.share, activity: share, task_queue: billing}]}
  support: {owner: nora}
routes:
  - {match: {agent: billing, tool: notes.own}, ask: [pat, dana, rita], at: [dm], four_eyes: true}
  - {match: {agent: billing}, ask: [pat, dana, rita], at: [dm]}
"""
NOTE: dict[str, Any] = {
    "tool": "notes.share", "operation": "", "lane": "chat-3", "run_id": "run-7",
    "arguments": {"to": "ada@example.com", "text": "Hello"}, "presentation": {"editable": ["/text"]},
}  # fmt: skip
numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who tries: in a chat as `actor`, over HTTP and the command line with the token of `token`."""

    actor: Actor | None
    token: str
    may: frozenset[str]
    ask: dict[str, Any] = field(default_factory=dict)


@dataclass
class Stage:
    api: Api
    url: str
    commands: ChatCommands
    caller: Caller
    before: Any = None

    # What there is to try it on

    async def row(self, **columns: Any) -> Approval:
        return await self.set(await self.api.turn(**{**NOTE, **self.caller.ask}), **columns)

    async def draft(self, **columns: Any) -> Approval:
        run = {"activity": "share", "task_queue": "billing"}
        return await self.set(
            await self.api.turn(**{**NOTE, **self.caller.ask, "runtime": "draft", "run": run}), **columns
        )

    async def set(self, approval: Approval, **columns: Any) -> Approval:
        if not columns:
            return approval
        now = self.api.clock.now()
        if columns.get("status") in (Status.APPROVED, Status.DECLINED):
            columns |= {
                "decided_at": now,
                "decided_by": "eve",
                "decided_via": "telegram",
                "decision_key": f"before-{next(numbers)}",
            }
        changed = await self.api.store.write(lambda ledger: ledger.change(approval, **columns))
        assert changed is not None
        return changed

    async def rule(self) -> str:
        now = self.api.clock.now()
        rule = Rule(new_id(now), "billing", "calendar", "", ScopeKind.TOOL, "", "every call of calendar", now, "kim")
        saved = await self.api.store.write(lambda ledger: ledger.add_rule(rule))
        assert saved is not None
        return saved.id

    async def state(self) -> Any:
        """All that anybody could have changed."""

        def read(ledger: Ledger) -> Any:
            agent = ledger.agent("billing")
            assert agent is not None
            rows = [(row.id, row.revision, len(ledger.votes_of(row.id))) for row in ledger.approvals()]
            return rows, agent.mode, agent.paused_at, agent.generation, [rule.id for rule in ledger.rules("billing")]

        return await self.api.store.read(read)

    async def clear(self) -> None:
        def work(ledger: Ledger) -> None:
            ledger.set_mode("billing", Mode.OUTSIDE)
            ledger.set_paused("billing", None, None)
            for rule in ledger.rules("billing"):
                ledger.drop_rule(rule.id)

        await self.api.store.write(work)

    async def begin(self) -> None:
        """All is laid out; what changes from now on is the caller's doing."""
        self.before = await self.state()

    # Ways in; each says whether the caller was let through

    async def chat(self, what: Callable[[Actor], Awaitable[Reply]]) -> bool:
        assert self.caller.actor is not None
        await self.begin()
        reply = await what(self.caller.actor)
        return reply.tone is not Tone.ALERT and not reply.refused

    async def card(self, approval: Approval) -> Posted:
        assert self.caller.actor is not None
        platform, number = self.caller.actor.platform, str(next(numbers))
        posted = Posted(
            id=number, approval_id=approval.id, destination=f"{platform}||chat|", kind=Kind.CARD, person="",
            token=new_token(), platform=platform, account="", chat="chat", thread="", message_id=number,
            shown_revision=approval.revision, shown_id=None, attached_revision=approval.content_revision,
            posted_at=self.api.clock.now(),
        )  # fmt: skip
        await self.api.store.write(lambda ledger: ledger.reserve(posted, self.api.clock.now()))
        return posted

    async def press(self, approval: Approval, verb: str = "", **more: Any) -> bool:
        card = await self.card(approval)
        message = card.message
        assert message is not None
        if verb:
            more |= {"verb": verb, "token": card.token, "content_revision": approval.content_revision}
        return await self.chat(
            lambda actor: self.api.approvals.press(Press(f"k{next(numbers)}", actor, message, **more))
        )

    async def http(self, method: str, path: str, body: Any = None) -> bool:
        await self.begin()
        answer = await self.api.call(self.caller.token, method, path, json=body)
        assert answer.status_code in (200, 201, 401, 403, 404), answer.text
        return answer.is_success

    async def command(self, *arguments: str) -> bool:
        await self.begin()
        env = {"PLACET_URL": self.url, "PLACET_TOKEN": self.api.tokens[self.caller.token]}
        ended = await asyncio.to_thread(CliRunner().invoke, command_line, list(arguments), env=env)
        assert ended.exit_code in (0, 1), ended.output
        return ended.exit_code == 0


Way = Callable[[Stage], Awaitable[bool]]


def pressed(verb: Verb, **more: Any) -> Way:
    async def way(stage: Stage) -> bool:
        return await stage.press(await stage.row(), verb, **more)

    return way


def pressed_after(verb: Verb, **columns: Any) -> Way:
    async def way(stage: Stage) -> bool:
        soon = stage.api.clock.now() + timedelta(seconds=60)
        given = {name: soon if value == "soon" else value for name, value in columns.items()}
        return await stage.press(await stage.draft(**given), verb)

    return way


async def reply(stage: Stage) -> bool:
    return await stage.press(await stage.row(), text="Not like this.")


async def remove_rule_in_chat(stage: Stage) -> bool:
    token = rule_token(await stage.rule())
    return await stage.chat(
        lambda actor: stage.commands.desk.agents.press(
            Press(f"k{next(numbers)}", actor, Message(actor.platform, "", "chat", "", "1"), Verb.REMOVE_RULE, token, 1)
        )
    )


async def pending(stage: Stage) -> bool:
    """Whether what waits is listed for them."""
    listed: list[str] = []

    async def ask(actor: Actor) -> Reply:
        told = await stage.commands.pending(actor)
        listed.append(told.text)
        return told

    row = await stage.row()
    await stage.chat(ask)
    return row.tool in listed[0]


async def rules_in_chat(stage: Stage) -> bool:
    await stage.rule()
    return await stage.chat(lambda actor: stage.commands.rules(actor, "billing"))


async def mode_in_chat(stage: Stage) -> bool:
    return await stage.chat(lambda actor: stage.commands.mode(actor, "billing", "everything"))


async def pause_in_chat(stage: Stage) -> bool:
    return await stage.chat(lambda actor: stage.commands.pause(actor, "billing"))


async def resume_in_chat(stage: Stage) -> bool:
    await stage.api.store.write(lambda ledger: ledger.set_paused("billing", stage.api.clock.now(), "kim"))
    return await stage.chat(lambda actor: stage.commands.resume(actor, "billing"))


def to_row(method: str, path: str, body: Any = None) -> Way:
    async def way(stage: Stage) -> bool:
        return await stage.http(method, path.format(id=(await stage.row()).id), body)

    return way


def to_rule(method: str, path: str) -> Way:
    async def way(stage: Stage) -> bool:
        return await stage.http(method, path.format(id=await stage.rule()))

    return way


def typed(*arguments: str) -> Way:
    async def way(stage: Stage) -> bool:
        wanted = " ".join(arguments)
        row = (await stage.row()).id if "{row}" in wanted else ""
        rule = await stage.rule() if "{rule}" in wanted else ""
        return await stage.command(*(each.format(row=row, rule=rule) for each in arguments))

    return way


MONEY = {
    "tool": "stripe.refund", "operation": "create", "scope": "operation", "expires_at": "2099-01-01T00:00:00Z",
    "ceiling": {"amount": "50.00", "currency": "GBP"},
}  # fmt: skip
ALLOW = {"verdict": "allow", "content_revision": 1}
ADD = ("rules", "add", "billing", "--tool", "calendar", "--scope", "tool")
# What each way in takes: to answer (and to be told what may be answered), to look, to set, to see and take back rules,
# to make them, from a card or from nothing, to make those for money, and to speak for the agent.
WAYS: dict[str, dict[str, Way]] = {
    "answer": {
        "press allow": pressed(Verb.ALLOW),
        "press decline": pressed(Verb.DECLINE),
        "press note": pressed(Verb.NOTE),
        "press edit": pressed(Verb.EDIT),
        "form": pressed(Verb.EDIT, fields={"1": "Hello all"}),
        "reply": reply,
        "press undo": pressed_after(Verb.UNDO, status=Status.APPROVED, grace_until="soon"),
        "press restore": pressed_after(Verb.RESTORE, status=Status.DECLINED, restore_until="soon"),
        "press again": pressed_after(Verb.AGAIN_SURE, status=Status.APPROVED, outcome=Outcome.NOT_SENT),
        "press dismiss": pressed_after(Verb.DISMISS, status=Status.APPROVED, outcome=Outcome.UNKNOWN),
        "chat pending": pending,
        "http allow": to_row("POST", "/v1/approvals/{id}/decision", ALLOW),
        "http decline": to_row("POST", "/v1/approvals/{id}/decision", {"verdict": "decline"}),
        "http edit": to_row("POST", "/v1/approvals/{id}/edit", {"content_revision": 1, "changes": {"/text": "Bye"}}),
        "cli approve": typed("approve", "{row}@1"),
        "cli decline": typed("decline", "{row}", "No."),
        "cli edit": typed("edit", "{row}@1", "/text=Bye"),
    },
    "message": {
        "http message": to_row("POST", "/v1/lanes/chat-3/messages?agent=billing",
                               {"text": "Not like this.", "client_message_id": "m-1"}),
    },
    "look": {"http read": to_row("GET", "/v1/approvals/{id}"), "cli show": typed("show", "{row}")},
    "set": {
        "chat mode": mode_in_chat,
        "chat pause": pause_in_chat,
        "chat resume": resume_in_chat,
        "http mode": to_row("PUT", "/v1/agents/billing/mode", {"mode": "everything"}),
        "http pause": to_rule("POST", "/v1/agents/billing/pause"),
        "http reset": to_rule("POST", "/v1/agents/billing/reset"),
        "cli mode": typed("mode", "billing", "everything"),
        "cli pause": typed("pause", "billing"),
        "cli reset": typed("reset", "billing"),
    },
    "rules": {
        "chat rules": rules_in_chat,
        "press remove": remove_rule_in_chat,
        "http rules": to_rule("GET", "/v1/agents/billing/rules"),
        "http remove": to_rule("DELETE", "/v1/rules/{id}"),
        "cli rules": typed("rules", "billing"),
        "cli remove": typed("rules", "remove", "{rule}"),
    },
    "always": {"press always": pressed(Verb.ALWAYS), "press scope": pressed(Verb.ALWAYS_ARGUMENTS)},
    "make": {
        "http rule": to_row("POST", "/v1/agents/billing/rules", {"tool": "calendar", "scope": "tool"}),
        "cli rule": typed(*ADD),
    },
    "money": {
        "http money": to_row("POST", "/v1/agents/billing/rules", MONEY),
        "cli money": typed(*ADD[:4], "stripe.refund", "--operation", "create", "--scope", "operation", "--ceiling",
                           "50 GBP", "--expires", "30d"),
    },
    "speak": {
        "http withdraw": to_row("DELETE", "/v1/approvals/{id}"),
        "http close": to_row("POST", "/v1/runs/run-7/closed?agent=billing"),
    },
}  # fmt: skip
# These look, or ask for more; they change nothing.
LOOKING = {
    "press note", "press edit", "press always", "chat pending", "http read", "cli show", "chat rules", "http rules",
    "cli rules",
}  # fmt: skip


def on_telegram(number: int) -> Actor:
    return Actor("telegram", "", str(number))


def may(*what: str) -> frozenset[str]:
    return frozenset(what)


OWN = {"tool": "notes.own"}
CALLERS = {
    "no role": Caller(on_telegram(1), "nora", may()),
    "may answer, not asked": Caller(on_telegram(2), "eve", may("look")),
    "asked, may not answer": Caller(on_telegram(3), "pat", may("look")),
    "asked, may answer": Caller(on_telegram(4), "dana", may("answer", "message", "look")),
    "may make rules too": Caller(on_telegram(5), "rita", may("answer", "message", "look", "always", "rules", "make")),
    "owner without a role": Caller(on_telegram(6), "olga", may("set", "rules")),
    "administrator": Caller(on_telegram(7), "kim", may("set", "rules", "make", "money")),
    "own request": Caller(on_telegram(4), "dana", may("look"), {**OWN, "on_behalf_of": "slack:T01/U04"}),
    "own request, of who makes rules": Caller(
        on_telegram(5), "rita", may("look", "rules", "make"), {**OWN, "on_behalf_of": "rita"}
    ),
    "request of nobody known": Caller(on_telegram(4), "dana", may("look"), {**OWN, "on_behalf_of": "slack:T01/U99"}),
    "stranger": Caller(on_telegram(99), "nobody", may()),
    "guest of another team": Caller(Actor("slack", "T99", "U04"), "nobody", may()),
    "the agent": Caller(None, "billing", may("message", "look", "speak")),
    "another agent": Caller(None, "support", may()),
    "the admin token": Caller(None, "admin", may("look", "set", "rules", "make", "money", "speak")),
}


@pytest.fixture
async def stage(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACET_DATA_DIR", str(tmp_path / "data"))
    async with an_api(tmp_path) as api, served(api) as url:
        await api.apply(DIRECTORY)
        for kind, names in (
            ("agent", ("billing", "support")),
            ("person", (*["nora", "eve", "pat", "dana", "rita", "olga", "kim"],)),
        ):
            for name in names:
                made = await api.call("admin", "POST", "/v1/tokens", json={kind: name})
                api.tokens[name] = made.json()["token"]
        desk = Desk(store=api.store, approvals=api.approvals, surfaces={}, clock=api.clock, meter=api.approvals.meter,
                    redaction=Redaction(b"k" * 32))  # fmt: skip
        yield Stage(api, url, ChatCommands(api.approvals, desk), CALLERS[request.param])


@pytest.mark.parametrize("stage", CALLERS, indirect=True)
async def test_every_way_in_lets_through_whom_it_may_and_changes_nothing_for_others(stage: Stage) -> None:
    wrong = []
    for takes, ways in WAYS.items():
        for name, way in ways.items():
            if stage.caller.actor is None and name.split()[0] in ("press", "form", "reply", "chat"):
                continue
            await stage.clear()
            told = await way(stage)
            changed, expected = await stage.state() != stage.before, takes in stage.caller.may
            if (told, changed) != (expected, expected and name not in LOOKING):
                wrong.append((name, {"told": told, "changed": changed, "expected": expected}))
    assert wrong == []
