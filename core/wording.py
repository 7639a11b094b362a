"""Every word a person reads, in one catalogue, and the fixed sentences that tell a model what became of its call."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from babel.dates import format_date, format_time, format_timedelta
from babel.numbers import format_decimal

from core.approvals import Approval, Outcome, Runtime, Status
from core.visible import units, visible

VALUE_LIMIT = 120
NOTE_SHOWN, ERROR_SHOWN = 2_000, 500

ENGLISH: Final[Mapping[str, str]] = {
    # What the presser is told; an alert in Telegram holds 200 characters.
    "allowed": "Allowed. {agent} may go on with {tool}.",
    "declined": "Declined. {agent} is told that {tool} was not run.",
    "declined_with_note": "Declined. {agent} gets your note; {tool} was not run.",
    "already_decided": "Already decided: {what} by {who}, {when}, through {where}.",
    "already_expired": "Too late: nobody decided in time, so this expired {when}. Nothing was run.",
    "already_cancelled": "The request was withdrawn {when}. There is nothing left to decide.",
    "expired_now": "Too late: the time ran out just now. Nothing was run.",
    "not_linked": "This {platform} account is linked to nobody here. Ask an administrator for a code and send me in "
    "private: /start CODE",
    "not_linked_slack": "This Slack account is linked to nobody here. Ask an administrator for a code and send me in "
    "private: /placet link CODE",
    "not_entitled": "You do not have the right to answer this. It can be answered by {who}.",
    "not_asked": "This is not yours to answer. It can be answered by {who}.",
    "anonymous": "You post anonymously here, so I cannot tell who you are. Press the button, or answer as yourself.",
    "unknown_card": "I do not know this card, so nothing was decided.",
    "wrong_place": "This button belongs to a card in another chat, so nothing was decided.",
    "changed_look_again": "What would run has changed since you looked. Nothing was decided; look again, then answer.",
    "still_attaching": "The full text is still being attached. Nothing was decided; look at it, then press again.",
    "press_allow_instead": "To allow this, press Allow on the card. Nothing was decided by your message.",
    "too_fast": "That was too many presses. Nothing was decided; try again in {seconds} s.",
    "refused_short": "Not yours to answer.",
    "try_again": "I cannot save answers just now. I keep trying; if the card has not changed in a few minutes, "
    "press again.",
    "not_saved": "I cannot save answers just now, so nothing was decided. Answer again in a few minutes.",
    "went_wrong": "Something went wrong here. If the card has not changed, press again; if this stays, tell an "
    "administrator.",
    "note_prompt": "Tell {agent} what to do instead",
    "note_empty": "Your note was empty, so nothing was decided. Write a few words, or press Decline.",
    "note_too_long": "Your note is longer than {limit} characters. Nothing was decided; shorten it and send it again.",
    "note_needs_text": "Only new text messages count as an answer. Nothing was decided.",
    "note_unreadable": "I cannot read that reply. Reply with the mention of me left on, or press Decline with a note.",
    "nobody": "nobody at present",
    "reply_to_card": "To answer, press a button on the card or reply to the card. /pending lists what waits for you.",
    "reply_to_card_slack": "To answer, press a button on the card or reply in its thread. /placet pending lists what "
    "waits for you.",
    "private_only": "Ask me that in our private chat.",
    # Linking, listing, help.
    "linked": "Linked. You are {name}; what waits for you comes here.",
    "link_bad_code": "This code is unknown, used up or older than 15 minutes. Ask an administrator for a new one.",
    "link_private_only": "Send me the code in a private chat. This one has been seen by others; ask for a new one.",
    "already_linked": "This account is linked already, so nothing was changed.",
    "identity_was_linked": "The {platform} account {identity} was linked to you just now. If that was not you, tell an "
    "administrator at once.",
    "nothing_waiting": "Nothing waits for you.",
    "pending_head": "Waiting for you: {count}",
    "pending_item": "{number}. {title} ({agent}, expires {when})",
    "pending_more": "and {count} more",
    "which_one": "Several requests wait here. Reply to the card you mean, or press its buttons.",
    "help": "I bring you what waits for a person's yes or no. Press a button on a card, or reply to a card to decline "
    "it with a note. /pending lists what waits for you.",
    "help_slack": "I bring you what waits for a person's yes or no. Press a button on a card, or reply in its thread "
    "to decline it with a note. /placet pending lists what waits for you; /placet link CODE, sent to me in private, "
    "links this account.",
    "comes_later": "/placet {command} comes later; nothing was done.",
    "note_form_gone": "The form could not be opened, so nothing was decided. Reply in the thread of the card instead: "
    "that declines it with your note.",
    "note_form_label": "What to do instead",
    "note_form_hint": "The agent gets your note; nothing is run.",
    "form_cancel": "Cancel",
    "confirm_title": "Allow this?",
    "confirm_no": "Not yet",
    "note_field": "Note",
    "command_later": "That comes with a later release.",
    "command_placet": "Approvals: link your account, see what waits",
    "command_link": "Link this account with a code",
    "command_code": "The code you were given",
    "command_rules": "The rules of an agent",
    "command_mode": "How much an agent asks",
    "command_pause": "Pause an agent",
    "command_resume": "Let an agent go on",
    "command_start": "Link this account with a code",
    "command_pending": "What waits for your answer",
    "command_help": "What I am for",
    "reminder": "Still waiting: {title}. It expires {left}.",
    # Why something is refused over HTTP or in a workflow.
    "idempotency_conflict": "this Idempotency-Key was used for another body; use a new key",
    "not_external": "this call is not run by its asker, so there is nothing to claim",
    "not_approved": "this call is not approved",
    "already_claimed": "this call was claimed before; a call is claimed once",
    "claim_too_late": "nobody claimed it in time",
    "not_claimed": "the claim token does not belong to this call",
    "already_recorded": "another outcome was recorded before",
    "asker_left": "the asker ended before it was run",
    "asker_left_running": "the asker ended while it ran",
    "claimed_by_another_run": "an earlier run of the workflow had started it",
    "outcome_overdue": "no outcome was reported in time",
    # Why no card can be seen.
    "undeliverable_nobody": "nobody who is asked can be reached; link a person, or change the route",
    "undeliverable_unknown_agent": "the directory does not know this agent, so nobody is asked",
    "undeliverable_gone": "the chat or topic no longer exists, or the bot may not write there",
    "undeliverable_refused": "the platform refuses the card",
    "undeliverable_off": "the platform of this route is switched off",
    "undeliverable_retrying": "{platform} cannot be reached; it is tried again",
    "undeliverable_file": "the platform refuses the file that must be attached before Allow works",
    # The card.
    "title": "{agent} wants to use {tool}",
    "title_operation": "{agent} wants to use {tool} ({operation})",
    "pill_read": "Looks things up",
    "pill_write": "Makes changes",
    "pill_send": "Reaches out",
    "pill_money": "Money or deletes",
    "line_address": "Address",
    "line_recipient": "Recipient",
    "line_on_behalf_of": "On behalf of",
    "line_runs": "Runs",
    "runs_unlisted": "activity {activity} on task queue {queue}, which the directory does not list for this agent",
    "cut": "… ({count} more characters)",
    "more_in_file": "Not everything fits here. The whole text is in {name}.",
    "more_arguments": "Arguments not shown here: {count}.",
    "more_lines": "Lines not shown here: {count}.",
    "claim_label": "In the agent's own words",
    "claimed": " (agent's words)",
    "line_in_file": "see the attached file",
    "expires": "Expires {when}",
    "digest": "Content {digest}",
    "attached": "Attached: {names}",
    "button_allow": "Allow",
    "button_decline": "Decline",
    "button_note": "Decline with a note",
    "confirm_money": "Allow {agent} to use {tool}? It spends money or deletes something.",
    "status_approved": "allowed",
    "status_declined": "declined",
    "card_allowed": "Allowed by {who} through {where}, {when}.",
    "card_allowed_edited": "Allowed by {who} after an edit, through {where}, {when}.",
    "card_auto": "Ran without asking, {when}: {note}.",
    "auto_mode": "the mode lets it run",
    "card_declined": "Declined by {who} through {where}, {when}. Nothing was run.",
    "card_note": "Note: {note}",
    "card_replied": "{who} replied: {note}",
    "card_expired": "Expired {when}: nobody decided in time. Nothing was run.",
    "card_cancelled": "Withdrawn {when}. Nothing was run.",
    "card_time_up": "The time is up; no answer counts any more.",
    "card_undeliverable": "Cannot be delivered: {reason}.",
    "card_waits": "It has not run yet.",
    "card_asker_runs": "Its asker runs it.",
    "card_sending": "Running now.",
    "card_sent": "Done.",
    "card_not_sent": "It could not be started: {error}. Nothing was run.",
    "card_failed": "It failed: {error}. It may have partly happened.",
    "card_broke_off": "It broke off. It may or may not have happened.",
    "unknown_error": "no reason was given",
    # The attached file.
    "file_head": "Placet approval {id}",
    "file_agent": "Agent: {value}",
    "file_tool": "Tool: {value}",
    "file_operation": "Operation: {value}",
    "file_effect": "Effect: {value}",
    "file_run": "Runs: activity {activity} on task queue {queue}",
    "file_run_unlisted": "Runs: activity {activity} on task queue {queue} (not in the directory for this agent)",
    "file_run_none": "Runs: not by Placet; the asker goes on itself after Allow",
    "file_on_behalf_of": "On behalf of, says the agent: {value}",
    "file_digest": "Content digest: {value}",
    "file_revision": "Content revision: {value}",
    "file_created": "Asked: {value}",
    "file_expires": "Expires: {value}",
    "file_hidden": "Secrets are shown as [hidden: length, hash]. They are unchanged in what runs.",
    "file_arguments": "All arguments, as JSON",
    "file_texts": "Argument {pointer}, line by line",
    "file_lines": "The lines of the card",
    "file_claimed": "(the agent's own words)",
    "file_title": "The title, in the agent's own words",
    "file_claim": "Why, in the agent's own words",
    "file_context": "Context, in the agent's own words",
    # Names of places.
    "place_telegram": "Telegram",
    "place_slack": "Slack",
    "place_discord": "Discord",
    "place_cli": "the command line",
    "place_http": "HTTP",
    "today": "{time} UTC",
    "day": "{date}, {time} UTC",
    "when": "{moment} ({relative})",
}
CATALOGUES: Final[Mapping[str, Mapping[str, str]]] = {"en": ENGLISH}
# What `outcome_note` says where nothing reported an error: the call broke off rather than failed.
BROKE_OFF = frozenset(ENGLISH[key] for key in ("asker_left_running", "claimed_by_another_run", "outcome_overdue"))


def say(key: str, *, locale: str = "en", **values: object) -> str:
    """The words of `key` with raw values: texts are made visible, on one line, at most 120 units each.

    Numbers are grouped as the locale does; values named `where` and `platform` may be a surface's name (telegram).
    Raises KeyError for an unknown key or a missing value.
    """
    shown: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, int):
            shown[name] = format_decimal(value, locale=locale)
        elif name in ("where", "platform"):
            shown[name] = place_name(str(value), locale)
        else:
            shown[name] = bounded(str(value), VALUE_LIMIT)
    return fill(key, locale=locale, **shown)


def say_on(platform: str, key: str, /, *, locale: str = "en", **values: object) -> str:
    """The words of `key` as they are said on a platform, where it has its own."""
    own = f"{key}_{platform}"
    return say(own if own in ENGLISH else key, locale=locale, **values)


def fill(key: str, *, locale: str = "en", **shown: str) -> str:
    """The words of `key` with values that have been made visible and cut already."""
    return CATALOGUES.get(locale, ENGLISH)[key].format_map(shown)


def bounded(text: str, limit: int, *, lines: bool = False) -> str:
    """A raw text made visible and cut to `limit` UTF-16 units, an ellipsis at the end where it was cut."""
    shown = visible(text[: limit + 1], lines=lines)
    if units(shown) <= limit:
        return shown
    while units(shown) >= limit:
        shown = shown[: len(shown) * (limit - 1) // units(shown)]
    return shown.rstrip() + "…"


def place_name(via: str, locale: str = "en") -> str:
    """How a surface is called in a sentence."""
    words = CATALOGUES.get(locale, ENGLISH)
    return words.get(f"place_{via}") or bounded(via, VALUE_LIMIT)


def moment_text(at: datetime, now: datetime | None = None, locale: str = "en") -> str:
    """An instant in UTC: the time of day, and the date too unless it is the day of `now`."""
    at = at.astimezone(UTC)
    time = format_time(at, "HH:mm", locale=locale)
    if now is not None and at.date() == now.astimezone(UTC).date():
        return fill("today", locale=locale, time=time)
    return fill("day", locale=locale, date=format_date(at, "medium", locale=locale), time=time)


def relative_text(at: datetime, now: datetime, locale: str = "en") -> str:
    """How far an instant lies from now: `in 3 hours`, `2 minutes ago`."""
    return format_timedelta(at - now, threshold=1.5, add_direction=True, locale=locale)


def when_text(at: datetime, now: datetime, locale: str = "en") -> str:
    """Both: `12:05 UTC (2 minutes ago)`; for words that are read at once, not for a card that stays."""
    moment, relative = moment_text(at, now, locale), relative_text(at, now, locale)
    return fill("when", locale=locale, moment=moment, relative=relative)


# For the model

_DRAFT_WAITS = "Waiting for a person. Nothing has run yet."
_DECLINED = "Declined by {who}. Nothing was run. Do not look for another way to the same result."
_DECLINED_NOTE = "Declined by {who}. Nothing was run. Note: {note}"
_REPLIED = "{who} answered with a message instead of deciding. Nothing was run. Message: {note}"
_EXPIRED = "Nobody decided in time. Nothing was run."
_CANCELLED = "The request was withdrawn. Nothing was run."
_APPROVED = "Approved by {who}{edit}."
_APPROVED_WAITS = "Approved by {who}{edit}. It has not run yet."
_SENDING = "Approved by {who}{edit} and started. How it ended is not known yet."
_DONE = "Approved by {who} and done{edit}."
_AUTO = "Done without asking: {note}."
_NOT_SENT = "Approved by {who}, but it could not be started: {error}. Nothing was run."
_FAILED = "Approved and started, but it failed: {error}. It may have partly happened. Do not repeat it unasked."
_BROKE_OFF_SENTENCE = (
    "Approved and started, but it broke off. It may or may not have happened. Do not repeat it unasked."
)


def sentence_for(approval: Approval, people: Mapping[str, str] | None = None) -> str | None:
    """What the model is told (design section 6); English and fixed. None while a waiting turn or asker has no answer.

    `people` maps ids to names. Notes and errors are made visible and bounded.
    """
    by = approval.decided_by or ""
    who = bounded((people or {}).get(by, by), VALUE_LIMIT) or "a person"
    note = bounded((approval.note or "").strip(), NOTE_SHOWN, lines=True)
    match approval.status:
        case Status.PENDING:
            return _DRAFT_WAITS if approval.runtime is Runtime.DRAFT else None
        case Status.EXPIRED:
            return _EXPIRED
        case Status.CANCELLED:
            return _CANCELLED
        case Status.DECLINED:
            template = _DECLINED if not note else _REPLIED if approval.by_message else _DECLINED_NOTE
            return template.format(who=who, note=note)
        case Status.APPROVED:
            return _after_approval(approval, who, note)


def _after_approval(approval: Approval, who: str, note: str) -> str:
    edit = ", after an edit" if was_edited(approval) else ""
    error = bounded((approval.outcome_note or "").strip().rstrip("."), ERROR_SHOWN) or "no reason was given"
    match approval.outcome:
        case Outcome.NOT_SENT:
            return _NOT_SENT.format(who=who, error=error)
        case Outcome.UNKNOWN:
            return _BROKE_OFF_SENTENCE if broke_off(approval) else _FAILED.format(error=error)
        case Outcome.SENDING:
            return _SENDING.format(who=who, edit=edit)
        case Outcome.SENT if approval.decided_by == "auto":
            return _AUTO.format(note=note or "the mode lets it run")
        case Outcome.SENT:
            return _DONE.format(who=who, edit=edit)
        case Outcome.NONE:
            waits = approval.run is not None
            return (_APPROVED_WAITS if waits else _APPROVED).format(who=who, edit=edit)


def was_edited(approval: Approval) -> bool:
    """Whether a person changed the arguments before they were allowed."""
    if approval.final_arguments == approval.arguments:
        return False
    before, after = (json.loads(text) for text in (approval.arguments, approval.final_arguments))
    return json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)


def broke_off(approval: Approval) -> bool:
    """Of an `unknown` outcome: nobody reported an error, the call was lost from sight."""
    return approval.outcome_note is None or approval.outcome_note in BROKE_OFF


# Affirmatives

AFFIRMATIVE: Final = frozenset((
    "y", "ye", "yes", "yep", "yeah", "yea", "yup", "ya", "yess", "sure", "ok", "okay", "okey", "okej", "k", "kk", "oki",
    "allow", "allowed", "approve", "approved", "approving", "accept", "accepted", "agree", "agreed", "confirm",
    "confirmed", "go", "proceed", "continue", "fine", "lgtm", "sgtm", "granted", "permitted", "absolutely",
    "definitely", "certainly", "affirmative", "correct", "right", "perfect", "great", "roger", "placet", "+1", "1",
    "ja", "jo", "jep", "jawohl", "klar", "gerne", "einverstanden", "genehmigt", "genehmigen", "erlaubt", "erlauben",
    "freigeben", "freigegeben", "bestätigt", "passt", "akkoord", "oui", "si", "sí", "sim", "da", "да", "tak", "ano",
    "igen", "evet", "hai", "はい", "是", "好", "好的", "可以", "예", "네", "d'accord", "vale", "claro", "ok.", "true",
    "👍", "👌", "✅", "✔", "☑", "🆗", "💯", "🙏", "🤙", "🫡",
))  # fmt: skip
_PHRASES = frozenset((
    "do it", "go ahead", "go for it", "go on", "send it", "ship it", "run it", "sounds good", "looks good",
    "looks good to me", "looks good thanks", "all good", "that's fine", "it's fine", "that's ok", "it's ok",
    "good to go", "of course", "in ordnung", "alles klar", "mach das", "mach es", "va bene", "va bien", "de acuerdo",
    "bien sûr", "make it so",
))  # fmt: skip
_POLITE = frozenset((
    "please", "pls", "thanks", "thank", "you", "thx", "it", "this", "that", "the", "now", "then", "do", "go", "ahead",
    "bitte", "danke", "das", "es", "por", "favor", "merci", "i", "send", "run", "good", "looks", "sounds", "for", "of",
    "course", "to", "me", "all", "is", "ship", "with",
))  # fmt: skip
_WORDS = re.compile(r"\+1|[^\W_]+(?:'[^\W_]+)?|[👍👌✅✔☑🆗💯🙏🤙🫡]")
_STYLES = re.compile("[\ufe0e\ufe0f\u200b-\u200d\U0001f3fb-\U0001f3ff]")


def is_affirmative(text: str) -> bool:
    """Whether a message says only yes, in whatever case, punctuation or skin tone; such a message decides nothing."""
    if len(text) > 100:
        return False
    plain = _STYLES.sub("", unicodedata.normalize("NFKC", text).casefold().replace("’", "'"))
    words = _WORDS.findall(plain)
    if not words or any(unicodedata.category(rest)[0] in "LNS" for rest in _WORDS.sub("", plain)):
        return False
    joined = " ".join(words)
    if joined in _PHRASES:
        return True
    return any(word in AFFIRMATIVE for word in words) and all(word in AFFIRMATIVE or word in _POLITE for word in words)
