"""Discord: cards out, presses in, over discord.py."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import io
import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import HTTPClient, Route
from pydantic import SecretStr
from pydantic_settings import NoDecode

from bots.delivery import (
    CHECK_S,
    DRAIN_S,
    LEASE_RETRY_S,
    OF_AGENTS,
    Backoff,
    Checkup,
    Command,
    Hint,
    Intake,
    Late,
    NoteForm,
    OnPress,
    Reading,
    answering,
    command_of,
    is_command,
    still_held,
    tidy,
)
from bots.drawing import Piece, claim_label, cut_to, data_of, foot_of, label_of, menu_of
from bots.pacing import PATIENCE_S, Pacer, Rate
from bots.settings import PlatformSettings, address, read_settings, server_of, tokens
from core.approvals import Actor, Attachment, Button, Card, Destination, Form, Message, Mode, Press, Reply, Tone
from core.buttons import ButtonData, Verb, unpack
from core.ports import Finding, Gone, Hooks, Lease, Refused, Slow, Unavailable
from core.wording import DEFAULT_LANGUAGE, LANGUAGES, say

# The library logs what it sends, and every reconnect with a traceback; what matters of it is logged here.
logging.getLogger("discord").setLevel(logging.CRITICAL)

log = logging.getLogger("placet.bots")
T = TypeVar("T")
Json = dict[str, Any]

NAME = "discord"

# Limits of the API (platform facts, sections 1, 5 and 6). Lengths count code points.
CONTENT_LIMIT, EMBED_LIMIT, FOOTER_LIMIT, TOTAL_LIMIT, LABEL_LIMIT, BUTTONS_IN_ROW = 2000, 4096, 2048, 6000, 80, 5
FORM_TITLE_LIMIT, INPUT_LIMIT, INPUTS, NONCE_LENGTH = 45, 4000, 5, 25
BEGINNING = 200
OVERALL = Rate(50, 1)
PER_CHANNEL = (Rate(5, 5),)

NOBODY: Json = {"parse": []}
HIDDEN = 64
DEFAULT_MESSAGE, REPLY_MESSAGE, FORWARD = 0, 19, 1
COMMAND, COMPONENT, SUBMIT = 2, 3, 5
SAY, THINK, KEEP, REPLACE, OPEN = 4, 5, 6, 7, 9
# Discord takes the first answer for 3 s; the database may need longer.
DEFER_S, FORM_S, CALL_S, LEASE_ASKED_S, BACKOFF_S = 1.5, 2.0, 15.0, 10.0, 30.0
# The library waits ever longer between its tries, up to a quarter of an hour; a session is lost much sooner anyway.
OFFLINE_S = 90.0
NOTE_INPUT = "note"


# Settings


def bot_of(token: str) -> str:
    """The bot's id, which the first part of its token is; "" where it is not."""
    first = token.split(".")[0]
    try:
        text = base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
    return text if text.isdecimal() else ""


class Settings(PlatformSettings):
    """What the operator set for Discord; no token means off."""

    discord_token: Annotated[tuple[SecretStr, ...], NoDecode, tokens(
        r"[\w-]+\.[\w-]+\.[\w-]{20,}", "is no bot token; copy it from the application's page, under Bot",
        whose=bot_of, twice="two tokens belong to the same bot; name each bot once",
    )] = ()  # fmt: skip
    discord_base_url: Annotated[str, address(
        r"https?://[^\s/@]+(/[^\s]*)?", "must be the API's address, such as https://discord.com/api/v10"
    )] = "https://discord.com/api/v10"  # fmt: skip
    discord_gateway_url: Annotated[str, address(
        r"wss?://[^\s/@]+(/[^\s]*)?", "must be the gateway's address, such as wss://gateway.discord.gg/", end=None
    )] = "wss://gateway.discord.gg/"  # fmt: skip


def surface(hooks: Hooks) -> Discord | None:
    """The surface of all configured bots, or None without a token. Raises BadSetting."""
    settings = read_settings(Settings, NAME)
    return Discord(settings, hooks, pace=hooks.pace) if settings.discord_token else None


# The surface


class Discord:
    """Every bot of this process; an account is a bot's id as text, "" the first one (design section 2).

    A message's `chat` is the channel, thread or private channel it is in, and its `thread` is empty; a destination may
    name a thread beside its channel, or a person's id for the private chat. `pace` scales every wait.
    """

    name = NAME
    form_fields, form_characters = INPUTS, INPUT_LIMIT

    def __init__(self, settings: Settings, hooks: Hooks, *, pace: float = 1.0) -> None:
        self._settings, self._hooks, self._pace = settings, hooks, pace
        self._intake = Intake(NAME, hooks, pace)
        tokens = {bot_of(token.get_secret_value()): token for token in settings.discord_token}
        self._rests = {account: _Rest(token, settings.discord_base_url) for account, token in tokens.items()}
        self._pacers = {account: Pacer(OVERALL, pace=pace) for account in self._rests}
        self._private: dict[tuple[str, str], str] = {}
        self._online: set[str] = set()
        self._offered: set[str] = set()
        self._checkup = Checkup(self._check_all)

    async def post(self, destination: Destination, card: Card, *, token: str) -> Message:
        """Send a card. Sent again after Unavailable, Discord gives the first message back for some minutes."""
        account = await self._account(destination.account)
        body = render(card, token)
        sent = await self._send(account, destination, body.json | {"nonce": _nonce(token, destination.key)})
        message = _message(account, sent)
        if _written(sent) != _written(body.json):
            # It is the message of an earlier try, from before the card changed.
            await self.redraw(message, card, token=token)
        return message

    async def redraw(self, message: Message, card: Card, *, token: str = "") -> None:
        """Show `card` in the message. A thread that fell asleep is woken first."""
        account = await self._account(message.account)
        body = render(card, token).json

        async def edit(rest: _Rest) -> None:
            await rest.call("PATCH", "/channels/{channel_id}/messages/{message_id}", body,
                            channel_id=message.chat, message_id=message.id)  # fmt: skip

        async def wake(rest: _Rest) -> None:
            await rest.call("PATCH", "/channels/{channel_id}", {"archived": False}, channel_id=message.chat)

        # New messages and edits have limits of their own.
        lane = f"{message.chat}/edit"
        try:
            await self._paced(account, lane, edit)
        except Asleep:
            await self._paced(account, lane, wake)
            await self._paced(account, lane, edit)

    async def attach(self, message: Message, file: Attachment) -> Message:
        """Send a text file in reply to a card."""
        account = await self._account(message.account)
        payload = {"nonce": _nonce(message.chat, message.id, file.name, file.text)}
        return _message(account, await self._send(account, _under(message), payload, file))

    async def say(self, message: Message, text: str) -> Message:
        """Put a plain word under a message."""
        return await self.tell(_under(message), text)

    async def tell(self, destination: Destination, text: str) -> Message:
        """Put a plain word into a chat."""
        account = await self._account(destination.account)
        return _message(account, await self._send(account, destination, _word(text)))

    def fits(self, card: Card) -> bool:
        """Whether the card is shown whole; where not, its whole text is attached before Allow works."""
        return not render(card, "").cut

    async def listen(self, on_press: OnPress) -> None:
        """Take the events of every bot until cancelled (design section 4). Discord sends each press once."""
        async with self._intake.open(on_press):
            with _gateway(self._settings.discord_gateway_url):
                async with asyncio.TaskGroup() as group:
                    for account in self._rests:
                        group.create_task(self._keep_connected(account))

    async def check(self) -> Sequence[Finding]:
        """Each bot held against Discord: its token, the way there, and whether its presses come here."""
        return await self._checkup()

    async def close(self) -> None:
        """Let go of the connections; nothing is called after this."""
        for rest in self._rests.values():
            await rest.close()

    # Checking

    async def _check_all(self) -> Sequence[Finding]:
        found = await asyncio.gather(*(self._check(account) for account in self._rests))
        return [finding for of_bot in found for finding in of_bot]

    async def _check(self, account: str) -> Sequence[Finding]:
        name, server = f"Discord bot {account}", server_of(self._settings.discord_base_url)
        try:
            with vendor_errors(account):
                async with asyncio.timeout(CHECK_S):
                    me = await self._rests[account].call("GET", "/users/@me")
                    application = await self._rests[account].call("GET", "/oauth2/applications/@me")
            return [
                Finding("ok", f"{name} ({me['username']}) answers"),
                *self._check_delivery(account, name, application),
            ]
        except Refused:
            return [Finding("fail", f"{name}: {server} does not accept its token",
                            "copy it into PLACET_DISCORD_TOKEN again, and start again")]  # fmt: skip
        except Slow as slow:
            return [Finding("warn", f"{name}: {server} asks to wait {slow.after:g} s",
                            "wait; if it stays, another program uses this token")]  # fmt: skip
        except (Unavailable, Gone):
            return [Finding("fail", f"{name}: {server} does not answer",
                            "let this machine through to it, or set PLACET_DISCORD_BASE_URL right")]  # fmt: skip
        except Exception as error:
            return [Finding("fail", f"{name}: the check itself broke ({type(error).__name__})", "report this as a bug")]

    def _check_delivery(self, account: str, name: str, application: Mapping[str, Any]) -> Sequence[Finding]:
        """Whether what people press comes here: an interactions endpoint takes it away from the gateway."""
        if application.get("interactions_endpoint_url"):
            host = yarl.URL(str(application["interactions_endpoint_url"])).host
            return [Finding("fail", f"{name}: its interactions endpoint URL takes every press to {host}",
                            "clear Interactions Endpoint URL on the application's page")]  # fmt: skip
        if self._intake.on_press is not None and account not in self._online:
            return [Finding("warn", f"{name}: the gateway is not connected",
                            "wait; it is tried again. If it stays, let this machine through to it")]  # fmt: skip
        return [Finding("ok", f"{name}: presses come over the gateway")]

    # Sending

    async def _account(self, name: str) -> str:
        """The account of a name: "" for the first, a bot's id, or a bot's user name."""
        if name in self._rests:
            return name
        if not name:
            return next(iter(self._rests))
        for account, rest in self._rests.items():
            with vendor_errors(account):
                if (await rest.username()).lower() == name.removeprefix("@").lower():
                    return account
        raise Refused(f"no token in PLACET_DISCORD_TOKEN belongs to the bot {name}")

    async def _send(self, account: str, to: Destination, payload: Json, file: Attachment | None = None) -> Json:
        """Create a message; an id that is no channel may be a person's, for the private chat."""
        whole = payload | {"allowed_mentions": NOBODY, "enforce_nonce": True}
        if to.reply_to:
            whole["message_reference"] = {"message_id": to.reply_to, "fail_if_not_exists": False}

        async def create(chat: str) -> Json:
            async def call(rest: _Rest) -> Json:
                sent: Json = await rest.call("POST", "/channels/{channel_id}/messages", whole, file, channel_id=chat)
                return sent

            return await self._paced(account, chat, call)

        known = self._private.get((account, to.chat), to.thread or to.chat)
        try:
            return await create(known)
        except NoChannel:
            if to.thread or known != to.chat:
                raise
        return await create(await self._open_private(account, to.chat))

    async def _open_private(self, account: str, person: str) -> str:
        """The private channel with a person. Its id is remembered, so that a copy of a card there is known by it."""

        async def call(rest: _Rest) -> Json:
            opened: Json = await rest.call("POST", "/users/@me/channels", {"recipient_id": person})
            return opened

        try:
            channel = str((await self._paced(account, person, call))["id"])
        except Refused:
            raise Gone("neither a channel nor a person has this id") from None
        await self._hooks.chats.moved(NAME, account, person, channel)
        self._private[account, person] = channel
        return channel

    async def _paced(self, account: str, chat: str, call: Callable[[_Rest], Awaitable[T]]) -> T:
        """Make a call in its turn."""

        async def made() -> T:
            with vendor_errors(account):
                return await call(self._rests[account])

        return await self._pacers[account].call(chat, PER_CHANNEL, made)

    async def _respond(self, account: str, event: Json, kind: int, data: Json) -> None:
        """The first answer to an interaction. Raises Late after 3 s, and when it was answered before."""
        with vendor_errors(account):
            await self._rests[account].call(
                "POST", "/interactions/{webhook_id}/{webhook_token}/callback", {"type": kind, "data": data},
                webhook_id=event["id"], webhook_token=event["token"],
            )  # fmt: skip

    async def _fill_in(self, account: str, event: Json, data: Json) -> None:
        """Put the answer into the place of "thinking", for 15 minutes after the press."""
        with vendor_errors(account):
            await self._rests[account].call(
                "PATCH", "/webhooks/{webhook_id}/{webhook_token}/messages/@original", data,
                webhook_id=event["application_id"], webhook_token=event["token"],
            )  # fmt: skip

    # Listening

    async def _keep_connected(self, account: str) -> None:
        lease, backoff = self._hooks.leases(f"{NAME}:{account}"), Backoff(BACKOFF_S)
        try:
            while True:
                if not await still_held(lease, False):
                    await self._intake.pause(LEASE_RETRY_S)
                    continue
                try:
                    await self._connected(account, lease, backoff)
                except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
                    log.warning(
                        "gateway failed", extra={"platform": NAME, "account": account, "error": type(error).__name__}
                    )
                    await self._intake.pause(backoff())
        finally:
            await lease.drop()

    async def _connected(self, account: str, lease: Lease, backoff: Backoff) -> None:
        """Listen at the gateway while the lease is held; raises what the library raises when it gives up."""

        def hear(name: str, data: Json) -> None:
            self._intake.start(self._take(account, name, data))

        clock = asyncio.get_running_loop().time
        lost_at: float | None = clock()

        def change(online: bool) -> None:
            nonlocal lost_at
            self._checkup.forget()
            if online:
                log.info("gateway connected", extra={"platform": NAME, "account": account})
                self._online.add(account)
                lost_at = None
                backoff.reset()
            else:
                if lost_at is None:
                    log.info("gateway lost", extra={"platform": NAME, "account": account})
                    lost_at = clock()
                self._online.discard(account)

        listener = _Listener(self._settings.discord_base_url, hear, change)
        connecting: asyncio.Task[None] | None = None
        try:
            await listener.login(self._rests[account].token.get_secret_value())
            self._intake.start(self._offer_commands(account))
            connecting = asyncio.create_task(listener.connect())
            while not connecting.done():
                await asyncio.wait({connecting}, timeout=LEASE_ASKED_S * self._pace or 0.05)
                if not await still_held(lease, True):
                    return
                if lost_at is not None and clock() - lost_at > OFFLINE_S:
                    raise TimeoutError("offline for too long; begin anew")
            error = connecting.exception()
            # Where its first try fails, the library looks for a session to resume and trips over having none.
            if isinstance(error, AttributeError) and listener.ws is None:
                raise TimeoutError("the gateway was not reached") from error
            connecting.result()
        finally:
            self._online.discard(account)
            await listener.leave()
            if connecting is not None:
                connecting.cancel()
                await asyncio.gather(connecting, return_exceptions=True)

    async def _take(self, account: str, name: str, event: Json) -> None:
        """Handle one event, and answer the one who caused it. It never comes again, so it is tried for a while."""
        reading = read(account, name, event)
        with answering(NAME, account):
            if isinstance(reading, NoteForm):
                language = self._hooks.language(reading.press.actor, reading.press.message)
                await self._respond(account, event, OPEN, _note_form(reading, language))
            elif reading is not None:
                language = self._language(account, event)
                work = self._intake.tried(
                    account, str(event["id"]), lambda: self._intake.carry_out(account, reading, language),
                    comes_again=False, language=language,
                )  # fmt: skip
                if name == "INTERACTION_CREATE":
                    await self._answer(account, event, reading, work)
                elif (reply := await work) is not None:
                    await self._answer_text(account, event, reply)

    async def _answer(
        self, account: str, event: Json, reading: Reading, judging: Coroutine[Any, Any, Reply | None]
    ) -> None:
        """Tell the presser alone, and within 3 s at least that it is being looked at.

        A form can only be the first answer; what a menu led to comes in its place.
        """
        press = reading if isinstance(reading, Press) else None
        opens = press is not None and press.verb == Verb.EDIT and press.fields is None
        work, picked = self._intake.start(judging), _is_menu(event)
        await asyncio.wait({work}, timeout=FORM_S if opens else DEFER_S)
        if work.done():
            reply = work.result() or Reply("")
            if reply.form is not None:
                await self._respond(account, event, OPEN, _edit_form(reply.form))
            else:
                instead = picked and not reply.refused
                said = _alone(reply, press)
                await self._respond(account, event, *((REPLACE, said) if instead else (SAY, said | {"flags": HIDDEN})))
            return
        if opens:
            late = Reply(say("form_gone", locale=self._language(account, event)))
            await self._respond(account, event, SAY, _alone(late, None) | {"flags": HIDDEN})
            return
        try:
            await self._respond(account, event, KEEP if picked else THINK, {"flags": HIDDEN})
        except (Late, Gone, Slow, Refused, Unavailable):
            # What was pressed is decided all the same.
            await work
            raise
        await self._fill_in(account, event, _alone(await work or Reply(""), press))

    def _language(self, account: str, event: Json) -> str:
        """What whoever caused an event is spoken to in, as far as it is known without asking the database."""
        author = event.get("author")
        who = _actor(author, event) if author else _presser(event)
        return self._hooks.language(who, Message(NAME, account, str(event.get("channel_id") or ""), "", ""))

    async def _answer_text(self, account: str, event: Json, reply: Reply) -> None:
        """A typed text can only be answered by a reply that the chat sees."""
        chat = str(event["channel_id"])
        if reply.refused and self._pacers[account].crowded(chat, PER_CHANNEL):
            log.info("not answered in a crowded chat", extra={"platform": NAME, "account": account, "chat": chat})
            return
        self._pacers[account].spend(chat, PER_CHANNEL)
        payload = _word(reply.text) | {
            "nonce": _nonce("answer", account, str(event["id"])), "enforce_nonce": True,
            "message_reference": {"message_id": str(event["id"]), "fail_if_not_exists": False},
        }  # fmt: skip
        with vendor_errors(account):
            await self._rests[account].call("POST", "/channels/{channel_id}/messages", payload, channel_id=chat)

    async def _offer_commands(self, account: str) -> None:
        """Have Discord list /placet; a convenience, so it is tried once per start."""
        if account in self._offered:
            return
        self._offered.add(account)
        try:
            with vendor_errors(account):
                await self._rests[account].call(
                    "PUT", "/applications/{application_id}/commands", _commands(), application_id=account
                )
        except (Gone, Slow, Refused, Unavailable) as error:
            log.warning(
                "commands not listed", extra={"platform": NAME, "account": account, "error": type(error).__name__}
            )


class _Rest:
    """The REST calls of one bot, in the library's rate-limit buckets; logged in at the first call."""

    def __init__(self, token: SecretStr, base: str) -> None:
        self.token, self._base = token, base
        self._client: discord.Client | None = None
        self._turn = asyncio.Lock()
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def call(
        self, method: str, path: str, body: Json | list[Json] | None = None, file: Attachment | None = None, **ids: str
    ) -> Any:
        """The JSON of the answer. Raises what the library raises, and TimeoutError after CALL_S."""
        self._calls += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(CALL_S):
                client, route = await self._logged_in(), Route(method, path, **ids)
                return await client.http.request(route, **_sent_as(body, file))
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def username(self) -> str:
        user = (await self._logged_in()).user
        return user.name if user is not None else ""

    async def close(self) -> None:
        """Close once what is under way is done: the library leaves a call hanging whose session is closed."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), DRAIN_S)
        if self._client is not None:
            await self._client.close()

    async def _logged_in(self) -> discord.Client:
        async with self._turn:
            if self._client is None:
                client = discord.Client(intents=discord.Intents(guilds=True), max_messages=None,
                                        allowed_mentions=discord.AllowedMentions.none())  # fmt: skip
                _point_at(client.http, self._base)
                try:
                    await client.login(self.token.get_secret_value())
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._client


class _Listener(discord.Client):
    """One stay at the gateway. Events go on as they came: the library drops presses of views it does not know."""

    def __init__(self, base: str, hear: Callable[[str, Json], None], change: Callable[[bool], None]) -> None:
        super().__init__(
            intents=discord.Intents(guilds=True, guild_messages=True, dm_messages=True), max_messages=None,
            allowed_mentions=discord.AllowedMentions.none(), enable_debug_events=True, chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(), guild_ready_timeout=0.0,
        )  # fmt: skip
        self._hear, self._change = hear, change
        _point_at(self.http, base)
        # Only the session itself is the library's business here; its caches stay empty.
        for name in set(self._connection.parsers) - {"READY", "RESUMED"}:
            del self._connection.parsers[name]

    async def on_socket_raw_receive(self, text: str) -> None:
        if '"INTERACTION_CREATE"' in text or '"MESSAGE_CREATE"' in text:
            event = json.loads(text)
            if event.get("t") in ("INTERACTION_CREATE", "MESSAGE_CREATE"):
                self._hear(event["t"], event["d"])

    async def on_connect(self) -> None:
        self._change(True)

    async def on_resumed(self) -> None:
        self._change(True)

    async def on_disconnect(self) -> None:
        self._change(False)

    async def leave(self) -> None:
        """Say goodbye: a session that is only dropped keeps presses from its successor for minutes."""
        with suppress(Exception):
            if self.ws is not None:
                await self.ws.close(code=1000)
        await self.close()


def _point_at(http: HTTPClient, base: str) -> None:
    """Have one client's calls go to `base`, without changing the library's own address for others."""
    http.max_ratelimit_timeout = PATIENCE_S
    original = http.request

    async def request(route: Route, **more: Any) -> Any:
        route.url = base + route.url.removeprefix(Route.BASE)
        return await original(route, **more)

    http.request = request  # type: ignore[method-assign]


@contextmanager
def _gateway(url: str) -> Iterator[None]:
    """Where the library connects, for as long as this process listens."""
    before = DiscordWebSocket.DEFAULT_GATEWAY
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url)
    try:
        yield
    finally:
        DiscordWebSocket.DEFAULT_GATEWAY = before


def _sent_as(body: Json | list[Json] | None, file: Attachment | None) -> Json:
    """The library's arguments for a JSON body, or for one with a file beside it."""
    if file is None:
        return {} if body is None else {"json": body}
    upload = discord.File(io.BytesIO(file.text.encode(errors="replace")), filename=file.name)
    part = {"name": "files[0]", "value": upload.fp, "filename": file.name, "content_type": "text/plain"}
    return {"files": [upload], "form": [{"name": "payload_json", "value": json.dumps(body)}, part]}


def _nonce(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode(errors="replace")).hexdigest()[:NONCE_LENGTH]


def _word(text: str) -> Json:
    content = _cut_words(text, CONTENT_LIMIT)
    return {"content": content, "allowed_mentions": NOBODY, "nonce": secrets.token_hex(12)}


def _alone(reply: Reply, press: Press | None) -> Json:
    """What the presser alone is told, with the buttons of a menu."""
    menu = menu_of(reply, press, LABEL_LIMIT)
    content = _cut_words(menu.text, CONTENT_LIMIT) or "…"
    return {"content": content, "allowed_mentions": NOBODY, "components": _rows(menu.buttons)}


def _note_form(form: NoteForm, language: str) -> Json:
    note = _input(NOTE_INPUT, say("note_label", locale=language), long=True) | {"min_length": 1, "required": True}
    return _form(form.press, say("button_note", locale=language), [note])


def _edit_form(form: Form) -> Json:
    fields = [
        _input(field.id, field.label, long=field.multiline)
        | {"value": field.value, "max_length": min(field.limit, INPUT_LIMIT), "required": False}
        for field in form.fields
    ]
    return _form(form, form.title, fields)


def _form(about: Press | Form, title: str, inputs: list[Json]) -> Json:
    """A modal. What it is about is in its custom_id, so that it can be sent after a restart."""
    data = ButtonData(about.verb, about.token, about.content_revision).pack()
    rows = [{"type": 1, "components": [each]} for each in inputs]
    return {"custom_id": data, "title": title[:FORM_TITLE_LIMIT], "components": rows}


def _input(name: str, label: str, *, long: bool) -> Json:
    return {"type": 4, "custom_id": name, "style": 2 if long else 1, "label": label[:FORM_TITLE_LIMIT],
            "max_length": INPUT_LIMIT}  # fmt: skip


def _commands() -> list[Json]:
    """/placet with its subcommands, in servers and in private chats with the bot."""

    def option(name: str, *, required: bool = True) -> Json:
        return {"type": 3, "name": name, **_described(name), "required": required, "max_length": 100}

    options = {
        "link": [option("code")],
        "pending": [],
        **{name: [option("agent", required=False)] for name in OF_AGENTS},
        "help": [],
    }
    options["mode"].append(option("to", required=False) | {"choices": [{"name": each, "value": each} for each in Mode]})
    subcommands = [{"type": 1, "name": name, **_described(name), "options": given} for name, given in options.items()]
    return [{"type": 1, "name": "placet", **_described("placet"), "options": subcommands,
             "contexts": [0, 1], "integration_types": [0]}]  # fmt: skip


def _described(name: str) -> Json:
    """What a command is for: Discord shows everybody the language of their app, and English where we lack it."""
    others = {each: say(f"command_{name}", locale=each) for each in LANGUAGES if each != DEFAULT_LANGUAGE}
    return {"description": say(f"command_{name}"), "description_localizations": others}


def _under(message: Message) -> Destination:
    return Destination(NAME, message.account, message.chat, "", message.id)


# Reading


def read(account: str, name: str, event: Json) -> Press | NoteForm | Command | Hint | None:
    """What a gateway event means; None for what is nothing to Placet. Decides nothing and trusts nothing in it."""
    if name == "MESSAGE_CREATE":
        return _read_message(account, event)
    if name != "INTERACTION_CREATE" or str(event.get("application_id")) != account:
        return None
    match event.get("type"):
        case 2:
            return _read_command(event)
        case 3:
            return _read_press(account, event)
        case 5:
            return _read_submit(account, event)
    return None


def _read_press(account: str, event: Json) -> Press | NoteForm:
    # Data that no button of ours carries goes to the door as a verb that nothing has, which calls it unknown.
    press = _press(account, event, unpack(str(event["data"].get("custom_id") or "")))
    return NoteForm(press) if press.verb == Verb.NOTE else press


def _read_submit(account: str, event: Json) -> Press:
    press, values = _press(account, event, unpack(str(event["data"].get("custom_id") or ""))), _submitted(event["data"])
    if press.verb != Verb.NOTE:
        return replace(press, fields=values) if press.token else press
    return replace(press, verb="", content_revision=0, text=values.get(NOTE_INPUT, ""))


def _press(account: str, event: Json, data: ButtonData | None) -> Press:
    target = event.get("message") or {}
    if _is_menu(event):
        # A menu is about the card whose button it answered.
        target = {"id": (target.get("interaction_metadata") or {}).get("interacted_message_id") or target.get("id")}
    return Press(
        key=f"dc:{account}:{event['id']}",
        actor=_presser(event),
        message=Message(NAME, account, str(event.get("channel_id") or ""), "", str(target.get("id") or "")),
        verb=data.verb if data else "?",
        token=data.token if data else "",
        content_revision=data.content_revision if data else 0,
    )


def _is_menu(event: Json) -> bool:
    """Whether the button is on a message that this person alone sees."""
    return bool(int((event.get("message") or {}).get("flags") or 0) & HIDDEN) and event.get("type") == COMPONENT


def _submitted(data: Json) -> dict[str, str]:
    """The texts of a form by the names of their fields, whether these stand in rows or under labels."""
    holders = data.get("components") or []
    fields = [each for of in holders for each in [*(of.get("components") or []), of.get("component") or {}] if each]
    return {str(field.get("custom_id")): tidy(str(field.get("value") or "")) for field in fields}


def _read_command(event: Json) -> Command | Hint | None:
    data = event["data"]
    options = data.get("options") or []
    if data.get("name") != "placet" or not options:
        return None
    given = {str(each.get("name")): str(each.get("value") or "").strip() for each in options[0].get("options") or []}
    name = str(options[0].get("name"))
    words = [given.get(each, "") for each in (("agent", "to") if name in OF_AGENTS else ("code",))]
    return command_of(name, _presser(event), words, private=event.get("guild_id") is None)


def _read_message(account: str, event: Json) -> Press | Hint | None:
    author, private = event.get("author") or {}, event.get("guild_id") is None
    if author.get("bot") or author.get("system") or event.get("webhook_id"):
        return None
    if event.get("type") not in (DEFAULT_MESSAGE, REPLY_MESSAGE):
        return None
    reference = event.get("message_reference") or {}
    target = event.get("referenced_message") or {}
    forwarded = reference.get("type", 0) == FORWARD
    replied = (
        not forwarded
        and reference.get("message_id") is not None
        and str(reference.get("channel_id")) == str(event.get("channel_id"))
        and str((target.get("author") or {}).get("id")) == account
    )
    if not (replied or private):
        return None
    text = str(event.get("content") or "")
    if forwarded or event.get("attachments") or event.get("sticker_items") or event.get("poll"):
        return Hint("note_needs_text")
    if not text:
        # Without the ping, Discord keeps the words of a reply from the bot.
        return Hint("note_unreadable")
    if not replied and is_command(text):
        return Hint("unknown_command")
    return Press(
        key=f"dc:{account}:{event['id']}",
        actor=_actor(author, event),
        message=Message(NAME, account, str(event["channel_id"]), "", str(reference["message_id"]) if replied else ""),
        text=tidy(text),
    )


def _presser(event: Json) -> Actor:
    return _actor((event.get("member") or {}).get("user") or event.get("user") or {}, event)


def _actor(user: Json, event: Json) -> Actor:
    """Who acted; in a server with the roles that it says they have there."""
    roles = (event.get("member") or {}).get("roles") or () if event.get("guild_id") else ()
    groups = frozenset(f"{NAME}:{event['guild_id']}/{role}" for role in roles)
    name = tidy(str(user.get("global_name") or user.get("username") or ""))
    return Actor(NAME, "", str(user.get("id") or ""), name, groups)


def _message(account: str, sent: Json) -> Message:
    return Message(NAME, account, str(sent["channel_id"]), "", str(sent["id"]))


# Rendering


@dataclass(frozen=True, slots=True)
class Body:
    """A card as Discord takes it, for a new message and for an edit; `cut` when some of it is not shown."""

    json: Json
    cut: bool


COLOURS = {Tone.QUIET: 0x5865F2, Tone.GOOD: 0x2D7D46, Tone.BAD: 0xB3261E, Tone.ALERT: 0xB26A00}
STYLES = {"primary": 1, "success": 3, "danger": 4}


def render(card: Card, token: str) -> Body:
    """A card with the buttons of a message's token, or settled, which is the same without buttons.

    Embeds, since they hold three times what a plain message does: the call, the agent's own words, and the foot.
    """
    call, claim, status, foot = _pieces(card)
    cut = False
    for part, limit in ((call, EMBED_LIMIT), (claim, EMBED_LIMIT), (status, EMBED_LIMIT), (foot, FOOTER_LIMIT),
                        ([*call, *claim, *status, *foot], TOTAL_LIMIT)):  # fmt: skip
        cut |= cut_to(part, limit, _size, card.language, beginnings=(BEGINNING, 0))
    embeds = [{"description": _draw(part)} for part in (call, claim) if part]
    ends = {"description": _draw(status)} if status else {}
    if foot:
        ends["footer"] = {"text": _draw(foot)}  # type: ignore[assignment]
    embeds = [embed | {"color": COLOURS[card.tone]} for embed in (*embeds, ends) if embed]  # type: ignore[misc]
    buttons = _rows([(each, data_of(each, token, card.content_revision)) for each in card.buttons]) if token else []
    return Body({"content": "", "embeds": embeds, "components": buttons, "allowed_mentions": NOBODY}, cut)


def _pieces(card: Card) -> tuple[list[Piece], list[Piece], list[Piece], list[Piece]]:
    call = [Piece(card.title, _bold, 1)]
    if card.pill:
        call += [_gap(1), Piece(card.pill, inert)]
    if card.body:
        call += [_gap(2), Piece(card.body, inert, 1000)]
    for number, line in enumerate(card.lines):
        call += [_gap(1 if number else 2), Piece(label_of(line, card.language), _bold)]
        call += [_gap(1), Piece(line.value, _block, 3 + number)] if line.code else [
            Piece(" ", inert), Piece(line.value, inert, 3 + number)
        ]  # fmt: skip
    claim = []
    if card.claim:
        claim = [
            Piece(claim_label(card), _bold),
            _gap(1),
            Piece(card.claim, _quote, 1001),
        ]
    status = [Piece(card.status, _bold, 2)] if card.status else []
    # A footer is plain text.
    return call, claim, status, [Piece(foot, str, 1)] if (foot := foot_of(card)) else []


def _gap(lines: int) -> Piece:
    return Piece("\n" * lines, str)


def _draw(pieces: Sequence[Piece]) -> str:
    return "".join(piece.draw(piece.text) for piece in pieces)


def _size(piece: Piece) -> int:
    return len(piece.draw(piece.text))


def _cut_words(text: str, limit: int) -> str:
    """Escaped text in at most `limit` characters, with an ellipsis where it was cut."""
    drawn = inert(text)
    if len(drawn) <= limit:
        return drawn
    return drawn[: limit - 1].rstrip("\\") + "…"


# What Discord makes live or formats: at a line's start headings, lists and quotes; everywhere the marks themselves,
# mentions and timestamps by their bracket or sign, links by their colon and bracket, emoji by their colon.
MARKS = re.compile(r"[\\`*_~|<\[\]@]|:(?=[\w/+-])")
LINE_MARKS = re.compile(r"^(\s*)(?:([-+#>])|(\d+)(\.))", re.MULTILINE)


def inert(text: str) -> str:
    """Escaped text in which nothing is live and nothing is formatted."""
    return LINE_MARKS.sub(_line_mark, MARKS.sub(r"\\\g<0>", text))


def _line_mark(found: re.Match[str]) -> str:
    space, mark, number, dot = found.groups(default="")
    return f"{space}{number}\\{mark or dot}"


def _bold(text: str) -> str:
    """Bold, line by line; a mark at the very edge of a stretch would end it early."""
    return "\n".join(f"**{inert(line)}**" if line.strip() else line for line in text.split("\n"))


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in inert(text).split("\n"))


def _block(text: str) -> str:
    """A block of code; where the text could end the block, the same text escaped."""
    return inert(text) if "```" in text or text != text.strip("\n`") else f"```\n{text}\n```"


def _written(message: Json) -> list[str]:
    """What a message says and which buttons it has, for comparing: Discord trims what it is given."""
    embeds, rows = message.get("embeds") or [], message.get("components") or []
    texts = [(embed.get("description") or "", (embed.get("footer") or {}).get("text") or "") for embed in embeds]
    data = [str(button.get("custom_id")) for row in rows for button in row.get("components") or []]
    return ["".join(text.split()) for pair in texts for text in pair] + data


def _rows(buttons: Sequence[tuple[Button, str]]) -> list[Json]:
    drawn = [
        {"type": 2, "style": STYLES.get(button.style, 2), "label": button.label[:LABEL_LIMIT], "custom_id": data}
        for button, data in buttons
    ]
    return [{"type": 1, "components": drawn[at : at + BUTTONS_IN_ROW]} for at in range(0, len(drawn), BUTTONS_IN_ROW)]


# Errors


class NoChannel(Gone):
    """There is no channel of that id."""


class Asleep(Gone):
    """The thread is archived; it can be woken."""


LATE = (10062, 40060, 10015, 50027)
FULL = 30046
FULL_S = 6.0


@contextmanager
def vendor_errors(account: str) -> Iterator[None]:
    """Turns the library's errors into Gone, Slow, Refused, Unavailable, or Late; none carries any content."""
    try:
        yield
    except discord.RateLimited as error:
        raise Slow(error.retry_after) from None
    except discord.LoginFailure:
        raise Refused(f"Discord does not accept the token of bot {account}") from None
    except discord.HTTPException as error:
        raise _ours(account, error) from None
    except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Unavailable(f"Discord: {type(error).__name__}") from None


def _ours(account: str, error: discord.HTTPException) -> Exception:
    if error.code in LATE:
        return Late()
    if error.code == FULL:
        # Too many edits of messages older than an hour.
        return Slow(FULL_S)
    if error.status == 429:
        return Slow(float(error.response.headers.get("Retry-After") or 1))
    if error.status == 401:
        return Refused(f"Discord does not accept the token of bot {account}")
    why = f"Discord: error {error.code}, status {error.status}"
    if error.code == 10003:
        return NoChannel(why)
    if error.code == 50083:
        return Asleep(why)
    if error.status in (403, 404):
        return Gone(why)
    return Unavailable(why) if error.status >= 500 else Refused(why)
