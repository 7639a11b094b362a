"""The sandbox's server: one loopback port with the platforms' APIs and the page."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from adapters.sandbox.agent import AgentFeed, Kind
from adapters.sandbox.change import Change
from adapters.sandbox.discord import World as DiscordWorld
from adapters.sandbox.discord.api import RestApi
from adapters.sandbox.discord.server import API as DISCORD_API
from adapters.sandbox.discord.server import GATEWAY as DISCORD_GATEWAY
from adapters.sandbox.discord.server import routes as discord_routes
from adapters.sandbox.discord.view import DiscordView
from adapters.sandbox.page import Guard, Page
from adapters.sandbox.shelf import Shelf
from adapters.sandbox.slack import World as SlackWorld
from adapters.sandbox.slack.api import WebApi
from adapters.sandbox.slack.server import Sockets
from adapters.sandbox.slack.server import routes as slack_routes
from adapters.sandbox.slack.view import SlackView
from adapters.sandbox.telegram import World
from adapters.sandbox.telegram.api import BotApi
from adapters.sandbox.telegram.server import routes as telegram_routes
from adapters.sandbox.telegram.view import TelegramView
from adapters.sandbox.telegram.webhooks import Webhooks


class _Server(uvicorn.Server):
    """Leaves signals to the process that the sandbox lives in."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Sandbox:
    """`async with Sandbox() as sandbox`: listening on 127.0.0.1 from start to end of the block.

    `port` 0 takes a free one. `data` is a folder in which everything is kept; without it, memory. `rate_scale`
    multiplies the platforms' rate limits (1 is their own; infinity lifts them).
    """

    def __init__(self, port: int = 0, data: Path | None = None, *, rate_scale: float = 1) -> None:
        self._wanted_port = port
        self._data = data
        self._rate_scale = rate_scale

    async def __aenter__(self) -> Self:
        self._shelf = Shelf(self._data)
        change = Change()
        self.telegram = World(self._shelf, change, rate_scale=self._rate_scale)
        # The first platform's are at hand without naming it.
        self.add_bot, self.add_person, self.add_group = (
            self.telegram.add_bot, self.telegram.add_person, self.telegram.add_group
        )  # fmt: skip
        self._api = BotApi(self.telegram)
        self.slack = SlackWorld(self._shelf, change, rate_scale=self._rate_scale)
        web_api = WebApi(self.slack)
        sockets = Sockets(self.slack, web_api)
        self.discord = DiscordWorld(self._shelf, change, rate_scale=self._rate_scale)
        self._agent = AgentFeed(self._shelf, change)
        columns = TelegramView(self.telegram), SlackView(self.slack), DiscordView(self.discord)
        self._page = Page(columns, self._agent, change)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", self._wanted_port))
        except OSError:
            listener.close()
            self._shelf.close()
            raise
        self.port: int = listener.getsockname()[1]
        self.slack.url = self.url
        routes = [
            *telegram_routes(self.telegram, self._api),
            *slack_routes(self.slack, web_api, sockets),
            *discord_routes(self.discord, RestApi(self.discord)),
            *self._page.routes(),
        ]
        app = Starlette(routes=routes, middleware=[Middleware(Guard)])
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2, ws="websockets-sansio"
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        self._pushing = [asyncio.create_task(Webhooks(self.telegram).run()), asyncio.create_task(sockets.run())]
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
            await asyncio.sleep(0.005)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pushing in self._pushing:
            pushing.cancel()
        self.slack.cut_sockets()
        self._api.close()
        self._page.close()
        self._server.should_exit = True
        await asyncio.gather(self._serving, *self._pushing, return_exceptions=True)
        self._shelf.close()

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def telegram_base_url(self) -> str:
        """For python-telegram-bot's `base_url`; the token follows it."""
        return f"{self.url}/bot"

    @property
    def telegram_file_url(self) -> str:
        """For python-telegram-bot's `base_file_url`."""
        return f"{self.url}/file/bot"

    @property
    def slack_base_url(self) -> str:
        """For the Slack SDK's `base_url`."""
        return f"{self.url}/api/"

    @property
    def discord_base_url(self) -> str:
        """For PLACET_DISCORD_BASE_URL."""
        return f"{self.url}{DISCORD_API}"

    @property
    def discord_gateway_url(self) -> str:
        """For PLACET_DISCORD_GATEWAY_URL."""
        return f"ws://127.0.0.1:{self.port}{DISCORD_GATEWAY}"

    def agent_said(self, kind: Kind, text: str, *, ask: str = "", title: str = "", detail: str = "") -> None:
        """Put an entry into the page's agent column; entries of one `ask` are shown as one turn, call by call.

        `kind`: asked (which begins a call), waiting, allowed, declined, expired, cancelled, failed, edited, note, or
        ended (the turn). `title` names the turn, `detail` is shown as code: arguments or a result.
        """
        self._agent.say(kind, text, ask=ask, title=title, detail=detail)

    def add_action(self, id: str, label: str, run: Callable[[str], Awaitable[None]]) -> None:
        """A button of the agent column; `run` is awaited with the action's id when a person presses it."""
        self._agent.add_action(id, label, run)
