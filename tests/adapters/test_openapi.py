"""The API's description holds: schemathesis tries every operation, in every phase, with every check it has."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from adapters.http import Limits
from adapters.http.views import EXAMPLE, view_of
from core.approvals import Runtime
from core.cards import Surroundings, card_of
from core.redaction import Redaction
from tests.adapters.api import an_api, served
from tests.builders import NOW, REFUND_CARD, an_approval

# The callers' tokens decide what is reached behind the first door; streams never end, so test_http_events.py has them.
OPERATIONS = {
    "billing": (
        "ask",
        "rows",
        "read",
        "withdraw",
        "claim",
        "record",
        "agent",
        "updates",
        "message",
        "run",
        "close_run",
    ),
    "dana": ("rows", "read", "decide", "edit", "message"),
    "kim": ("mode", "pause", "resume", "reset", "rules", "add_rule", "remove_rule", "remove_rule_by_id"),
    "admin": ("link", "token", "directory", "apply", "healthz", "readyz", "metrics"),
}
# Pointers that must resolve, a file's inner references and what a scope asks of its value are more than a schema can
# say: there 422 is no surprise.
CONFIG = """
[generation]
database = "none"

[[operations]]
include-operation-id = ["ask", "apply", "edit", "add_rule"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422"]
"""


def test_the_example_of_an_approval_is_what_a_real_one_reads_as() -> None:
    approval = an_approval(
        id=EXAMPLE["id"],
        runtime=Runtime.EXTERNAL,
        run=None,
        route={"ask": ["role:approver"], "at": ["dm"]},
        presentation={**REFUND_CARD, "editable": ["/reason"]},
    )
    card = card_of(approval, Surroundings(), NOW, redaction=Redaction(b"k" * 32))
    assert json.loads(view_of(approval, card, {}, whole=True).model_dump_json(exclude={"arguments"})) == EXAMPLE


@pytest.mark.parametrize("who", OPERATIONS)
async def test_schemathesis_finds_nothing(tmp_path: Path, who: str) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    async with an_api(tmp_path, limits=Limits(wait_s=0.02)) as api, served(api) as url:
        await api.decide("dana", await api.ask())
        await api.ask()
        command = [
            *(str(Path(sys.executable).with_name("st")), "--config-file", str(config), "run", f"{url}/openapi.json"),
            # A withdrawn approval stays readable, because the row is the record.
            *(
                "--checks",
                "all",
                "--exclude-checks",
                "use_after_free",
                "--max-examples",
                "8",
                "--continue-on-failure",
                "--no-color",
            ),
            *("--suppress-health-check", "all", "--seed", "1"),
            *("--header", f"Authorization: Bearer {api.tokens[who]}"),
        ]
        if who in ("admin", "kim"):
            # Nothing that an administrator makes leads on to another of these operations.
            command += ["--phases", "examples,coverage,fuzzing"]
        for operation in OPERATIONS[who]:
            command += ["--include-operation-id", operation]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        told = (await process.communicate())[0].decode()
    assert process.returncode == 0, told
    tried = re.search(r"Tested: (\d+)", told)
    assert tried is not None, told
    assert int(tried[1]) == len(OPERATIONS[who])


async def test_the_description_is_whole(tmp_path: Path) -> None:
    async with an_api(tmp_path) as api:
        document = (await api.call(None, "GET", "/openapi.json")).json()
        page = await api.call(None, "GET", "/docs")
    assert page.status_code == 404  # such a page would fetch its parts from elsewhere
    assert document["openapi"].startswith("3.1")
    operations = {
        operation["operationId"]: operation for path in document["paths"].values() for operation in path.values()
    }
    assert set(operations) == {"follow", *(name for names in OPERATIONS.values() for name in names)}
    open_to_all = {"healthz", "readyz", "metrics"}
    for name, operation in operations.items():
        assert operation["summary"]
        assert operation["description"]
        assert ("security" in operation) == (name not in open_to_all), name
        assert "500" in operation["responses"]
        for status, answer in operation["responses"].items():
            if status >= "4":
                (media,) = answer["content"]
                assert media == "application/problem+json", (name, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert "scheme" in document["components"]["securitySchemes"]["bearer"]
    for reference in references(document):
        where: Any = document
        for part in reference.removeprefix("#/").split("/"):
            where = where[part]


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        return (
            [value["$ref"]]
            if isinstance(value.get("$ref"), str)
            else [r for v in value.values() for r in references(v)]
        )
    return [r for v in value for r in references(v)] if isinstance(value, list) else []
