"""Every word a person reads, by its key in locale/*/LC_MESSAGES/placet.po, and the fixed sentences for the model."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Final

from babel.dates import format_date, format_time, format_timedelta
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from babel.support import Translations

from core.approvals import AUTO, Approval, Outcome, Runtime, Status
from core.visible import units, visible

VALUE_LIMIT = 120
NOTE_SHOWN, ERROR_SHOWN = 2_000, 500

# A new key goes into every language: docs/testing.md, "Words".
LOCALES = Path(__file__).parent / "locale"
DEFAULT_LANGUAGE: Final = "en"


def _read(language: str) -> Catalog:
    with (LOCALES / language / "LC_MESSAGES" / "placet.po").open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


def _spoken(messages: Catalog) -> Translations:
    compiled = BytesIO()
    write_mo(compiled, messages)
    compiled.seek(0)
    return Translations(compiled)


_READ: Final = {folder.name: _read(folder.name) for folder in sorted(LOCALES.iterdir()) if folder.is_dir()}
LANGUAGES: Final = tuple(_READ)
KEYS: Final = frozenset(
    message.id if isinstance(message.id, str) else message.id[0] for message in _READ[DEFAULT_LANGUAGE] if message.id
)
_CATALOGUES: Final = {language: _spoken(messages) for language, messages in _READ.items()}
for _language in set(LANGUAGES) - {DEFAULT_LANGUAGE}:
    _CATALOGUES[_language].add_fallback(_CATALOGUES[DEFAULT_LANGUAGE])


def words_of(key: str, locale: str = DEFAULT_LANGUAGE, number: int | None = None) -> str:
    """The words of `key` with their placeholders, in the form for `number`; KeyError where there are none."""
    if key not in KEYS:
        raise KeyError(key)
    catalogue = _CATALOGUES.get(locale) or _CATALOGUES[DEFAULT_LANGUAGE]
    words = key if number is None else catalogue.ngettext(key, key, number)
    return catalogue.gettext(key) if words == key else words


def say(key: str, *, locale: str = "en", **values: object) -> str:
    """The words of `key` with raw values: texts are made visible, on one line, at most 120 units each.

    Numbers are grouped as the locale does, and the first one chooses singular or plural; values named `where` and
    `platform` may be a surface's name (telegram). Raises KeyError for an unknown key or a missing value.
    """
    shown: dict[str, str] = {}
    number: int | None = None
    for name, value in values.items():
        if isinstance(value, int):
            shown[name] = format_decimal(value, locale=locale)
            number = value if number is None else number
        elif name in ("where", "platform"):
            shown[name] = place_name(str(value), locale)
        else:
            shown[name] = bounded(str(value), VALUE_LIMIT)
    return words_of(key, locale, number).format_map(shown)


def say_on(platform: str, key: str, /, *, locale: str = "en", **values: object) -> str:
    """The words of `key` as they are said on a platform, where it has its own."""
    own = f"{key}_{platform}"
    return say(own if own in KEYS else key, locale=locale, **values)


def fill(key: str, *, locale: str = "en", **shown: str) -> str:
    """The words of `key` with values that have been made visible and cut already."""
    return words_of(key, locale).format_map(shown)


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
    key = f"place_{via}"
    return words_of(key, locale) if key in KEYS else bounded(via, VALUE_LIMIT)


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


def in_language(stored: str, locale: str) -> str:
    """Why a row cannot be seen, why it ran or how it ended, which is stored in English; what others wrote comes back as
    it is."""
    if locale == DEFAULT_LANGUAGE:
        return stored
    for key, pattern in _STORED.items():
        if found := pattern.fullmatch(stored.removesuffix(".")):
            # A rule's words hold the words of its scope.
            parts = {name: in_language(value, locale) if name in ("rule", "what", "label") else value
                     for name, value in found.groupdict().items()}  # fmt: skip
            return fill(key, locale=locale, **parts) if key.startswith("rule_") else say(key, locale=locale, **parts)
    return stored


def tells_of_a_rule(approval: Approval) -> bool:
    """Whether a note is Placet's own, of the rule that was made with the answer: that is made from a card, where an
    Allow has no other note."""
    note = (approval.note or "").strip()
    return approval.decided_via not in ("http", "cli") and _STORED["always_note"].fullmatch(note) is not None


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(words.rstrip("."))) + r"\.?")


_ENDED: Final = ("claim_too_late", "asker_left", "asker_left_running", "claimed_by_another_run", "outcome_overdue",
                 "agent_was_reset", "agent_was_removed")  # fmt: skip
# The outermost words of a rule first, as they are put together.
_RULE: Final = ("always_note", "rule_until_removed", "rule_until", "rule_ceiling", "rule_arguments",
                "rule_host_method", "rule_host", "rule_recipient", "rule_operation", "rule_every_call")  # fmt: skip
_WHY: Final = ("unasked_read", "unasked_mode")
_STORED: Final = {
    key: _pattern(words_of(key))
    for key in (*_RULE, *_WHY, *_ENDED, *(key for key in sorted(KEYS) if key.startswith("undeliverable_")))
}
# What `outcome_note` says where nothing reported an error: the call broke off rather than failed.
BROKE_OFF = frozenset(words_of(key) for key in ("asker_left_running", "claimed_by_another_run", "outcome_overdue"))


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
_AUTO_ALLOWED = "Allowed without asking: {note}."
_AUTO_WAITS = "Allowed without asking: {note}. It has not run yet."
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
    if by == AUTO:
        who = "a standing rule" if approval.decided_via == "rule" else "its mode"
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
            return template.format(who=who if by or template is not _REPLIED else "A person", note=note)
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
        case Outcome.SENT if approval.decided_by == AUTO:
            return _AUTO.format(note=note or "the mode lets it run")
        case Outcome.SENT:
            return _DONE.format(who=who, edit=edit)
        case Outcome.NONE if approval.decided_by == AUTO:
            template = _AUTO_ALLOWED if approval.run is None else _AUTO_WAITS
            return template.format(note=note or "the mode lets it run")
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
