"""Judges what people press, fill in and write: reads it against the row, and says what the presser is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from core import changes
from core.approvals import (
    AUTO,
    Actor,
    Agent,
    Approval,
    AuditLine,
    Button,
    Effect,
    Kind,
    Outcome,
    Person,
    Posted,
    Press,
    Reply,
    Runtime,
    Status,
    Tone,
    Verdict,
)
from core.asking import stands_in
from core.buttons import Verb
from core.changes import Answer
from core.editing import Unchanged, Wrong, edited, form_of, values_of
from core.effects_rows import worst
from core.identifiers import new_id
from core.languages import Spoken
from core.people import Directory, Refusal, route_of
from core.ports import Clock, Ledger
from core.rulebooks import RuleBooks
from core.rules import Rule, Scope, ScopeKind, label_of
from core.wording import in_language, is_affirmative, say, say_on, tells_of_a_rule, when_text

NOTE_LIMIT = 4000
# What the button of a rule's scope says at most; a scope whose words are longer is not offered (design section 6).
SCOPE_LABEL_LIMIT = 75
# Those of a list of rules are about no card.
VERBS = frozenset(Verb) - {Verb.REMOVE_RULE, Verb.RULES_PAGE}
SCOPES = {
    Verb.ALWAYS_ARGUMENTS: ScopeKind.ARGUMENTS,
    Verb.ALWAYS_RECIPIENT: ScopeKind.RECIPIENT,
    Verb.ALWAYS_HOST: ScopeKind.HOST,
    Verb.ALWAYS_OPERATION: ScopeKind.OPERATION,
    Verb.ALWAYS_TOOL: ScopeKind.TOOL,
}
VERB_OF = {kind: verb for verb, kind in SCOPES.items()}
TAKEN_BACK = (Verb.UNDO, Verb.RESTORE)
# What somebody is told whose press, delivered once more, did its work the first time.
SPENT: Mapping[str, str] = {Verb.UNDO: "undone", Verb.RESTORE: "restored", Verb.AGAIN_SURE: "sent_again"}
AFTERWARDS = (Verb.AGAIN, Verb.AGAIN_SURE, Verb.DISMISS)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a press: the reply; the row it changed; others that it settled; the decided row that nobody may
    have been told of; whether the row's workflow is to be started anew; and the id of a rule that it made."""

    reply: Reply
    changed: Approval | None = None
    settled: tuple[Approval, ...] = ()
    unheard: Approval | None = None
    again: bool = False
    rule: str = ""


@dataclass(frozen=True, slots=True)
class _Pressed:
    """A press whose card, person and language are known."""

    press: Press
    posted: Posted
    person: Person
    agent: Agent | None
    locale: str
    now: datetime

    def said(self, approval: Approval, key: str, tone: Tone = Tone.ALERT, **values: object) -> Reply:
        return Reply(say(key, locale=self.locale, **values), tone, approval_id=approval.id, result=key)

    def answer(self, verdict: Verdict, note: str | None = None, by_message: bool = False) -> Answer:
        return Answer(self.person, verdict, self.press.key, self.press.actor.platform, self.press.actor.id, note,
                      by_message, self.posted.shown_id)  # fmt: skip


class Judge:
    """Every way in is judged here, inside the transaction that it changes the row in."""

    def __init__(self, directory: Directory, clock: Clock, books: RuleBooks, spoken: Spoken) -> None:
        self.directory, self.clock, self.books, self.spoken = directory, clock, books, spoken

    # Presses

    def press(self, ledger: Ledger, press: Press) -> Judged:
        found = self._found(ledger, press)
        if isinstance(found, Reply):
            return Judged(found)
        if found is None:
            locale = self.directory.language(ledger, press.message, person=ledger.person_of(press.actor))
            return Judged(Reply(say("unknown_card", locale=locale), Tone.ALERT, refused=True, result="unknown_card"))
        posted, approval = found
        person = self.directory.person_at(ledger, press.actor)
        self.spoken.note(press.actor, person.language if person else "")
        locale = self.directory.language(ledger, press.message, posted, person=person)
        if not self._from_its_place(ledger, posted, press):
            return Judged(Reply(say("wrong_place", locale=locale), Tone.ALERT, refused=True, result="wrong_place"))
        if person is None:
            return Judged(not_linked(press.actor, locale, approval.id))
        while True:
            # Before any row of it is changed.
            agent = ledger.agent(approval.agent, "update" if press.verb in SCOPES else "")
            now = self.clock.now()
            advanced = changes.advance(ledger, approval, now)
            current = advanced or approval
            # After the time has been applied: an escalation asks more people.
            if (why := self.directory.may_answer(ledger, current, person)) is not None:
                text = self.who_may(ledger, current, why, locale)
                return Judged(_refused(current, why, text), advanced)
            pressed = _Pressed(press, posted, person, agent, locale, now)
            judged = self._judge(ledger, current, pressed)
            if judged is not None:
                return replace(judged, changed=judged.changed or advanced)
            # The compare-and-swap was lost: judge again on what stands there now.
            again = ledger.approval(approval.id)
            if again is None:
                raise LookupError("an approval vanished while it was being decided")
            approval = again

    def _found(self, ledger: Ledger, press: Press) -> tuple[Posted, Approval] | Reply | None:
        if press.text is not None and not press.message.id:
            return self._only_one(ledger, press)
        if press.text is not None:
            # A form carries the token of the button that opened it: it may belong to a copy that a crash left behind.
            return ledger.posted_at(press.message) or (ledger.posted_of_token(press.token) if press.token else None)
        return ledger.posted_of_token(press.token) if press.verb in VERBS else None

    def _only_one(self, ledger: Ledger, press: Press) -> tuple[Posted, Approval] | Reply:
        """In a private chat a plain message answers the one card that waits there (design section 6)."""
        now = self.clock.now()
        waiting = [(posted, row) for posted, row in ledger.waiting_in(press.message) if not changes.due(row, now)]
        if len(waiting) == 1:
            return waiting[0]
        person = ledger.person_of(press.actor)
        locale = self.directory.language(ledger, press.message, person=person)
        if person is None:
            return not_linked(press.actor, locale)
        key = "which_one" if waiting else "reply_to_card"
        return Reply(say_on(press.actor.platform, key, locale=locale), Tone.QUIET, result=key)

    @staticmethod
    def _from_its_place(ledger: Ledger, posted: Posted, press: Press) -> bool:
        """A token works only in the chat, before and after it moved, and through the account it was posted with."""
        here = press.message
        if here.platform != posted.platform:
            return False
        if posted.message_id is not None and here.account != posted.account:
            return False
        if here.chat == posted.chat:
            return True
        # A card stays behind in a chat that moved: pressed there, or where the chat is now, it is the same card.
        there, now = (ledger.moved_to(here.platform, here.account, chat) for chat in (here.chat, posted.chat))
        return there == now

    def _judge(self, ledger: Ledger, approval: Approval, by: _Pressed) -> Judged | None:
        """What this press does to the row as it stands; None when another transaction was faster."""
        press = by.press
        if (approval.pending or press.verb in SPENT) and changes.was_spent(ledger, approval, press.key):
            # It has had its effect before.
            return Judged(by.said(approval, SPENT.get(press.verb, "taken_back")))
        if press.verb in AFTERWARDS and press.text is None and not approval.pending:
            return self._afterwards(ledger, approval, by)
        if self.generation_over(approval, by.agent, taken_back=press.verb in TAKEN_BACK):
            return self._over(ledger, approval, by)
        if press.verb in TAKEN_BACK and press.text is None:
            return self._take_back(ledger, approval, by)
        if press.verb in AFTERWARDS and press.text is None:
            return Judged(by.said(approval, "nothing_to_follow_up"))
        if not approval.pending:
            reply = self._too_late(ledger, approval, by)
            # The process that committed this very press may have been killed before it could tell the workflow.
            same = approval.decision_key == press.key and approval.consumed_at is None
            return Judged(reply, unheard=approval if same else None)
        if press.fields is not None or (press.text is not None and by.posted.verb == Verb.EDIT):
            return self._edit(ledger, approval, by)
        if press.text is not None:
            return self._decline_with(ledger, approval, by, press.text)
        if press.content_revision != approval.content_revision:
            return Judged(replace(by.said(approval, "changed_look_again"), redraw=True))
        match press.verb:
            case Verb.NOTE:
                asks = by.said(approval, "note_prompt", Tone.QUIET, agent=approval.agent)
                return Judged(replace(asks, ask_note=True))
            case Verb.EDIT:
                return Judged(self._form(approval, by))
            case Verb.DECLINE:
                return self._decide(ledger, approval, by, by.answer(Verdict.DECLINE))
        if by.posted.attached_revision != approval.content_revision:
            return Judged(by.said(approval, "still_attaching"))
        if press.verb == Verb.ALLOW:
            return self._decide(ledger, approval, by, by.answer(Verdict.ALLOW))
        return self._always(ledger, approval, by)

    # Answers

    def _decline_with(self, ledger: Ledger, approval: Approval, by: _Pressed, text: str) -> Judged | None:
        note = storable(text).strip()
        if is_affirmative(text):
            return Judged(by.said(approval, "press_allow_instead"))
        if not note:
            return Judged(by.said(approval, "note_empty"))
        if len(text) > NOTE_LIMIT:
            return Judged(by.said(approval, "note_too_long", limit=NOTE_LIMIT))
        # A form, or an answer to the prompt, is the note of a press; any other text came instead of one.
        unasked = not by.press.token and by.posted.kind is not Kind.PROMPT
        return self._decide(ledger, approval, by, by.answer(Verdict.DECLINE, note, unasked))

    def _decide(self, ledger: Ledger, approval: Approval, by: _Pressed, said: Answer) -> Judged | None:
        given = changes.given(ledger, self.directory, approval, said.verdict)
        if by.person.id in given and len(given) < approval.needed:
            return Judged(by.said(approval, "vote_stands", given=len(given), needed=approval.needed))
        changed = changes.answer(ledger, approval, said, by.now, given)
        if changed is None:
            return None
        if changed.pending:
            count = len({*given, by.person.id})
            reply = by.said(changed, "vote_counted", Tone.GOOD, given=count, needed=changed.needed)
        else:
            key = answered_key(changed, by.agent)
            reply = by.said(changed, key, Tone.GOOD, agent=changed.agent, tool=changed.tool)
        return Judged(replace(reply, redraw=True, result=_result(changed)), changed)

    def _too_late(self, ledger: Ledger, approval: Approval, by: _Pressed) -> Reply:
        press, posted = by.press, by.posted
        verdict = Verdict.ALLOW if press.verb == Verb.ALLOW or press.verb in SCOPES else Verdict.DECLINE
        mine = approval.decided_by == by.person.id and approval.decision_key is not None
        same = approval.status is (Status.APPROVED if verdict is Verdict.ALLOW else Status.DECLINED)
        # Another note goes to nobody, so it is not told that it did.
        same = same and (press.text is None or storable(press.text).strip() == approval.note)
        redraw = posted.shown_revision != approval.revision or posted.message_id != press.message.id
        if mine and same and press.fields is None:
            # The same person once more: the first answer again, so that a double press looks like one.
            reply = by.said(approval, answered_key(approval, by.agent), Tone.GOOD, agent=approval.agent,
                            tool=approval.tool)  # fmt: skip
        else:
            result = "too_late" if approval.status is Status.EXPIRED else "already_decided"
            reply = Reply(self.what_happened(ledger, approval, by.now, by.locale), Tone.ALERT,
                          approval_id=approval.id, result=result)  # fmt: skip
        return replace(reply, redraw=redraw)

    # Edits

    def _form(self, approval: Approval, by: _Pressed) -> Reply:
        form = form_of(approval, by.press.token, by.locale)
        if form is None:
            return by.said(approval, "edit_nothing")
        return replace(by.said(approval, "edit_form", Tone.QUIET), form=form)

    def _edit(self, ledger: Ledger, approval: Approval, by: _Pressed) -> Judged | None:
        press = by.press
        seen = press.content_revision if press.fields is not None else by.posted.content_revision
        if seen != approval.content_revision:
            return Judged(replace(by.said(approval, "changed_look_again"), redraw=True))
        form = form_of(approval, press.token, by.locale)
        if form is None:
            return Judged(by.said(approval, "edit_nothing"))
        values = press.fields if press.fields is not None else values_of(press.text or "", form)
        if values is None:
            return Judged(by.said(approval, "edit_unread", last=len(form.fields)))
        edit = edited(approval, {field: storable(value) for field, value in values.items()})
        if isinstance(edit, Unchanged):
            return Judged(by.said(approval, "edit_unchanged"))
        if isinstance(edit, Wrong):
            return Judged(by.said(approval, edit.key, field=edit.label, last=len(form.fields)))
        said = by.answer(Verdict.ALLOW, ", ".join(edit.pointers))
        effect = self.reach_of(ledger, by.agent, approval, edit.arguments)
        if effect is None:
            return Judged(by.said(approval, "edit_reaches_further", agent=approval.agent))
        changed = changes.edit(ledger, approval, said, edit.arguments, edit.digest, effect, by.now)
        if changed is None:
            return None
        reply = by.said(changed, "edited_votes" if changed.needed > 1 else "edited", Tone.GOOD)
        return Judged(replace(reply, redraw=True, result="edited"), changed)

    def reach_of(self, ledger: Ledger, agent: Agent | None, approval: Approval, arguments: str) -> Effect | None:
        """The effect of a row's call with other arguments, which is never less than it was; None where other people, or
        more of them, would have been asked for that."""
        effect = worst((approval.effect, self.books.effect_of(ledger, agent, approval, arguments)))
        if effect is not approval.effect:
            was, now = route_of(approval), self.directory.route(ledger, agent, approval.agent, effect, approval.tool)
            if (was.ask, was.needed, was.four_eyes) != (now.ask, now.needed, now.four_eyes):
                return None
        return effect

    # Rules

    def _always(self, ledger: Ledger, approval: Approval, by: _Pressed) -> Judged | None:
        if not self.directory.may_delegate(by.person):
            return Judged(by.said(approval, "always_not_yours"))
        offers = self.offers(ledger, approval, by.agent, by.locale)
        if not offers:
            return Judged(by.said(approval, "always_not_here"))
        if by.press.verb == Verb.ALWAYS:
            menu = tuple(Button(VERB_OF[scope.kind], label) for scope, label in offers)
            return Judged(replace(by.said(approval, "always_which", Tone.QUIET, agent=approval.agent), menu=menu))
        kind = SCOPES[Verb(by.press.verb)]
        chosen = next((scope for scope, _ in offers if scope.kind is kind), None)
        if chosen is None:
            return Judged(by.said(approval, "always_not_here"))
        if by.agent is None or any(rule.for_money and rule.scope == chosen for rule in ledger.rules(by.agent.id)):
            # A rule for money, which stands there, is not undone from a card: this call alone is allowed.
            return self._decide(ledger, approval, by, by.answer(Verdict.ALLOW))
        label = label_of(chosen)
        # On every card of it, for all who see them: that something was allowed for good.
        answer = by.answer(Verdict.ALLOW, say("always_note", label=label))
        changed = changes.answer(ledger, approval, answer, by.now)
        if changed is None:
            return None
        saved = ledger.add_rule(
            Rule(
                id=new_id(by.now), agent=approval.agent, tool=chosen.tool, operation=chosen.operation,
                scope_kind=chosen.kind, scope_value=chosen.value, label=label, created_at=by.now,
                created_by=by.person.id,
            )
        )  # fmt: skip
        assert saved is not None, "the agent is held, and no rule for money stands there"
        settled = self.settle(ledger, saved, by.agent, by.now)
        ledger.audit(AuditLine(approval.id, by.now, "rule", changed.revision, person=by.person.id, note=label))
        reply = by.said(changed, "always_saved", Tone.GOOD, label=label_of(chosen, by.locale))
        return Judged(replace(reply, redraw=True, result=_result(changed)), changed, settled, rule=saved.id)

    def offers(
        self, ledger: Ledger, approval: Approval, agent: Agent | None, locale: str = "en"
    ) -> list[tuple[Scope, str]]:
        """The scopes a rule could have for this call, with their words; none for money, and none where several must
        allow (design section 6)."""
        if agent is None:
            return []
        scopes = self.books.scopes_for(ledger, agent, approval)
        labelled = [(scope, _label(scope, locale)) for scope in scopes]
        return [(scope, label) for scope, label in labelled if len(label) <= SCOPE_LABEL_LIMIT]

    def settle(self, ledger: Ledger, rule: Rule, agent: Agent, now: datetime) -> tuple[Approval, ...]:
        """The waiting rows that a new rule covers run, and say by which rule. `agent` is as before the rule, held."""
        waiting = [
            row
            for row in ledger.open_rows(rule.agent, hold=True)
            if row.pending
            and not changes.due(row, now)
            and not self.generation_over(row, agent)
            and stands_in(rule, row.needed, self.directory.barred(ledger, row))
        ]
        covered = self.books.covered(ledger, agent, rule, waiting, now)
        allowed = [changes.allow_unasked(ledger, row, rule.label, now) for row in covered]
        return tuple(row for row in allowed if row is not None)

    # What a draft's card does after the answer

    def _take_back(self, ledger: Ledger, approval: Approval, by: _Pressed) -> Judged | None:
        undo = by.press.verb == Verb.UNDO
        until = approval.grace_until if undo else approval.restore_until
        if approval.status is not (Status.APPROVED if undo else Status.DECLINED) or until is None:
            return Judged(replace(by.said(approval, "nothing_to_take_back"), redraw=True))
        if approval.claim_token is not None or approval.consumed_at is not None:
            return Judged(replace(by.said(approval, "too_late_to_undo" if undo else "too_late_to_restore"),
                                  redraw=True))  # fmt: skip
        verdict = Verdict.ALLOW if undo else Verdict.DECLINE
        waiting = changes.take_back(ledger, approval, by.answer(verdict), by.now)
        if waiting is None:
            return None
        return Judged(replace(by.said(waiting, "undone" if undo else "restored", Tone.GOOD), redraw=True), waiting)

    def _afterwards(self, ledger: Ledger, approval: Approval, by: _Pressed) -> Judged | None:
        if not approval.open_ended:
            return Judged(replace(by.said(approval, "nothing_to_follow_up"), redraw=True))
        if by.press.verb == Verb.DISMISS:
            dismissed = changes.dismiss(ledger, approval, by.answer(Verdict.DECLINE), by.now)
            if dismissed is None:
                return None
            return Judged(replace(by.said(dismissed, "dismissed", Tone.GOOD), redraw=True), dismissed)
        if by.agent is not None and approval.generation < by.agent.generation:
            return Judged(by.said(approval, "generation_over", agent=approval.agent))
        if approval.needed > 1:
            return Judged(by.said(approval, "again_needs_several", agent=approval.agent))
        attempt = changes.attempt(ledger, approval)
        # The word is for the one sending that it was asked for after: it has come to nothing, or to worse, since.
        if by.press.verb == Verb.AGAIN or by.press.content_revision != attempt:
            unknown = approval.outcome is Outcome.UNKNOWN
            sure = Button(Verb.AGAIN_SURE, say("button_again_sure", locale=by.locale), "danger", number=attempt)
            asks = by.said(approval, "again_may_repeat" if unknown else "again_sure", Tone.ALERT, agent=approval.agent)
            return Judged(replace(asks, menu=(sure,)))
        again = changes.send_again(ledger, approval, by.answer(Verdict.ALLOW), by.now)
        if again is None:
            return None
        return Judged(replace(by.said(again, "sent_again", Tone.GOOD), redraw=True), again, again=True)

    # Generations

    @staticmethod
    def generation_over(approval: Approval, agent: Agent | None, *, taken_back: bool = False) -> bool:
        """Whether the agent was reset since, so that an answer to this row would come to nothing, or has."""
        if approval.status in (Status.DECLINED, Status.EXPIRED) and not taken_back:
            # Nothing would have run anyway: whoever asks is told who decided what.
            return False
        return agent is not None and approval.generation < agent.generation and approval.claim_token is None

    def _over(self, ledger: Ledger, approval: Approval, by: _Pressed) -> Judged | None:
        cancelled = self.end_generation(ledger, approval, by.now)
        if cancelled is None and approval.pending:
            return None
        reply = replace(by.said(approval, "generation_over", agent=approval.agent), redraw=True)
        return Judged(reply, cancelled)

    def end_generation(self, ledger: Ledger, approval: Approval, now: datetime) -> Approval | None:
        """Settle a row of an ended generation: waiting, it is cancelled; allowed and unclaimed, it is not sent."""
        if approval.pending:
            return changes.cancel(ledger, self.directory, approval, "reset", now)
        # Who runs the call itself must not either, unless it has its answer already.
        told = approval.runtime is Runtime.TURN and approval.consumed_at is not None
        waits = approval.run is not None or not told
        if approval.status is Status.APPROVED and approval.outcome is Outcome.NONE and waits:
            why = say("agent_was_reset")
            return changes.end(ledger, self.directory, approval, Outcome.NOT_SENT, why, now)
        return None

    def end_of_agent(self, ledger: Ledger, agent: Agent, now: datetime) -> list[Approval]:
        """Settle what an agent leaves that is gone from the directory, given as it was: nothing says any more that it
        was paused, or of which generation it was, so what that kept from running must not run for want of it."""
        settled: list[Approval | None] = []
        for row in ledger.open_rows(agent.id, hold=True):
            if self.generation_over(row, agent):
                settled.append(self.end_generation(ledger, row, now))
            elif agent.paused_at is not None and row.status is Status.APPROVED:
                why = say("agent_was_removed")
                settled.append(changes.end(ledger, self.directory, row, Outcome.NOT_SENT, why, now))
        return [row for row in settled if row is not None]

    # Words

    def refusal(self, ledger: Ledger, approval: Approval, why: str) -> Refusal:
        """Why somebody who is known may not answer, as a value; the words in English."""
        code = "own_request" if why == "own_request" else "not_entitled"
        return Refusal(code, self.who_may(ledger, approval, why))

    def who_may(self, ledger: Ledger, approval: Approval, why: str, locale: str = "en") -> str:
        who = ", ".join(person.name for person in self.directory.answerers(ledger, approval))
        return say(why, locale=locale, who=who or say("nobody", locale=locale))

    @staticmethod
    def what_happened(ledger: Ledger, approval: Approval, now: datetime, locale: str = "en") -> str:
        if approval.status is Status.EXPIRED:
            when = when_text(approval.decided_at or approval.expires_at, now, locale)
            return say("already_expired", locale=locale, when=when)
        when = when_text(approval.decided_at or now, now, locale)
        if approval.status is Status.CANCELLED:
            return say("already_cancelled", locale=locale, when=when)
        if approval.decided_by == AUTO:
            label = in_language(approval.note or "", locale)
            return say("already_unasked", locale=locale, when=when, label=label)
        what = say("status_approved" if approval.status is Status.APPROVED else "status_declined", locale=locale)
        person = ledger.person(approval.decided_by) if approval.decided_by else None
        who = person.name if person else approval.decided_by or say("somebody", locale=locale)
        told = say("already_decided", locale=locale, who=who, what=what, when=when, where=approval.decided_via or "")
        if approval.status is not Status.APPROVED or not tells_of_a_rule(approval):
            return told
        # Whoever would have made a rule learns that there is one.
        return f"{told}\n{in_language(approval.note or '', locale)}"


def answered_key(approval: Approval, agent: Agent | None) -> str:
    """What somebody is told who has just answered."""
    if agent is not None and agent.paused_at is not None:
        return "allowed_paused" if approval.status is Status.APPROVED else "declined_paused"
    if approval.note and approval.status is Status.DECLINED:
        return "declined_with_note"
    draft = approval.runtime is Runtime.DRAFT and (approval.grace_until or approval.restore_until)
    if approval.status is Status.APPROVED:
        return "allowed_draft" if draft else "allowed"
    return "declined_draft" if draft else "declined"


def storable(text: str) -> str:
    """A text without what no database holds: U+0000, and halves of surrogate pairs."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def not_linked(actor: Actor, locale: str, approval_id: str = "") -> Reply:
    text = say_on(actor.platform, "not_linked", locale=locale, platform=actor.platform)
    return Reply(text, Tone.ALERT, refused=True, approval_id=approval_id, result="not_linked")


def _refused(approval: Approval, code: str, text: str) -> Reply:
    return Reply(text, Tone.ALERT, refused=True, approval_id=approval.id, result=code)


def _label(scope: Scope, locale: str) -> str:
    """What a button under the card says; the card has the tool's name, where both do not fit on it."""
    label = label_of(scope, locale)
    return label if len(label) <= SCOPE_LABEL_LIMIT else label_of(scope, locale, here=True)


def _result(changed: Approval) -> str:
    return "counted" if changed.pending else changed.status.value
