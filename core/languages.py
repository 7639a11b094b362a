"""What people and chats are spoken to in, from memory: for words that cannot wait for the database."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from core.approvals import Actor, Destination, Message, Posted
from core.people import place_of
from core.ports import Ledger
from core.wording import DEFAULT_LANGUAGE

REMEMBERED = 20_000
Somewhere = Destination | Message | Posted


class Spoken:
    """Remembers, as far as this process has met them, what the database says of people and chats.

    A form must open, and a press that comes too fast be turned away, before anything is looked up.
    """

    def __init__(self, default: str = DEFAULT_LANGUAGE) -> None:
        self.default = default
        self._known: OrderedDict[tuple[str, ...], str] = OrderedDict()
        # Transactions run on threads of their own.
        self._turn = Lock()

    def learn(self, ledger: Ledger) -> None:
        """Take over what the directory says now, and forget what it said before."""
        with self._turn:
            self._known.clear()
        for text, language in ledger.languages().items():
            if (place := place_of(text)) is not None:
                self.note_chat(place, language)
        for identity, language in ledger.languages_of_people():
            self.note(identity, language)

    def note(self, actor: Actor, language: str) -> None:
        """A person's own language; "" where the directory gives none."""
        self._keep(("person", actor.platform, actor.tenant, actor.id), language)

    def note_chat(self, place: Somewhere, language: str) -> None:
        self._keep(("chat", place.platform, place.chat, place.thread), language)

    def to(self, actor: Actor, place: Somewhere | None = None) -> str:
        """The person's own language, else the one of the chat, else the default."""
        found = self._known.get(("person", actor.platform, actor.tenant, actor.id))
        if not found and place is not None:
            found = self._known.get(("chat", place.platform, place.chat, place.thread)) or self._known.get(
                ("chat", place.platform, place.chat, "")
            )
        return found or self.default

    def _keep(self, key: tuple[str, ...], language: str) -> None:
        with self._turn:
            self._known[key] = language
            self._known.move_to_end(key)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
