"""Telegram: cards out, presses in, over python-telegram-bot."""

from __future__ import annotations

import asyncio
import hmac
import html
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from itertools import groupby
from typing import Annotated, Any, Literal, TypeVar

import telegram
from pydantic import SecretStr, model_validator
from pydantic_settings import NoDecode
from telegram import (
    BotCommandScopeAllPrivateChats,
    ForceReply,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputFile,
    LinkPreviewOptions,
    ReplyParameters,
    Update,
)
from telegram.constants import ParseMode
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)
from telegram.request import HTTPXRequest

from bots.delivery import (
    CHECK_S,
    LEASE_RETRY_S,
    OF_AGENTS,
    Backoff,
    Checkup,
    Command,
    Hint,
    Intake,
    Late,
    Migrated,
    OnPress,
    answering,
    command_of,
    is_command,
    still_held,
    tidy,
)
from bots.drawing import Menu, Piece, claim_label, cut_to, data_of, foot_of, label_of, menu_of, shortened
from bots.pacing import Pacer, Rate
from bots.settings import PlatformSettings, address, is_local, read_settings, secret, server_of, tokens
from core.approvals import Actor, Attachment, Button, Card, Destination, Message, Press, Reply, Tone
from core.buttons import unpack
from core.ports import BadSetting, Finding, Gone, Hooks, Moved, Refused, Slow, Unavailable
from core.visible import units
from core.wording import DEFAULT_LANGUAGE, LANGUAGES, say

# The library then gives durations as timedelta, as its next version always will.
os.environ.setdefault("PTB_TIMEDELTA", "1")
# Both log what must not be logged: httpx the address, which carries the token, and the library what it sends.
for _name in ("httpx", "httpcore", "telegram"):
    logging.getLogger(_name).setLevel(logging.WARNING)

log = logging.getLogger("placet.bots")
T = TypeVar("T")

NAME = "telegram"

# Limits of the Bot API (platform facts, sections 1, 4 and 6). Texts are counted in UTF-16 units after parsing.
TEXT_LIMIT, ANSWER_LIMIT, PLACEHOLDER_LIMIT, ENTITY_LIMIT, BUTTONS_IN_ROW = 4096, 200, 64, 100, 2
# What a button shows of its label on a narrow screen.
MENU_ROOM, PROMPT_ROOM = 40, 200
BEGINNING = 200
OVERALL = Rate(30, 1)
PER_CHAT = (Rate(3, 3),)
PER_GROUP = (*PER_CHAT, Rate(20, 60))
NOT_PEOPLE = frozenset({1087968824, 777000, 136817688})

NO_PREVIEW = LinkPreviewOptions(is_disabled=True)

# Telegram keeps the list it was given last, so every call names it whole. Migrations come as messages.
ALLOWED_UPDATES = ("message", "callback_query", "my_chat_member")
# A press counts within the 150 s that Telegram keeps it.
POLL_S, BACKOFF_S = 10, 15.0
OFFERED = ("start", "pending", *OF_AGENTS, "help")
# What stands before the data of a menu's buttons, so that a menu is never taken for a card.
MENU = "m:"
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - the name of the header


# Settings


def _fault_of(token: str) -> str:
    """What is wrong with a token that is none. What a person is likeliest to have is the beginning of one."""
    number, colon, rest = token.partition(":")
    if not number.isdecimal() or len(rest) >= 20:
        return "is not of the form 123456:ABC..."
    found = "too little after its colon" if colon and rest else "nothing after its number"
    return f"has {found}, where 35 characters belong"


class Settings(PlatformSettings):
    """What the operator set for Telegram; no token means off."""

    telegram_token: Annotated[tuple[SecretStr, ...], NoDecode, tokens(
        r"\d{3,20}:[A-Za-z0-9_-]{20,100}", lambda token: f"{_fault_of(token)}; copy it again from @BotFather",
        whose=lambda token: token.split(":")[0], twice="two tokens belong to the same bot; name each bot once",
    )] = ()  # fmt: skip
    telegram_base_url: Annotated[str, address(
        r"https?://[^\s/]+(/(?!bot/*$)[^\s/]+)*/*", "must be the server's address, such as https://api.telegram.org, "
        "without /bot",
    )] = "https://api.telegram.org"  # fmt: skip
    telegram_webhook_secret: Annotated[SecretStr | None, secret(
        r"[A-Za-z0-9_-]{16,256}", "must be 16 to 256 random characters of A-Z a-z 0-9 _ -"
    )] = None  # fmt: skip
    public_url: str | None = None

    @model_validator(mode="after")
    def webhook_is_whole(self) -> Settings:
        if self.telegram_webhook_secret is None:
            return self
        if self.public_url is None:
            raise BadSetting("PLACET_TELEGRAM_WEBHOOK_SECRET", "a webhook needs PLACET_PUBLIC_URL as well")
        local = "api.telegram.org" not in self.telegram_base_url
        if not self.public_url.startswith("https://") and not local:
            raise BadSetting("PLACET_PUBLIC_URL", "must begin with https://; Telegram delivers to nothing else")
        return self


def surface(hooks: Hooks) -> Telegram | None:
    """The surface of all configured bots, or None without a token. Raises BadSetting."""
    settings = read_settings(Settings, NAME)
    return Telegram(settings, hooks, pace=hooks.pace) if settings.telegram_token else None


# The surface


class Telegram:
    """Every bot of this process; an account is a bot's id as text, "" the first one (design section 2).

    `pace` scales every wait: 1 is Telegram's own pace, 0 never waits.
    """

    name = NAME
    # A text of this many characters is a reply that Telegram takes, whatever they are.
    form_fields, form_characters = 10, TEXT_LIMIT // 2

    def __init__(self, settings: Settings, hooks: Hooks, *, pace: float = 1.0) -> None:
        self._settings, self._hooks = settings, hooks
        self._intake = Intake(NAME, hooks, pace)
        self._requests: list[HTTPXRequest] = []
        self._bots = {bot.token.split(":")[0]: bot for bot in map(self._bot, settings.telegram_token)}
        self._pacers = {account: Pacer(OVERALL, pace=pace) for account in self._bots}
        self._usernames: dict[str, str] = {}
        self._offered: set[str] = set()
        self._checkup = Checkup(self._check_all)

    async def post(self, destination: Destination, card: Card, *, token: str) -> Message:
        """Send a card. After Unavailable the message may exist all the same: its token works."""
        account = await self._account(destination.account)
        body = render(card, token)

        async def send(bot: telegram.Bot) -> telegram.Message:
            return await _send(bot, destination, body.html, body.keyboard)

        sent = await self._paced(account, destination.chat, send)
        return Message(NAME, account, str(sent.chat.id), destination.thread, str(sent.message_id))

    async def redraw(self, message: Message, card: Card, *, token: str = "") -> None:
        """Show `card` in the message; what shows it already counts as done."""
        account = await self._account(message.account)
        body = render(card, token)

        async def edit(bot: telegram.Bot) -> None:
            await _edit(bot, message, body.html, body.keyboard)

        await self._paced(account, message.chat, edit)

    async def attach(self, message: Message, file: Attachment) -> Message:
        """Send a text file in reply to a card."""
        account = await self._account(message.account)

        async def send(bot: telegram.Bot) -> telegram.Message:
            return await bot.send_document(
                message.chat,
                InputFile(file.text.encode(errors="replace"), filename=file.name),
                disable_content_type_detection=True,
                message_thread_id=_thread(message.thread),
                reply_parameters=_replying_to(message.id),
            )

        sent = await self._paced(account, message.chat, send)
        return Message(NAME, account, str(sent.chat.id), message.thread, str(sent.message_id))

    async def prompt(self, message: Message, actor: Actor, text: str) -> Message:
        """Ask for a note with a second message: a message with a ForceReply of its own cannot be edited any more.

        In a group it mentions the person, because only then does the reply field open for that person alone.
        """
        account = await self._account(message.account)
        group = _is_group(message.chat)
        mention = f'<a href="tg://user?id={int(actor.id)}">{html.escape(actor.name or actor.id)}</a>: ' if group else ""
        field = ForceReply(selective=group, input_field_placeholder=shortened(text, PLACEHOLDER_LIMIT, units))
        words = inert(shortened(text, TEXT_LIMIT - PROMPT_ROOM, units))
        sent = await self._at_once(account, _under(message), mention + words, field)
        return Message(NAME, account, str(sent.chat.id), message.thread, str(sent.message_id))

    async def say(self, message: Message, text: str) -> Message:
        """Put a plain word under a message."""
        return await self.tell(_under(message), text)

    async def tell(self, destination: Destination, text: str) -> Message:
        """Put a plain word into a chat."""
        account = await self._account(destination.account)

        async def send(bot: telegram.Bot) -> telegram.Message:
            return await _send(bot, destination, inert(shortened(text, TEXT_LIMIT, units)))

        sent = await self._paced(account, destination.chat, send)
        return Message(NAME, account, str(sent.chat.id), destination.thread, str(sent.message_id))

    def fits(self, card: Card) -> bool:
        """Whether the card is shown whole; where not, its whole text is attached before Allow works."""
        return not _cut_to_limit(_pieces(card), card.language)[1]

    async def listen(self, on_press: OnPress) -> None:
        """Take the updates of every bot until cancelled, each handled before it is confirmed (design section 4)."""
        take = self._poll if self._settings.telegram_webhook_secret is None else self._serve
        async with self._intake.open(on_press), asyncio.TaskGroup() as group:
            for account in self._bots:
                group.create_task(take(account))

    async def receive(self, account: str, headers: Mapping[str, str], body: bytes) -> int:
        """Take one webhook request; answers the HTTP status: 2xx only for what is committed, so that it comes again."""
        secret = self._settings.telegram_webhook_secret
        given = next((value for name, value in headers.items() if name.lower() == SECRET_HEADER), "")
        if secret is None or not hmac.compare_digest(
            given.encode(errors="replace"), secret.get_secret_value().encode()
        ):
            return 401
        if account not in self._bots:
            return 404
        try:
            update = Update.de_json(_legible(json.loads(body)), None)
        except ValueError:
            return 400
        if self._intake.on_press is None:
            return 503
        try:
            await self._take(account, update)
        except Unavailable:
            return 503
        return 200

    async def check(self) -> Sequence[Finding]:
        """Each bot held against Telegram: its token, the way there, who takes its updates."""
        return await self._checkup()

    async def close(self) -> None:
        """Let go of the connections; nothing is called after this."""
        for request in self._requests:
            await request.shutdown()

    def _bot(self, token: SecretStr) -> telegram.Bot:
        base = self._settings.telegram_base_url
        proxied = {"trust_env": not is_local(base)}
        calls = HTTPXRequest(connection_pool_size=64, pool_timeout=5.0, read_timeout=10.0, httpx_kwargs=proxied)
        polls = _Updates(connection_pool_size=2, read_timeout=5.0, httpx_kwargs=proxied)
        self._requests += calls, polls
        return telegram.Bot(
            token.get_secret_value(),
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=calls,
            get_updates_request=polls,
        )

    # Checking

    async def _check_all(self) -> Sequence[Finding]:
        found = await asyncio.gather(*(self._check(account) for account in self._bots))
        return [finding for of_bot in found for finding in of_bot]

    async def _check(self, account: str) -> Sequence[Finding]:
        bot, name, server = self._bots[account], f"Telegram bot {account}", server_of(self._settings.telegram_base_url)
        try:
            async with asyncio.timeout(CHECK_S):
                me, hook = await bot.get_me(), await bot.get_webhook_info()
            return [Finding("ok", _introduced(name, me)), self._check_delivery(account, name, hook)]
        except InvalidToken:
            return [Finding("fail", f"{name}: {server} does not accept its token",
                            "copy it from @BotFather into PLACET_TELEGRAM_TOKEN again, and start again")]  # fmt: skip
        except RetryAfter as error:
            return [Finding("warn", f"{name}: {server} asks to wait {_seconds(error):g} s",
                            "wait; if it stays, another program uses this token")]  # fmt: skip
        except (TelegramError, TimeoutError) as error:
            why = _why(error) if isinstance(error, TelegramError) else f"no answer within {CHECK_S:g} s"
            return [Finding("fail", f"{name}: {server} does not answer ({why})",
                            "let this machine through to it, or set PLACET_TELEGRAM_BASE_URL right")]  # fmt: skip
        except Exception as error:
            return [Finding("fail", f"{name}: the check itself broke ({type(error).__name__})", "report this as a bug")]

    def _check_delivery(self, account: str, name: str, hook: telegram.WebhookInfo) -> Finding:
        """Whether what people press comes here. A process that only checks cannot know whether another one runs."""
        listening = self._intake.on_press is not None
        level: Literal["warn", "fail"] = "fail" if listening else "warn"
        told = "" if listening else "if Placet runs already, "
        host, waiting = server_of(hook.url), f"updates that wait: {hook.pending_update_count}"
        fix = f"start Placet, which sets it right; {told}another program uses this token: end it, or make a new token"
        if self._settings.telegram_webhook_secret is None:
            if hook.url:
                return Finding(level, f"{name}: a webhook at {host} takes its updates; {waiting}", fix)
            return Finding("ok", f"{name}: no webhook takes its updates from polling; {waiting}")
        if hook.url != self._webhook(account):
            where = f"delivers to {host}" if hook.url else "delivers nowhere"
            return Finding(level, f"{name}: Telegram {where} instead of PLACET_PUBLIC_URL; {waiting}", fix)
        if hook.last_error_message and hook.pending_update_count:
            at = f", {hook.last_error_date.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if hook.last_error_date else ""
            said = shortened(" ".join(hook.last_error_message.split()), 100)
            return Finding("warn", f"{name}: Telegram's last delivery failed ({said}{at}); {waiting}",
                           "see that PLACET_PUBLIC_URL leads to the process of the bots, over TLS")  # fmt: skip
        return Finding("ok", f"{name}: Telegram delivers to PLACET_PUBLIC_URL; {waiting}")

    # Sending

    async def _account(self, name: str) -> str:
        """The account of a name: "" for the first, a bot's id, or a bot's user name."""
        if name in self._bots:
            return name
        if not name:
            return next(iter(self._bots))
        for account, bot in self._bots.items():
            if account not in self._usernames:
                with vendor_errors(account):
                    self._usernames[account] = (await bot.get_me()).username or ""
            if self._usernames[account].lower() == name.removeprefix("@").lower():
                return account
        raise Refused(f"no token in PLACET_TELEGRAM_TOKEN belongs to the bot {name}")

    async def _paced(self, account: str, chat: str, call: Callable[[telegram.Bot], Awaitable[T]]) -> T:
        """Make a call in its turn."""

        async def made() -> T:
            with vendor_errors(account):
                return await call(self._bots[account])

        return await self._pacers[account].call(chat, _rates(chat), made)

    async def _at_once(
        self, account: str, to: Destination, text: str, markup: ForceReply | InlineKeyboardMarkup | None = None
    ) -> telegram.Message:
        """Send what answers a person: counted by the pacer, never queued behind cards."""
        self._pacers[account].spend(to.chat, _rates(to.chat))
        with vendor_errors(account):
            return await _send(self._bots[account], to, text, markup)

    # Listening

    async def _poll(self, account: str) -> None:
        lease, inbox = self._hooks.leases(f"{NAME}:{account}"), None
        try:
            while True:
                if not await still_held(lease, inbox is not None):
                    inbox = None
                    await self._intake.pause(LEASE_RETRY_S)
                    continue
                if inbox is None:
                    log.info("polling", extra={"platform": NAME, "account": account})
                    inbox = _Inbox()
                try:
                    updates = await self._fetch(account, inbox)
                except TelegramError as error:
                    if inbox.trouble is not type(error):
                        about = {
                            "platform": NAME,
                            "account": account,
                            "error": type(error).__name__,
                            "why": _why(error),
                        }
                        log.warning("poll failed", extra=about)
                    inbox.trouble = type(error)
                    await self._intake.pause(
                        max(inbox.backoff(), _seconds(error) if isinstance(error, RetryAfter) else 0)
                    )
                    continue
                await self._take_all(account, inbox.new(updates), inbox.settled)
                if not inbox.confirm(updates):
                    await self._intake.pause(inbox.backoff())
        finally:
            await lease.drop()

    async def _fetch(self, account: str, inbox: _Inbox) -> Sequence[Update]:
        bot = self._bots[account]
        if not inbox.ready:
            await bot.delete_webhook()
            self._usernames[account] = (await bot.get_me()).username or ""
            inbox.ready = True
            self._intake.start(self._offer_commands(account))
        return await bot.get_updates(
            offset=inbox.offset, timeout=timedelta(seconds=POLL_S), allowed_updates=ALLOWED_UPDATES
        )

    async def _take_all(self, account: str, updates: Sequence[Update], settled: set[int]) -> None:
        """Handle a batch, each chat's updates in order, the chats side by side; adds what is committed to `settled`."""
        lanes: dict[int, list[Update]] = {}
        for update in updates:
            lanes.setdefault(update.effective_chat.id if update.effective_chat else 0, []).append(update)

        async def lane(updates: Sequence[Update]) -> None:
            for update in updates:
                try:
                    await self._take(account, update)
                except Unavailable:
                    return
                settled.add(update.update_id)

        await asyncio.gather(*(lane(updates) for updates in lanes.values()))

    async def _take(self, account: str, update: Update) -> None:
        """Handle one update. Raises Unavailable when it must come again."""
        event, language = f"{account}:{update.update_id}", self._language(account, update)
        try:
            reply = await self._intake.tried(
                account, event, lambda: self._handle(account, update, language), comes_again=True, language=language
            )
        except Unavailable:
            if self._intake.wait_is_news(event):
                wait = Reply(say("try_again", locale=language), Tone.ALERT)
                self._intake.start(self._answer(account, update, wait))
            raise
        if reply is not None:
            self._intake.start(self._answer(account, update, reply))

    def _language(self, account: str, update: Update) -> str:
        """What whoever caused an update is spoken to in, as far as it is known without asking the database."""
        user, message = update.effective_user, update.effective_message
        place = _message(account, message) if message else None
        return self._hooks.language(_actor(user) if user else Actor(NAME, "", ""), place)

    async def _handle(self, account: str, update: Update, language: str) -> Reply | None:
        reading = read(account, update, self._usernames.get(account, ""))
        if isinstance(reading, Membership):
            log.info(
                "membership",
                extra={"platform": NAME, "account": account, "chat": reading.chat, "status": reading.status},
            )
            return None
        return None if reading is None else await self._intake.carry_out(account, reading, language)

    async def _answer(self, account: str, update: Update, reply: Reply) -> None:
        """Tell the presser alone; in a chat a typed text can only be answered by a reply that the chat sees."""
        with answering(NAME, account, reply.approval_id):
            if (query := update.callback_query) is not None:
                await self._answer_press(account, query, reply)
            elif (message := update.message) is not None and _is_written(message):
                to = _under(_message(account, message))
                if reply.refused and self._pacers[account].crowded(to.chat, _rates(to.chat)):
                    log.info(
                        "not answered in a crowded chat", extra={"platform": NAME, "account": account, "chat": to.chat}
                    )
                    return
                menu = menu_of(reply, None, MENU_ROOM, units)
                words = _escaped(menu.text) if reply.ours else _words(menu)
                await self._at_once(account, to, words, _choices(menu))

    async def _answer_press(self, account: str, query: telegram.CallbackQuery, reply: Reply) -> None:
        """An alert or a passing word; a menu comes under the card, and what it led to in the place of the menu."""
        loud, press = reply.tone in (Tone.BAD, Tone.ALERT), _read_press(account, query)
        told = "" if reply.menu else shortened(reply.text, ANSWER_LIMIT, units)
        with answering(NAME, account, reply.approval_id), vendor_errors(account):
            await self._bots[account].answer_callback_query(query.id, told, show_alert=loud)
        picked = _is_menu(query) and not reply.refused
        if query.message is None or not (picked or reply.menu):
            return
        at, menu = _message(account, query.message), menu_of(reply, press, MENU_ROOM, units)
        if picked:
            self._pacers[account].spend(at.chat, _rates(at.chat))
            with vendor_errors(account):
                await _edit(self._bots[account], at, _words(menu), _choices(menu))
        else:
            await self._at_once(account, _under(at), _words(menu), _choices(menu))

    async def _serve(self, account: str) -> None:
        """Have the updates delivered to `receive`, at `<public url>/telegram/<account>`."""
        secret, backoff = self._settings.telegram_webhook_secret, Backoff(BACKOFF_S)
        while True:
            try:
                self._usernames[account] = (await self._bots[account].get_me()).username or ""
                await self._bots[account].set_webhook(
                    self._webhook(account),
                    secret_token=secret.get_secret_value() if secret else None,
                    allowed_updates=ALLOWED_UPDATES,
                    max_connections=40,
                )
                break
            except TelegramError as error:
                about = {"platform": NAME, "account": account, "error": type(error).__name__, "why": _why(error)}
                log.warning("webhook not set", extra=about)
                await self._intake.pause(backoff())
        log.info("webhook set", extra={"platform": NAME, "account": account})
        self._intake.start(self._offer_commands(account))
        await asyncio.Event().wait()

    def _webhook(self, account: str) -> str:
        return f"{str(self._settings.public_url).rstrip('/')}/telegram/{account}"

    async def _offer_commands(self, account: str) -> None:
        """Have Telegram list the commands in private chats; a convenience, so it is tried once per start."""
        if account in self._offered:
            return
        self._offered.add(account)
        try:
            for language in LANGUAGES:
                # Telegram shows everybody the language of their app, and those without a code to the rest.
                code = None if language == DEFAULT_LANGUAGE else language
                await self._bots[account].set_my_commands(
                    [(name, say(f"command_{name}", locale=language)) for name in OFFERED],
                    scope=BotCommandScopeAllPrivateChats(),
                    language_code=code,
                )
        except TelegramError as error:
            about = {"platform": NAME, "account": account, "error": type(error).__name__, "why": _why(error)}
            log.warning("commands not listed", extra=about)


class _Inbox:
    """What one bot was told while this process may poll for it: what is settled, and what may be confirmed."""

    def __init__(self) -> None:
        self.ready = False
        self.offset: int | None = None
        self.settled: set[int] = set()
        self.backoff = Backoff(BACKOFF_S)
        self.trouble: type[TelegramError] | None = None

    def new(self, updates: Sequence[Update]) -> list[Update]:
        """Those not settled yet. What Telegram did not give again is confirmed and forgotten."""
        self.trouble = None
        self.settled &= {update.update_id for update in updates}
        return [update for update in updates if update.update_id not in self.settled]

    def confirm(self, updates: Sequence[Update]) -> bool:
        """Have the next poll confirm them up to the first that is not settled; True when there is none.

        The offset goes out once, right after what it confirms: ids may start anew after an idle week.
        """
        self.offset = None
        for update in updates:
            if update.update_id not in self.settled:
                return False
            self.offset = update.update_id + 1
        self.backoff.reset()
        return True


class _Updates(HTTPXRequest):
    """Requests for updates, in which one that the library cannot read does not keep back the others."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(payload.decode("utf-8", "replace"))
        except ValueError:
            raise TelegramError("Invalid server response") from None
        if isinstance(updates := answer.get("result"), list):
            answer["result"] = [_legible(update) for update in updates]
        return answer


def _legible(raw: Any) -> dict[str, Any]:
    """The update, or its bare id where the library cannot read the rest. Raises ValueError for what is no update."""
    if not isinstance(raw, dict) or type(raw.get("update_id")) is not int:
        raise ValueError("not an update")
    try:
        Update.de_json(raw, None)
    except Exception as error:
        log.error(
            "unreadable update", extra={"platform": NAME, "update": raw["update_id"], "error": type(error).__name__}
        )
        return {"update_id": raw["update_id"]}
    return raw


async def _send(
    bot: telegram.Bot, to: Destination, text: str, markup: ForceReply | InlineKeyboardMarkup | None = None
) -> telegram.Message:
    return await bot.send_message(
        to.chat, text, parse_mode=ParseMode.HTML, reply_markup=markup, link_preview_options=NO_PREVIEW,
        message_thread_id=_thread(to.thread), reply_parameters=_replying_to(to.reply_to),
    )  # fmt: skip


async def _edit(bot: telegram.Bot, message: Message, text: str, markup: InlineKeyboardMarkup | None) -> None:
    try:
        await bot.edit_message_text(
            text, chat_id=message.chat, message_id=int(message.id), parse_mode=ParseMode.HTML, reply_markup=markup,
            link_preview_options=NO_PREVIEW,
        )  # fmt: skip
    except BadRequest as error:
        if "message is not modified" not in error.message.lower():
            raise


def _under(message: Message) -> Destination:
    return Destination(NAME, message.account, message.chat, message.thread, message.id)


# Reading


@dataclass(frozen=True, slots=True)
class Membership:
    """What the bot became in a chat."""

    chat: str
    status: str


COMMAND = re.compile(rf"/({'|'.join(OFFERED)})(?:@(\w+))?(?:\s+(\S.*))?", re.IGNORECASE | re.DOTALL)


def read(account: str, update: Update, username: str = "") -> Press | Command | Hint | Migrated | Membership | None:
    """What an update means; None for what is nothing to Placet. Decides nothing and trusts nothing in it."""
    if (query := update.callback_query) is not None:
        return _read_press(account, query)
    if (message := update.message) is not None:
        return _read_message(account, message, username)
    if (member := update.my_chat_member) is not None:
        return Membership(str(member.chat.id), str(member.new_chat_member.status))
    return None


def _read_press(account: str, query: telegram.CallbackQuery) -> Press:
    # Data that no button of ours carries goes to the door as a verb that nothing has, which calls it unknown.
    data = unpack((query.data or "").removeprefix(MENU))
    at = _message(account, query.message) if query.message else Message(NAME, account, "", "", "")
    card = _replied_to(account, query.message) if isinstance(query.message, telegram.Message) else None
    return Press(
        key=f"tg:{account}:{query.id}",
        actor=_actor(query.from_user),
        message=card if card is not None and _is_menu(query) else at,
        verb=data.verb if data else "?",
        token=data.token if data else "",
        content_revision=data.content_revision if data else 0,
    )


def _is_menu(query: telegram.CallbackQuery) -> bool:
    """Whether the button is on a menu of ours, which answers to something."""
    at = query.message if (query.data or "").startswith(MENU) else None
    return isinstance(at, telegram.Message) and at.reply_to_message is not None


def _read_message(account: str, message: telegram.Message, username: str) -> Press | Command | Hint | Migrated | None:
    if message.migrate_to_chat_id:
        return Migrated(str(message.chat.id), str(message.migrate_to_chat_id))
    if message.migrate_from_chat_id:
        return Migrated(str(message.migrate_from_chat_id), str(message.chat.id))
    if not _is_written(message):
        return None
    private = message.chat.type == telegram.Chat.PRIVATE
    command = COMMAND.fullmatch(message.text or "")
    if command and command[2] and username and command[2].lower() != username.lower():
        return None
    target = _replied_to(account, message)
    if not (private or command or target):
        return None
    if (why := _not_typed(message)) is not None:
        return Hint(why)
    sender = message.from_user
    if sender is None:
        return Hint("anonymous")
    if command:
        return _read_command(command[1].lower(), command[3] or "", _actor(sender), private)
    if message.text is None:
        return Hint("note_needs_text")
    if target is None and is_command(message.text):
        return Hint("unknown_command")
    return Press(
        key=f"tg:{account}:{message.chat.id}:{message.message_id}",
        actor=_actor(sender),
        message=target or replace(_message(account, message), id=""),
        text=tidy(message.text),
    )


def _read_command(name: str, argument: str, actor: Actor, private: bool) -> Command | Hint:
    name = "link" if name == "start" and argument else name
    if name in ("help", "start"):
        return Hint("help")
    if not private and name != "link":
        # What it would say is nobody else's business.
        return Hint("private_only")
    return command_of(name, actor, argument.split(), private=private)


def _replied_to(account: str, message: telegram.Message) -> Message | None:
    """The message of this bot that the text replies to.

    In a topic every message may carry the topic's own first message as what it replies to.
    """
    target = message.reply_to_message
    if target is None or target.from_user is None or str(target.from_user.id) != account:
        return None
    first = target.forum_topic_created is not None or (
        bool(message.is_topic_message) and target.message_id == message.message_thread_id
    )
    if first or target.chat.id != message.chat.id:
        return None
    return Message(NAME, account, str(message.chat.id), _message(account, message).thread, str(target.message_id))


def _not_typed(message: telegram.Message) -> str | None:
    """Why a message is nobody's own word, as the name of the words that say so."""
    sender = message.from_user
    if message.sender_chat is not None or sender is None or sender.id in NOT_PEOPLE:
        return "anonymous"
    by_a_bot = sender.is_bot or message.via_bot is not None or message.sender_business_bot is not None
    return "note_needs_text" if by_a_bot or message.forward_origin is not None else None


def _is_written(message: telegram.Message) -> bool:
    """Somebody's message, rather than Telegram's word about the chat."""
    return message.text is not None or message.effective_attachment is not None


def _actor(user: telegram.User) -> Actor:
    return Actor(NAME, "", str(user.id), tidy(user.full_name))


def _message(account: str, message: telegram.MaybeInaccessibleMessage) -> Message:
    """Where a message is; its thread only where it is a topic's, since replies outside topics have one too."""
    thread = ""
    if isinstance(message, telegram.Message) and message.message_thread_id:
        topical = message.is_topic_message or message.chat.is_forum
        thread = str(message.message_thread_id) if topical else ""
    return Message(NAME, account, str(message.chat.id), thread, str(message.message_id))


# Rendering


@dataclass(frozen=True, slots=True)
class Body:
    """A card as Telegram takes it; `cut` when some of it is not shown."""

    html: str
    keyboard: InlineKeyboardMarkup | None
    cut: bool


def render(card: Card, token: str) -> Body:
    """A card with the buttons of a message's token, or settled, which is the same without buttons."""
    pieces, cut = _cut_to_limit(_pieces(card), card.language)
    return Body(_draw(pieces), _keyboard(card, token), cut)


def _pieces(card: Card) -> list[Piece]:
    pieces = [Piece(card.title, _bold, 1)]
    if card.pill:
        pieces += [_gap(1), Piece(card.pill, inert)]
    if card.body:
        pieces += [_gap(2), Piece(card.body, inert, 1000)]
    for number, line in enumerate(card.lines):
        pieces += [_gap(1 if number else 2), Piece(label_of(line, card.language), _bold), Piece(" ", inert)]
        pieces.append(Piece(line.value, _code, 3 + number))
    if card.claim:
        pieces += [
            _gap(2),
            Piece(claim_label(card), _bold),
            _gap(1),
            Piece(card.claim, _block, 1001),
        ]
    if foot := foot_of(card):
        before, digest, after = foot.partition(card.digest) if card.digest else (foot, "", "")
        pieces += [_gap(2), Piece(before, inert), Piece(digest, _code), Piece(after, inert)]
    if card.status:
        pieces += [_gap(2), Piece(card.status, _bold, 2)]
    return pieces


def _gap(lines: int) -> Piece:
    return Piece("\n" * lines, inert)


def _draw(pieces: Sequence[Piece]) -> str:
    drawn = "".join(piece.draw(piece.text) for piece in pieces)
    if drawn.count("</") > ENTITY_LIMIT:
        # Telegram ignores the entities beyond the limit, and would make what they cover live.
        return _block("".join(piece.text for piece in pieces))
    return drawn


def _cut_to_limit(pieces: list[Piece], locale: str) -> tuple[list[Piece], bool]:
    """The pieces in at most TEXT_LIMIT units, and whether any was cut."""
    cut = cut_to(pieces, TEXT_LIMIT, _size, locale, beginnings=(BEGINNING, 0))
    if sum(map(_size, pieces)) > TEXT_LIMIT:
        pieces = [Piece(shortened("".join(piece.text for piece in pieces), TEXT_LIMIT, units), _block)]
    return pieces, cut


def _size(piece: Piece) -> int:
    return units(piece.text)


# What Telegram makes live by itself in plain text: mentions, tags, commands and phone numbers by their sign; addresses
# by a dot or a colon before a letter; bare IP addresses; long numbers (phones, cards). Inside code nothing is.
LIVE = re.compile(r"[@#$/\\+]|[.:。．｡](?=[^\W\d])|(?:\d+[.。．｡]){3}|(?:\d[ -]?){9}")
LIVE_WORDS = 3
# What stands around a word is not of it.
EDGES = re.compile(r"""([(\["'„“]*)(.*?)([)\]"'“”,;:.!?]*)""", re.DOTALL)


def inert(text: str, open_: str = "", close: str = "") -> str:
    """Escaped text in which nothing is live: words that Telegram would turn into links become code."""
    return "\n".join(_inert_line(line, open_, close) for line in text.split("\n"))


def _inert_line(line: str, open_: str, close: str) -> str:
    words = re.split(r"(\s+)", line)
    live = sum(1 for word in words if LIVE.search(word))
    if live > LIVE_WORDS or (live == 0 and LIVE.search(line)):
        return _code(line)
    drawn = ""
    for is_live, stretch in groupby(words, lambda word: LIVE.search(word) is not None):
        calm = "".join(stretch)
        drawn += _code_word(calm) if is_live else f"{open_}{_escaped(calm)}{close}" if calm.strip() else calm
    return drawn


def _code_word(word: str) -> str:
    before, inner, after = EDGES.fullmatch(word).groups()  # type: ignore[union-attr]
    return f"{_escaped(before)}{_code(inner)}{_escaped(after)}" if LIVE.search(inner) else _code(word)


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


def _bold(text: str) -> str:
    return inert(text, "<b>", "</b>")


def _code(text: str) -> str:
    return f"<code>{_escaped(text)}</code>" if text else ""


def _block(text: str) -> str:
    return f"<pre>{_escaped(text)}</pre>"


STYLES = frozenset({"primary", "success", "danger"})


def _keyboard(card: Card, token: str) -> InlineKeyboardMarkup | None:
    buttons = [_button(button, data_of(button, token, card.content_revision)) for button in card.buttons]
    rows = [buttons[at : at + BUTTONS_IN_ROW] for at in range(0, len(buttons), BUTTONS_IN_ROW)]
    return InlineKeyboardMarkup(rows) if rows else None


def _button(button: Button, data: str) -> InlineKeyboardButton:
    style = button.style if button.style in STYLES else None
    return InlineKeyboardButton(button.label, callback_data=data, style=style)


def _words(menu: Menu) -> str:
    return inert(shortened(menu.text, TEXT_LIMIT, units))


def _choices(menu: Menu) -> InlineKeyboardMarkup | None:
    rows = [[_button(button, MENU + data)] for button, data in menu.buttons]
    return InlineKeyboardMarkup(rows) if rows else None


def _introduced(name: str, me: telegram.User) -> str:
    privacy = "off" if me.can_read_all_group_messages else "on"
    groups = "" if me.can_join_groups else "; it cannot be added to groups (@BotFather, /setjoingroups)"
    heard = "presses and replies to its own messages arrive either way"
    return f"{name} (@{me.username}) answers; privacy mode is {privacy}, {heard}{groups}"


def _is_group(chat: str) -> bool:
    return chat.startswith(("-", "@"))


def _rates(chat: str) -> tuple[Rate, ...]:
    return PER_GROUP if _is_group(chat) else PER_CHAT


def _thread(thread: str) -> int | None:
    return int(thread) if thread else None


def _replying_to(message_id: str) -> ReplyParameters | None:
    return ReplyParameters(int(message_id), allow_sending_without_reply=True) if message_id else None


# Errors


GONE = (
    "chat not found",
    "message to edit not found",
    "message_id_invalid",
    "message thread not found",
    "topic_deleted",
    "topic_closed",
    "topic_id_invalid",
    "peer_id_invalid",
    "user not found",
    "group chat was deactivated",
    "have no rights to send",
    "not enough rights to send",
    "chat_write_forbidden",
    "need administrator rights",
)
LATE = ("query is too old", "query_id_invalid", "query id is invalid")


@contextmanager
def vendor_errors(account: str) -> Iterator[None]:
    """Turns the library's errors into Gone, Moved, Slow, Refused, Unavailable, or Late; none carries any content."""
    try:
        yield
    except ChatMigrated as error:
        raise Moved(str(error.new_chat_id)) from None
    except RetryAfter as error:
        raise Slow(_seconds(error)) from None
    except InvalidToken:
        raise Refused(f"Telegram does not accept the token of bot {account}") from None
    except Forbidden as error:
        raise Gone(_why(error)) from None
    except BadRequest as error:
        said = error.message.lower()
        if any(words in said for words in LATE):
            raise Late from None
        if any(words in said for words in GONE):
            raise Gone(_why(error)) from None
        raise Refused(_why(error)) from None
    except (NetworkError, Conflict, TelegramError) as error:
        raise Unavailable(f"Telegram: {type(error).__name__}") from None


def _why(error: TelegramError) -> str:
    """Telegram's own words, up to where they may quote what was sent; of the network's errors only the kind."""
    if isinstance(error, NetworkError) and not isinstance(error, BadRequest):
        return type(error).__name__
    return re.split(r"[:\"(\n]| '|\. The server", error.message)[0][:100].strip()


def _seconds(error: RetryAfter) -> float:
    after = error.retry_after
    return after.total_seconds() if isinstance(after, timedelta) else float(after)
