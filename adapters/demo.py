"""The demo: Placet, its servers, a sandbox of chats and a sample agent, in one process and one data folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shlex
import socket
import uuid
import webbrowser
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from adapters.app import App, run_until_stopped, running, until_stopped
from adapters.directory_file import read_directory
from adapters.logs import configure_logs
from adapters.sample_agent import ACTIVITIES, LABELS, QUEUE, SampleAgent, SampleTools
from adapters.sandbox.agent import Kind
from adapters.sandbox.discord import token_of
from adapters.sandbox.server import Sandbox
from adapters.settings import DEMO_FILE, PREFIX, read_settings
from core.ports import BadSetting, Ledger

log = logging.getLogger("placet.demo")

TELEGRAM_TOKEN = "700100200:" + "DEMO" * 8 + "DEM"
SLACK_TOKEN, SLACK_APP_TOKEN = "xoxb-sandbox-demo-token", "xapp-sandbox-demo-token"
DISCORD_BOT = 8001002001
GROUP, TEAM, CHANNEL, GUILD, DISCORD_CHANNEL = -1001000000001, "T01", "C01", 5001, 6001
# The sandbox's own files, in a demo's data folder and in no other.
CHATS = "sandbox"
# What of a terminal's settings is a demo's too.
OBEYED = {"PLACET_LANGUAGE"}
# One person tries things out here, quicker than a platform would let a bot answer many.
RATE_SCALE = 20
# Its own: the sample agent that a person runs beside the demo must not take the demo's work, nor leave it any.
DEMO_QUEUE = "demo-agent"
RUNS = "\n".join(
    f"      - {{tool: {tool}, activity: {activity}, task_queue: {queue}}}"
    for queue in (DEMO_QUEUE, QUEUE)
    for tool, activity in ACTIVITIES.items()
)
DIRECTORY = f"""\
people:
  dana: {{name: Dana Reyes, identities: {{telegram: 1001, slack: T01/U01, discord: 4201}}}}
  ola: {{name: Ola Berg, identities: {{slack: T01/U02}}}}
  kim: {{name: Kim Sato, identities: {{discord: 4203}}}}
roles:
  admin: [admin, approvals:view, approvals:answer, approvals:delegate]
  lead: [approvals:view, approvals:answer, approvals:delegate]
  approver: [approvals:view, approvals:answer]
members:
  admin: [kim]
  lead: [dana]
  approver: [ola]
agents:
  sage:
    owner: dana
    runs:
{RUNS}
routes:
  - match: {{agent: sage}}
    ask: [role:admin, role:lead, role:approver]
    at: ["telegram:{GROUP}", "slack:{TEAM}/{CHANNEL}", "discord:{DISCORD_CHANNEL}"]
"""
SPOKEN: dict[str, Kind] = {"approved": "allowed", "auto": "allowed", "declined": "declined", "expired": "expired",
                           "cancelled": "cancelled"}  # fmt: skip


def folder_in(data_dir: Path) -> Path:
    """Where the demo of a data folder keeps its files: in a terminal that has read demo.env, that folder itself."""
    return data_dir if (data_dir / CHATS).is_dir() else data_dir / "demo"


def demo(data_dir: Path, port: int, browser: bool) -> int:
    """Run the demo until Ctrl-C; `port` is the page's, `browser` opens it. The exit code."""
    data_dir = data_dir.expanduser().absolute()
    try:
        # One by one: the folder in which it is by default is Placet's own data folder, and as private.
        for folder in (*reversed(data_dir.parents), data_dir):
            folder.mkdir(mode=0o700, exist_ok=True)
        log_file = (data_dir / "placet.log").open("a", encoding="utf-8")
    except OSError as error:
        return run_until_stopped(_refuse(BadSetting("--data-dir", f"{data_dir} cannot be used: {error.strerror}")))
    # The demo needs no account and uses none: whatever is set for a real Placet stays out of it.
    for name in [name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in OBEYED]:
        del os.environ[name]
    with log_file:
        configure_logs("info", json=True, stream=log_file)
        code = run_until_stopped(_run(data_dir, port, browser))
    if code == 0:
        print("Stopped. Started again, it goes on where it was.")  # noqa: T201
    return code


async def _refuse(bad: BadSetting) -> None:
    raise bad


async def _run(data_dir: Path, port: int, browser: bool) -> None:
    async with AsyncExitStack() as stack:
        try:
            sandbox = await stack.enter_async_context(Sandbox(port, data_dir / CHATS, rate_scale=RATE_SCALE))
        except OSError as error:
            problem = (
                f"{port} cannot be used ({error.strerror}): end what has it (another demo, Placet or another program), "
                'or give another one: make demo ARGS="--port 8500"'
            )
            raise BadSetting("--port", problem) from None
        first = _set_up_chats(sandbox)
        os.environ |= _platforms(sandbox)
        # A placet.toml that happens to lie where the demo is started is a real Placet's: none is found from here.
        os.chdir(data_dir / CHATS)
        settings = read_settings(data_dir=data_dir, http_bind=f"127.0.0.1:{_free_port(sandbox.port % 65535 + 1)}")
        app = await stack.enter_async_context(running(settings, pace=1 / RATE_SCALE))
        await app.store.write(_apply_once)
        agent = SampleAgentPanel(sandbox, app, data_dir)
        await stack.enter_async_context(agent.working())
        env_file = stack.enter_context(_written(data_dir / DEMO_FILE, _surroundings(app)))
        print(  # noqa: T201
            f"Placet demo: {sandbox.url}  (Ctrl-C stops it; data in {data_dir}, log in placet.log there)\n"
            f"HTTP API: {settings.http_url}  (for `placet` in another terminal: . {shlex.quote(str(env_file))})",
            flush=True,
        )
        if first:
            await agent.start("case")
        if browser:
            await asyncio.to_thread(webbrowser.open, sandbox.url)
        await until_stopped()


def _apply_once(ledger: Ledger) -> None:
    if not ledger.agents():
        ledger.replace_directory(read_directory(DIRECTORY))


def _platforms(sandbox: Sandbox) -> dict[str, str]:
    """Where each platform is, as its settings."""
    return {
        "PLACET_TELEGRAM_TOKEN": TELEGRAM_TOKEN,
        "PLACET_TELEGRAM_BASE_URL": sandbox.url,
        "PLACET_SLACK_BOT_TOKEN": SLACK_TOKEN,
        "PLACET_SLACK_APP_TOKEN": SLACK_APP_TOKEN,
        "PLACET_SLACK_BASE_URL": sandbox.slack_base_url,
        "PLACET_DISCORD_TOKEN": token_of(DISCORD_BOT),
        "PLACET_DISCORD_BASE_URL": sandbox.discord_base_url,
        "PLACET_DISCORD_GATEWAY_URL": sandbox.discord_gateway_url,
    }


def _surroundings(app: App) -> dict[str, str]:
    """What a terminal needs so that `placet` and the sample agent find this demo."""
    own = {name: value for name, value in os.environ.items() if name.upper().startswith(PREFIX)}
    return own | {
        "PLACET_DATA_DIR": str(app.settings.data_dir),
        "PLACET_HTTP_BIND": app.settings.http_bind,
        "PLACET_TEMPORAL_ADDRESS": app.temporal.address,
        "TEMPORAL_ADDRESS": app.temporal.address,
    }


@contextlib.contextmanager
def _written(path: Path, variables: dict[str, str]) -> Iterator[Path]:
    """A file for the shell, there while the block runs."""
    path.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _set_up_chats(sandbox: Sandbox) -> bool:
    """Make the people and chats; True when there were none yet. Sam is in all chats and linked to nobody."""
    first = str(GROUP) not in sandbox.telegram.chats
    bot = sandbox.add_bot(TELEGRAM_TOKEN, "placet_demo_bot", name="Placet")
    dana, sam = sandbox.add_person(1001, "Dana Reyes", "dana"), sandbox.add_person(1009, "Sam Stranger", "sam")
    sandbox.add_group(GROUP, "Approvals", [dana, sam, bot])
    if first:
        sandbox.telegram.start(dana)
    slack, discord = sandbox.slack, sandbox.discord
    slack.add_team(TEAM, "Acme", token=SLACK_TOKEN, app_token=SLACK_APP_TOKEN)
    on_slack = [slack.add_person(f"U0{number}", name) for number, name in
                ((1, "Dana Reyes"), (2, "Ola Berg"), (9, "Sam Stranger"))]  # fmt: skip
    slack.add_channel(CHANNEL, "approvals", on_slack)
    discord.add_bot(DISCORD_BOT, "placet", name="Placet")
    on_discord = [discord.add_person(number, name) for number, name in
                  ((4201, "Dana Reyes"), (4203, "Kim Sato"), (4209, "Sam Stranger"))]  # fmt: skip
    discord.add_channel(DISCORD_CHANNEL, discord.add_guild(GUILD, "Acme", on_discord), "approvals")
    return first


def _free_port(wanted: int) -> int:
    """The wanted port, or another one when it is taken."""
    for port in (wanted, 0):
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    return wanted


class SampleAgentPanel:
    """Shows what the sample agent asks and gets, and lets a person set it off."""

    def __init__(self, sandbox: Sandbox, app: App, folder: Path) -> None:
        self.sandbox, self.app = sandbox, app
        self.tools = SampleTools(folder, self.show)
        for task, label in LABELS.items():
            sandbox.add_action(task, label, self.start)

    @contextlib.asynccontextmanager
    async def working(self) -> Any:
        """The sample agent's own worker, beside the block."""
        client = await self.app.temporal.ready()
        async with self.tools.worker(client, DEMO_QUEUE):
            yield

    async def start(self, task: str) -> None:
        """Let the agent begin a turn."""
        client = await self.app.temporal.client()
        turn = f"sample-{task}-{uuid.uuid4().hex[:8]}"
        await client.start_workflow(SampleAgent.run, task, id=turn, task_queue=DEMO_QUEUE)

    async def show(self, workflow_id: str, event: str, step: dict[str, Any], answer: dict[str, Any]) -> None:
        title = LABELS[workflow_id.split("-")[1]]
        if event == "asked":
            what = step["call"]["presentation"]["title"]
            arguments = json.dumps(step["call"]["arguments"], indent=2)
            self.sandbox.agent_said("asked", what, ask=workflow_id, title=title, detail=arguments)
            return
        if event == "ended":
            self.sandbox.agent_said("ended", "", ask=workflow_id, title=title)
            return
        final = answer.get("arguments")
        if final is not None and final != step["call"]["arguments"]:
            ran = answer.get("outcome") == "sent"
            told = "to this, which is what ran:" if ran else "to this, before it was answered:"
            detail = json.dumps(final, indent=2)
            self.sandbox.agent_said("edited", told, ask=workflow_id, title=title, detail=detail)
        spoken = SPOKEN.get(answer.get("status", ""), "note")
        if spoken == "allowed" and answer.get("outcome") != "sent":
            spoken = "failed"
        detail = "" if answer.get("result") is None else json.dumps(answer["result"], indent=2)
        told = f"and told: {answer.get('text') or ''}"
        self.sandbox.agent_said(spoken, told, ask=workflow_id, title=title, detail=detail)
