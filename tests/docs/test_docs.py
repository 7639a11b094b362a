"""The documents hold against the code: links, commands, settings, examples, codes, metrics and words."""

from __future__ import annotations

import ast
import json
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from discord import Permissions
from fastapi.routing import APIRoute
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from adapters.cli import app
from adapters.directory_file import DirectoryError, read_directory
from adapters.http import administration, agents, approvals, events, health, lanes
from adapters.http.problems import CODES
from adapters.http.views import ApprovalView
from adapters.metrics import Metrics
from adapters.settings import Settings
from bots import PLATFORMS, discord, slack, telegram
from core import cards
from core.approvals import Outcome, Permission, Status
from core.asks import Ask, Notify, Presentation, Run, read_ask
from core.cards import Surroundings, card_of, text_of
from core.leases import LASTS
from core.redaction import Redaction
from core.wording import KEYS, LANGUAGES, words_of
from tests.builders import NOW, an_approval

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
ROOMS = ("core", "bots", "workflows", "adapters")
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@dataclass(frozen=True)
class Block:
    kind: str
    text: str


def blocks(page: Path, *kinds: str) -> list[Block]:
    found = (Block(match["kind"], textwrap.dedent(match["text"])) for match in FENCE.finditer(page.read_text()))
    return [block for block in found if not kinds or block.kind in kinds]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def code_in(page: Path) -> Iterator[str]:
    """What a reader would type or look up: code spans, and the lines of shell blocks."""
    yield from SPAN.findall(prose(page))
    for block in blocks(page, "sh", "console"):
        for line in block.text.splitlines():
            if block.kind == "sh" or line.startswith("$ "):
                yield line.removeprefix("$ ")


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    under = re.split(rf"^#+ {re.escape(heading)}$", page.read_text(), flags=re.MULTILINE)[1]
    table = re.search(r"^\|.*?\n(?!\|)", under + "\n", re.MULTILINE | re.DOTALL)
    assert table is not None, f"no table under {heading}"
    lines = table[0].strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def names_in(cell: str) -> list[str]:
    return SPAN.findall(cell)


OPERATING, ASKING, PEOPLE = ROOT / "docs/operating.md", ROOT / "docs/asking.md", ROOT / "docs/people.md"


@each_page
def test_every_relative_link_and_anchor_resolves(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT), target
        assert file.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(file), f"{target}: there is no such heading"


def test_every_alert_leads_to_a_heading() -> None:
    runbooks = re.findall(r"runbook: (\S+)#(\S+)", (ROOT / "deploy/alerts.yaml").read_text())
    assert runbooks
    for page, anchor in runbooks:
        assert anchor in anchors(ROOT / page), f"{page}#{anchor}"


def test_the_picture_of_the_demo_is_small() -> None:
    picture = ROOT / "docs/images/demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 300_000


@each_page
def test_every_command_and_option_exists(page: Path) -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for code in code_in(page):
        for named in re.finditer(r"(?<![\w/.-])placet (?P<command>[a-z]+)(?P<rest>[^`|;)]*)", code):
            assert named["command"] in commands, code
            command = commands[named["command"]]
            params = [
                *command.params,
                *(each for sub in getattr(command, "commands", {}).values() for each in sub.params),
            ]
            options = {option for each in params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
            for word in shlex.split(named["rest"], comments=True):
                if word.startswith("--"):
                    assert word.partition("=")[0] in options, code


def test_every_command_is_named() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    named = {word for page in PAGES for code in code_in(page) for word in re.findall(r"placet ([a-z]+)", code)}
    assert set(commands) <= named


@each_page
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for code in code_in(page):
        if named := re.match(r"make ([a-z]+)", code):
            assert named[1] in targets, code


def settings() -> dict[str, Any]:
    kinds = (discord.Settings, slack.Settings, telegram.Settings, Settings)
    fields = {name: field for kind in kinds for name, field in kind.model_fields.items()}
    return {f"PLACET_{name}".upper(): field.default for name, field in fields.items()}


@each_page
def test_every_setting_that_is_named_exists(page: Path) -> None:
    for name in re.findall(r"\bPLACET_[A-Z]\w*", page.read_text()):
        assert name in settings(), name


def test_every_setting_is_described_with_its_default() -> None:
    described = {names_in(row[0])[0]: row[1] for row in rows(OPERATING, "Settings")}
    assert described.keys() == settings().keys()
    for name, default in settings().items():
        if isinstance(default, str | int):
            assert described[name].strip("`") == str(default), name


@each_page
def test_every_block_can_be_read(page: Path) -> None:
    for block in blocks(page):
        match block.kind:
            case "json":
                json.loads(block.text)
            case "jsonl":
                assert all(json.loads(line)["event"] for line in block.text.splitlines())
            case "yaml":
                YAML(typ="safe").load(block.text)
            case "toml":
                fields = tomllib.loads(block.text)
                assert {f"PLACET_{name}".upper() for name in fields} <= settings().keys()
            case "python":
                ast.parse(block.text)
                compile(block.text, page.name, "exec")
            case "po":
                assert block.text.strip() in (ROOT / "core/locale/en/LC_MESSAGES/placet.po").read_text()
            case kind:
                assert kind in ("", "sh", "console", "mermaid"), f"a block of a kind that is not checked: {kind}"


@each_page
def test_no_code_span_is_broken_over_lines(page: Path) -> None:
    for line in prose(page).splitlines():
        assert line.count("`") % 2 == 0, line


@each_page
def test_every_directory_example_can_be_applied(page: Path) -> None:
    for block in blocks(page, "yaml"):
        if "people:" in block.text:
            assert read_directory(block.text)["agents"]


def test_the_quorum_that_cannot_be_met_is_refused_as_is_told() -> None:
    (recipe,) = (block.text for block in blocks(PEOPLE, "yaml") if "needed: 2" in block.text)
    with pytest.raises(DirectoryError) as refused:
        read_directory(recipe.replace("needed: 2", "needed: 4"))
    told = f"placet: placet.yaml:{refused.value.line}: {refused.value.problem}"
    assert told in [line for block in blocks(PEOPLE, "console") for line in block.text.splitlines()]


def test_each_recipe_does_what_its_heading_says() -> None:
    recipes = [read_directory(block.text) for block in blocks(PEOPLE, "yaml")]
    assert len(recipes) == 7
    owner, quorum, oncall, four_eyes, groups, languages, platforms = recipes
    assert owner["routes"] == []
    assert [route["needed"] for route in quorum["routes"]] == [2, 1]
    assert oncall["routes"][0]["escalate"]["after_s"] == 7200
    assert four_eyes["routes"][0]["four_eyes"] is True
    assert groups["groups"] == {"approver": ["slack:T01/S0123", "discord:80/81"]}
    assert {chat["language"] for chat in languages["chats"].values()} == {"en", "de"}
    assert {place.partition(":")[0] for place in platforms["routes"][0]["at"]} == {*PLATFORMS, "dm"}


def test_the_bot_is_invited_to_discord_with_the_rights_that_are_named() -> None:
    named = Permissions(
        view_channel=True, send_messages=True, send_messages_in_threads=True, embed_links=True, attach_files=True,
        read_message_history=True,
    )  # fmt: skip
    for page in (ROOT / "README.md", OPERATING):
        assert re.findall(r"permissions=(\d+)", page.read_text()) == [str(named.value)], page.name


def test_a_slack_app_of_the_manifest_may_do_what_is_told() -> None:
    manifest = YAML(typ="safe").load(ROOT / "deploy/slack-manifest.yaml")
    assert {*slack.SCOPES, slack.GROUP_SCOPE} <= {*manifest["oauth_config"]["scopes"]["bot"]}
    assert manifest["settings"]["socket_mode_enabled"] is True


def asks() -> Iterator[str]:
    for page in PAGES:
        for block in blocks(page, "json"):
            if {"agent", "tool", "arguments"} <= (fields := json.loads(block.text)).keys() and "id" not in fields:
                yield block.text


def test_every_ask_can_be_asked() -> None:
    examples = list(asks())
    assert len(examples) >= 2
    for text in examples:
        assert read_ask(text, over="temporal" if "run" in json.loads(text) else "http")


def test_the_tables_of_the_payload_are_whole() -> None:
    table = rows(ASKING, "The payload")
    assert {name for row in table for name in names_in(row[0])} == set(Ask.model_fields)
    required = {name for row in table if row[2] == "yes" for name in names_in(row[0])}
    assert required == {name for name, field in Ask.model_fields.items() if field.is_required()}
    readme = rows(ROOT / "README.md", "What an ask may say")
    assert {name for row in readme for name in names_in(row[0])} == set(Ask.model_fields)
    text = ASKING.read_text()
    for name in (*Presentation.model_fields, *Run.model_fields):
        assert f"`{name}`" in text, name


def test_the_example_of_an_approval_has_the_apis_own_fields() -> None:
    (example,) = (block.text for block in blocks(ASKING, "json") if '"waiting_for"' in block.text)
    assert set(json.loads(example)) == set(ApprovalView.model_fields)
    ApprovalView.model_validate_json(example)


def test_the_readmes_program_is_the_example_that_is_run() -> None:
    (program,) = (block.text for block in blocks(ROOT / "README.md", "python"))
    assert program.strip() in (ROOT / "docs/examples/gate_from_python.py").read_text()


def test_the_agent_loops_program_is_the_one_that_is_run() -> None:
    shown = [block.text.strip() for block in blocks(ROOT / "docs/agent-loop.md", "python")]
    loop, _ = shown
    assert all(text in (ROOT / "adapters/sample_agent.py").read_text() for text in shown)
    assert len(loop.splitlines()) <= 60


def test_the_answer_over_temporal_has_the_workflows_own_fields() -> None:
    from workflows.payloads import Answer

    (example,) = (block.text for block in blocks(ASKING, "json") if '"approval_id"' in block.text)
    fields = set(json.loads(example))
    assert fields == {*Answer.model_fields, "result", "arguments"}
    assert {name for row in rows(ASKING, "What comes back") for name in names_in(row[0])} == fields - {"approval_id"}


def test_the_sentences_for_the_model_are_the_codes_own() -> None:
    module = ast.parse((ROOT / "core/wording.py").read_text())
    said = {node.value.replace("{edit}", "") for node in ast.walk(module)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
    for row in rows(ASKING, "Sentences for the model"):
        assert names_in(row[1])[0] in said, row[0]


def test_the_problem_codes_are_the_codes_own() -> None:
    table = {names_in(row[0])[0]: int(row[1]) for row in rows(ASKING, "Problem codes")}
    assert table == {code: status for code, (status, _) in CODES.items()}


def test_the_languages_are_the_catalogues_own() -> None:
    for page, start in (("operating.md", "| `PLACET_LANGUAGE`"), ("operating.md", "| `people.<id>.language`")):
        line = next(line for line in (ROOT / "docs" / page).read_text().splitlines() if line.startswith(start))
        assert set(re.findall(r"`([a-z]{2})`", line)) == set(LANGUAGES)


def test_the_endpoints_are_the_apis_own() -> None:
    served = set()
    for router in (approvals.router, events.router, agents.router, lanes.router, administration.router, health.router):
        for route in router.routes:
            assert isinstance(route, APIRoute)
            served |= {(method, re.sub(r"\{\w+\}", "{id}", route.path)) for method in route.methods or ()}
    named = re.findall(r"`([A-Z]+) (/[^`?]+)", ASKING.read_text())
    assert {(method, re.sub(r"\{\w+\}", "{id}", path)) for method, path in named} == served


def metrics() -> set[str]:
    class Clock:
        def now(self) -> datetime:
            return datetime.now(UTC)

    registry = Metrics(version="0", clock=Clock()).registry
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families
            if family.name.startswith("placet_") and not family.name.endswith("_created")}  # fmt: skip


def test_the_metrics_are_the_codes_own() -> None:
    table = {names_in(row[0])[0] for row in rows(OPERATING, "Metrics and alerts")}
    assert table == metrics()
    for page in PAGES:
        for name in re.findall(r"\bplacet_[a-z_]+\b", prose(page)):
            assert name in metrics() | {Notify.model_fields["signal"].default}, name


def test_the_events_of_the_log_are_the_codes_own() -> None:
    source = "".join(path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    bounded = {f"{what} {how}" for what in ("nudge", "start") for how in ("failed", "found no workflow")}
    events_named = {name for row in rows(OPERATING, "Logs") for name in names_in(row[0])}
    assert len(events_named) > 30
    for name in events_named - {*Status, *Outcome, *bounded}:
        assert f'"{name}"' in source, name
    sandbox = "".join(path.read_text() for path in (ROOT / "adapters/sandbox").rglob("*.py"))
    logged = r'\blog\.(?:info|warning|error|exception)\(\s*"([^"]+)"'
    assert {*re.findall(logged, source)} - {*re.findall(logged, sandbox)} <= events_named


def test_the_lease_of_a_bot_lasts_as_long_as_is_told() -> None:
    told = re.findall(r"(\d+) s at most; Telegram keeps|of a bot lasts (\d+) s", OPERATING.read_text())
    assert [int(first or second) for first, second in told] == [LASTS.total_seconds()] * 2


def test_the_permissions_are_the_codes_own() -> None:
    assert {name for row in rows(OPERATING, "Tokens and roles") for name in names_in(row[0])} == set(Permission)


def test_the_cases_are_told_with_the_tests_that_are_named_after_them() -> None:
    tests: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.name == "test_sandbox.py":  # it tests the stand-in
            continue
        for name in re.findall(r"def test_((?:[drstlw]\d+_)+)", path.read_text()):
            for case in name.rstrip("_").split("_"):
                tests.setdefault(case.upper(), set()).add(str(path.relative_to(ROOT / "tests").with_suffix("")))
    assert {row[0]: set(names_in(row[3])) for row in rows(ROOT / "docs/testing.md", "Cases")} == tests


ANATOMY = ROOT / "docs/card-anatomy.md"


def test_the_card_that_is_shown_is_the_one_that_is_drawn() -> None:
    def drawn(**changes: Any) -> str:
        around = Surroundings(people={"dana": "Dana Reyes"})
        return text_of(card_of(an_approval(**changes), around, NOW, redaction=Redaction(b"k" * 32)))

    waiting, answered = (block.text for block in blocks(ANATOMY) if not block.kind)
    assert waiting == drawn() + "\n"
    decided = {"decided_by": "dana", "decided_via": "telegram", "decided_at": NOW + timedelta(minutes=5)}
    assert answered.strip() == drawn(status=Status.APPROVED, outcome=Outcome.SENT, **decided).splitlines()[-1]


def test_the_limits_of_a_card_are_the_codes_own() -> None:
    told = [
        int(number.replace(",", "")) for row in rows(ANATOMY, "What fits") for number in re.findall(r"[\d,]+", row[1])
    ]
    assert told == [
        cards.MAX_LINES, cards.LINE_LIMIT, cards.LINE_ROWS, cards.LABEL_LIMIT, cards.TITLE_LIMIT, 2 * cards.LINE_LIMIT,
        cards.NOTE_LIMIT, cards.ERROR_LIMIT, cards.CARD_LIMIT,
    ]  # fmt: skip
    platforms = {row[0]: [int(number.replace(",", "")) for number in re.findall(r"[\d,]{2,}|\d", " ".join(row[1:]))]
                 for row in rows(ANATOMY, "On each platform")}  # fmt: skip
    forms = (telegram.Telegram, slack.Slack, discord.Discord)
    assert platforms["Texts in Edit"] == [limit for form in forms for limit in (form.form_fields, form.form_characters)]
    assert platforms["Text in all"] == [
        telegram.TEXT_LIMIT, slack.CARD_LIMIT, slack.SECTION_LIMIT, discord.TOTAL_LIMIT, discord.EMBED_LIMIT,
    ]  # fmt: skip
    assert platforms["A note"] == [slack.INPUT_LIMIT, discord.INPUT_LIMIT]


def test_every_button_is_told() -> None:
    labels = {words_of(key, "en") for key in KEYS if key.startswith("button_")}
    assert labels <= set(SPAN.findall(prose(ANATOMY)))
    assert {names_in(row[0])[0] for row in rows(ANATOMY, "Buttons")} <= labels
