"""What stands behind a surface that is only checked: nobody presses, asks or polls through it."""

from __future__ import annotations

from core.approvals import Actor, Reply
from core.ports import Hooks, Unavailable


def nobodys_hooks() -> Hooks:
    """Hooks to build a surface with whose settings are to be checked."""
    nobody = Nobody()
    return Hooks(nobody, nobody, lambda _: nobody, nobody.groups)


class Nobody:
    """What a surface is given that is only checked: nothing is linked, listed, moved or polled through it."""

    async def link(self, actor: Actor, code: str) -> Reply:
        raise Unavailable("this process only checks")

    async def pending(self, actor: Actor) -> Reply:
        raise Unavailable("this process only checks")

    async def rules(self, actor: Actor, agent: str) -> Reply:
        raise Unavailable("this process only checks")

    async def mode(self, actor: Actor, agent: str, mode: str) -> Reply:
        raise Unavailable("this process only checks")

    async def pause(self, actor: Actor, agent: str) -> Reply:
        raise Unavailable("this process only checks")

    async def resume(self, actor: Actor, agent: str) -> Reply:
        raise Unavailable("this process only checks")

    async def groups(self, platform: str) -> frozenset[str]:
        return frozenset()

    async def moved(self, platform: str, account: str, chat: str, to: str) -> None:
        raise Unavailable("this process only checks")

    async def held(self) -> bool:
        return False

    async def drop(self) -> None:
        return None
