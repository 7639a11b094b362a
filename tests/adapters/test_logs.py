"""What an operator reads on standard error."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from adapters.logs import QUIET, configure_logs

TOKENS = (
    "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
    "xoxb-2345678901-abcdefghij",
    "xapp-1-A0123456789-abcdef",
    "MTAxMjM0NTY3ODkwMTIzNDU2.GabcDe.abcdefghijklmnopqrstuvwxyz0123",
    "placet_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is the process's; the other tests get it back as it was."""
    root = logging.getLogger()
    names = (*QUIET, "uvicorn.error", "placet")
    handlers, level, levels = list(root.handlers), root.level, {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    logging.captureWarnings(False)
    logging.getLogger("temporalio.core").filters.clear()
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    out, err = capsys.readouterr()
    assert out == ""
    return [json.loads(line) for line in err.splitlines()]


def test_one_json_line_per_event_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", json=True)
    logging.getLogger("placet.approvals").info(
        "decided", extra={"approval": "019c", "verdict": "allow", "ms": 1.5, "note": "line\nbreak"}
    )
    logging.getLogger("placet.approvals").debug("not shown")
    (line,) = lines(capsys)
    assert datetime.fromisoformat(line.pop("timestamp")).tzinfo == UTC
    assert line == {
        "event": "decided", "level": "info", "logger": "placet.approvals", "approval": "019c", "verdict": "allow",
        "ms": 1.5, "note": "line\nbreak",
    }  # fmt: skip


def test_structlog_and_logging_look_alike(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", json=True)
    structlog.get_logger("placet.app").warning("late", approval="019c", token=TOKENS[0])
    (line,) = lines(capsys)
    assert (line["event"], line["level"], line["logger"], line["approval"]) == ("late", "warning", "placet.app", "019c")
    assert line["token"] == "[hidden]"


def test_chatty_libraries_are_heard_from_warning_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("debug", json=True)
    for name in ("httpx", "httpcore.http11", "uvicorn.access"):
        logging.getLogger(name).info("POST https://api.telegram.org/bot%s/sendMessage", TOKENS[0])
        logging.getLogger(name).warning("slow")
    logging.getLogger("uvicorn.error").error("Failed")
    assert [(line["logger"], line["event"]) for line in lines(capsys)] == [
        ("httpx", "slow"), ("httpcore.http11", "slow"), ("uvicorn.access", "slow"), ("uvicorn.error", "Failed"),
    ]  # fmt: skip


def test_debug_is_for_placets_own_words_since_libraries_quote_payloads(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("debug", json=True)
    for name in ("temporalio.worker._activity", "redis.asyncio.connection", "placet.test"):
        logging.getLogger(name).debug("Completing activity with %s", {"data": "hunter2-argument"})
        logging.getLogger(name).info("serving")
    told = [(line["logger"], line["event"][:10]) for line in lines(capsys)]
    assert told == [
        ("temporalio.worker._activity", "serving"), ("redis.asyncio.connection", "serving"),
        ("placet.test", "Completing"), ("placet.test", "serving"),
    ]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_what_looks_like_a_token_is_hidden_wherever_it_stands(capsys: pytest.CaptureFixture[str], token: str) -> None:
    configure_logs("info", json=True)
    log = logging.getLogger("placet.test")
    log.warning("calling https://api.telegram.org/bot%s/getMe", token)
    log.warning("fields", extra={"url": f"/x?t={token}", "nested": {"a": [token, (token,)]}, token: 1})
    told = json.dumps(lines(capsys))
    assert token not in told
    assert "[hidden]" in told
    assert "https://api.telegram.org/" in told


def test_credentials_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", json=True)
    log = logging.getLogger("placet.test")
    log.warning("Authorization: Bearer abcdefgh12345678")
    log.warning("connecting", extra={"url": "postgresql://placet:hunter2@db:5432/placet"})
    log.warning(
        "an ordinary line", extra={"approval": "019cd2a1-7c00-7d3e-9f00-2b6f0c1d4e5a", "chat": "telegram:-100123"}
    )
    told = lines(capsys)
    assert told[0]["event"] == "Authorization: Bearer [hidden]"
    assert told[1]["url"] == "postgresql://[hidden]@db:5432/placet"
    assert (told[2]["approval"], told[2]["chat"]) == ("019cd2a1-7c00-7d3e-9f00-2b6f0c1d4e5a", "telegram:-100123")


def test_a_fault_is_told_by_type_and_place_never_by_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", json=True)

    def break_down() -> None:
        try:
            raise KeyError("hunter2-argument")
        except KeyError as error:
            raise ValueError("hunter2-argument") from error

    try:
        break_down()
    except ValueError as error:
        logging.getLogger("placet.test").exception("broke")
        logging.getLogger("placet.test").error("broke", exc_info=error)
    for line in lines(capsys):
        assert "hunter2" not in json.dumps(line)
        assert "ValueError" in line["fault"]
        assert "KeyError" in line["fault"]
        assert any("break_down" in frame for frame in line["fault"])


def test_an_object_in_a_field_is_told_by_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    class Payload:
        def __repr__(self) -> str:
            return "hunter2"

    configure_logs("info", json=True)
    logging.getLogger("placet.test").info("got", extra={"payload": Payload(), "raw": b"hunter2"})
    (line,) = lines(capsys)
    assert "hunter2" not in json.dumps(line)
    assert "Payload" in line["payload"]


def test_a_line_for_a_terminal_shows_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", json=False)
    logging.getLogger("placet.approvals").info("decided", extra={"approval": "019c", "token": TOKENS[0]})
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "decided" in told
    assert "approval=019c" in told
    assert TOKENS[0] not in told


def test_warnings_and_a_second_configuration_tell_each_event_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", json=True)
    configure_logs("warning", json=True)
    logging.getLogger("placet.test").info("not shown")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    logging.getLogger("placet.test").warning("shown")
    assert [line["logger"] for line in lines(capsys)] == ["py.warnings", "placet.test"]


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="debug, info, warning or error, not 'loud'"):
        configure_logs("loud", json=True)


def test_what_a_server_that_is_away_is_asked_again_and_again_is_a_line_of_each_kind_in_30_s(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("info", json=True)
    core = logging.getLogger("temporalio.core")
    texts = (
        "gRPC call poll_workflow_task_queue retried {} times", "gRPC call poll_activity_task_queue retried {} times",
        "Network error while sending worker heartbeat", "Activity not found: {}",
    )  # fmt: skip
    for tenth in range(350):
        for text in texts:
            record = core.makeRecord(core.name, logging.WARNING, "", 0, text.format(tenth), (), None)
            record.created = 1_000_000 + tenth / 10
            core.handle(record)
    events = [line["event"] for line in lines(capsys)]
    assert [event for event in events if not event.startswith("Activity")] == [
        "gRPC call poll_workflow_task_queue retried 0 times", "gRPC call poll_activity_task_queue retried 0 times",
        "Network error while sending worker heartbeat",
        "gRPC call poll_workflow_task_queue retried 300 times", "gRPC call poll_activity_task_queue retried 300 times",
        "Network error while sending worker heartbeat",
    ]  # fmt: skip
    assert len([event for event in events if event.startswith("Activity")]) == 350
