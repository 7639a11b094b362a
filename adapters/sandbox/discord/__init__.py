"""A Discord of our own on loopback: REST and gateway for bots, and `World` for the people who use it."""

from adapters.sandbox.discord.records import (
    Attachment,
    Bot,
    Channel,
    Guild,
    Interaction,
    Message,
    Person,
)
from adapters.sandbox.discord.world import Answer, World, token_of

__all__ = [
    "Answer",
    "Attachment",
    "Bot",
    "Channel",
    "Guild",
    "Interaction",
    "Message",
    "Person",
    "World",
    "token_of",
]
