"""What a person is shown of an approval: one pure function from the row to a card of plain, bounded text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from core.approvals import AUTO, Approval, Attachment, Button, Card, Effect, Line, Outcome, Runtime, Status, Tone
from core.asks import ARGUMENTS_LIMIT
from core.beside import beside
from core.buttons import Verb
from core.canonical import parts_of, pointer_of, value_at
from core.editing import lengths
from core.effects_rows import key_of
from core.formats import raw_text, value_text
from core.redaction import Redaction
from core.visible import units, visible, visible_json
from core.wording import (
    bounded,
    broke_off,
    fill,
    in_language,
    moment_text,
    place_name,
    say,
    tells_of_a_rule,
    was_edited,
)

# All lengths are UTF-16 units of visible text, which is what Telegram counts and never less than characters.
MAX_LINES, LINE_LIMIT, LINE_ROWS = 6, 300, 12
TITLE_LIMIT, NAME_LIMIT, LABEL_LIMIT, NOTE_LIMIT, ERROR_LIMIT = 150, 80, 60, 300, 200
MAX_ADDRESSES, FACT_FLOOR, FILE_LINE_LIMIT = 2, 120, 1_000
POINTER_LIMIT = 120
# Without its status a card has at most this much text, so that every platform can show it whole, its own words added.
CARD_LIMIT = 2_800
# Tried in turn until the card is within CARD_LIMIT: hostile text, wide in UTF-16, must leave room for the rest.
_LINE_LIMITS = (LINE_LIMIT, 200, 120, 60)
_ADDRESS_KEYS = frozenset((
    "url", "uri", "href", "endpoint", "link", "address", "baseurl", "webhook", "webhookurl", "callbackurl", "targeturl",
    "requesturl", "apiurl",
))  # fmt: skip
_ADDRESS_FILL = re.compile("[^A-Za-z]")
_MISSING = object()
# The keys and list indices that lead to an argument. Spelt out as a pointer it would be as long as all keys together.
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a card says of an approval that its row does not hold.

    `people` maps ids to names. `unlisted_run`: the directory does not list the activity that would run for the agent's
    tool. `allowed`: the names of those whose Allow counts, or did, where several are needed. `always`: a standing rule
    may be made of this call. `url_fields` and `recipients`: the arguments that the table of effects calls the address,
    and whom it reaches, by key.
    """

    people: Mapping[str, str] = field(default_factory=dict)
    unlisted_run: bool = False
    allowed: tuple[str, ...] = ()
    paused: bool = False
    always: bool = False
    url_fields: frozenset[str] = frozenset()
    recipients: frozenset[str] = frozenset()


def card_of(
    approval: Approval, around: Surroundings, now: datetime, locale: str = "en", *, redaction: Redaction
) -> Card:
    """The card of a row as it stands (design section 8).

    Times on the card are absolute, so that it stays true however long it hangs in a chat; `now` only takes the buttons
    off when time is up.
    """
    call = _call_of(approval, around, redaction, locale)
    content = _content(call, LINE_LIMIT)
    for limit in _LINE_LIMITS[1:]:
        if _units_of(content) <= CARD_LIMIT:
            break
        content = _content(call, limit)
    status, tone = _status(approval, around, now, redaction, locale)
    when = moment_text(approval.expires_at, locale=locale)
    return Card(
        title=content.title,
        pill=say(f"pill_{approval.effect.value}", locale=locale),
        lines=content.lines,
        body=content.body,
        claim=content.claim,
        status=status,
        tone=tone,
        buttons=_buttons(call, around, now),
        attachments=(Attachment(call.file, _file_text(call)),) if content.in_file else (),
        digest=short_digest(approval.digest),
        expiry=fill("expires", locale=locale, when=when) if approval.pending else "",
        content_revision=approval.content_revision,
        revision=approval.revision,
        language=locale,
        editable=call.editable,
    )


async def draw(
    approval: Approval, around: Surroundings, now: datetime, locale: str = "en", *, redaction: Redaction
) -> Card:
    """The same card, drawn beside the loop where there is much to read: no press may wait for it."""
    card = partial(card_of, approval, around, now, locale, redaction=redaction)
    texts = (approval.final_arguments, approval.presentation, approval.reasoning, approval.context)
    return await beside(sum(len(text) for text in texts if text), card)


def for_form(card: Card, fields: int, characters: int) -> Card:
    """The card without Edit where the texts do not fit the form of a platform that takes so many, so long."""
    if len(card.editable) <= fields and all(length <= characters for length in card.editable):
        return card
    return replace(card, buttons=tuple(button for button in card.buttons if button.verb != Verb.EDIT))


def short_id(approval_id: str) -> str:
    """The last eight characters of an id: the random end of a UUIDv7, its start being the time."""
    return approval_id[-8:]


def short_digest(digest: str) -> str:
    """`sha256:` and the first twelve of its digits."""
    kind, _, digits = digest.partition(":")
    return f"{kind}:{digits[:12]}"


def text_of(card: Card) -> str:
    """Everything a card shows, as plain text: for the command line, and for the record of what was shown."""
    locale = card.language
    parts = [card.title, f"[{card.pill}]", *([card.body] if card.body else [])]
    for line in card.lines:
        mark = fill("claimed", locale=locale) if line.claim else ""
        value = "".join(f"\n    {row}" for row in line.value.split("\n")) if "\n" in line.value else f" {line.value}"
        parts.append(f"{line.label}{mark}:{value}")
    if card.claim:
        said = "".join(f"\n  > {row}" for row in card.claim.split("\n"))
        parts.append(f"{fill('claim_label', locale=locale)}:{said}")
    if card.attachments:
        parts.append(fill("attached", locale=locale, names=", ".join(file.name for file in card.attachments)))
    parts += [text for text in (fill("digest", locale=locale, digest=card.digest), card.expiry, card.status) if text]
    return "\n".join(parts)


def card_json(card: Card) -> dict[str, Any]:
    """A card for HTTP; `claimed` counts the lines, from 0, whose value is the agent's own word."""
    return {
        "title": card.title,
        "pill": card.pill,
        "body": card.body,
        "lines": [[line.label, line.value] for line in card.lines],
        "claimed": [number for number, line in enumerate(card.lines) if line.claim],
        "claim": card.claim,
        "status": card.status,
        "tone": card.tone.value,
        "expiry": card.expiry,
        "digest": card.digest,
        "attachments": [file.name for file in card.attachments],
        "content_revision": card.content_revision,
    }


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One line before it is cut: redacted, JSON where `is_json`; `elsewhere` when only the file can show it."""

    label: str
    value: str
    is_json: bool = False
    code: bool = False
    claim: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """An approval read once: redacted, its lines in order of importance, nothing cut."""

    approval: Approval
    locale: str
    agent: str
    tool: str
    operation: str
    title: str
    arguments: Any
    lines: tuple[_Wanted, ...]
    unlisted: tuple[_Wanted, ...]
    facts: tuple[_Wanted, ...]
    claim: str
    context: str
    run: Mapping[str, str]
    unlisted_run: bool
    on_behalf_of: str
    edited_by: str
    editable: tuple[int, ...]
    file: str


@dataclass(frozen=True, slots=True)
class _Content:
    """The part of a card that its content revision fixes; `in_file` when not everything fits on it."""

    title: str
    body: str
    lines: tuple[Line, ...]
    claim: str
    in_file: bool


def _call_of(approval: Approval, around: Surroundings, redaction: Redaction, locale: str) -> _Call:
    people, unlisted_run = around.people, around.unlisted_run
    arguments = redaction.value(json.loads(approval.final_arguments))
    presentation = json.loads(approval.presentation)
    lines, shown = _presented(presentation.get("lines") or [], arguments, redaction, locale)
    said = {line.value for line in lines[:MAX_LINES] if not line.claim}
    addresses = _addresses(arguments, (), around.url_fields)
    reached = [
        key for key, member in _members(arguments)
        if key_of(key) in around.recipients and member not in (None, "", [], {})
    ]  # fmt: skip
    facts = _facts(presentation, arguments, addresses, reached, redaction, locale, shown, said)
    listed = {wanted.label for wanted in islice(_unlisted(arguments, shown), MAX_LINES - len(lines[:MAX_LINES]))}
    for key in reached:
        value = _Wanted(fill("line_recipient", locale=locale), *raw_text(arguments[key]))
        if key not in listed and value.value not in said:
            # Whom it reaches stands on the card, however much stands there besides.
            facts.append(value)
            shown.add((key,))
    behalf = redaction.text(people.get(approval.on_behalf_of or "", approval.on_behalf_of or ""))
    if behalf:
        facts.append(_Wanted(fill("line_on_behalf_of", locale=locale), behalf, claim=True))
    run = {key: str(value) for key, value in json.loads(approval.run).items()} if approval.run else {}
    if run and unlisted_run:
        runs = fill("runs_unlisted", locale=locale, activity=run["activity"], queue=run["task_queue"])
        facts.append(_Wanted(fill("line_runs", locale=locale), runs))
    return _Call(
        approval=approval,
        locale=locale,
        agent=redaction.text(approval.agent),
        tool=redaction.text(approval.tool),
        operation=redaction.text(approval.operation),
        title=redaction.text((presentation.get("title") or "").strip()),
        arguments=arguments,
        lines=tuple(lines),
        unlisted=tuple(_unlisted(arguments, shown)),
        facts=tuple(facts),
        claim=redaction.text((approval.reasoning or "").strip()),
        context=redaction.text((approval.context or "").strip()),
        run=run,
        unlisted_run=unlisted_run,
        on_behalf_of=behalf,
        edited_by=people.get(approval.edited_by or "", approval.edited_by or ""),
        editable=lengths(approval) if approval.pending else (),
        file=f"approval-{short_id(approval.id)}.txt",
    )


def _presented(
    wanted: Sequence[Sequence[str]], arguments: Any, redaction: Redaction, locale: str
) -> tuple[list[_Wanted], set[_Path]]:
    """The lines that the presentation asks for, and where what they show stands."""
    lines: list[_Wanted] = []
    shown: set[_Path] = set()
    for label, source, *rest in wanted:
        form = rest[0] if rest else "text"
        label = redaction.text(label)
        if not source.startswith("/"):
            value = redaction.text(source)
            lines.append(_Wanted(label, *raw_text(value), claim=True))
            continue
        found = value_at(arguments, source, _MISSING)
        if found is _MISSING:
            # A key of the pointer held a secret, so it is not called that any more in what may be shown.
            lines.append(_Wanted(label, fill("line_in_file", locale=locale), elsewhere=True))
            continue
        written, other = value_text(found, form, arguments, locale)
        if written is None:
            lines.append(_Wanted(label, *raw_text(found), code=form == "code"))
        else:
            lines.append(_Wanted(label, written))
            shown.add(parts_of(other))
        shown.add(parts_of(source))
    return lines, shown


def _facts(
    presentation: Mapping[str, Any],
    arguments: Any,
    addresses: Iterable[tuple[_Path, str]],
    reached: Sequence[str],
    redaction: Redaction,
    locale: str,
    shown: set[_Path],
    seen: set[str],
) -> list[_Wanted]:
    """Where the call goes and whom it reaches, unless a line says so already; adds what these show to `shown`."""
    facts: list[_Wanted] = []
    label = fill("line_address", locale=locale)
    for path, address in addresses:
        if address not in seen:
            facts.append(_Wanted(label, address))
            shown.add(path)
            seen.add(address)
        if len(facts) == MAX_ADDRESSES:
            break
    for key, name in (("url", label), ("recipient", fill("line_recipient", locale=locale))):
        source = presentation.get(key) or ""
        found = value_at(arguments, source) if source.startswith("/") else None
        value, is_json = raw_text(redaction.text(source) if found is None else found)
        # Where it is known which arguments say whom a call reaches, any other is only said to.
        own = key == "recipient" and found is not None and reached and parts_of(source)[0] not in reached
        if source and value not in seen:
            facts.append(_Wanted(name, value, is_json, claim=found is None or bool(own)))
            seen.add(value)
        if found is not None:
            shown.add(parts_of(source))
    return facts


def _addresses(value: Any, path: _Path, url_fields: frozenset[str]) -> Iterator[tuple[_Path, str]]:
    """What stands under a key such as `url`, outermost first, and outermost under those that the table names."""
    for key, member in _members(value):
        listed = not path and key_of(key) in url_fields
        if listed or _ADDRESS_FILL.sub("", key).lower() in _ADDRESS_KEYS:
            several = [((*path, key, at), text) for at, text in _members(member)] if listed else []
            for place, text in several or [((*path, key), member)]:
                if isinstance(text, str) and text.strip():
                    yield place, text
    for key, member in _members(value):
        if isinstance(member, dict | list):
            yield from _addresses(member, (*path, key), url_fields)


def _unlisted(arguments: Any, shown: set[_Path]) -> Iterator[_Wanted]:
    """A line for every argument of which something is not shown yet, in the order of the arguments."""
    for key, value in _members(arguments):
        if not _is_shown(value, (key,), shown):
            yield _Wanted(key, *raw_text(value))


def _is_shown(value: Any, path: _Path, shown: set[_Path]) -> bool:
    if path in shown:
        return True
    if not any(other[: len(path)] == path for other in shown):
        return False
    return all(_is_shown(member, (*path, key), shown) for key, member in _members(value))


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    """Key and value of what an object or a list holds; nothing for anything else."""
    if isinstance(value, dict):
        return value.items()
    return ((str(number), member) for number, member in enumerate(value)) if isinstance(value, list) else ()


def _content(call: _Call, limit: int) -> _Content:
    cutter = _Cutter(call.locale)
    agent, tool, operation = (cutter.cut(name, NAME_LIMIT) for name in (call.agent, call.tool, call.operation))
    key = "title_operation" if operation else "title"
    wants = fill(key, locale=call.locale, agent=agent, tool=tool, operation=operation)
    chosen = call.lines[:MAX_LINES]
    further = call.unlisted[: MAX_LINES - len(chosen)]
    lines = [cutter.line(wanted, limit) for wanted in (*chosen, *further)]
    lines += [cutter.line(wanted, max(limit, FACT_FLOOR)) for wanted in call.facts]
    title = cutter.cut(call.title, TITLE_LIMIT) if call.title else wants
    claim = cutter.cut(call.claim, 2 * limit, lines=True)
    body = [wants + "."] if call.title else []
    if call.edited_by and call.approval.edited_at is not None:
        when = moment_text(call.approval.edited_at, locale=call.locale)
        body.append(fill("edited_by", locale=call.locale, who=bounded(call.edited_by, NAME_LIMIT), when=when))
    lost = (("more_lines", len(call.lines) - len(chosen)), ("more_arguments", len(call.unlisted) - len(further)))
    body += [say(key, locale=call.locale, count=count) for key, count in lost if count]
    in_file = cutter.has_cut or bool(call.context) or any(count for _, count in lost)
    if in_file:
        body.append(fill("more_in_file", locale=call.locale, name=call.file))
    return _Content(title, "\n".join(body), tuple(lines), claim, in_file)


class _Cutter:
    """Makes text visible and cuts it, saying how much is gone; `has_cut` remembers that something is."""

    def __init__(self, locale: str) -> None:
        self.locale = locale
        self.has_cut = False

    def line(self, wanted: _Wanted, limit: int) -> Line:
        self.has_cut = self.has_cut or wanted.elsewhere
        label = self.cut(wanted.label, LABEL_LIMIT)
        code = wanted.code or wanted.is_json or "\n" in wanted.value
        return Line(label, self.cut(wanted.value, limit, lines=code, is_json=wanted.is_json), code, wanted.claim)

    def cut(self, text: str, limit: int, *, lines: bool = False, is_json: bool = False) -> str:
        """The text, visible, in at most `limit` UTF-16 units and 12 rows, its cut included."""
        shown = self._shown(text, lines, is_json) if len(text) <= limit else None
        if shown is not None and units(shown) <= limit and (not lines or shown.count("\n") < LINE_ROWS):
            return shown
        self.has_cut = True
        suffix = say("cut", locale=self.locale, count=len(text))
        room = limit - units(suffix)
        head = "\n".join(text[:room].split("\n")[:LINE_ROWS]) if lines else text[:room]
        shown = self._shown(head, lines, is_json)
        while (length := units(shown)) > room:
            head = head[: len(head) * room // length]
            shown = self._shown(head, lines, is_json)
        return shown + say("cut", locale=self.locale, count=len(text) - len(head))

    @staticmethod
    def _shown(text: str, lines: bool, is_json: bool) -> str:
        return visible_json(text) if is_json else visible(text, lines=lines)


def _units_of(content: _Content) -> int:
    # The separator, the mark of a claim and a platform's own markup take a few units a line.
    lines = sum(units(line.label) + units(line.value) + 20 for line in content.lines)
    return units(content.title) + units(content.body) + units(content.claim) + lines


def _buttons(call: _Call, around: Surroundings, now: datetime) -> tuple[Button, ...]:
    approval, locale = call.approval, call.locale

    def button(verb: Verb, key: str, style: str = "", confirm: str = "") -> Button:
        return Button(verb, fill(key, locale=locale), style, confirm)

    if approval.pending and now < approval.expires_at:
        confirm = ""
        if approval.effect is Effect.MONEY:
            confirm = say("confirm_money", locale=locale, agent=approval.agent, tool=approval.tool)
        return (
            button(Verb.ALLOW, "button_allow", "success", confirm),
            button(Verb.DECLINE, "button_decline", "danger"),
            button(Verb.NOTE, "button_note"),
            *((button(Verb.EDIT, "button_edit"),) if call.editable else ()),
            *((button(Verb.ALWAYS, "button_always"),) if around.always else ()),
        )
    if approval.runtime is not Runtime.DRAFT:
        return ()
    # Until the claim, which comes after the 5 s, and later still while the agent is paused.
    if approval.grace_until is not None and approval.outcome is Outcome.NONE and approval.claim_token is None:
        return (button(Verb.UNDO, "button_undo"),)
    if approval.restore_until is not None and approval.consumed_at is None:
        return (button(Verb.RESTORE, "button_restore"),)
    if approval.open_ended:
        # Nobody alone sends again what several had to allow.
        again = (button(Verb.AGAIN, "button_again"),) if approval.needed == 1 else ()
        return (*again, button(Verb.DISMISS, "button_dismiss"))
    return ()


def _status(
    approval: Approval, around: Surroundings, now: datetime, redaction: Redaction, locale: str
) -> tuple[str, Tone]:
    """The status line and how loud it is; empty while nothing but the answer is missing."""
    people = around.people
    when = moment_text(approval.decided_at or approval.expires_at, locale=locale)
    by = approval.decided_by or ""
    who = bounded(people.get(by, by), NAME_LIMIT) or fill("somebody", locale=locale)
    if approval.status is Status.APPROVED and len(around.allowed) > 1:
        who = bounded(", ".join(around.allowed), 2 * NAME_LIMIT)
    where = place_name(approval.decided_via or "", locale)
    note = bounded(redaction.text((approval.note or "").strip()), NOTE_LIMIT, lines=True)
    match approval.status:
        case Status.PENDING if now >= approval.expires_at:
            return fill("card_time_up", locale=locale), Tone.QUIET
        case Status.PENDING:
            said = []
            if approval.undeliverable:
                reason = in_language(approval.undeliverable, locale).rstrip(".")
                said.append(say("card_undeliverable", locale=locale, reason=reason))
            if around.allowed:
                names, given = ", ".join(around.allowed), len(around.allowed)
                said.append(say("card_votes", locale=locale, given=given, needed=approval.needed, names=names))
            if around.paused:
                said.append(say("card_paused", locale=locale, agent=approval.agent))
            return " ".join(said), Tone.BAD if approval.undeliverable else Tone.QUIET
        case Status.EXPIRED:
            return fill("card_expired", locale=locale, when=when), Tone.QUIET
        case Status.CANCELLED:
            return fill("card_cancelled", locale=locale, when=when), Tone.QUIET
        case Status.DECLINED:
            text = fill("card_declined", locale=locale, who=who, where=where, when=when)
            if note and approval.by_message and by:
                text += "\n" + fill("card_replied", locale=locale, who=who, note=note)
            elif note and approval.by_message:
                text += "\n" + fill("card_replied_unnamed", locale=locale, note=note)
            elif note:
                text += "\n" + fill("card_note", locale=locale, note=note)
            if around.paused and approval.consumed_at is None:
                text += "\n" + say("card_on_resume", locale=locale, agent=approval.agent)
            return text, Tone.BAD
        case Status.APPROVED:
            if approval.decided_by == AUTO:
                key = "card_auto_waits" if approval.outcome is Outcome.NONE else "card_auto"
                why = in_language(note, locale) or fill("auto_mode", locale=locale)
                text = fill(key, locale=locale, when=when, note=why)
            else:
                key = "card_allowed_edited" if was_edited(approval) else "card_allowed"
                text = fill(key, locale=locale, who=who, where=where, when=when)
            after, tone = _outcome(approval, around, redaction, locale)
            text = f"{text} {after}" if after else text
            if note and approval.decided_by != AUTO:
                own = tells_of_a_rule(approval)
                text += "\n" + (in_language(note, locale) if own else fill("card_note", locale=locale, note=note))
            return text, tone


def _outcome(approval: Approval, around: Surroundings, redaction: Redaction, locale: str) -> tuple[str, Tone]:
    error = in_language((approval.outcome_note or "").strip().rstrip("."), locale)
    error = bounded(redaction.text(error), ERROR_LIMIT)
    error = error or fill("unknown_error", locale=locale)
    draft = approval.runtime is Runtime.DRAFT
    match approval.outcome:
        case Outcome.SENDING:
            return fill("card_sending", locale=locale), Tone.GOOD
        case Outcome.SENT:
            return fill("card_sent_draft" if draft else "card_sent", locale=locale), Tone.GOOD
        case Outcome.NOT_SENT:
            return fill("card_not_sent_draft" if draft else "card_not_sent", locale=locale, error=error), Tone.BAD
        case Outcome.UNKNOWN if broke_off(approval):
            return fill("card_broke_off_draft" if draft else "card_broke_off", locale=locale), Tone.ALERT
        case Outcome.UNKNOWN:
            return fill("card_failed_draft" if draft else "card_failed", locale=locale, error=error), Tone.ALERT
        case Outcome.NONE if around.paused and approval.consumed_at is None:
            return say("card_on_resume", locale=locale, agent=approval.agent), Tone.GOOD
        case Outcome.NONE if approval.grace_until is not None:
            return fill("card_undo", locale=locale), Tone.GOOD
        case Outcome.NONE if approval.runtime is Runtime.EXTERNAL:
            return fill("card_asker_runs", locale=locale), Tone.GOOD
        case Outcome.NONE:
            return (fill("card_waits", locale=locale) if approval.run else ""), Tone.GOOD


def _file_text(call: _Call) -> str:
    """Everything, whole: what the card cut, all arguments, and the text of several lines line by line."""
    approval, locale = call.approval, call.locale

    def one(key: str, value: str) -> str:
        return fill(key, locale=locale, value=visible(value, lines=False))

    parts = [
        fill("file_head", locale=locale, id=approval.id),
        "",
        one("file_agent", call.agent),
        one("file_tool", call.tool),
        *([one("file_operation", call.operation)] if call.operation else []),
        one("file_effect", fill(f"pill_{approval.effect.value}", locale=locale)),
        _run_text(call),
        *([one("file_on_behalf_of", call.on_behalf_of)] if call.on_behalf_of else []),
        one("file_digest", approval.digest),
        one("file_revision", str(approval.content_revision)),
        one("file_created", moment_text(approval.created_at, locale=locale)),
        one("file_expires", moment_text(approval.expires_at, locale=locale)),
        "",
        fill("file_hidden", locale=locale),
    ]
    if call.title:
        parts += _section(fill("file_title", locale=locale), visible(call.title))
    if call.lines or call.facts:
        parts += ["", fill("file_lines", locale=locale) + ":"]
        parts += _file_lines(call)
    document = json.dumps(call.arguments, ensure_ascii=False, indent=2)
    parts += ["", fill("file_arguments", locale=locale) + ":", visible_json(document)]
    for path, text in _texts(call.arguments, ()):
        pointer = bounded(pointer_of(part[: POINTER_LIMIT + 1] for part in path), POINTER_LIMIT)
        parts += _section(fill("file_texts", locale=locale, pointer=pointer), visible(text))
    if call.claim:
        parts += _section(fill("file_claim", locale=locale), visible(call.claim))
    if call.context:
        parts += _section(fill("file_context", locale=locale), visible(call.context))
    return "\n".join(parts) + "\n"


def _run_text(call: _Call) -> str:
    if not call.run:
        return fill("file_run_none", locale=call.locale)
    activity, queue = (visible(call.run[key], lines=False) for key in ("activity", "task_queue"))
    key = "file_run_unlisted" if call.unlisted_run else "file_run"
    return fill(key, locale=call.locale, activity=activity, queue=queue)


def _section(head: str, text: str) -> list[str]:
    """A text under its head, every row marked, so that no text can look like the next head."""
    return ["", head + ":", *(f"  | {row}" for row in text.split("\n"))]


def _file_lines(call: _Call) -> Iterator[str]:
    """The lines of the card, whole. Only where they say the same arguments over again are they cut in the end."""
    room = ARGUMENTS_LIMIT
    for wanted in (*call.lines, *call.facts):
        label, mark = visible(wanted.label, lines=False), ""
        if wanted.claim:
            value, mark = visible(wanted.value), fill("claimed", locale=call.locale)
        elif len(wanted.value) > max(room, FILE_LINE_LIMIT):
            value = _Cutter(call.locale).line(wanted, FILE_LINE_LIMIT).value
        else:
            value = visible_json(wanted.value) if wanted.is_json else visible(wanted.value)
            room -= len(wanted.value)
        rows = value.replace("\n", "\n  | ")
        yield f"  {label}{mark}: {rows}"


def _texts(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    """Every text of several lines among the arguments, and where it stands."""
    if isinstance(value, str) and "\n" in value:
        yield path, value
    for key, member in _members(value):
        yield from _texts(member, (*path, key))
