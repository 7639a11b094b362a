"""Slack: cards out, presses in, over slack-bolt."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeVar

import aiohttp
from pydantic import SecretStr, model_validator
from pydantic_settings import NoDecode
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from bots.delivery import (
    CHECK_S,
    PRESS_S,
    Checkup,
    Command,
    Hint,
    Intake,
    Migrated,
    NoteForm,
    OnPress,
    Reading,
    answering,
    command_of,
    is_command,
    tidy,
)
from bots.drawing import Menu, Piece, claim_label, cut_to, data_of, foot_of, label_of, menu_of, shortened
from bots.groups import Groups
from bots.pacing import PATIENCE_S, Pacer, Rate
from bots.settings import PlatformSettings, address, is_local, read_settings, secret, server_of, tokens
from core.approvals import Actor, Attachment, Button, Card, Destination, Form, Message, Press, Reply, Tone
from core.buttons import Verb, unpack
from core.ports import BadSetting, Finding, Gone, Hooks, Moved, Refused, Slow, Unavailable
from core.wording import DEFAULT_LANGUAGE, say

# The libraries log what must not be logged: addresses that are secrets, and what they send.
LIBRARY = logging.getLogger("placet.slack_library")
for _name in ("placet.slack_library", "slack_bolt", "slack_sdk", "aiohttp"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

log = logging.getLogger("placet.bots")
T = TypeVar("T")
Json = Mapping[str, Any]

NAME = "slack"

# Limits of Block Kit and the Web API (platform facts, sections 1, 2 and 6); texts are counted in UTF-16 units, escaped.
TEXT_LIMIT, SECTION_LIMIT, HEADER_LIMIT, CONTEXT_LIMIT, CARD_LIMIT = 3800, 3000, 150, 2000, 12_000
LABEL_LIMIT, CONFIRM_TITLE_LIMIT, CONFIRM_LIMIT, CONFIRM_BUTTON_LIMIT, INPUT_LIMIT = 75, 100, 300, 30, 3000
FORM_TITLE_LIMIT, BUTTONS_IN_ROW = 24, 25
PER_CHANNEL = (Rate(3, 3),)
POSTS, UPDATES = Rate(240, 60), Rate(50, 60)

# Slack waits 3 s for an acknowledgement and keeps a trigger as long; a press decides before that, or is told later.
ACK_S, FORM_S, NAME_S, CALL_S = 2.4, 2.2, 0.5, 10.0
WINDOW_S, REPLAYS_KEPT = 300, 10_000
WATCH_S, STALE_ROUNDS, LOST_ROUNDS, MEET_AGAIN_S = 5.0, 2, 6, 15.0
# Slack asks for a new connection every few hours: that one is opened is no news before so many seconds, at any pace.
AWAY_S = 10.0
NAMES_KEPT, DOUBTS_KEPT, DOUBT_S = 5000, 1000, 300
SCOPES = frozenset({
    "chat:write", "commands", "files:write", "im:write", "users:read", "metadata.message:read", "channels:history",
    "groups:history", "im:history",
})  # fmt: skip
GROUP_SCOPE = "usergroups:read"
EVENT_TYPE, NOTE_FORM, EDIT_FORM, MENU = "placet_card", "placet_note", "placet_edit", "placet_menu"


# Settings


class Settings(PlatformSettings):
    """What the operator set for Slack; no bot token means off. With an app token, Socket Mode; else HTTP."""

    slack_bot_token: Annotated[tuple[SecretStr, ...], NoDecode, tokens(
        r"xoxb-[A-Za-z0-9-]{10,250}", "is not of the form xoxb-...; copy it from the app's OAuth page",
        whose=str, twice="a token is there twice; name each workspace once",
    )] = ()  # fmt: skip
    slack_app_token: Annotated[SecretStr | None, secret(
        r"xapp-[A-Za-z0-9-]{10,250}",
        "must be of the form xapp-...; make one with connections:write on the app's page",
    )] = None  # fmt: skip
    slack_signing_secret: Annotated[SecretStr | None, secret(
        r"[A-Za-z0-9_-]{16,256}", "must be the signing secret of the app's Basic Information page"
    )] = None  # fmt: skip
    slack_base_url: Annotated[str, address(
        r"https?://[^\s/]+/[^\s]*", "must be the Web API's address, such as https://slack.com/api/", end="/"
    )] = "https://slack.com/api/"  # fmt: skip

    @model_validator(mode="after")
    def has_a_way_in(self) -> Settings:
        if self.slack_bot_token and self.slack_app_token is None and self.slack_signing_secret is None:
            raise BadSetting(
                "PLACET_SLACK_APP_TOKEN", "must be set for Socket Mode, or PLACET_SLACK_SIGNING_SECRET for HTTP"
            )
        return self


def surface(hooks: Hooks) -> Slack | None:
    """The surface of all workspaces, or None without a token. Raises BadSetting."""
    settings = read_settings(Settings, NAME)
    return Slack(settings, hooks, pace=hooks.pace) if settings.slack_bot_token else None


# The surface


class Slack:
    """One app in every workspace of a bot token; an account is a workspace's id, "" the first one (design section 2).

    `pace` scales every wait: 1 is Slack's own pace, 0 never waits.
    """

    name = NAME
    form_fields, form_characters = 10, INPUT_LIMIT

    def __init__(self, settings: Settings, hooks: Hooks, *, pace: float = 1.0) -> None:
        self._settings, self._hooks, self._pace = settings, hooks, pace
        self._intake = Intake(NAME, hooks, pace)
        self._clients = [self._client(token) for token in settings.slack_bot_token]
        self._teams: dict[str, AsyncWebClient] = {}
        self._bots: dict[str, str] = {}
        self._unmet: dict[AsyncWebClient, Exception] = {}
        self._meet_at = 0.0
        self._posts: dict[str, Pacer] = {}
        self._updates: dict[str, Pacer] = {}
        self._session: aiohttp.ClientSession | None = None
        # Everything is taken by one middleware ahead of Bolt's own, so that nothing goes unacknowledged, and nothing is
        # acknowledged before it is committed.
        self._app = AsyncApp(
            client=self._clients[0], logger=LIBRARY, before_authorize=self._take,
            request_verification_enabled=False, ssl_check_enabled=False,
        )  # fmt: skip
        self._names: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._groups = Groups(NAME, self._members)
        self._direct: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._doubtful: OrderedDict[str, float] = OrderedDict()
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._socket: AsyncSocketModeHandler | None = None
        self._away_since: float | None = None
        self._away_told = False
        self._checkup = Checkup(self._check_all)

    async def post(self, destination: Destination, card: Card, *, token: str) -> Message:
        """Send a card. After Unavailable the message may exist all the same: the next try looks for it first."""
        account = await self._account(destination.account)
        chat = await self._chat(account, destination.chat)
        thread = destination.thread or destination.reply_to
        body, mark = render(card, token), _mark(token)
        if mark in self._doubtful:
            found = await self._find(account, chat, mark)
            if found:
                return Message(NAME, account, chat, destination.thread, found)

        async def send(client: AsyncWebClient) -> str:
            sent = await client.chat_postMessage(
                channel=chat, text=body.text, blocks=body.blocks, thread_ts=thread or None, unfurl_links=False,
                unfurl_media=False, metadata={"event_type": EVENT_TYPE, "event_payload": {"card": mark}},
            )  # fmt: skip
            return str(sent["ts"])

        try:
            ts = await self._paced(account, chat, send)
        except Unavailable:
            _keep(self._doubtful, mark, time.time() - DOUBT_S, DOUBTS_KEPT)
            raise
        self._doubtful.pop(mark, None)
        return Message(NAME, account, chat, destination.thread, ts)

    async def redraw(self, message: Message, card: Card, *, token: str = "") -> None:
        """Show `card` in the message."""
        account = await self._account(message.account)
        body = render(card, token)

        async def edit(client: AsyncWebClient) -> None:
            await client.chat_update(channel=message.chat, ts=message.id, text=body.text, blocks=body.blocks)

        await self._paced(account, message.chat, edit, update=True)

    async def attach(self, message: Message, file: Attachment) -> Message:
        """Upload a text file into the thread of a card."""
        account = await self._account(message.account)

        async def send(client: AsyncWebClient) -> str:
            done = await client.files_upload_v2(
                channel=message.chat, thread_ts=message.id, filename=file.name, title=file.name,
                content=file.text.encode(errors="replace"),
            )  # fmt: skip
            return str(done["files"][0]["id"])

        sent = await self._paced(account, message.chat, send)
        return Message(NAME, account, message.chat, message.id, sent)

    async def say(self, message: Message, text: str) -> Message:
        """Put a plain word into the thread of a message."""
        return await self.tell(Destination(NAME, message.account, message.chat, message.thread or message.id), text)

    async def tell(self, destination: Destination, text: str) -> Message:
        """Put a plain word into a channel or a private chat."""
        account = await self._account(destination.account)
        chat = await self._chat(account, destination.chat)

        async def send(client: AsyncWebClient) -> str:
            sent = await client.chat_postMessage(
                channel=chat, thread_ts=destination.thread or None, unfurl_links=False, unfurl_media=False,
                **words(text),
            )  # fmt: skip
            return str(sent["ts"])

        return Message(NAME, account, chat, destination.thread, await self._paced(account, chat, send))

    def fits(self, card: Card) -> bool:
        """Whether the card is shown whole; where not, its whole text is attached before Allow works."""
        return not render(card, "").cut

    async def listen(self, on_press: OnPress) -> None:
        """Take what people do in every workspace until cancelled, each committed before it is acknowledged."""
        async with self._intake.open(on_press):
            if self._settings.slack_app_token is None:
                await asyncio.Event().wait()
            while True:
                await self._connected()
                await self._intake.pause(WATCH_S)

    async def receive(self, account: str, headers: Mapping[str, str], body: bytes) -> int | tuple[int, str]:
        """Take one HTTP request of Slack's; answers the status, and the text that Slack wants to see where it does."""
        given = {name.lower(): value for name, value in headers.items()}
        signature, now = given.get("x-slack-signature", ""), time.time()
        if not self._signed(given.get("x-slack-request-timestamp", ""), signature, body, now):
            return 401
        while self._seen and next(iter(self._seen.values())) < now - 2 * WINDOW_S:
            self._seen.popitem(last=False)
        if signature in self._seen:
            return 401
        _keep(self._seen, signature, now, REPLAYS_KEPT)
        try:
            request = AsyncBoltRequest(body=body.decode(), headers=dict(given))
        except ValueError:
            return 400
        answer = await self._app.async_dispatch(request)
        if answer.status >= 500:
            self._seen.pop(signature, None)
        return (answer.status, answer.body) if answer.body else answer.status

    async def check(self) -> Sequence[Finding]:
        """Each workspace held against Slack: its token and scopes, and the way in."""
        return await self._checkup()

    async def close(self) -> None:
        """Let go of the connections; nothing is called after this."""
        if self._session is not None:
            await self._session.close()

    def _client(self, token: SecretStr) -> AsyncWebClient:
        client = AsyncWebClient(
            token.get_secret_value(), base_url=self._settings.slack_base_url, timeout=int(CALL_S), logger=LIBRARY,
            retry_handlers=[ShortWaits(max_retry_count=1)],
        )  # fmt: skip
        if is_local(self._settings.slack_base_url):
            client.proxy = None
        return client

    # Checking

    async def _check_all(self) -> Sequence[Finding]:
        found = (self._check(number, client) for number, client in enumerate(self._clients, 1))
        return await asyncio.gather(*found, self._check_way_in())

    async def _check(self, number: int, client: AsyncWebClient) -> Finding:
        name, server = f"Slack bot token {number}", server_of(self._settings.slack_base_url)
        self._connect(client)
        try:
            async with asyncio.timeout(CHECK_S):
                with vendor_errors():
                    me = await client.auth_test()
        except Refused as error:
            return Finding("fail", f"{name}: {server} does not accept it ({error.why})",
                           "install the app again and copy the token into PLACET_SLACK_BOT_TOKEN")  # fmt: skip
        except (Slow, Gone, Unavailable, TimeoutError) as error:
            why = str(error) or f"no answer within {CHECK_S:g} s"
            return Finding("fail", f"{name}: {server} does not answer ({why})",
                           "let this machine through to it, or set PLACET_SLACK_BASE_URL right")  # fmt: skip
        except Exception as error:
            return Finding("fail", f"{name}: the check itself broke ({type(error).__name__})", "report this as a bug")
        wanted = SCOPES
        with suppress(Unavailable):
            mapped = await self._hooks.groups(NAME)
            wanted |= {GROUP_SCOPE} if any(key.startswith(f"{NAME}:{me['team_id']}/") for key in mapped) else set()
        granted = {scope for scope in str(me.headers.get("x-oauth-scopes", "")).split(",") if scope}
        if missing := sorted(wanted - granted) if granted else []:
            return Finding("fail", f"{name}: the app in {me['team_id']} lacks {', '.join(missing)}",
                           "add the scopes on the app's OAuth page and install it again")  # fmt: skip
        return Finding("ok", f"{name}: the app in {me['team_id']} answers")

    async def _check_way_in(self) -> Finding:
        token = self._settings.slack_app_token
        if token is None:
            return Finding("ok", "Slack delivers over HTTP to /slack/events, signed")
        if self._intake.on_press is not None:
            up = self._socket is not None and await self._socket.client.is_connected()
            what = "the socket to Slack is open" if up else "the socket to Slack is not open"
            return Finding("ok" if up else "fail", what, "" if up else "see that this machine reaches Slack")
        try:
            async with asyncio.timeout(CHECK_S):
                with vendor_errors():
                    await self._clients[0].apps_connections_open(app_token=token.get_secret_value())
        except Refused as error:
            return Finding("fail", f"Slack does not accept the app token ({error.why})",
                           "make one with connections:write and set PLACET_SLACK_APP_TOKEN")  # fmt: skip
        except (Slow, Gone, Unavailable, TimeoutError):
            return Finding("warn", "Slack does not say whether the app token is good", "try again in a minute")
        return Finding("ok", "Slack accepts the app token; presses come over Socket Mode")

    # Sending

    def _connect(self, client: AsyncWebClient) -> None:
        """Give the client a session, which can be made in a running loop only."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_S))
        client.session = self._session

    async def _meet(self) -> None:
        """Learn which workspace each token belongs to; one that cannot say so now is asked again after MEET_AGAIN_S."""
        now = asyncio.get_running_loop().time()
        if self._session is not None and now < self._meet_at:
            return
        for client in self._clients:
            self._connect(client)
            if client in self._teams.values():
                continue
            self._unmet.pop(client, None)
            try:
                with vendor_errors():
                    me = await client.auth_test()
            except (Gone, Refused, Slow, Unavailable) as error:
                self._unmet[client] = error
                continue
            team = str(me["team_id"])
            self._bots[team] = str(me["user_id"])
            self._posts[team], self._updates[team] = Pacer(POSTS, pace=self._pace), Pacer(UPDATES, pace=self._pace)
            self._teams[team] = client
        self._meet_at = now + MEET_AGAIN_S * self._pace if self._unmet else float("inf")

    async def _account(self, name: str) -> str:
        """The account of a name: "" for the first, or a workspace's id."""
        if name not in self._teams:
            await self._meet()
        if name in self._teams:
            return name
        if name == "" and (first := self._clients[0]) not in self._unmet:
            return next(team for team, client in self._teams.items() if client is first)
        if self._unmet:
            # It may be this one's.
            raise next(iter(self._unmet.values()))
        raise Refused(f"no token in PLACET_SLACK_BOT_TOKEN belongs to the workspace {name}")

    async def _chat(self, account: str, chat: str) -> str:
        """The channel of a chat, which may be a person: then their private chat with the app."""
        if not chat.startswith(("U", "W")):
            return chat
        if (account, chat) not in self._direct:
            with vendor_errors():
                opened = await self._teams[account].conversations_open(users=chat)
            _keep(self._direct, (account, chat), str(opened["channel"]["id"]), NAMES_KEPT)
        return self._direct[account, chat]

    async def _paced(
        self, account: str, chat: str, call: Callable[[AsyncWebClient], Awaitable[T]], *, update: bool = False
    ) -> T:
        """Make a call in its turn; a short wait that Slack asks for is waited by the client too."""
        pacer, rates = (self._updates[account], (UPDATES,)) if update else (self._posts[account], PER_CHANNEL)

        async def made() -> T:
            with vendor_errors():
                return await call(self._teams[account])

        return await pacer.call(chat, rates, made)

    async def _find(self, account: str, chat: str, mark: str) -> str:
        """The id of the card that a doubtful send did leave behind; "" when there is none."""
        try:
            with vendor_errors():
                page = await self._teams[account].conversations_history(
                    channel=chat, oldest=f"{self._doubtful[mark]:.6f}", limit=200, include_all_metadata=True
                )
        except (Gone, Refused) as error:
            log.warning(
                "doubtful send not looked up", extra={"platform": NAME, "account": account, "error": str(error)}
            )
            return ""
        for each in page["messages"]:
            if (each.get("metadata") or {}).get("event_payload", {}).get("card") == mark:
                return str(each["ts"])
        return ""

    # Listening

    async def _connected(self) -> None:
        """One socket, until it is lost for good; a one-time address that failed is thrown away."""
        handler = AsyncSocketModeHandler(self._app, str(_shown(self._settings.slack_app_token)), logger=LIBRARY,
                                         ping_interval=WATCH_S)  # fmt: skip
        client = handler.client
        if is_local(self._settings.slack_base_url):
            client.proxy = None
        self._socket = handler
        connecting = asyncio.ensure_future(client.connect())  # type: ignore[no-untyped-call]
        unwell = 0
        try:
            while unwell < LOST_ROUNDS:
                await asyncio.sleep(WATCH_S * min(self._pace, 1) or 0.05)
                if await client.is_connected() and not _ended(client.message_receiver, client.message_processor):
                    if unwell or client.wss_uri:
                        log.info("connected", extra={"platform": NAME})
                    # The address works once: the next connection asks for a new one.
                    unwell, client.wss_uri = 0, None
                    self._away_since, self._away_told = None, False
                    continue
                unwell += 1
                if unwell % STALE_ROUNDS == 0:
                    client.wss_uri = None
                self._tell_when_away()
        finally:
            connecting.cancel()
            self._socket = None
            with suppress(Exception):
                await client.close()  # type: ignore[no-untyped-call]

    def _tell_when_away(self) -> None:
        """Warn of a socket that is not open, once, when that has really lasted."""
        now = asyncio.get_running_loop().time()
        self._away_since = now if self._away_since is None else self._away_since
        away = now - self._away_since
        if away >= AWAY_S and not self._away_told:
            self._away_told = True
            log.warning("socket not open", extra={"platform": NAME, "seconds": round(away, 1)})

    def _signed(self, stamp: str, signature: str, body: bytes, now: float) -> bool:
        secret = self._settings.slack_signing_secret
        if secret is None or not re.fullmatch(r"[0-9]{1,12}", stamp) or abs(now - int(stamp)) > WINDOW_S:
            return False
        signed = hmac.new(secret.get_secret_value().encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256)
        return hmac.compare_digest(f"v0={signed.hexdigest()}".encode(), signature.encode(errors="replace"))

    async def _take(self, body: dict[str, Any]) -> BoltResponse:
        """Take whatever Slack sends; 200 acknowledges it, 503 has an event come again."""
        if body.get("type") == "url_verification":
            return BoltResponse(status=200, body=str(body.get("challenge", "")))
        if self._intake.on_press is not None:
            await self._meet()
        if self._intake.on_press is None or not self._bots:
            return BoltResponse(status=503)
        try:
            reading = read(body, self._bots)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            log.error("unreadable payload", extra={"platform": NAME, "error": type(error).__name__})
            return BoltResponse(status=200)
        if reading is None:
            return BoltResponse(status=200)
        back = _back(body, self._bots)
        if isinstance(reading, NoteForm):
            language = self._hooks.language(reading.press.actor, reading.press.message)
            form = note_form(reading, language)
            await self._open_form(back, form, Reply(say("note_form_gone", locale=language), Tone.ALERT))
            return BoltResponse(status=200)
        return await self._settle(reading, back, comes_again="event" in body)

    async def _settle(self, reading: Reading, back: Back, *, comes_again: bool) -> BoltResponse:
        """Acknowledge what is committed. What is slow goes on: an event comes again, a press is told later."""
        event, language = reading.key if isinstance(reading, Press) else "", self._language(back, reading)
        work = self._intake.start(
            self._intake.tried(back.account, event, lambda: self._handle(back.account, reading, language),
                               comes_again=comes_again, language=language)
        )  # fmt: skip
        await asyncio.wait({work}, timeout=PRESS_S if comes_again else ACK_S)
        if comes_again and (not work.done() or isinstance(work.exception(), Unavailable)):
            if event and self._intake.wait_is_news(event):
                wait = Reply(say("try_again", locale=language), Tone.ALERT)
                self._intake.start(self._answer(back, wait, reading))
            return BoltResponse(status=503)
        self._intake.start(self._finish(work, back, reading))
        return BoltResponse(status=200)

    async def _finish(self, work: asyncio.Task[Reply | None], back: Back, reading: Reading) -> None:
        reply = await work
        if reply is not None and not (back.typed and reply.result == "unknown_card"):
            await self._answer(back, reply, reading)

    def _language(self, back: Back, reading: Reading) -> str:
        """What somebody is spoken to in, as far as it is known without asking the database."""
        actor = reading.actor if isinstance(reading, Press | Command) else Actor(NAME, back.account, back.user)
        return self._hooks.language(actor, Message(NAME, back.account, back.chat, back.thread, ""))

    async def _handle(self, account: str, reading: Reading, language: str) -> Reply | None:
        if isinstance(reading, Press | Command):
            actor = await self._named(account, reading.actor)
            reading = replace(reading, actor=replace(actor, groups=await self.groups_of(actor)))
        return await self._intake.carry_out(account, reading, language)

    async def _named(self, account: str, actor: Actor) -> Actor:
        """The actor with the name that people know, where Slack tells it at once; payloads carry the user name only."""
        key = (actor.tenant, actor.id)
        if key not in self._names:
            with suppress(TimeoutError, Gone, Moved, Refused, Slow, Unavailable, KeyError):
                async with asyncio.timeout(NAME_S):
                    with vendor_errors():
                        found = await self._teams[account].users_info(user=actor.id)
                _keep(self._names, key, str(found["user"]["real_name"]), NAMES_KEPT)
        return replace(actor, name=tidy(self._names.get(key, actor.name)))

    async def groups_of(self, actor: Actor) -> frozenset[str]:
        """The groups that give roles and that the actor is in; none that Slack has not confirmed lately."""
        try:
            wanted = await self._hooks.groups(NAME)
        except Unavailable:
            return frozenset()
        keys = [key for key in wanted if key.startswith(f"{NAME}:{actor.tenant}/")]
        members = await asyncio.gather(*(self._groups.members(actor.tenant, key.rpartition("/")[2]) for key in keys))
        return frozenset(key for key, ids in zip(keys, members, strict=True) if actor.id in ids)

    async def _members(self, account: str, group: str) -> frozenset[str]:
        with vendor_errors():
            found = await self._teams[account].usergroups_users_list(usergroup=group)
        return frozenset(map(str, found.get("users") or ()))

    async def _open_form(self, back: Back, form: dict[str, Any], failed: Reply) -> None:
        """Open a modal within the 3 s of the press; else say that it could not be."""
        try:
            async with asyncio.timeout(FORM_S):
                with vendor_errors():
                    await self._teams[back.account].views_open(trigger_id=back.trigger_id, view=form)
        except (TimeoutError, Gone, Moved, Refused, Slow, Unavailable) as error:
            log.warning("form not opened", extra={"platform": NAME, "error": type(error).__name__})
            self._intake.start(self._answer(back, failed))

    async def _answer(self, back: Back, reply: Reply, reading: Reading | None = None) -> None:
        """Tell the presser alone: with a form, with a menu, or in the place of the menu that was pressed."""
        press = reading if isinstance(reading, Press) else None
        if reply.form is not None and press is not None:
            language = self._language(back, press)
            form, gone = edit_form(reply.form, press.message, language), say("form_gone", locale=language)
            await self._open_form(back, form, Reply(gone, Tone.ALERT))
            return
        menu = menu_of(reply, press, LABEL_LIMIT, units)
        shown = words(menu.text)
        shown["blocks"] += _menu_rows(menu, press.message if press else None)
        with answering(NAME, back.account, reply.approval_id):
            if back.response_url and await self._respond(back, shown, replaces=back.menu and not reply.refused):
                return
            self._posts[back.account].spend(back.chat, PER_CHANNEL)
            with vendor_errors():
                await self._teams[back.account].chat_postEphemeral(
                    channel=back.chat, user=back.user, thread_ts=back.thread or None, **shown
                )

    async def _respond(self, back: Back, shown: dict[str, Any], *, replaces: bool) -> bool:
        """Answer through a response_url; False when it no longer works."""
        client = AsyncWebhookClient(back.response_url, session=self._session, retry_handlers=[], logger=LIBRARY)
        client.proxy = self._clients[0].proxy
        with vendor_errors():
            sent = await client.send_dict({"response_type": "ephemeral", "replace_original": replaces, **shown})
        return bool(sent.status_code == 200)


class ShortWaits(AsyncRateLimitErrorRetryHandler):
    """Waits as Slack asks where that is short; a longer wait is the caller's."""

    async def _can_retry_async(
        self, *, state: RetryState, request: HttpRequest, response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:  # fmt: skip
        limited = await super()._can_retry_async(state=state, request=request, response=response, error=error)
        return limited and response is not None and _seconds(response.headers) <= PATIENCE_S


def _ended(*tasks: asyncio.Future[None] | None) -> bool:
    return any(task is not None and task.done() for task in tasks)


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)


def _mark(token: str) -> str:
    """What the metadata of a card carries: enough to know it again."""
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def _shown(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""


# Reading


@dataclass(frozen=True, slots=True)
class Back:
    """The way back to the presser alone; `typed`: the person wrote a message. `menu`: a menu was pressed."""

    account: str
    chat: str
    thread: str
    user: str
    response_url: str = ""
    trigger_id: str = ""
    typed: bool = False
    menu: bool = False


def read(body: Json, bots: Mapping[str, str]) -> Reading | NoteForm | None:
    """What a payload means; None for what is nothing to Placet. Decides nothing and trusts nothing in it.

    `bots` is the app's user in each workspace. Raises KeyError and the like for what no Slack sends.
    """
    if "command" in body:
        return _read_command(body)
    match body.get("type"):
        case "block_actions":
            return _read_press(body, _team(body, bots))
        case "view_submission":
            return _read_form(body)
        case "event_callback":
            event, account = body["event"], _team(body, bots)
            if event["type"] == "channel_id_changed":
                return Migrated(str(event["old_channel_id"]), str(event["new_channel_id"]))
            if event["type"] == "message":
                shared = bool(body.get("is_ext_shared_channel"))
                return _read_message(event, account, bots[account], shared=shared)
    return None


def _read_press(body: Json, account: str) -> Press | NoteForm | None:
    container, action, user = body["container"], body["actions"][0], body["user"]
    if container.get("type") != "message" or action.get("type") != "button":
        return None
    message = _message(account, body["channel"]["id"], body.get("message") or {}, container["message_ts"])
    # Data that no button of ours carries goes to the door as a verb that nothing has, which calls it unknown.
    data = unpack(str(action.get("value") or ""))
    parts = (account, message.chat, message.id, user["id"], action["action_id"], action["action_ts"])
    kind, thread, card, *_ = [*str(action.get("block_id")).split("/"), "", ""]
    if container.get("is_ephemeral") and kind == MENU and card:
        message = replace(message, thread=thread, id=card)
    press = Press(
        key=f"sl:{':'.join(map(str, parts))}",
        actor=_actor(user),
        message=message,
        verb=data.verb if data else "?",
        token=data.token if data else "",
        content_revision=data.content_revision if data else 0,
    )
    return NoteForm(press, _title(body.get("message") or {})) if press.verb == Verb.NOTE else press


def _read_form(body: Json) -> Press | None:
    view = body["view"]
    if view.get("callback_id") not in (NOTE_FORM, EDIT_FORM):
        return None
    of = json.loads(view["private_metadata"])
    texts = [(name, filled) for block in view["state"]["values"].values() for name, filled in block.items()]
    values = {name: tidy(str(filled.get("value") or "")) for name, filled in texts}
    press = Press(
        key=f"sl:{of['account']}:view:{view['id']}",
        actor=_actor(body["user"]),
        message=Message(NAME, *(str(of[name]) for name in ("account", "chat", "thread", "id"))),
        token=str(of["token"]),
    )
    if view["callback_id"] == NOTE_FORM:
        return replace(press, text=values["note"])
    return replace(press, verb=str(of["verb"]), content_revision=int(of["revision"]), fields=values)


def _read_message(event: Json, account: str, bot: str, *, shared: bool) -> Press | Hint | None:
    subtype, user, thread, ts = (event.get(name) for name in ("subtype", "user", "thread_ts", "ts"))
    if event.get("bot_id") or not user or user in (bot, "USLACKBOT"):
        return None
    if subtype not in (None, "file_share", "thread_broadcast"):
        return None
    private = event.get("channel_type") == "im"
    thread = "" if thread == ts else thread or ""
    if not (thread or private):
        return None
    if event.get("parent_user_id", bot) != bot:
        return None
    if event.get("files") or event.get("attachments") or not str(event.get("text") or "").strip():
        return Hint("note_needs_text")
    if not thread and is_command(str(event["text"])):
        return Hint("unknown_command")
    # In a shared channel whoever's workspace is not told is nobody's.
    team = event.get("user_team") or event.get("team") or ("?" if shared else account)
    return Press(
        key=f"sl:{account}:{event['channel']}:{ts}",
        actor=Actor(NAME, str(team), str(user)),
        message=Message(NAME, account, str(event["channel"]), "", str(thread)),
        text=tidy(unescaped(str(event["text"]))),
    )


def _read_command(body: Json) -> Command | Hint:
    name, *words = str(body.get("text") or "").split() or [""]
    actor = Actor(NAME, str(body["team_id"]), str(body["user_id"]), tidy(str(body.get("user_name", ""))))
    return command_of(name.lower(), actor, words, private=str(body.get("channel_id", "")).startswith("D"))


def _back(body: Json, bots: Mapping[str, str]) -> Back:
    """How to reach whoever sent the payload."""
    if "command" in body:
        chat, user = str(body["channel_id"]), str(body["user_id"])
        return Back(_team(body, bots), chat, "", user, str(body.get("response_url", "")))
    if body.get("type") == "view_submission":
        of = json.loads(body["view"].get("private_metadata") or "{}")
        return Back(str(of.get("account")), str(of.get("chat")), str(of.get("thread", "")), str(body["user"]["id"]))
    if body.get("type") == "block_actions":
        chat, user = str(body["channel"]["id"]), str(body["user"]["id"])
        url, trigger, menu = body.get("response_url", ""), body["trigger_id"], body["container"].get("is_ephemeral")
        return Back(_team(body, bots), chat, "", user, str(url), str(trigger), menu=bool(menu))
    event = body["event"]
    thread = str(event.get("thread_ts") or "")
    return Back(_team(body, bots), str(event.get("channel", "")), thread, str(event.get("user", "")), typed=True)


def _team(body: Json, bots: Mapping[str, str]) -> str:
    """The workspace through which the app hears this: a payload may name the workspace of whoever pressed."""
    told = [body.get("team_id"), (body.get("team") or {}).get("id"), (body.get("message") or {}).get("team")]
    told += [each.get("team_id") for each in body.get("authorizations") or ()]
    return next((str(team) for team in told if team in bots), next(iter(bots)))


def _message(account: str, chat: str, message: Json, ts: str) -> Message:
    """Where a message is; its thread only where it is a reply, since the first message of a thread names itself."""
    thread = str(message.get("thread_ts") or "")
    return Message(NAME, account, str(chat), "" if thread == ts else thread, str(ts))


def _title(message: Json) -> str:
    for block in message.get("blocks") or ():
        if block.get("type") in ("header", "section"):
            return str(block["text"]["text"])
    return ""


def _actor(user: Json) -> Actor:
    return Actor(NAME, str(user.get("team_id") or "?"), str(user["id"]), tidy(str(user.get("name") or "")))


def unescaped(text: str) -> str:
    """What a person typed: Slack sends `&`, `<` and `>` escaped."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


# Rendering


@dataclass(frozen=True, slots=True)
class Body:
    """A card as Slack takes it; `text` is for notifications, `cut` when some of the card is not shown."""

    text: str
    blocks: list[dict[str, Any]]
    cut: bool


def render(card: Card, token: str) -> Body:
    """A card with the buttons of a message's token, or settled, which is the same without buttons."""
    pieces = _pieces(card)
    cut = False
    for piece in pieces:
        cut |= cut_to([piece], LIMITS.get(piece.draw, SECTION_LIMIT), _size, card.language, beginnings=(0,))
    cut |= cut_to(pieces, CARD_LIMIT, _size, card.language, beginnings=(HEADER_LIMIT,))
    blocks = [piece.draw(piece.text) for piece in pieces]
    if card.buttons and token:
        blocks.append(_actions(card, token))
    return Body(escaped(shortened(card.status or card.title, TEXT_LIMIT, units)), blocks, cut)


def _pieces(card: Card) -> list[Piece]:
    titled = units(card.title) <= HEADER_LIMIT and "\n" not in card.title
    pieces = [Piece(card.title, _header if titled else _section, 1), Piece(card.pill, _context, 1)]
    pieces.append(Piece(card.body, _section, 1000))
    for number, line in enumerate(card.lines):
        label = label_of(line, card.language)
        pieces.append(Piece(f"{label} {line.value}", partial(_line, len(label), line.code), 3 + number))
    if card.claim:
        pieces += [Piece(claim_label(card), _bold), Piece(card.claim, _quote, 1001)]
    pieces += [Piece(foot_of(card), _context, 1), Piece(card.status, _bold, 2)]
    return [piece for piece in pieces if piece.text]


def _header(text: str) -> dict[str, Any]:
    return {"type": "header", "text": plain(text, HEADER_LIMIT)}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": plain(text)}


def _context(text: str) -> dict[str, Any]:
    return {"type": "context", "elements": [plain(text, CONTEXT_LIMIT)]}


def _line(label: int, code: bool, text: str) -> dict[str, Any]:
    """A label, of so many characters, in bold, and what follows it: in its line, or as a block of code."""
    before, after = text[:label], text[label + 1 :]
    if code and after:
        return _rich(_stretch("rich_text_section", before, bold=True), _stretch("rich_text_preformatted", after))
    section = _stretch("rich_text_section", before, bold=True)
    if after:
        section["elements"].append({"type": "text", "text": f" {after}"})
    return _rich(section)


def _bold(text: str) -> dict[str, Any]:
    return _rich(_stretch("rich_text_section", text, bold=True))


def _quote(text: str) -> dict[str, Any]:
    return _rich(_stretch("rich_text_quote", text))


def _rich(*stretches: dict[str, Any]) -> dict[str, Any]:
    """A block that is formatted by its form alone: Slack reads no markup, link, mention or emoji in its texts."""
    return {"type": "rich_text", "elements": list(stretches)}


def _stretch(kind: str, text: str, *, bold: bool = False) -> dict[str, Any]:
    styled: dict[str, Any] = {"type": "text", "text": text}
    if bold:
        styled["style"] = {"bold": True}
    return {"type": kind, "elements": [styled]}


LIMITS: Mapping[Callable[[str], Any], int] = {_header: HEADER_LIMIT, _context: CONTEXT_LIMIT}


def _size(piece: Piece) -> int:
    return units(piece.text)


def units(text: str) -> int:
    """The length that is safe to count: UTF-16 units of the escaped text."""
    return len(escaped(text).encode("utf-16-le", "surrogatepass")) // 2


def escaped(text: str) -> str:
    """Text in which nothing is live where Slack reads markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(text: str, limit: int = SECTION_LIMIT) -> dict[str, Any]:
    """A text object in which Slack reads no markup and no emoji."""
    return {"type": "plain_text", "text": shortened(text, limit, units) or " ", "emoji": False}


def words(text: str) -> dict[str, Any]:
    """A plain word as the arguments of a message."""
    return {
        "text": escaped(shortened(text, TEXT_LIMIT, units)),
        "blocks": [_section(text)],
    }


STYLES = {"success": "primary", "primary": "primary", "danger": "danger"}


def _actions(card: Card, token: str) -> dict[str, Any]:
    buttons = [
        _button(each, data_of(each, token, card.content_revision), each.verb, card.language) for each in card.buttons
    ]
    return {"type": "actions", "block_id": "placet", "elements": buttons}


def _menu_rows(menu: Menu, card: Message | None) -> list[dict[str, Any]]:
    """The buttons of a menu; which card they are about is in their block, since nothing else tells."""
    buttons = [_button(each, data, f"{each.verb}_{number}") for number, (each, data) in enumerate(menu.buttons)]
    about = f"{MENU}/{card.thread}/{card.id}" if card is not None else f"{MENU}//"
    return [
        {"type": "actions", "block_id": f"{about}/{at}", "elements": buttons[at : at + BUTTONS_IN_ROW]}
        for at in range(0, len(buttons), BUTTONS_IN_ROW)
    ]


def _button(button: Button, data: str, name: str, language: str = DEFAULT_LANGUAGE) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "type": "button", "text": plain(button.label, LABEL_LIMIT), "action_id": f"placet_{name}", "value": data
    }  # fmt: skip
    if button.style in STYLES:
        drawn["style"] = STYLES[button.style]
    if button.confirm:
        drawn["confirm"] = {
            "title": plain(say("confirm_title", locale=language), CONFIRM_TITLE_LIMIT),
            "text": plain(button.confirm, CONFIRM_LIMIT),
            "confirm": plain(button.label, CONFIRM_BUTTON_LIMIT),
            "deny": plain(say("confirm_no", locale=language), CONFIRM_BUTTON_LIMIT),
        }
    return drawn


def note_form(form: NoteForm, language: str) -> dict[str, Any]:
    """The modal that asks for a note."""
    field = {"type": "plain_text_input", "action_id": "note", "multiline": True, "min_length": 1,
             "max_length": INPUT_LIMIT}  # fmt: skip
    block = {"type": "input", "block_id": "note", "element": field,
             "label": plain(say("note_label", locale=language), CONTEXT_LIMIT),
             "hint": plain(say("note_form_hint", locale=language), CONTEXT_LIMIT)}  # fmt: skip
    blocks = [_section(form.title), block] if form.title else [block]
    return _modal(NOTE_FORM, language, say("button_note", locale=language), say("button_decline", locale=language),
                  form.press.message, blocks, token=form.press.token)  # fmt: skip


def edit_form(form: Form, card: Message, language: str) -> dict[str, Any]:
    """The modal of a form, filled with what is there."""
    blocks = []
    for field in form.fields:
        text = {"type": "plain_text_input", "action_id": field.id, "multiline": field.multiline,
                "max_length": min(field.limit, INPUT_LIMIT)}  # fmt: skip
        if field.value:
            text["initial_value"] = field.value
        blocks.append({"type": "input", "block_id": f"field_{field.id}", "optional": True, "element": text,
                       "label": plain(field.label, CONTEXT_LIMIT)})  # fmt: skip
    return _modal(EDIT_FORM, language, form.title, say("form_save", locale=language), card, blocks,
                  token=form.token, verb=form.verb, revision=form.content_revision)  # fmt: skip


def _modal(
    kind: str, language: str, title: str, submit: str, card: Message, blocks: list[dict[str, Any]], **about: object
) -> dict[str, Any]:
    """A modal; what it belongs to travels in it, so that it can be sent after a restart."""
    of = {"account": card.account, "chat": card.chat, "thread": card.thread, "id": card.id, **about}
    return {
        "type": "modal", "callback_id": kind, "title": plain(title, FORM_TITLE_LIMIT),
        "submit": plain(submit, FORM_TITLE_LIMIT),
        "close": plain(say("form_cancel", locale=language), FORM_TITLE_LIMIT),
        "private_metadata": json.dumps(of), "blocks": blocks,
    }  # fmt: skip


# Errors


GONE = frozenset({
    "channel_not_found", "not_in_channel", "is_archived", "message_not_found", "thread_not_found", "user_not_found",
    "user_disabled", "user_not_visible", "users_not_found", "cannot_dm_bot", "cannot_dm_user", "cant_update_message",
    "edit_window_closed", "restricted_action", "restricted_action_read_only_channel", "messages_tab_disabled",
    "user_not_in_channel", "channel_is_archived",
})  # fmt: skip
FAULTS = frozenset({
    "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org",
    "file_update_failed", "external_channel_migrating", "channel_migrating",
})  # fmt: skip


@contextmanager
def vendor_errors() -> Iterator[None]:
    """Turns the library's errors into Gone, Slow, Refused or Unavailable; none carries any content.

    Moved never comes of a call: Slack tells of a channel's new id in an event.
    """
    try:
        yield
    except SlackApiError as error:
        status, said, headers = _said(error)
        if status == 429 or said == "ratelimited":
            raise Slow(_seconds(headers)) from None
        if said in GONE:
            raise Gone(said) from None
        if not said or said in FAULTS or status >= 500:
            raise Unavailable(f"Slack: {said or status}") from None
        raise Refused(said) from None
    except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unavailable(f"Slack: {type(error).__name__}") from None
    except AttributeError:
        # The library takes a plain text, such as a proxy's, for an answer.
        raise Unavailable("Slack: no answer of its own") from None


def _said(error: SlackApiError) -> tuple[int, str, Mapping[str, Any]]:
    """Status, error name and headers; the name only where it is one, never a text that may quote what was sent."""
    answer = error.response
    data = getattr(answer, "data", None)
    said = str(data.get("error", "")) if isinstance(data, dict) else ""
    status: int = getattr(answer, "status_code", 0) or getattr(answer, "status", 0)
    return status, said if re.fullmatch(r"[a-z_]{1,60}", said) else "", getattr(answer, "headers", None) or {}


def _seconds(headers: Mapping[str, Any]) -> float:
    given = next((value for name, value in headers.items() if name.lower() == "retry-after"), "1")
    text = str(given[0] if isinstance(given, list | tuple) else given)
    return float(text) if text.isdecimal() else 1.0
