"""One file per chat platform, and the one list that names them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from core.ports import Hooks, Surface


def _builder(name: str) -> Callable[[Hooks], Surface | None]:
    def build(hooks: Hooks) -> Surface | None:
        surface: Surface | None = import_module(f"bots.{name}").surface(hooks)
        return surface

    return build


# Each builds its surface from its own settings when it is called: None without a token, BadSetting when they are wrong.
# No platform's library is loaded before that.
PLATFORMS: dict[str, Callable[[Hooks], Surface | None]] = {
    name: _builder(name) for name in ("telegram", "slack", "discord")
}
