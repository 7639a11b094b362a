"""Mattermost: cards as message attachments, presses over HTTP, replies over the web socket."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

import aiohttp
from pydantic import SecretStr, model_validator

from bots.delivery import (
    CHECK_S,
    LEASE_RETRY_S,
    Backoff,
    Checkup,
    Command,
    Hint,
    Intake,
    NoteForm,
    OnPress,
    answering,
    command_of,
    still_held,
    tidy,
)
from bots.drawing import Piece, claim_label, cut_to, data_of, foot_of, label_of
from bots.pacing import Pacer, Rate
from bots.settings import PlatformSettings, address, read_settings, secret, server_of
from core.approvals import Actor, Attachment, Card, Destination, Form, Message, Press, Reply, Tone
from core.buttons import ButtonData, Verb, unpack
from core.ports import BadSetting, Finding, Gone, Hooks, Refused, Slow, Unavailable
from core.wording import say

log = logging.getLogger("placet.bots")
T = TypeVar("T")
Json = dict[str, Any]

NAME = "mattermost"

# Limits of the server (the table above). Texts are counted in code points.
TEXT_LIMIT, BEGINNING = 8000, 200
FORM_TITLE_LIMIT, INPUT_LIMIT, INPUTS = 24, 3000, 5
PER_CHANNEL, OVERALL = (Rate(5, 5),), Rate(10, 1)

# The server waits 30 s for the answer to a press, unless it is told to wait for less.
ANSWER_S, CALL_S, LEASE_ASKED_S, BACKOFF_S = 10.0, 15.0, 10.0, 30.0
NOTE_INPUT, CHOICE_INPUT = "note", "choice"


# Settings


class Settings(PlatformSettings):
    """What the operator set for Mattermost; no token means off."""

    mattermost_token: Annotated[SecretStr | None, secret(
        r"[a-z0-9]{26}", "must be the access token of a bot account"
    )] = None  # fmt: skip
    mattermost_base_url: Annotated[str, address(
        r"https?://[^\s/@]+(/[^\s]*)?", "must be the server's address, such as https://chat.example.com"
    )] = ""  # fmt: skip
    mattermost_secret: Annotated[SecretStr | None, secret(
        r"[A-Za-z0-9_-]{16,256}", "must be 16 to 256 of A-Z a-z 0-9 _ -"
    )] = None  # fmt: skip
    public_url: str = ""

    @model_validator(mode="after")
    def has_a_way_in(self) -> Settings:
        if self.mattermost_token is not None:
            if not self.mattermost_base_url:
                raise BadSetting("PLACET_MATTERMOST_BASE_URL", "must be set: the address of the server")
            if self.mattermost_secret is None:
                raise BadSetting("PLACET_MATTERMOST_SECRET", "must be set: presses come without a signature")
            if not self.public_url:
                raise BadSetting("PLACET_PUBLIC_URL", "must be set: Mattermost posts presses to it")
        return self


def surface(hooks: Hooks) -> Mattermost | None:
    """The surface of the bot, or None without a token. Raises BadSetting."""
    settings = read_settings(Settings, NAME)
    return Mattermost(settings, hooks) if settings.mattermost_token is not None else None


# The surface


class Mattermost:
    """One bot on one server; the account is the bot's user id. `pace` scales every wait."""

    name = NAME
    form_fields, form_characters = INPUTS, INPUT_LIMIT

    def __init__(self, settings: Settings, hooks: Hooks, *, pace: float = 1.0) -> None:
        self._settings, self._hooks, self._pace = settings, hooks, pace
        self._intake = Intake(NAME, hooks, pace)
        self._pacer = Pacer(OVERALL, pace=pace)
        self._checkup = Checkup(self._check_all)
        self._proofs = Proofs((settings.mattermost_secret or SecretStr("")).get_secret_value())
        self._session: aiohttp.ClientSession | None = None
        self._me: tuple[str, str] | None = None
        self._private: dict[str, str] = {}
        self._online = False

    async def post(self, destination: Destination, card: Card, *, token: str) -> Message:
        me = await self._account(destination.account)
        body = render(card, token, self._button)
        # Within 30 s the server answers a second try with the post of the first.
        once = {"pending_post_id": _digest(me, token, destination.key)}
        return await self._create(destination, {"message": "", "props": body.props, **once})

    async def redraw(self, message: Message, card: Card, *, token: str = "") -> None:
        """Show `card` in the message."""
        patch = {"message": "", "props": render(card, token, self._button).props}
        await self._paced(message.chat, lambda: self._call("PUT", f"posts/{message.id}/patch", patch))

    async def attach(self, message: Message, file: Attachment) -> Message:
        """Upload a text file into the thread of a card."""
        form = aiohttp.FormData()
        form.add_field("channel_id", message.chat)
        form.add_field("files", file.text.encode(errors="replace"), filename=file.name, content_type="text/plain")
        found = await self._paced(message.chat, lambda: self._call("POST", "files", form))
        ids = [info["id"] for info in found["file_infos"]]
        return await self._create(_under(message), {"message": "", "file_ids": ids})

    async def say(self, message: Message, text: str) -> Message:
        """Put a plain word into the thread of a message."""
        return await self.tell(_under(message), text)

    async def tell(self, destination: Destination, text: str) -> Message:
        """Put a plain word into a channel or a private chat."""
        return await self._create(destination, {"message": code(text)})

    def fits(self, card: Card) -> bool:
        """Whether the card is shown whole; where not, its whole text is attached before Allow works."""
        return not render(card, "", self._button).cut

    async def listen(self, on_press: OnPress) -> None:
        """Take presses and replies until cancelled; the process that holds the lease hears the replies."""
        lease, backoff = self._hooks.leases(f"{NAME}:bot"), Backoff(BACKOFF_S)
        async with self._intake.open(on_press):
            try:
                while True:
                    if not await still_held(lease, False):
                        await self._intake.pause(LEASE_RETRY_S)
                        continue
                    try:
                        await self._hear(lambda: still_held(lease, True), backoff)
                    except (Gone, Refused, Slow, Unavailable, aiohttp.ClientError, OSError, TimeoutError) as error:
                        log.warning("socket failed", extra={"platform": NAME, "error": type(error).__name__})
                        await self._intake.pause(backoff())
            finally:
                await lease.drop()

    async def receive(self, account: str, headers: Mapping[str, str], body: bytes) -> int | tuple[int, str]:
        """Take a press or a form that the server posted; the answer is what the presser alone is told."""
        try:
            posted = json.loads(body)
            reading = read(account, posted, self._proofs)
        except (KeyError, TypeError, ValueError, AttributeError):
            return 400
        if reading is None:
            return 401
        if self._intake.on_press is None:
            return 503
        press = reading.press if isinstance(reading, NoteForm) else reading
        language = self._hooks.language(press.actor, press.message)
        if isinstance(reading, NoteForm):
            await self._open(str(posted.get("trigger_id", "")), press, self._note_form(press, language))
            return 200, "{}"
        work = self._intake.start(
            self._intake.tried(account, press.key, lambda: self._intake.carry_out(account, press, language),
                               comes_again=False, language=language)
        )  # fmt: skip
        await asyncio.wait({work}, timeout=ANSWER_S)
        reply = (work.result() if work.done() else Reply(say("try_again", locale=language))) or Reply("")
        if reply.form is not None or reply.menu:
            dialog = self._edit_form(press, reply.form) if reply.form else self._menu(press, reply)
            await self._open(str(posted.get("trigger_id", "")), press, dialog)
            return 200, "{}"
        if "submission" in posted:
            # A form that closes says nothing: the word goes into the thread, where the card is.
            self._intake.start(self._say_later(press.message, reply))
            return 200, "{}"
        return 200, json.dumps({"ephemeral_text": code(reply.text), "skip_slack_parsing": True})

    async def check(self) -> Sequence[Finding]:
        """The bot held against its server: its token, and whether replies are heard."""
        return await self._checkup()

    async def close(self) -> None:
        """Let go of the connections; nothing is called after this."""
        if self._session is not None:
            await self._session.close()

    # Checking

    async def _check_all(self) -> Sequence[Finding]:
        server = server_of(self._settings.mattermost_base_url)
        try:
            async with asyncio.timeout(CHECK_S):
                self._me = None
                await self._account("")
        except Refused as refused:
            return [Finding("fail", f"Mattermost bot: {server} does not accept its token ({refused.why})",
                            "make a new one for the bot account and set PLACET_MATTERMOST_TOKEN")]  # fmt: skip
        except (Gone, Slow, Unavailable, TimeoutError):
            return [Finding("fail", f"Mattermost bot: {server} does not answer",
                            "let this machine through to it, or set PLACET_MATTERMOST_BASE_URL right")]  # fmt: skip
        except Exception as error:
            what = f"Mattermost bot: the check itself broke ({type(error).__name__})"
            return [Finding("fail", what, "report this as a bug")]
        name = self._me[1] if self._me is not None else ""
        found = [Finding("ok", f"Mattermost bot {name} answers; presses come to {self._settings.public_url}")]
        if self._intake.on_press is not None and not self._online:
            found.append(Finding("warn", "Mattermost: the web socket is not connected",
                                 "wait; it is tried again. Until then replies are not heard"))  # fmt: skip
        return found

    # Sending

    async def _account(self, name: str) -> str:
        """The bot's user id; a route may name the bot by it or by its user name."""
        if self._me is None:
            me = await self._call("GET", "users/me")
            self._me = str(me["id"]), str(me["username"])
        if name not in ("", *self._me):
            raise Refused(f"PLACET_MATTERMOST_TOKEN is not the bot {name}'s")
        return self._me[0]

    async def _create(self, to: Destination, post: Json) -> Message:
        """Create a post; an id that is no channel may be a person's, for the private chat."""
        me = await self._account(to.account)
        root = to.thread or to.reply_to
        known = self._private.get(to.chat, to.chat)
        try:
            return await self._create_in(me, known, root, post)
        except Gone:
            if root or known != to.chat:
                raise
        opened = await self._paced(to.chat, lambda: self._call("POST", "channels/direct", [me, to.chat]))
        channel = str(opened["id"])
        await self._hooks.chats.moved(NAME, me, to.chat, channel)
        self._private[to.chat] = channel
        return await self._create_in(me, channel, root, post)

    async def _create_in(self, me: str, channel: str, root: str, post: Json) -> Message:
        whole = {"channel_id": channel, "root_id": root, **post}
        sent = await self._paced(channel, lambda: self._call("POST", "posts", whole))
        return Message(NAME, me, str(sent["channel_id"]), root, str(sent["id"]))

    async def _paced(self, chat: str, call: Callable[[], Awaitable[T]]) -> T:
        return await self._pacer.call(chat, PER_CHANNEL, call)

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer. Raises Gone, Slow, Refused or Unavailable."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_S))
        form = isinstance(body, aiohttp.FormData)
        with vendor_errors():
            async with self._session.request(
                method, f"{self._settings.mattermost_base_url}/api/v4/{path}", headers=self._bearer(),
                data=body if form else None, json=None if form else body,
            ) as answer:  # fmt: skip
                if answer.status >= 400:
                    raise _error(answer.status, answer.headers, await answer.text())
                return await answer.json(content_type=None)

    def _bearer(self) -> dict[str, str]:
        token = self._settings.mattermost_token
        return {"Authorization": f"Bearer {token.get_secret_value() if token else ''}"}

    # Listening

    async def _hear(self, held: Callable[[], Awaitable[bool]], backoff: Backoff) -> None:
        """Take what is written where the bot is, while the lease is held."""
        me = await self._account("")
        assert self._session is not None
        url = re.sub("^http", "ws", self._settings.mattermost_base_url) + "/api/v4/websocket"
        async with self._session.ws_connect(url, headers=self._bearer(), heartbeat=30) as socket:
            backoff.reset()
            self._online = True
            self._checkup.forget()
            try:
                while await held():
                    try:
                        frame = await socket.receive(timeout=LEASE_ASKED_S * self._pace or 0.05)
                    except TimeoutError:
                        continue
                    if frame.type is not aiohttp.WSMsgType.TEXT:
                        return
                    self._intake.start(self._take(me, json.loads(frame.data)))
            finally:
                self._online = False

    async def _take(self, me: str, event: Json) -> None:
        """Handle one event; it never comes again. What is written is answered where all see it."""
        reading = read_event(me, event)
        if reading is None:
            return
        post = json.loads(event["data"]["post"])
        chat, root = str(post["channel_id"]), str(post.get("root_id") or post["id"])
        here = Message(NAME, me, chat, "", root)
        language = self._hooks.language(Actor(NAME, "", str(post["user_id"])), here)
        reply = await self._intake.tried(
            me, str(post["id"]), lambda: self._intake.carry_out(me, reading, language),
            comes_again=False, language=language,
        )  # fmt: skip
        if reply is not None and reply.result != "unknown_card":
            await self._say_later(here, reply)

    async def _say_later(self, message: Message, reply: Reply) -> None:
        if reply.text and not (reply.refused and self._pacer.crowded(message.chat, PER_CHANNEL)):
            with answering(NAME, message.account, reply.approval_id):
                await self.say(message, reply.text)

    async def _open(self, trigger: str, press: Press, dialog: Json) -> None:
        """Open a form for the presser alone."""
        url = f"{self._settings.public_url}/{NAME}/{press.message.account}"
        with answering(NAME, press.message.account):
            await self._call("POST", "actions/dialogs/open", {"trigger_id": trigger, "url": url, "dialog": dialog})

    def _note_form(self, press: Press, language: str) -> Json:
        note = {"display_name": say("note_label", locale=language)[:FORM_TITLE_LIMIT], "name": NOTE_INPUT,
                "type": "textarea", "max_length": INPUT_LIMIT}  # fmt: skip
        return self._dialog(press, say("button_note", locale=language), [note])

    def _edit_form(self, press: Press, form: Form) -> Json:
        fields = [
            {"display_name": field.label[:FORM_TITLE_LIMIT], "name": field.id, "type": "textarea", "optional": True,
             "default": field.value, "max_length": min(field.limit, INPUT_LIMIT)}
            for field in form.fields
        ]  # fmt: skip
        of = replace(press, verb=form.verb, token=form.token, content_revision=form.content_revision)
        return self._dialog(of, form.title, fields)

    def _menu(self, press: Press, reply: Reply) -> Json:
        """Buttons for one person alone: a form with a choice, whose values are the buttons' data."""
        options = [
            {"text": each.label, "value": data_of(each, press.token, press.content_revision)} for each in reply.menu
        ]
        choice = {"display_name": "…", "name": CHOICE_INPUT, "type": "radio", "options": options}
        return self._dialog(press, reply.text, [choice]) | {"introduction_text": code(reply.text)}

    def _dialog(self, press: Press, title: str, elements: list[Json]) -> Json:
        data = ButtonData(press.verb, press.token, press.content_revision).pack()
        parts = (data, press.message.chat, press.message.id, press.actor.id)
        state = json.dumps([*parts, self._proofs.of(*parts)])
        return {"title": title[:FORM_TITLE_LIMIT], "elements": elements, "state": state}

    def _button(self, data: str) -> Json:
        """Where a press of a button goes. Nobody's app is shown this: it stays on the server."""
        me = self._me[0] if self._me is not None else ""
        return {"url": f"{self._settings.public_url}/{NAME}/{me}",
                "context": {"data": data, "proof": self._proofs.of(data)}}  # fmt: skip


def _under(message: Message) -> Destination:
    return Destination(NAME, message.account, message.chat, message.thread or message.id)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:26]


@dataclass(frozen=True, slots=True)
class Proofs:
    """Presses come unsigned: what we gave out comes back with this, or is not ours."""

    secret: str

    def of(self, *parts: str) -> str:
        return hmac.new(self.secret.encode(), "\0".join(parts).encode(), hashlib.sha256).hexdigest()

    def good(self, proof: object, *parts: str) -> bool:
        return bool(self.secret) and hmac.compare_digest(self.of(*parts).encode(), str(proof).encode())


# Reading


def read(account: str, posted: Json, proofs: Proofs) -> Press | NoteForm | None:
    """What the server posted; None without a good proof. Raises KeyError and the like for what no server sends."""
    if "submission" in posted:
        return _read_form(account, posted, proofs)
    context = posted["context"]
    if not proofs.good(context["proof"], str(context["data"])):
        return None
    press = _press(account, str(context["data"]), str(posted["channel_id"]), str(posted["post_id"]), posted,
                   key=_digest(str(posted["trigger_id"])))  # fmt: skip
    return NoteForm(press) if press.verb == Verb.NOTE else press


def _read_form(account: str, posted: Json, proofs: Proofs) -> Press | None:
    # The state has been in the hands of the person: it is theirs alone, or nobody's.
    data, chat, post, user, proof = json.loads(posted["state"])
    if user != posted["user_id"] or not proofs.good(proof, data, chat, post, user) or posted.get("cancelled"):
        return None
    values = {name: tidy(str(value or "")) for name, value in posted["submission"].items()}
    press = _press(account, data, chat, post, posted, key=_digest(posted["state"], json.dumps(values, sort_keys=True)))
    if CHOICE_INPUT in values:
        return _press(account, values[CHOICE_INPUT], chat, post, posted, key=press.key)
    if press.verb == Verb.NOTE:
        return replace(press, verb="", content_revision=0, text=values.get(NOTE_INPUT, ""))
    return replace(press, fields=values)


def _press(account: str, packed: str, chat: str, post: str, posted: Json, *, key: str) -> Press:
    # Data that no button of ours carries goes to the door as a verb that nothing has, which calls it unknown.
    data = unpack(packed)
    return Press(
        key=f"mm:{account}:{key}",
        actor=Actor(NAME, "", str(posted["user_id"]), tidy(str(posted.get("user_name") or ""))),
        message=Message(NAME, account, chat, "", post),
        verb=data.verb if data else "?",
        token=data.token if data else "",
        content_revision=data.content_revision if data else 0,
    )


def read_event(account: str, event: Json) -> Press | Command | Hint | None:
    """What an event of the web socket means; None for what is nothing to Placet."""
    if event.get("event") != "posted":
        return None
    data = event["data"]
    post, private = json.loads(data["post"]), data.get("channel_type") == "D"
    props, text = post.get("props") or {}, str(post.get("message") or "")
    if post.get("type") or post["user_id"] == account or {"from_bot", "from_webhook", "from_plugin"} & props.keys():
        return None
    actor = Actor(NAME, "", str(post["user_id"]), tidy(str(data.get("sender_name") or "").removeprefix("@")))
    if not post.get("root_id"):
        name, *words = text.split() or [""]
        return command_of(name.lower(), actor, words, private=True) if private else None
    if post.get("file_ids") or not text.strip():
        return Hint("note_needs_text")
    # A thread is flat: the root is the card, unless the card stands in somebody's thread itself.
    message = Message(NAME, account, str(post["channel_id"]), "", str(post["root_id"]))
    return Press(key=f"mm:{account}:{post['id']}", actor=actor, message=message, text=tidy(text))


# Rendering


@dataclass(frozen=True, slots=True)
class Body:
    """A card as Mattermost takes it, for a new post and for a patch; `cut` when some of it is not shown."""

    props: Json
    cut: bool


COLOURS = {Tone.QUIET: "#5865F2", Tone.GOOD: "#2D7D46", Tone.BAD: "#B3261E", Tone.ALERT: "#B26A00"}
STYLES = {"success": "success", "danger": "danger", "primary": "primary"}


def render(card: Card, token: str, integration: Callable[[str], Json]) -> Body:
    """A card with the buttons of a message's token, or settled, which is the same without buttons."""
    pieces = _pieces(card)
    cut = cut_to(pieces, TEXT_LIMIT, _size, card.language, beginnings=(BEGINNING, 0))
    text = "".join(piece.draw(piece.text) for piece in pieces)
    actions = [
        {"id": f"placet{number}", "type": "button", "name": button.label, "style": STYLES.get(button.style, "default"),
         "integration": integration(data_of(button, token, card.content_revision))}
        for number, button in enumerate(card.buttons)
    ] if token else []  # fmt: skip
    attachment = {"color": COLOURS[card.tone], "fallback": "Placet", "text": text, "actions": actions}
    return Body({"attachments": [attachment]}, cut)


def _pieces(card: Card) -> list[Piece]:
    pieces = [Piece(card.title, _bold, 1)]
    if card.pill:
        pieces += [_gap(1), Piece(card.pill, code)]
    if card.body:
        pieces += [_gap(2), Piece(card.body, block, 1000)]
    for number, line in enumerate(card.lines):
        pieces += [_gap(1 if number else 2), Piece(label_of(line, card.language), _bold), _gap(0)]
        pieces.append(Piece(line.value, code, 3 + number))
    if card.claim:
        pieces += [_gap(2), Piece(claim_label(card), _bold), _gap(1), Piece(card.claim, block, 1001)]
    if card.status:
        pieces += [_gap(2), Piece(card.status, _bold, 2)]
    if foot := foot_of(card):
        pieces += [_gap(2), Piece(foot, code)]
    return pieces


def _gap(lines: int) -> Piece:
    return Piece("\n" * lines or " ", str)


def _size(piece: Piece) -> int:
    return len(piece.draw(piece.text))


def code(text: str) -> str:
    """Text in which nothing is live, line by line: mentions, links and marks are dead inside code."""
    return "\n".join(_code_line(line) if line.strip() else "" for line in text.split("\n"))


def _code_line(line: str) -> str:
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    # The space beside a mark at the edge is not shown.
    space = " " if line[0] in "` " or line[-1] in "` " else ""
    return f"{fence}{space}{line}{space}{fence}"


def _bold(text: str) -> str:
    return "\n".join(f"**{line}**" if line else "" for line in code(text).split("\n"))


def block(text: str) -> str:
    fence = "`" * max(3, max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence}\n{text}\n{fence}"


# Errors


@contextmanager
def vendor_errors() -> Iterator[None]:
    """Turns what breaks on the way into Unavailable; nothing of it carries any content."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise Unavailable(f"Mattermost: {type(error).__name__}") from None


def _error(status: int, headers: Mapping[str, str], text: str) -> Exception:
    """What a refusal means. Its `id` is a name; its `message` may quote what was sent."""
    said = ""
    with suppress(ValueError, AttributeError):
        said = str(json.loads(text).get("id", ""))
    said = said if re.fullmatch(r"[a-z0-9_.]{1,100}", said) else str(status)
    if status == 429:
        seconds = headers.get("X-Ratelimit-Reset", "1")
        return Slow(float(seconds) if seconds.isdecimal() else 1.0)
    if status in (403, 404):
        return Gone(said)
    return Unavailable(f"Mattermost: {said}") if status >= 500 else Refused(said)
