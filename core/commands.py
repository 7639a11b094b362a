"""What people ask of a bot apart from answering a card: linking themselves, and what waits for them."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence

from core.agents import refused
from core.approvals import Actor, Agent, Approval, Destination, Message, Mode, Permission, Person, Press, Reply, Tone
from core.desk import Desk
from core.judging import not_linked
from core.people import Refusal
from core.ports import Ledger, Telling
from core.service import Approvals
from core.wording import say, when_text

log = logging.getLogger("placet.commands")

LISTED, AT_ONCE = 10, 500


class ChatCommands:
    """Implements `core.ports.Commands` over the one door and the desk."""

    def __init__(self, approvals: Approvals, desk: Desk) -> None:
        self.approvals, self.desk = approvals, desk

    async def link(self, actor: Actor, code: str) -> Reply:
        """Use up a link code; guesses take from the same bucket as presses (design section 7)."""
        guess = Press(f"link:{secrets.token_hex(8)}", actor, Message(actor.platform, "", actor.id, "", ""), verb="link")
        admission = await self.approvals.admitted(guess)
        if isinstance(admission, Reply):
            return admission
        directory, now = self.approvals.directory, self.approvals.clock.now()

        def use(ledger: Ledger) -> tuple[str, Person | None, Sequence[Actor], str]:
            result, person, before = directory.link(ledger, actor, code, now)
            return result, person, before, self._language(ledger, actor, person or ledger.person_of(actor))

        result, person, before, language = await self.approvals.store.write(use)
        self.approvals.spoken.note(actor, person.language if person else "")
        log.info("link", extra={"platform": actor.platform, "identity": actor.id, "result": result})
        if person is None:
            key = "already_linked" if result == "already_linked" else "link_bad_code"
            return Reply(say(key, locale=language), Tone.ALERT, refused=True, result=result)
        self.approvals.after_change_of_directory()
        for identity in before:
            who = actor.name or actor.id
            text = say("identity_was_linked", locale=language, platform=actor.platform, identity=who)
            await self._tell(identity, text)
        return Reply(say("linked", locale=language, name=person.name), Tone.GOOD, result=result)

    def _language(self, ledger: Ledger, actor: Actor, person: Person | None) -> str:
        """What the actor reads in the private chat, where commands are given and answered."""
        place = Destination(actor.platform, actor.tenant, actor.id)
        return self.approvals.directory.language(ledger, place, person=person)

    async def _tell(self, identity: Actor, text: str) -> None:
        surface = self.desk.surfaces.get(identity.platform)
        if not isinstance(surface, Telling):
            return
        try:
            await surface.tell(Destination(identity.platform, identity.tenant, identity.id), text)
        except Exception as error:
            # The link stands whether or not the notice arrives.
            log.warning("notice failed", extra={"platform": identity.platform, "error": type(error).__name__})

    async def pending(self, actor: Actor) -> Reply:
        """What waits for this person's answer, soonest to expire first."""
        await self.approvals.expire_due()
        directory = self.approvals.directory

        def who(ledger: Ledger) -> tuple[Person | None, str]:
            person = directory.person_at(ledger, actor)
            return person, self._language(ledger, actor, person)

        person, language = await self.approvals.store.read(who)
        self.approvals.spoken.note(actor, person.language if person else "")
        if person is None:
            return not_linked(actor, language)
        rows = await self._waiting_for(person)
        if not rows:
            return Reply(say("nothing_waiting", locale=language), Tone.QUIET, result="pending")
        now = self.approvals.clock.now()
        lines = [say("pending_head", locale=language, count=len(rows))]
        for number, row in enumerate(rows[:LISTED], 1):
            title = self._title(row)
            when = when_text(row.expires_at, now, language)
            lines.append(say("pending_item", locale=language, number=number, title=title, agent=row.agent, when=when))
        if len(rows) > LISTED:
            lines.append(say("pending_more", locale=language, count=len(rows) - LISTED))
        return Reply("\n".join(lines), Tone.QUIET, result="pending")

    async def _waiting_for(self, person: Person) -> list[Approval]:
        """All that waits for a person's answer: page after page, since most of what waits may wait for others."""
        found: list[Approval] = []
        last: Approval | None = None

        def page(ledger: Ledger, after: Approval | None) -> tuple[Sequence[Approval], list[Approval]]:
            rows = ledger.soonest(after, AT_ONCE)
            return rows, [row for row in rows if self.approvals.directory.may_answer(ledger, row, person) is None]

        while True:
            rows, theirs = await self.approvals.store.read(lambda ledger, after=last: page(ledger, after))  # type: ignore[misc]
            found += theirs
            if len(rows) < AT_ONCE:
                return found
            last = rows[-1]

    def _title(self, row: Approval) -> str:
        """What tells a row from the others of its tool: the asker's own title, as redacted as its card's."""
        title = (json.loads(row.presentation).get("title") or "").strip()
        return self.desk.redaction.text(title or f"{row.tool} {row.operation}".strip())

    async def rules(self, actor: Actor, agent: str) -> Reply:
        """The standing rules of an agent, with buttons that take them back."""
        found = await self._agent(actor, agent, self.approvals.directory.may_rule, not_yours="rules_not_yours")
        if isinstance(found, Reply):
            return found
        person, known, language = found
        return await self.desk.agents.listed(known.id, person, language)

    async def mode(self, actor: Actor, agent: str, mode: str) -> Reply:
        """How much an agent asks; set, where a mode is given."""
        found = await self._agent(actor, agent, self.approvals.directory.may_set)
        if isinstance(found, Reply):
            return found
        person, known, language = found
        if mode and mode not in tuple(Mode):
            return Reply(say("mode_unknown", locale=language, mode=mode), Tone.ALERT, result="mode_unknown")
        done = await self.desk.agents.set_mode(known.id, Mode(mode), person) if mode else known
        if isinstance(done, Refusal):
            return refused(done, known.id, language)
        words = say(f"mode_{done.mode.value}", locale=language)
        key = "mode_set" if mode else "mode_is"
        return Reply(
            say(key, locale=language, agent=known.id, mode=words), Tone.GOOD if mode else Tone.QUIET, result=key
        )

    async def pause(self, actor: Actor, agent: str) -> Reply:
        """Nothing that was allowed for an agent runs from now on."""
        return await self._pausing(actor, agent, self.desk.agents.pause, lambda agent: agent.paused_at is not None,
                                   "paused", "paused_already")  # fmt: skip

    async def resume(self, actor: Actor, agent: str) -> Reply:
        """What was decided while an agent was paused takes effect."""
        return await self._pausing(actor, agent, self.desk.agents.resume, lambda agent: agent.paused_at is None,
                                   "resumed", "resumed_already")  # fmt: skip

    async def _pausing(
        self, actor: Actor, agent: str, do: Callable[[str, Person], Awaitable[Agent | Refusal]],
        already: Callable[[Agent], bool], done_key: str, already_key: str,
    ) -> Reply:  # fmt: skip
        found = await self._agent(actor, agent, self.approvals.directory.may_set, guess=False)
        if isinstance(found, Reply):
            return found
        person, known, language = found
        done = await do(known.id, person)
        if isinstance(done, Refusal):
            return refused(done, known.id, language)
        key = already_key if already(known) else done_key
        return Reply(say(key, locale=language, agent=known.id), Tone.GOOD, result=key)

    async def groups(self, platform: str) -> frozenset[str]:
        """The groups of a platform that the directory maps to roles."""
        roles = await self.approvals.store.read(lambda ledger: ledger.mapped_roles())
        return frozenset(group for role in roles for group in role.groups if group.startswith(f"{platform}:"))

    async def _agent(
        self,
        actor: Actor,
        name: str,
        may: Callable[[Agent, Person], bool],
        *,
        guess: bool = True,
        not_yours: str = "agent_not_yours",
    ) -> Reply | tuple[Person, Agent, str]:
        """Who asks, the agent they name, and their language; or what they are told instead.

        A person who may do it for one agent only need not name it, where that may be guessed.
        """

        def find(ledger: Ledger) -> tuple[Person | None, list[Agent], bool, str]:
            person = self.approvals.directory.person_at(ledger, actor)
            agents = [agent for agent in ledger.agents() if person is not None and may(agent, person)]
            return person, agents, ledger.agent(name) is not None, self._language(ledger, actor, person)

        person, theirs, there, language = await self.approvals.store.read(find)
        self.approvals.spoken.note(actor, person.language if person else "")
        if person is None:
            return not_linked(actor, language)
        if not name and len(theirs) == 1 and guess:
            return person, theirs[0], language
        if not name and not theirs:
            return Reply(say("agent_none", locale=language), Tone.ALERT, refused=True, result="not_yours")
        if not name:
            known = ", ".join(agent.id for agent in theirs)
            return Reply(say("agent_which", locale=language, known=known), Tone.ALERT, result="agent_which")
        agent = next((agent for agent in theirs if agent.id == name), None)
        if agent is None:
            # Whether there is such an agent is no business of whoever sees nothing of what it asks.
            sees = not person.permissions.isdisjoint((Permission.VIEW, Permission.ANSWER))
            text = say(not_yours if there and sees else "agent_none_such", locale=language, agent=name)
            return Reply(text, Tone.ALERT, refused=True, result="not_yours")
        return person, agent, language
