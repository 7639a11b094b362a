"""The gate in front of the door: dedupes presses and limits their rate, in one Redis round trip each."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from redis.exceptions import NoScriptError, RedisError

from adapters.redis_client import TIMEOUT_S, Commands, connect
from core.approvals import Button, Press, Reply, Tone
from core.ports import Admission

log = logging.getLogger("placet.adapters")

PROBE_S = 2.0
SETTLE_PAUSE_S = 0.01
LEASE_MS = 30_000
ANSWER_MS = 24 * 60 * 60 * 1000

# A bucket is stored as the microsecond at which it will be full again: its debt is how far off that is. A bucket
# holds a minute's worth, so a debt of a minute is an empty bucket. Time is the Redis server's own.
BUCKETS = """
local minute = 60000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function debt(key)
  local full_at = tonumber(redis.call('GET', key) or now)
  return math.min(math.max(full_at - now, 0), minute)
end

local function owe(key, owed)
  redis.call('SET', key, string.format('%.0f', now + owed), 'PX', math.ceil(owed / 1000))
end
"""

# KEYS press, person, chat. ARGV who, cost of a press, cost of a refusal, lease.
# Answers the stored answer, the seconds to wait, whether the chat's bucket is empty.
ADMIT = f"""{BUCKETS}
local known = redis.call('HMGET', KEYS[1], 'who', 'answer')
local chat_empty = debt(KEYS[3]) > minute - ARGV[3] and 1 or 0
if known[1] == ARGV[1] then return {{known[2], 0, chat_empty}} end
local owed = debt(KEYS[2]) + ARGV[2]
if owed > minute then return {{false, math.ceil((owed - minute) / 1000000), chat_empty}} end
owe(KEYS[2], owed)
if not known[1] then
  redis.call('HSET', KEYS[1], 'who', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
return {{false, 0, chat_empty}}
"""

# KEYS press, chat. ARGV who, answer, lifetime of the answer, cost of this reply to the chat.
SETTLE = f"""{BUCKETS}
local known = redis.call('HMGET', KEYS[1], 'who', 'answer')
if not known[1] or known[1] == ARGV[1] then
  if known[2] then return end
  redis.call('HSET', KEYS[1], 'who', ARGV[1], 'answer', ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if tonumber(ARGV[4]) > 0 then owe(KEYS[2], math.min(debt(KEYS[2]) + ARGV[4], minute)) end
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many a minute, and at once: presses of one person; refused presses in one chat. At least 1 each."""

    person_per_minute: int = 30
    chat_refusals_per_minute: int = 120

    def __post_init__(self) -> None:
        for name, value in (
            ("person_per_minute", self.person_per_minute),
            ("chat_refusals_per_minute", self.chat_refusals_per_minute),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")


class RedisGate:
    """core.ports.Gate over Redis. While Redis does not answer the gate is open: every press passes at once.

    `settle` is for the door's replies alone; telling somebody to wait is not settled, so it is not remembered.
    """

    def __init__(
        self, url: str, limits: Limits | None = None, *, on_state: Callable[[bool], None] = lambda _: None
    ) -> None:
        """`on_state` is called with True when the gate opens and with False when it shuts again."""
        limits = limits or Limits()
        self._press_cost = 60_000_000 // limits.person_per_minute
        self._refusal_cost = 60_000_000 // limits.chat_refusals_per_minute
        self._on_state = on_state
        self._probing: asyncio.Task[None] | None = None
        self._redis = connect(url)
        self._admissions = Commands(self._redis)
        self._settlements = Commands(self._redis, SETTLE_PAUSE_S)

    @property
    def open(self) -> bool:
        """Whether every press passes unchecked, because Redis does not answer."""
        return self._probing is not None

    async def admit(self, press: Press) -> Admission:
        """Design section 4, step 2. Never raises; takes at most 250 ms, and no time at all while the gate is open."""
        if self.open:
            return Admission()
        actor = press.actor
        keys = (press_key(press), key("person", actor.platform, actor.tenant, actor.id), chat_key(press))
        found = await self._ask(
            self._admissions, ADMIT, keys, (keys[1], self._press_cost, self._refusal_cost, LEASE_MS)
        )
        if found is None:
            return Admission()
        answer, wait_s, chat_empty = found
        return Admission(recalled(answer), int(wait_s), bool(chat_empty))

    async def settle(self, press: Press, reply: Reply) -> None:
        """Keep the reply for duplicates for 24 h, and charge the chat when it is a refusal. Never raises."""
        if self.open or reply.form is not None:
            # A form is given anew: what it is filled with is kept in the database alone.
            return
        actor = press.actor
        who = key("person", actor.platform, actor.tenant, actor.id)
        cost = self._refusal_cost if reply.refused else 0
        keys = (press_key(press), chat_key(press))
        await self._ask(self._settlements, SETTLE, keys, (who, stored(reply), ANSWER_MS, cost))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await asyncio.gather(self._admissions.aclose(), self._settlements.aclose())
        await self._redis.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _ask(self, commands: Commands, script: str, keys: tuple[str, ...], values: tuple[str | int, ...]) -> Any:
        """The script's answer, an empty list when it has none; None when Redis does not give one in time."""
        try:
            try:
                answer = await commands.run("EVALSHA", DIGESTS[script], len(keys), *keys, *values)
            except NoScriptError:
                answer = await commands.run("EVAL", script, len(keys), *keys, *values)
        except (RedisError, OSError, TimeoutError) as error:
            self._open(error)
            return None
        return [] if answer is None else answer

    def _open(self, error: Exception) -> None:
        if self.open:
            return
        log.warning("gate open", extra={"error": type(error).__name__})
        self._probing = asyncio.create_task(self._probe())
        self._on_state(True)

    async def _probe(self) -> None:
        # Asked apart from the presses: none of them pays for finding out that Redis is still away.
        while True:
            await asyncio.sleep(PROBE_S)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await self._redis.ping()
            except (RedisError, OSError, TimeoutError):
                continue
            break
        self._probing = None
        log.info("gate shut")
        self._on_state(False)


REPLY = tuple(field.name for field in fields(Reply))
DIGESTS = {script: hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest() for script in (ADMIT, SETTLE)}


def press_key(press: Press) -> str:
    return key("press", press.actor.platform, press.message.account, press.key)


def chat_key(press: Press) -> str:
    return key("chat", press.message.platform, press.message.account, press.message.chat)


# Each key is asked for at the admission and again at the reply, a person's and a chat's at every press.
@lru_cache(maxsize=4096)
def key(kind: str, *parts: str) -> str:
    """A Redis key for ids of any length and alphabet."""
    text = json.dumps(parts).encode()
    return f"placet:{kind}:{hashlib.blake2b(text, digest_size=16).hexdigest()}"


def stored(reply: Reply) -> str:
    return json.dumps({name: getattr(reply, name) for name in REPLY}, default=asdict)


def recalled(answer: bytes | None) -> Reply | None:
    """A stored reply; None when there is none, or when another version of Placet wrote what this one cannot read."""
    if answer is None:
        return None
    try:
        values = json.loads(answer)
        menu = tuple(Button(**button) for button in values["menu"])
        return Reply(**{**values, "tone": Tone(values["tone"]), "menu": menu})
    except (ValueError, TypeError, KeyError):
        log.warning("stored answer unreadable")
        return None
