"""How the people, places and groups of each platform are written in placet.yaml."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from core.people import place_of

WHOLE = re.compile(r"[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Forms:
    """The ids of one platform; `person_words`, `place_words` and `group_words` say to a person what would be right.

    `place` is the form of a place alone. Where a platform has no threads or no groups, there is no pattern for them.
    """

    person: re.Pattern[str]
    person_words: str
    chat: re.Pattern[str]
    account: re.Pattern[str]
    thread: re.Pattern[str] | None
    place: str
    place_words: str
    group: re.Pattern[str] | None = None
    group_words: str = ""


FORMS = {
    "telegram": Forms(
        person=WHOLE,
        person_words="a positive whole number: the user's id, not the @name",
        chat=re.compile(r"-?[1-9][0-9]{0,18}"),
        account=re.compile(r"[A-Za-z0-9_]{1,64}"),
        thread=WHOLE,
        place="telegram[@bot]:<chat>[/<topic>]",
        place_words="dm or telegram[@bot]:<chat>[/<topic>], the chat as its number, such as telegram:-1001234/31",
    ),
    "slack": Forms(
        person=re.compile(r"[A-Z0-9]{2,32}/[A-Z0-9]{2,32}"),
        person_words="<team>/<user>, such as T01/U01",
        chat=re.compile(r"[CGDUW][A-Z0-9]{1,31}"),
        account=re.compile(r"[TE][A-Z0-9]{1,31}"),
        thread=None,
        place="slack:[<team>/]<channel>",
        place_words="slack:[<team>/]<channel>, both by their ids, such as slack:T01/C0123",
        group=re.compile(r"[TE][A-Z0-9]{1,31}/S[A-Z0-9]{1,31}"),
        group_words="slack:<team>/<user group>, such as slack:T01/S0123",
    ),
    "discord": Forms(
        person=WHOLE,
        person_words="a positive whole number: the user's id",
        chat=WHOLE,
        account=re.compile(r"[\w.]{2,32}"),
        thread=WHOLE,
        place="discord[@bot]:<channel>[/<thread>]",
        place_words="discord[@bot]:<channel>[/<thread>], both as their numbers, such as discord:123456/789",
        group=re.compile(r"[1-9][0-9]{0,18}/[1-9][0-9]{0,18}"),
        group_words="discord:<server>/<role>, such as discord:80/81",
    ),
}


def forms_of(platform: str) -> Forms:
    """A platform that nothing is known of here may write its ids as it likes."""
    if platform in FORMS:
        return FORMS[platform]
    place = f"{platform}[@bot]:<chat>[/<thread>]"
    return Forms(
        person=re.compile(r"[^\s/]{1,100}(/[^\s/]{1,100})?"),
        person_words="[<tenant>/]<user>, both by their ids",
        chat=re.compile(r"[^\s/]{1,100}"),
        account=re.compile(r"[^\s/:@]{1,100}"),
        thread=re.compile(r"\S{1,100}"),
        place=place,
        place_words=f"{place}, by their ids",
        group=re.compile(r"\S{1,200}"),
        group_words=f"{platform}:<group>",
    )


def is_place(text: str, platforms: Collection[str]) -> bool:
    """Whether this is a chat of one of the platforms; `dm` is none."""
    found = place_of(text)
    if found is None or found.platform not in platforms:
        return False
    forms = forms_of(found.platform)
    parts = ((forms.account, found.account), (forms.chat, found.chat), (forms.thread, found.thread))
    return all(not part or (form is not None and form.fullmatch(part) is not None) for form, part in parts)


def right_place(text: str, platforms: Collection[str]) -> str:
    """How such a place is written; the forms of all platforms where it cannot be told which is meant."""
    platform = text.partition(":")[0].partition("@")[0]
    if platform in platforms:
        return forms_of(platform).place_words
    return _either(["dm", *(forms_of(name).place for name in _in_order(platforms))])


def is_group(text: str, platforms: Collection[str]) -> bool:
    platform, _, group = text.partition(":")
    form = forms_of(platform).group if platform in platforms else None
    return form is not None and form.fullmatch(group) is not None


def right_group(platforms: Collection[str]) -> str:
    return ", or ".join(forms.group_words for forms in map(forms_of, _in_order(platforms)) if forms.group)


def _in_order(platforms: Collection[str]) -> list[str]:
    return [name for name in FORMS if name in platforms] + sorted({*platforms} - {*FORMS})


def _either(forms: Sequence[str]) -> str:
    return f"{', '.join(forms[:-1])} or {forms[-1]}"
