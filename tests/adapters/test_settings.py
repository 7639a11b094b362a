"""Settings: where each comes from, and how a bad one is told without its value."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from adapters.settings import ADMIN_TOKEN_FILE, admin_token, read_settings, stored_admin_token
from core.ports import BadSetting


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting but the test's own."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("PLACET_")]:
        monkeypatch.delenv(name)


def refusal_of() -> str:
    with pytest.raises(BadSetting) as caught:
        read_settings()
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_with_nothing_set_everything_is_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/share")
    settings = read_settings()
    assert settings.database == "sqlite:////srv/share/placet/placet.db"
    assert settings.redis_url is None
    assert settings.temporal_address is None
    assert settings.http_url == "http://127.0.0.1:8420"
    assert (settings.presses_per_minute, settings.refusals_per_minute) == (30, 120)
    assert settings.language == "en"


def test_without_xdg_the_data_folder_is_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ola")
    assert read_settings().data_dir == Path("/home/ola/.local/share/placet")


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("placet.toml").write_text('http_bind = "127.0.0.1:1"\nlog_level = "debug"\npresses_per_minute = 5\n')
    monkeypatch.setenv("PLACET_HTTP_BIND", "127.0.0.1:2")
    settings = read_settings()
    assert settings.http_bind == "127.0.0.1:2"
    assert settings.log_level == "debug"
    assert settings.presses_per_minute == 5
    assert read_settings(http_bind="127.0.0.1:3").http_port == 3


@pytest.mark.parametrize("source", ["environment", "file"])
def test_an_empty_setting_is_an_unset_one(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if source == "environment":
        monkeypatch.setenv("PLACET_REDIS_URL", "")
    else:
        Path("placet.toml").write_text('redis_url = ""\n')
    assert read_settings().redis_url is None


def test_secrets_do_not_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_DATABASE_URL", "postgresql://placet:plant-pot@db/placet")
    monkeypatch.setenv("PLACET_REDIS_URL", "redis://:plant-pot@cache:6379/0")
    monkeypatch.setenv("PLACET_ADMIN_TOKEN", "plant-pot-plant-pot")
    monkeypatch.setenv("PLACET_TOKEN", "plant-pot-plant-pot")
    settings = read_settings()
    assert "plant-pot" not in f"{settings!r}{settings}"
    assert settings.database == "postgresql://placet:plant-pot@db/placet"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("DATABASE_URL", "mysql://planted@h/db", "must be postgresql://"),
        ("DATABASE_URL", "postgresql://u:planted@h:99x/db", "must be postgresql://"),
        ("REDIS_URL", "planted:6379", "must be redis://"),
        ("TEMPORAL_ADDRESS", "http://planted:7233", "must be host:port"),
        ("TEMPORAL_ADDRESS", "planted", "must be host:port"),
        ("TEMPORAL_CODEC", "planted", "must be module:object"),
        ("HTTP_BIND", "planted:8420x", "must be host:port"),
        ("HTTP_BIND", "127.0.0.1:70000", "must be host:port"),
        ("HTTP_BIND", "::1:8420", "must be host:port"),
        ("PUBLIC_URL", "planted.example", "must begin with https://"),
        ("URL", "http://user:planted@host", "must carry no user"),
        ("ADMIN_TOKEN", "planted", "at least 16"),
        ("TOKEN", "planted planted planted", "without spaces"),
        ("PRESSES_PER_MINUTE", "planted", "whole number"),
        ("REFUSALS_PER_MINUTE", "0", "greater than or equal to 1"),
        ("LANGUAGE", "planted", "must be one of de, en"),
        ("LOG_LEVEL", "planted", "'debug', 'info', 'warning' or 'error'"),
        ("LOG_FORMAT", "planted", "'auto', 'text' or 'json'"),
    ],
)
@pytest.mark.parametrize("source", ["environment", "file"])
def test_a_bad_setting_is_named_and_its_value_kept_back(
    name: str, value: str, told: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "environment":
        monkeypatch.setenv(f"PLACET_{name}", value)
        written = f"PLACET_{name}: "
    else:
        Path("placet.toml").write_text(f'{name.lower()} = "{value}"\n')
        written = f"{name.lower()} in placet.toml: "
    line = refusal_of()
    assert line.startswith(written)
    assert told in line
    assert "planted" not in line


def test_a_misspelt_variable_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_DATABSE_URL", "postgresql://planted@h/db")
    assert refusal_of() == "PLACET_DATABSE_URL: there is no such setting; did you mean PLACET_DATABASE_URL?"


def test_a_misspelt_name_in_the_file_is_refused_with_the_nearest() -> None:
    Path("placet.toml").write_text('temporal_adress = "planted:1"\n')
    assert refusal_of() == "temporal_adress in placet.toml: there is no such setting; did you mean temporal_address?"


def test_a_name_written_as_a_variable_in_the_file_is_refused() -> None:
    Path("placet.toml").write_text('PLACET_REDIS_URL = "redis://planted"\n')
    line = refusal_of()
    assert line == "PLACET_REDIS_URL in placet.toml: names have no prefix and no capitals there: write redis_url"


@pytest.mark.parametrize("text", ['admin_token = "planted', "planted-planted-planted", "a = 1\na = planted"])
def test_a_broken_file_is_told_without_its_text(text: str) -> None:
    Path("placet.toml").write_text(text)
    line = refusal_of()
    assert line.startswith("placet.toml: is no valid TOML (")
    assert "planted" not in line


def test_a_file_that_cannot_be_read_is_told() -> None:
    Path("placet.toml").write_bytes(b"\xff\xfe")
    assert refusal_of() == "placet.toml: cannot be read (UnicodeDecodeError)"


def test_names_of_platforms_and_of_kubernetes_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("placet.toml").write_text('telegram_token = "1:x"\n')
    for name, value in {
        "PLACET_SERVICE_HOST": "10.0.0.1",
        "PLACET_SERVICE_PORT_HTTP": "8420",
        "PLACET_PORT": "tcp://10.0.0.1:8420",
        "PLACET_PORT_8420_TCP_ADDR": "10.0.0.1",
        "PLACET_API_SERVICE_HOST": "10.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    assert read_settings().http_port == 8420
    monkeypatch.setenv("PLACET_MATRIX_TOKEN", "x")
    assert "PLACET_MATRIX_TOKEN: there is no such setting" in refusal_of()
    assert read_settings({"matrix", "telegram", "slack", "discord"})


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("0.0.0.0:8420", "http://127.0.0.1:8420"),
        ("[::]:8420", "http://[::1]:8420"),
        ("[::1]:9", "http://[::1]:9"),
        ("placet.lan:80", "http://placet.lan:80"),
    ],
)
def test_the_command_line_finds_the_server_at_its_bind_address(bind: str, url: str) -> None:
    assert read_settings(http_bind=bind).http_url == url
    assert read_settings(http_bind=bind, url="https://placet.example/").http_url == "https://placet.example"


def test_the_admin_token_is_made_once_and_for_this_user_alone(tmp_path: Path) -> None:
    settings = read_settings(data_dir=tmp_path / "data")
    assert stored_admin_token(settings) is None
    first = admin_token(settings).get_secret_value()
    path = tmp_path / "data" / ADMIN_TOKEN_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(first) > 40
    assert admin_token(settings).get_secret_value() == first
    assert [file.name for file in path.parent.iterdir()] == [ADMIN_TOKEN_FILE]


def test_a_set_admin_token_makes_no_file(tmp_path: Path) -> None:
    settings = read_settings(data_dir=tmp_path / "data", admin_token="a-token-of-my-own")
    assert admin_token(settings).get_secret_value() == "a-token-of-my-own"
    assert not (tmp_path / "data").exists()


def _token_in(folder: Path) -> str:
    return admin_token(read_settings(data_dir=folder)).get_secret_value()


def test_processes_that_start_at_once_get_the_same_admin_token(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        for turn in range(5):
            assert len(set(pool.map(_token_in, [tmp_path / str(turn)] * 8))) == 1


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSetting, match=r"PLACET_DATA_DIR: .*file/data cannot be used"):
        admin_token(read_settings(data_dir=tmp_path / "file" / "data"))


@pytest.mark.parametrize("text", ["", "short\n", "with a space in it all\n"])
def test_a_damaged_admin_token_is_never_used(tmp_path: Path, text: str) -> None:
    (tmp_path / ADMIN_TOKEN_FILE).write_text(text)
    with pytest.raises(BadSetting, match=r"PLACET_ADMIN_TOKEN: the one in .* delete it for a new one"):
        admin_token(read_settings(data_dir=tmp_path))
