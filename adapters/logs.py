"""Logs: one line per event on standard error, JSON or for a terminal, with anything shaped like a token hidden."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

QUIET = ("httpx", "httpcore", "uvicorn", "uvicorn.access", "alembic")
HIDDEN = "[hidden]"
FRAMES = 30
DEEPEST = 8

# The last net: no line is meant to carry any of these (design section 9).
TOKENS = re.compile(
    r"""\d{5,}:[\w-]{35}                                     # Telegram
      | xox[a-z]-[\w-]{8,} | xapp-[\w-]{8,}                  # Slack
      | [\w-]{23,30}\.[\w-]{6}\.[\w-]{27,}                   # Discord
      | placet_[\w-]{20,}                                    # ours
      | eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*                    # a JSON web token
      | (?<=://)[^\s/@:]*:[^\s/@]+(?=@)                      # user and password of a URL
    """,
    re.VERBOSE | re.ASCII,
)
BEARER = re.compile(r"\b(bearer|basic)(\s+|%20)[\w.~+/=-]{8,}", re.IGNORECASE)
# Every text that one of the two matches holds one of these; most texts hold none, and this is soon found.
MARK = re.compile(r"[:.%\s]|xox|xapp-|placet_|eyJ")
FLAT = frozenset({int, float, bool, type(None)})

# What the core of the Temporal SDK says of every poll of every worker, many times a second, while the server is away.
REPEATED = re.compile(r"gRPC call (\w+) retried \d+ times|Network error while sending worker heartbeat")
REPEATED_EVERY_S = 30.0

STAMP = structlog.processors.TimeStamper(fmt="iso", utc=True)
# What `logging` itself and the Temporal SDK put on a record; the rest is what the caller gave as `extra`.
OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "temporal_log"}


def configure_logs(level: str, json: bool, stream: TextIO | None = None) -> None:
    """Send every log of the process to `stream` (standard error): JSON lines, or, with `json` false, for a terminal.

    `level` is a name such as `info`; raises ValueError for another.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"the log level must be debug, info, warning or error, not {level!r}")
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        show_fault,
        hide_tokens,
        STAMP,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=True, default=type_of)
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Lines(shared, renderer))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    # No line shows who ran it, so nobody needs to find out.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Below info, libraries quote what passes through them: the Temporal SDK whole payloads.
    root.setLevel(max(logging.INFO, number))
    logging.getLogger("placet").setLevel(number)
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        ours = logging.getLogger(name)
        ours.handlers.clear()
        ours.propagate = True
    logging.getLogger("temporalio.core").filters[:] = [Thinned()]
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, number))


class Thinned(logging.Filter):
    """Passes the first line of a kind in 30 s where a server that is away would have many of it a second."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        repeated = REPEATED.match(record.getMessage())
        if repeated is None:
            return True
        kind = repeated[1] or repeated[0]
        if record.created - self._passed.get(kind, -REPEATED_EVERY_S) < REPEATED_EVERY_S:
            return False
        self._passed[kind] = record.created
        return True


class Lines(structlog.stdlib.ProcessorFormatter):
    """structlog's formatter, with a shorter way for the records of `logging`, which all of Placet's are.

    structlog copies such a record first and takes it apart step by step, which was half of what a line costs.
    """

    def __init__(self, shared: Sequence[Processor], renderer: Processor) -> None:
        meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
        super().__init__(foreign_pre_chain=shared, processors=[meta, renderer])
        self._renderer = renderer

    def format(self, record: logging.LogRecord) -> str:
        if not isinstance(record.msg, str):
            return super().format(record)
        level = record.levelname.lower()
        event: EventDict = {"event": record.getMessage()}
        for name, value in record.__dict__.items():
            if name not in OWN:
                event[name] = value
        if record.exc_info:
            event["exc_info"] = record.exc_info
            show_fault(None, level, event)
        event = hide_tokens(None, level, event)
        line = {"event": event["event"], "logger": record.name, "level": level, **event}
        return str(self._renderer(None, level, STAMP(None, level, line)))


def show_fault(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """An exception as its type and where it was raised; its text, which may quote what somebody sent, is left out."""
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()
    if isinstance(found, BaseException):
        found = (type(found), found, found.__traceback__)
    if isinstance(found, tuple) and isinstance(found[1], BaseException):
        event["fault"] = _chain(found[1])
    event.pop("stack_info", None)
    return event


def _chain(error: BaseException) -> list[str]:
    lines: list[str] = []
    cause: BaseException | None = error
    for _ in range(DEEPEST):
        if cause is None:
            break
        lines += [type(cause).__qualname__, *_frames(cause.__traceback__)]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return lines


def _frames(trace: TracebackType | None) -> list[str]:
    frames = traceback.extract_tb(trace, limit=-FRAMES)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


def hide_tokens(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Hide what looks like a token, wherever in the event it stands."""
    if _unmarked(event):
        return event
    # structlog's own fields, which it takes off again, begin with an underscore.
    return {_hidden_text(key): value if key.startswith("_") else _hidden(value) for key, value in event.items()}


def _unmarked(event: EventDict) -> bool:
    """Whether no part of a flat event can hold a token: one look at it all, since most events are like that."""
    texts = list(event)
    for value in event.values():
        if type(value) is str:
            texts.append(value)
        elif type(value) not in FLAT:
            return False
    return MARK.search("-".join(texts)) is None


def _hidden_text(text: str) -> str:
    return BEARER.sub(rf"\1 {HIDDEN}", TOKENS.sub(HIDDEN, text))


def _hidden(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _hidden_text(value)
    if isinstance(value, bool | int | float | None):
        return value
    if depth >= DEEPEST:
        return type_of(value)
    if isinstance(value, dict):
        return {_hidden_text(str(key)): _hidden(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_hidden(member, depth + 1) for member in value]
    return type_of(value)


def type_of(value: object) -> str:
    """What stands for an object that is no plain value: its type, for its text may hold anything."""
    return f"<{type(value).__qualname__}>"
