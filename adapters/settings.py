"""Placet's settings: environment variables with the prefix PLACET_, then placet.toml, then the defaults (section 9)."""

from __future__ import annotations

import difflib
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from core.fields import problem_text
from core.ports import BadSetting
from core.wording import DEFAULT_LANGUAGE, LANGUAGES

PREFIX = "PLACET_"
FILE = Path("placet.toml")
ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105
# While a demo runs in a data folder: what a terminal must be told to find it.
DEMO_FILE = "demo.env"
PLATFORMS = ("telegram", "slack", "discord")
# What Kubernetes puts into every container beside a Service that is called placet.
_SERVICE_LINK = re.compile(r"^.*_SERVICE_(HOST|PORT(_.*)?)$|^.*PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?$")


def _address(such_as: str) -> AfterValidator:
    def checked(text: str) -> str:
        host, port = _split(text)
        if not host or not 0 <= port <= 65535:
            raise ValueError(f"must be host:port, such as {such_as}")
        return text

    return AfterValidator(checked)


def _split(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not port.isascii() or not port.isdecimal() or "/" in bare or (":" in bare and bare == host):
        return "", -1
    return bare, int(port)


def _web_address(text: str) -> str:
    parts = _parts(text)
    if parts is None or parts[0] not in ("http", "https") or not parts[1]:
        raise ValueError("must begin with https:// (or http://) and name a host")
    if "@" in text:
        raise ValueError("must carry no user and no password")
    return text.rstrip("/")


def _database(secret: SecretStr) -> SecretStr:
    parts = _parts(secret.get_secret_value())
    if parts is None or parts[0] not in ("postgresql", "postgresql+asyncpg", "postgres", "sqlite"):
        raise ValueError("must be postgresql://user:password@host/name or sqlite:///file")
    return secret


def _redis(secret: SecretStr) -> SecretStr:
    parts = _parts(secret.get_secret_value())
    if parts is None or parts[0] not in ("redis", "rediss", "unix"):
        raise ValueError("must be redis://host:port/0 (or rediss://, unix://)")
    return secret


def _parts(url: str) -> tuple[str, str] | None:
    try:
        split = urlsplit(url)
        _ = split.port
    except ValueError:
        return None
    return split.scheme, split.hostname or ""


def _header_safe(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if len(text) < 16 or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be at least 16 letters, digits and signs, without spaces")
    return secret


def _codec(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", text):
        raise ValueError("must be module:object, such as acme.codec:encrypting")
    return text


def _language(text: str) -> str:
    if text not in LANGUAGES:
        raise ValueError(f"must be one of {', '.join(LANGUAGES)}")
    return text


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "placet"


WebAddress = Annotated[str, AfterValidator(_web_address)]
Token = Annotated[SecretStr, AfterValidator(_header_safe)]
Folder = Annotated[Path, AfterValidator(Path.expanduser)]
PerMinute = Annotated[int, Field(ge=1, le=100_000)]


class Settings(BaseSettings):
    """What the operator set. Secrets print as stars; an unset Redis or Temporal address means the embedded server."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    database_url: Annotated[SecretStr, AfterValidator(_database)] | None = None
    redis_url: Annotated[SecretStr, AfterValidator(_redis)] | None = None
    temporal_address: Annotated[str, _address("127.0.0.1:7233")] | None = None
    temporal_namespace: Annotated[str, Field(min_length=1)] = "default"
    temporal_codec: Annotated[str, AfterValidator(_codec)] | None = None
    http_bind: Annotated[str, _address("127.0.0.1:8420")] = "127.0.0.1:8420"
    public_url: WebAddress | None = None
    data_dir: Folder = Field(default_factory=_data_home, validate_default=True)
    admin_token: Token | None = None
    url: WebAddress | None = None
    token: Token | None = None
    presses_per_minute: PerMinute = 30
    refusals_per_minute: PerMinute = 120
    language: Annotated[str, AfterValidator(_language)] = DEFAULT_LANGUAGE
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "text", "json"] = "auto"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=_own(_file()))

    @property
    def database(self) -> str:
        """The database's URL with its password; the SQLite file of the data folder when none is set."""
        if self.database_url is None:
            return f"sqlite:///{self.data_dir.absolute() / 'placet.db'}"
        return self.database_url.get_secret_value()

    @property
    def on_sqlite(self) -> bool:
        return self.database.startswith("sqlite")

    @property
    def http_host(self) -> str:
        return _split(self.http_bind)[0]

    @property
    def http_port(self) -> int:
        return _split(self.http_bind)[1]

    @property
    def http_url(self) -> str:
        """Where this machine reaches the HTTP API: PLACET_URL, else the bind address."""
        if self.url is not None:
            return self.url
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.http_host, self.http_host)  # noqa: S104
        return f"http://{f'[{host}]' if ':' in host else host}:{self.http_port}"


def read_settings(platforms: Collection[str] = PLATFORMS, **given: Any) -> Settings:
    """The settings of this process; `given` wins over the environment. Raises BadSetting naming the setting.

    A name that is neither here nor one of a platform's is refused: a misspelt setting is never quietly the default.
    """
    _refuse_unknown(platforms)
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        name = str(first["loc"][0])
        raise BadSetting(_as_written(name), problem_text(first["type"], first["msg"])) from None


def admin_token(settings: Settings) -> SecretStr:
    """The admin token that is set, or the one in the data folder, which is made on first use (mode 0600).

    Two processes that start at once end up with the same one. Raises BadSetting when the folder cannot be used.
    """
    if settings.admin_token is not None:
        return settings.admin_token
    path = settings.data_dir / ADMIN_TOKEN_FILE
    draft = path.with_name(f"{ADMIN_TOKEN_FILE}.{secrets.token_hex(8)}")
    try:
        if not path.exists():
            settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(f"placet_{secrets.token_urlsafe(32)}\n")
                    file.flush()
                    os.fsync(file.fileno())
                # A link, unlike a rename, never takes the place of a token that another process has just made.
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
    except OSError as error:
        raise BadSetting(f"{PREFIX}DATA_DIR", f"{settings.data_dir} cannot be used: {error.strerror}") from None
    found = stored_admin_token(settings)
    if found is None:
        raise BadSetting(f"{PREFIX}ADMIN_TOKEN", f"{path} does not exist or cannot be read")
    return found


def stored_admin_token(settings: Settings) -> SecretStr | None:
    """The admin token in the data folder; None when there is none or it may not be read. Raises BadSetting."""
    path = settings.data_dir / ADMIN_TOKEN_FILE
    try:
        token = SecretStr(path.read_text().strip())
    except (OSError, UnicodeDecodeError):
        return None
    try:
        return _header_safe(token)
    except ValueError as error:
        raise BadSetting(f"{PREFIX}ADMIN_TOKEN", f"the one in {path} {error}; delete it for a new one") from None


def _file() -> dict[str, Any]:
    """What placet.toml in the working directory says; empty when there is none."""
    try:
        text = FILE.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(str(FILE), f"cannot be read ({type(error).__name__})") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # Its message may quote the text of the file, which may hold a token: only where it went wrong is said.
        place = re.search(r"\(at (.*?)\)$", str(error))
        raise BadSetting(str(FILE), f"is no valid TOML ({place[1] if place else 'unreadable'})") from None


def _own(file: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in file.items() if name in Settings.model_fields and value != ""}


def _refuse_unknown(platforms: Collection[str]) -> None:
    for name in _file():
        if name != (plain := name.lower().removeprefix(PREFIX.lower())):
            raise BadSetting(f"{name} in {FILE}", f"names have no prefix and no capitals there: write {plain}")
        _refuse_unless_known(name, f"{name} in {FILE}", str, platforms)
    for variable, value in os.environ.items():
        name = variable.upper()
        if name.startswith(PREFIX) and not _SERVICE_LINK.fullmatch(name) and not value.startswith(("tcp://", "udp://")):
            _refuse_unless_known(name.removeprefix(PREFIX).lower(), variable, _variable, platforms)


def _refuse_unless_known(name: str, written: str, write: Callable[[str], str], platforms: Collection[str]) -> None:
    # What a platform's names are beyond its own is checked in the platform's file.
    if name in Settings.model_fields or name.partition("_")[0] in platforms:
        return
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    raise BadSetting(written, "there is no such setting" + (f"; did you mean {write(near[0])}?" if near else ""))


def _variable(name: str) -> str:
    return f"{PREFIX}{name}".upper()


def _as_written(name: str) -> str:
    if any(key.upper() == _variable(name) for key in os.environ) or name not in _file():
        return _variable(name)
    return f"{name} in {FILE}"
