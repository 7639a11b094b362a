"""The files of deploy/ as the tests read them: compose files with their variables filled in, as the engine would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from adapters.sandbox.discord import token_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")

FILLED = {
    "POSTGRES_PASSWORD": "superuser0",
    "POSTGRES_PLACET_PASSWORD": "placet0",
    "POSTGRES_TEMPORAL_PASSWORD": "temporal0",
    "PLACET_ADMIN_TOKEN": "admin-token-of-these-tests",
}
TOKENS = {
    "PLACET_TELEGRAM_TOKEN": "7000000001:" + "t" * 35,
    "PLACET_SLACK_BOT_TOKEN": "xoxb-bot-token-of-these-tests",
    "PLACET_SLACK_APP_TOKEN": "xapp-app-token-of-these-tests",
    "PLACET_DISCORD_TOKEN": token_of(8000000001),
}
WEBHOOK = {"PLACET_PUBLIC_URL": "https://placet.example"}
SECRETS = {
    "PLACET_TELEGRAM_WEBHOOK_SECRET": "webhook-secret-of-these-tests",
    "PLACET_SLACK_SIGNING_SECRET": "signing-secret-of-these-tests",
}


def read_yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def example() -> dict[str, str]:
    """The variables of placet.env.example with their values there."""
    lines = (DEPLOY / "placet.env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def services(variables: Mapping[str, str] = FILLED, name: str = "compose.yaml") -> dict[str, dict[str, Any]]:
    """The services of a compose file; a variable that must be set and is not raises ValueError."""
    found: dict[str, dict[str, Any]] = filled(read_yaml(DEPLOY / name), {**example(), **variables})["services"]
    return found


def filled(node: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: filled(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [filled(value, variables) for value in node]
    return _VARIABLE.sub(lambda match: _value(match, variables), node) if isinstance(node, str) else node


def _value(match: re.Match[str], variables: Mapping[str, str]) -> str:
    name, kind, word = match.groups()
    value = variables.get(name, "")
    if not value and kind == "?":
        raise ValueError(f"{name}: {word}")
    return value or (word if kind == "-" else "")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and what follows each, continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [(line.split()[0], " ".join(line.split()[1:])) for line in lines if line and not line.startswith("#")]
