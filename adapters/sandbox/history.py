"""What has been said in a chat, kept alike on every platform."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel, PrivateAttr


class Said(Protocol):
    """A message, as far as whoever reads the chat is concerned."""

    @property
    def deleted(self) -> bool: ...

    @property
    def text(self) -> str: ...


Id = TypeVar("Id", int, str)
Message = TypeVar("Message", bound=Said)


class History(BaseModel, Generic[Id, Message]):
    """A chat, its messages known by their ids."""

    id: Id

    _history: dict[Id, Message] = PrivateAttr(default_factory=dict)
    _version: int = PrivateAttr(default=0)

    @property
    def history(self) -> dict[Id, Message]:
        """Every message by its id, the deleted ones too."""
        return self._history

    @property
    def messages(self) -> list[Message]:
        """What people see, oldest first; what is for one person alone, that person sees."""
        return [message for message in self._history.values() if not message.deleted]

    @property
    def version(self) -> int:
        """Grows with everything that changes what a person sees; it starts again at 0 in a new process."""
        return self._version

    def touch(self) -> None:
        self._version += 1

    def message(self, message_id: Id) -> Message:
        """The message, also when it was deleted. Raises KeyError for an id that never was."""
        return self._history[message_id]

    def last(self, text: str = "") -> Message:
        """The newest visible message, or the newest that contains `text`. Raises LookupError when there is none."""
        for message in reversed(self.messages):
            if text in self.words(message):
                return message
        raise LookupError(f"no message in {self.id} contains {text!r}")

    def words(self, message: Message) -> str:
        """What people read in a message."""
        return message.text
