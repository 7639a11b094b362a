"""How a platform's settings are read: environment variables with the prefix PLACET_, then placet.toml."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from core.ports import BadSetting

PREFIX = "PLACET_"
FILE = Path("placet.toml")


class PlatformSettings(BaseSettings):
    """A platform's settings; its fields are named `<platform>_...`, save those that Placet shares, as `public_url`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = {name: value for name, value in _file().items() if value != ""}
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=file)


S = TypeVar("S", bound=PlatformSettings)


def tokens(form: str, wrong: str | Callable[[str], str], *, whose: Callable[[str], str], twice: str) -> BeforeValidator:
    """The tokens of a comma-separated setting, each of the form; `whose` names the owner of one, "" for nobody.

    A token that is none is refused with `wrong`, which may look at it but never quotes it, and an owner's second one
    with `twice`.
    """

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        found = [token.strip() for token in value.split(",") if token.strip()]
        for number, token in enumerate(found, 1):
            if not re.fullmatch(form, token) or not whose(token):
                raise ValueError(f"token {number} {wrong(token) if callable(wrong) else wrong}")
        if len(set(map(whose, found))) < len(found):
            raise ValueError(twice)
        return tuple(map(SecretStr, found))

    return BeforeValidator(read)


def secret(form: str, wrong: str) -> AfterValidator:
    """A secret of the form; another one is refused with `wrong`, which never quotes it."""

    def check(value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(form, value.get_secret_value()):
            raise ValueError(wrong)
        return value

    return AfterValidator(check)


def address(form: str, wrong: str, *, end: str | None = "") -> AfterValidator:
    """An address of the form, ending in `end` whatever slashes it was given with; None leaves it as it is."""

    def check(value: str) -> str:
        if not re.fullmatch(form, value):
            raise ValueError(wrong)
        return value if end is None else value.rstrip("/") + end

    return AfterValidator(check)


def server_of(url: str | None) -> str:
    """Host and port of an address: its path and its user may be secrets."""
    parts = urlsplit(url or "")
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "?"


def is_local(url: str) -> bool:
    """Whether the address is on this machine: a proxy of the environment's is for the world outside."""
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def read_settings(kind: type[S], platform: str) -> S:
    """The platform's settings in this process. Raises BadSetting, which names the setting and never its value.

    A misspelt name of the platform's is refused, so that it is never quietly the default.
    """
    variables = {name.upper(): name for name in os.environ if name.upper().startswith(f"{PREFIX}{platform}_".upper())}
    fields = {name.upper().removeprefix(PREFIX).lower(): written for name, written in variables.items()}
    fields |= {name: f"{name} in {FILE}" for name in _file() if name.startswith(f"{platform}_")}
    known = [name for name in kind.model_fields if name.startswith(f"{platform}_")]
    for name, written in fields.items():
        if name not in known:
            raise BadSetting(written, f"there is no such setting; there are {', '.join(known)}")
    try:
        return kind()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        name = str(first["loc"][0]) if first["loc"] else f"{platform}_token"
        problem = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        raise BadSetting(f"{PREFIX}{name}".upper(), problem) from None


def _file() -> dict[str, Any]:
    try:
        return tomllib.loads(FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(str(FILE), f"cannot be read ({type(error).__name__})") from None
    except tomllib.TOMLDecodeError as error:
        # Its message may quote the file, which may hold a token: only the place is said.
        place = re.search(r"\(at (.*?)\)$", str(error))
        raise BadSetting(str(FILE), f"is no valid TOML ({place[1] if place else 'unreadable'})") from None
