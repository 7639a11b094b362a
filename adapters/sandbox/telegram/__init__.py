"""A Telegram of our own on loopback: the Bot API for bots, and `World` for the people who use it."""

from adapters.sandbox.telegram.records import (
    Answer,
    Bot,
    Button,
    Chat,
    Document,
    Entity,
    Message,
    Person,
    Press,
    Topic,
    Update,
)
from adapters.sandbox.telegram.world import World

__all__ = [
    "Answer",
    "Bot",
    "Button",
    "Chat",
    "Document",
    "Entity",
    "Message",
    "Person",
    "Press",
    "Topic",
    "Update",
    "World",
]
