"""What every ledger does, on both databases: swaps, claims, leases, the directory, and what happens in a fault."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from adapters import migrate
from adapters.database import Database
from adapters.faults import Fault
from adapters.greenlets import wait
from adapters.postgres import CONNECTIONS
from adapters.tables import metadata
from core.approvals import (
    Actor,
    Agent,
    Approval,
    AuditLine,
    Effect,
    Kind,
    Message,
    Mode,
    Outcome,
    Permission,
    Person,
    Posted,
    Role,
    Route,
    Runtime,
    Status,
    Update,
    Vote,
)
from core.buttons import rule_token
from core.identifiers import new_id
from core.ports import BadSetting, Ledger, Repeated, Store, Unavailable
from core.rules import Rule, ScopeKind
from tests.builders import NOW, an_approval
from tests.services import PostgresServer, run

OTHERS = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

SOON, LATER = NOW + timedelta(seconds=10), NOW + timedelta(minutes=5)

DIRECTORY: dict[str, Any] = {
    "people": {
        "dana": {"name": "Dana Reyes", "identities": {"telegram": "1001", "slack": "T01/U01", "discord": "4201"}},
        "ola": {"name": "Ola Berg", "identities": {}, "language": "de"},
        "kim": {"name": "Kim Sató", "identities": {"discord": "4203"}},
    },
    "chats": {"telegram:-1001234": {"language": "de"}, "telegram:-1001234/31": {"language": "en"}},
    "roles": {"admin": ["admin", "approvals:view"], "approver": ["approvals:view", "approvals:answer"]},
    "members": {"admin": ["kim"], "approver": ["ola", "dana", "kim"]},
    "groups": {"approver": ["slack:T01/S01", "discord:500/7001"]},
    "effects": {"tools": {"crm.note": "write"}},
    "agents": {
        "billing": {
            "owner": "dana",
            "mode": "outside",
            "runs": [{"tool": "stripe.refund", "activity": "refund", "task_queue": "billing"}],
        }
    },
    "routes": [
        {
            "match": {"agent": "billing", "effect": "money"},
            "ask": ["role:approver"],
            "at": ["telegram:-1001234/31", "dm"],
            "needed": 1,
            "four_eyes": False,
            "timeout_s": 86400,
            "remind_s": 14400,
        },
        {
            "match": {},
            "ask": ["dana"],
            "at": ["dm"],
            "needed": 1,
            "four_eyes": False,
            "timeout_s": None,
            "remind_s": None,
        },
    ],
}


@pytest.fixture(scope="module")
def migrated_urls(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A migrated database of each kind, which the tests of this module share and find empty."""
    urls = {
        "sqlite": f"sqlite:///{tmp_path_factory.mktemp('databases') / 'placet.db'}",
        "postgresql": postgres_server.url(run(postgres_server.create_database())),
    }
    for url in urls.values():
        run(migrate.migrate(url))
    return urls


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, migrated_urls: dict[str, str], tmp_path: Path) -> str:
    """An empty, migrated database."""
    migrated = migrated_urls[request.param]
    if request.param == "sqlite":
        copy = tmp_path / "placet.db"
        shutil.copy(migrated.removeprefix("sqlite:///"), copy)
        return f"sqlite:///{copy}"
    # The audit refuses to be emptied, save for the owner of the server in this mode.
    await statement(migrated, f"SET session_replication_role = replica; TRUNCATE {', '.join(metadata.tables)}")
    return migrated


async def statement(url: str, text: str) -> list[Any]:
    """Run plain SQL on a PostgreSQL server, past Placet."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        return list(await connection.fetch(text)) if text.startswith("SELECT") else [await connection.execute(text)]
    finally:
        await connection.close()


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    opened = Database.open(url)
    yield opened
    await opened.close()


@pytest.fixture
async def other(database: Database, url: str) -> AsyncIterator[Database]:
    """The same database as another process has it open."""
    opened = Database.open(url)
    yield opened
    await opened.close()


def a_message(approval: Approval, chat: str = "-100", **changes: Any) -> Posted:
    """A card that nobody has posted yet, claimed by `first` until SOON."""
    posted = Posted(
        id=f"m-{approval.id}-{chat}",
        approval_id=approval.id,
        destination=f"telegram||{chat}|",
        kind=Kind.CARD,
        person="",
        token=f"t-{approval.id}-{chat}",
        platform="telegram",
        account="",
        chat=chat,
        thread="",
        message_id=None,
        shown_revision=0,
        shown_id=None,
        attached_revision=0,
        posted_at=None,
        claim="first",
        claim_until=SOON,
    )
    return replace(posted, **changes)


async def kept(store: Store, *approvals: Approval) -> None:
    def insert(ledger: Ledger) -> None:
        for approval in approvals:
            assert ledger.insert(approval)

    await store.write(insert)


def test_the_database_is_a_store() -> None:
    store: Store = Database.open("sqlite:////nowhere/placet.db")
    assert store


# The row


async def test_a_row_comes_back_as_it_was_put(database: Database) -> None:
    moment = datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    whole = an_approval(
        arguments=json.dumps({"text": "🦀 Grüße \u202e", "blob": "x" * 256 * 1024}, ensure_ascii=False),
        reasoning="línea\nnueva 'quoted' \"twice\" %s :name ? $1",
        run_id="r", lane="l", call_id="c", context="k", on_behalf_of="slack:T01/U07",
        workflow_id="w", first_run_id="f", asked_by="a", idempotency_key="i", idempotency_hash="h",
        remind_at=moment, reminded_at=moment, escalate_at=moment, decided_at=moment, decided_by="dana",
        decided_via="telegram", decision_key="k1", note="", by_message=True, claim_token="t", claimed_by="r",
        claimed_at=moment, consumed_at=moment, valid_until=moment, grace_until=moment, restore_until=moment,
        undeliverable="u", outcome_note="o", outcome_at=moment, checked_at=moment, closed_rounds=3, generation=2,
        created_at=datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=UTC), status=Status.APPROVED, outcome=Outcome.SENDING,
    )  # fmt: skip
    await kept(database, whole)
    read = await database.read(lambda ledger: ledger.approval(whole.id))
    assert read == whole
    assert read is not None
    assert read.created_at.microsecond == 1
    assert read.decided_at is not None
    assert read.decided_at.utcoffset() == timedelta(0)
    assert (type(read.status), type(read.effect), type(read.by_message)) == (Status, Effect, bool)


async def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match="zone"):
        await database.write(lambda ledger: ledger.insert(an_approval(created_at=datetime(2026, 1, 1))))


async def test_an_unknown_row_is_none(database: Database) -> None:
    assert await database.read(lambda ledger: ledger.approval("nothing")) is None


async def test_inserting_the_same_origin_again_writes_nothing(database: Database) -> None:
    first = an_approval(workflow_id="w", first_run_id="f", asked_by="agent:billing", idempotency_key="k")
    await kept(database, first)
    again = {
        "id": replace(an_approval(), id=first.id),
        "run": an_approval(workflow_id="w", first_run_id="f"),
        "key": an_approval(asked_by="agent:billing", idempotency_key="k"),
    }
    for approval in again.values():
        assert await database.write(methodcaller("insert", approval)) is False
    await kept(
        database, an_approval(workflow_id="w", first_run_id="g"), an_approval(asked_by="other", idempotency_key="k")
    )
    assert await database.read(lambda ledger: ledger.approval_of_run("w", "f")) == first
    assert await database.read(lambda ledger: ledger.approval_of_key("agent:billing", "k")) == first
    assert await database.read(lambda ledger: ledger.approval_of_run("w", "nothing")) is None
    assert await database.read(lambda ledger: ledger.approval_of_key("nobody", "k")) is None


async def test_inserting_one_origin_from_many_sides_writes_one_row(database: Database, other: Database) -> None:
    rows = [an_approval(workflow_id="w", first_run_id="f") for _ in range(12)]
    done = await asyncio.gather(
        *((database, other)[n % 2].write(methodcaller("insert", row)) for n, row in enumerate(rows))
    )
    assert sorted(done) == [False] * 11 + [True]
    assert len(await database.read(lambda ledger: ledger.approvals())) == 1


async def test_a_change_swaps_and_grows_the_revision(database: Database) -> None:
    row = an_approval()
    await kept(database, row)
    changed = await database.write(
        lambda ledger: ledger.change(row, status=Status.DECLINED, note="no", decided_at=LATER)
    )
    assert changed == replace(row, status=Status.DECLINED, note="no", decided_at=LATER, revision=2)
    assert await database.read(lambda ledger: ledger.approval(row.id)) == changed
    assert await database.write(lambda ledger: ledger.change(row, note="late")) is None
    assert await database.read(lambda ledger: ledger.approval(row.id)) == changed


async def test_r2_of_many_that_decide_at_once_exactly_one_wins(database: Database, other: Database) -> None:
    row = an_approval()
    await kept(database, row)

    def decide(ledger: Ledger, who: str) -> bool:
        before = ledger.approval(row.id)
        assert before is not None
        if not before.pending:
            return False
        return (
            ledger.change(before, status=Status.APPROVED, decided_by=who, decided_via="telegram", decision_key=who)
            is not None
        )

    won = await asyncio.gather(*((database, other)[n % 2].write(partial(decide, who=f"p{n}")) for n in range(40)))
    assert won.count(True) == 1
    stands = await database.read(lambda ledger: ledger.approval(row.id))
    assert stands is not None
    assert (stands.revision, stands.decided_by) == (2, f"p{won.index(True)}")


async def test_every_swap_of_many_counts_once(database: Database, other: Database) -> None:
    row = an_approval()
    await kept(database, row)

    def grow(ledger: Ledger) -> None:
        while (before := ledger.approval(row.id)) is not None:
            if ledger.change(before, closed_rounds=before.closed_rounds + 1) is not None:
                return

    await asyncio.gather(*((database, other)[n % 2].write(grow) for n in range(30)))
    after = await database.read(lambda ledger: ledger.approval(row.id))
    assert after is not None
    assert (after.closed_rounds, after.revision) == (30, 31)


async def test_one_event_of_a_platform_decides_one_approval(database: Database) -> None:
    first, second = an_approval(), an_approval()
    await kept(database, first, second)

    def decide(row: Approval, via: str, key: str) -> Awaitable[Approval | None]:
        return database.write(
            lambda ledger: ledger.change(row, status=Status.DECLINED, decided_via=via, decision_key=key)
        )

    assert await decide(first, "telegram", "event-1")
    with pytest.raises(Repeated):
        await decide(second, "telegram", "event-1")
    stands = await database.read(lambda ledger: ledger.approval(second.id))
    assert stands == second
    decided = await database.read(lambda ledger: ledger.approval(first.id))
    assert decided is not None
    assert (decided.status, decided.decision_key) == (Status.DECLINED, "event-1")
    assert await decide(second, "slack", "event-1")


async def test_a_key_of_http_belongs_to_its_approval_alone(database: Database) -> None:
    rows = [an_approval(), an_approval()]
    await kept(database, *rows)
    for row in rows:
        assert await database.write(
            methodcaller("change", row, status=Status.DECLINED, decided_via="http", decision_key="1")
        )


async def test_an_unknown_column_is_a_bug(database: Database) -> None:
    row = an_approval()
    await kept(database, row)
    for columns in ({"colour": "red"}, {"id": "x"}, {"revision": 7}):
        with pytest.raises(TypeError, match="not a column"):
            await database.write(methodcaller("change", row, **columns))


async def test_an_exception_rolls_everything_back(database: Database) -> None:
    row = an_approval()

    def work(ledger: Ledger) -> None:
        ledger.insert(row)
        raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        await database.write(work)
    assert await database.read(lambda ledger: ledger.approval(row.id)) is None


async def test_what_the_database_refuses_is_a_fault_without_values(database: Database) -> None:
    with pytest.raises(Fault) as refused:
        await database.write(lambda ledger: ledger.vote("hunter2-row", Vote("hunter2", 1, "allow", NOW)))
    with pytest.raises(Fault) as mistyped:
        await database.write(lambda ledger: ledger.insert(an_approval(needed=0, note="hunter2")))
    with pytest.raises((Fault, ValueError, TypeError)) as unfit:
        await database.write(lambda ledger: ledger.insert(an_approval(revision="hunter2")))
    for raised in (refused, mistyped, unfit):
        assert "hunter2" not in str(raised.value)
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__
    assert await database.read(lambda ledger: ledger.approvals()) == []


async def test_reading_writes_nothing(database: Database) -> None:
    row = an_approval()
    with pytest.raises((Fault, Unavailable)):
        await database.read(lambda ledger: ledger.insert(row))
    assert await database.read(lambda ledger: ledger.approval(row.id)) is None


async def test_a_read_sees_one_moment(database: Database, other: Database, url: str) -> None:
    row = an_approval()
    await kept(database, row)

    async def change() -> None:
        assert await other.write(lambda ledger: ledger.change(row, note="x"))

    loop = asyncio.get_running_loop()

    def wait_for(work: Coroutine[Any, Any, None]) -> None:
        # SQLite reads in a thread of its own, PostgreSQL in a greenlet of the loop's.
        if url.startswith("sqlite"):
            asyncio.run_coroutine_threadsafe(work, loop).result(10)
        else:
            wait(work)

    def twice(ledger: Ledger) -> list[Approval | None]:
        before = ledger.approval(row.id)
        wait_for(change())
        return [before, ledger.approval(row.id)]

    assert await database.read(twice) == [row, row]
    after = await database.read(lambda ledger: ledger.approval(row.id))
    assert after is not None
    assert after.note == "x"


# What the lists hold


def ids(rows: Any) -> list[str]:
    return [row.id for row in rows]


async def test_rows_are_listed_newest_first(database: Database) -> None:
    rows = [
        an_approval(created_at=NOW + timedelta(minutes=n), agent=("billing", "mail")[n % 2], status=status)
        for n, status in enumerate((Status.PENDING, Status.PENDING, Status.DECLINED, Status.PENDING))
    ]
    await kept(database, *rows)
    newest = list(reversed(ids(rows)))
    read = database.read
    assert ids(await read(lambda ledger: ledger.approvals())) == newest
    assert ids(await read(lambda ledger: ledger.approvals(limit=2))) == newest[:2]
    assert ids(await read(lambda ledger: ledger.approvals(status=Status.PENDING))) == [newest[0], *newest[2:]]
    assert ids(await read(lambda ledger: ledger.approvals(agent="mail"))) == [newest[0], newest[2]]
    assert ids(await read(lambda ledger: ledger.approvals(agent="billing", status=Status.DECLINED))) == [newest[1]]
    assert await read(lambda ledger: ledger.waiting()) == (3, NOW)


async def test_nothing_waits_in_an_empty_database(database: Database) -> None:
    assert await database.read(lambda ledger: ledger.waiting()) == (0, None)
    assert await database.read(lambda ledger: ledger.undeliverable()) == 0


async def test_only_waiting_rows_count_as_undeliverable(database: Database) -> None:
    await kept(
        database, an_approval(), an_approval(undeliverable="the chat is gone"), an_approval(undeliverable="no one"),
        an_approval(undeliverable="the chat is gone", status=Status.EXPIRED),
    )  # fmt: skip
    assert await database.read(lambda ledger: ledger.undeliverable()) == 2


async def test_expiring_rows_are_the_pending_ones_whose_time_has_come(database: Database) -> None:
    due, late, final, waiting = (
        an_approval(expires_at=NOW),
        an_approval(expires_at=NOW - timedelta(hours=1)),
        an_approval(expires_at=NOW, status=Status.APPROVED),
        an_approval(expires_at=NOW + timedelta(microseconds=1)),
    )
    await kept(database, due, late, final, waiting)
    assert ids(await database.read(lambda ledger: ledger.expiring(NOW, 10))) == [late.id, due.id]
    assert ids(await database.read(lambda ledger: ledger.expiring(NOW, 1))) == [late.id]


async def test_waiting_rows_come_page_after_page_the_soonest_to_expire_first(database: Database) -> None:
    hours = (3, 1, 2, 2, 2)
    rows = [an_approval(expires_at=NOW + timedelta(hours=number)) for number in hours]
    await kept(database, *rows, an_approval(status=Status.DECLINED))
    found: list[Approval] = []
    for _ in range(3):
        after = found[-1] if found else None
        found += await database.read(lambda ledger, after=after: ledger.soonest(after, 2))  # type: ignore[misc]
    assert ids(found) == ids(sorted(rows, key=lambda row: (row.expires_at, row.id)))


async def test_unconsumed_rows_are_final_and_not_yet_taken(database: Database) -> None:
    final = {"status": Status.APPROVED, "decided_at": NOW}
    wanted = an_approval(**final), an_approval(**(final | {"status": Status.EXPIRED}), runtime=Runtime.DRAFT)
    await kept(
        database,
        *wanted,
        an_approval(),
        an_approval(**final, consumed_at=NOW),
        an_approval(**final, runtime=Runtime.EXTERNAL),
        an_approval(**(final | {"decided_at": SOON})),
        an_approval(**final, claimed_at=NOW, outcome=Outcome.SENDING),
    )
    assert sorted(ids(await database.read(lambda ledger: ledger.unconsumed(SOON, 10)))) == sorted(ids(wanted))
    assert len(await database.read(lambda ledger: ledger.unconsumed(SOON, 1))) == 1


async def test_overdue_rows_are_sending_or_external_and_unclaimed(database: Database) -> None:
    approved = {"status": Status.APPROVED, "decided_at": NOW}
    sending = an_approval(**approved, outcome=Outcome.SENDING, claimed_at=NOW, consumed_at=NOW)
    unclaimed = an_approval(**approved, runtime=Runtime.EXTERNAL, valid_until=NOW)
    await kept(
        database,
        sending,
        unclaimed,
        an_approval(**approved, outcome=Outcome.SENT, claimed_at=NOW),
        an_approval(**approved, outcome=Outcome.SENDING, claimed_at=LATER),
        an_approval(**approved, runtime=Runtime.EXTERNAL, valid_until=LATER),
        an_approval(**approved, runtime=Runtime.EXTERNAL, valid_until=NOW, outcome=Outcome.NOT_SENT),
        an_approval(),
    )
    assert ids(await database.read(lambda ledger: ledger.overdue(SOON, 10))) == [sending.id, unclaimed.id]


async def test_unsettled_rows_come_least_recently_checked_first(database: Database) -> None:
    approved = {"status": Status.APPROVED, "decided_at": NOW}
    rows = [
        an_approval(checked_at=LATER),
        an_approval(checked_at=NOW, **approved),
        an_approval(),
        an_approval(checked_at=SOON, **approved, outcome=Outcome.SENDING, claimed_at=NOW, consumed_at=NOW),
    ]
    settled = an_approval(**approved, outcome=Outcome.SENT, consumed_at=NOW)
    await kept(database, *rows, settled, an_approval(runtime=Runtime.EXTERNAL), an_approval(runtime=Runtime.DRAFT))
    order = [rows[2].id, rows[1].id, rows[3].id, rows[0].id]
    assert ids(await database.read(lambda ledger: ledger.unsettled(10))) == order
    await database.write(lambda ledger: ledger.note_check(rows[2].id, LATER + timedelta(hours=1), 1))
    assert ids(await database.read(lambda ledger: ledger.unsettled(10))) == [*order[1:], rows[2].id]
    checked = await database.read(lambda ledger: ledger.approval(rows[2].id))
    assert checked is not None
    assert (checked.revision, checked.closed_rounds) == (1, 1)


async def test_unstarted_rows_were_asked_over_http_a_while_ago(database: Database) -> None:
    external, draft = an_approval(runtime=Runtime.EXTERNAL), an_approval(runtime=Runtime.DRAFT, created_at=SOON)
    await kept(
        database,
        external,
        draft,
        an_approval(),
        an_approval(runtime=Runtime.EXTERNAL, status=Status.DECLINED),
        an_approval(runtime=Runtime.EXTERNAL, created_at=LATER),
    )
    assert ids(await database.read(lambda ledger: ledger.unstarted(LATER, 10))) == [external.id, draft.id]


# Votes, audit, what was shown


async def test_a_later_vote_replaces_the_earlier(database: Database) -> None:
    row = an_approval()
    await kept(database, row)

    def vote(ledger: Ledger) -> None:
        ledger.vote(row.id, Vote("dana", 1, "allow", NOW))
        ledger.vote(row.id, Vote("ola", 1, "allow", SOON))
        ledger.vote(row.id, Vote("dana", 1, "decline", LATER))
        ledger.vote(row.id, Vote("dana", 2, "allow", LATER + timedelta(seconds=1)))

    await database.write(vote)
    votes = await database.read(lambda ledger: ledger.votes_of(row.id))
    assert [(vote.person, vote.content_revision, vote.verdict) for vote in votes] == [
        ("ola", 1, "allow"),
        ("dana", 1, "decline"),
        ("dana", 2, "allow"),
    ]
    assert votes[0].at == SOON


async def test_the_audit_is_kept_in_order(database: Database) -> None:
    lines = [
        AuditLine("a", NOW, "opened", 1, identity="x", surface="turn"),
        AuditLine("a", NOW, "allow", 2, "dana", "1001", "telegram", "Ünïcode 🦀", "s1"),
    ]

    def write(ledger: Ledger) -> None:
        for line in (lines[0], AuditLine("b", NOW, "opened", 1), lines[1]):
            ledger.audit(line)

    await database.write(write)
    assert await database.read(lambda ledger: ledger.audit_of("a")) == lines


async def test_a_text_that_was_shown_is_kept_once(database: Database) -> None:
    first, again, different = await database.write(
        lambda ledger: (ledger.show("card ✔", NOW), ledger.show("card ✔", LATER), ledger.show("another", NOW))
    )
    assert first == again != different
    assert await database.read(lambda ledger: ledger.shown(first)) == "card ✔"


async def test_shown_texts_are_purged_by_age(database: Database) -> None:
    row = an_approval()

    def show(ledger: Ledger) -> list[str]:
        ledger.insert(row)
        old, again, on_card, young = (
            ledger.show("old", NOW),
            ledger.show("again", NOW),
            ledger.show("on card", NOW),
            ledger.show("young", LATER),
        )
        ledger.audit(AuditLine("a", NOW, "allow", 2, shown_id=old))
        ledger.audit(AuditLine("a", LATER, "allow", 2, shown_id=again))
        ledger.reserve(a_message(row, shown_id=on_card, message_id="1"), NOW)
        return [old, again, on_card, young]

    shown = await database.write(show)
    assert await database.write(lambda ledger: ledger.purge_shown(SOON)) == 1
    left = await database.read(lambda ledger: [ledger.shown(text_id) for text_id in shown])
    assert left == [None, "again", "on card", "young"]
    assert len(await database.read(lambda ledger: ledger.audit_of("a"))) == 2


# Messages


async def test_a_message_is_found_by_its_token_and_its_place(database: Database) -> None:
    row = an_approval()
    wanted = a_message(row, account="bot", thread="31", message_id="7", shown_revision=1, posted_at=NOW)
    await kept(database, row)
    assert await database.write(lambda ledger: ledger.reserve(wanted, NOW)) == wanted
    read = database.read
    assert await read(lambda ledger: ledger.posted_of_token(wanted.token)) == (wanted, row)
    assert await read(lambda ledger: ledger.posted_of_token("nothing")) is None
    assert wanted.message is not None
    assert await read(methodcaller("posted_at", wanted.message)) == (wanted, row)
    for place in (
        ("slack", "bot", "-100", "31", "7"),
        ("telegram", "x", "-100", "31", "7"),
        ("telegram", "bot", "-100", "31", "8"),
    ):
        assert await read(methodcaller("posted_at", Message(*place))) is None
    assert await read(lambda ledger: ledger.posted(wanted.id)) == wanted
    assert await read(lambda ledger: ledger.posted("nothing")) is None


async def test_messages_are_listed_by_approval_and_kind(database: Database) -> None:
    row, another = an_approval(), an_approval()
    await kept(database, row, another)
    card, file = a_message(row), a_message(row, chat="-200", kind=Kind.FILE)
    await database.write(lambda ledger: [ledger.reserve(posted, NOW) for posted in (card, file, a_message(another))])
    assert await database.read(lambda ledger: ledger.posted_for(row.id)) == [card, file]
    assert await database.read(lambda ledger: ledger.posted_for(row.id, Kind.FILE)) == [file]
    assert await database.read(lambda ledger: ledger.posted_for(row.id, Kind.PROMPT)) == []


async def test_t13_of_many_that_post_at_once_one_may(database: Database, other: Database) -> None:
    row = an_approval()
    await kept(database, row)
    wanted = [a_message(row, id=f"m{n}", token=f"t{n}", claim=f"c{n}") for n in range(12)]
    done = await asyncio.gather(
        *((database, other)[n % 2].write(methodcaller("reserve", one, NOW)) for n, one in enumerate(wanted))
    )
    assert [one for one in done if one is not None] == [wanted[next(n for n, one in enumerate(done) if one)]]
    assert len(await database.read(lambda ledger: ledger.posted_for(row.id))) == 1


async def test_a_claim_that_ran_out_is_taken_over_with_its_token(database: Database) -> None:
    row = an_approval()
    await kept(database, row)
    first = a_message(row)
    second = a_message(row, id="m2", token="t2", claim="second", claim_until=LATER)
    await database.write(lambda ledger: ledger.reserve(first, NOW))
    assert await database.write(lambda ledger: ledger.reserve(second, NOW)) is None
    # Its holder, who could not hear that he has it, asks once more.
    assert await database.write(lambda ledger: ledger.reserve(replace(first, id="m3", token="t3"), NOW)) == first
    taken = await database.write(lambda ledger: ledger.reserve(second, SOON))
    # The orphan that the first may have sent carries the first token, which goes on working.
    assert taken == replace(first, claim="second", claim_until=LATER)
    assert not await database.write(lambda ledger: ledger.mark(first.id, claim="first", message_id="1"))
    assert await database.write(
        lambda ledger: ledger.mark(first.id, claim="second", message_id="2", posted_at=SOON, claim_until=None)
    )
    third = replace(second, claim="third")
    assert await database.write(lambda ledger: ledger.reserve(third, LATER + timedelta(days=1))) is None
    now = await database.read(lambda ledger: ledger.posted(first.id))
    assert now == replace(first, message_id="2", posted_at=SOON, claim=None, claim_until=None)


async def test_marking_without_a_claim_asks_nobody(database: Database) -> None:
    row = an_approval()
    await kept(database, row)
    await database.write(lambda ledger: ledger.reserve(a_message(row), NOW))
    assert await database.write(lambda ledger: ledger.mark(a_message(row).id, shown_revision=0, failed="gone"))
    assert not await database.write(lambda ledger: ledger.mark("nothing", shown_revision=0))
    with pytest.raises(TypeError, match="token"):
        await database.write(lambda ledger: ledger.mark(a_message(row).id, token="x"))


async def test_of_many_that_redraw_at_once_one_may(database: Database, other: Database) -> None:
    row = an_approval()
    await kept(database, row)
    posted = a_message(row, message_id="1", claim=None, claim_until=None)
    await database.write(lambda ledger: ledger.reserve(posted, NOW))
    done = await asyncio.gather(
        *((database, other)[n % 2].write(methodcaller("take_redraw", posted.id, f"c{n}", NOW, SOON)) for n in range(12))
    )
    (winner,) = [n for n, one in enumerate(done) if one is not None]
    assert done[winner] == replace(posted, claim=f"c{winner}", claim_until=SOON)
    assert await database.write(lambda ledger: ledger.take_redraw(posted.id, "late", SOON, LATER))
    assert not await database.write(lambda ledger: ledger.mark(posted.id, claim=f"c{winner}", shown_revision=1))
    assert await database.write(lambda ledger: ledger.take_redraw("nothing", "c", NOW, SOON)) is None


async def test_stale_cards_are_posted_show_an_old_revision_and_are_free(database: Database) -> None:
    row, fresh = an_approval(revision=3), an_approval(revision=1)
    shows = {"message_id": "1", "shown_revision": 1, "posted_at": NOW, "claim": None, "claim_until": None}
    stale, ran_out = a_message(row, "1", **shows), a_message(row, "2", **{**shows, "claim": "c", "claim_until": NOW})
    await kept(database, row, fresh)
    others = [
        a_message(row, "3", **{**shows, "shown_revision": 3}),
        a_message(row, "4", **{**shows, "message_id": None}),
        a_message(row, "5", **{**shows, "claim": "c", "claim_until": SOON}),
        a_message(row, "6", **shows, kind=Kind.FILE),
        a_message(row, "7", **shows, failed="the chat is gone"),
        a_message(fresh, "8", **shows),
    ]
    await database.write(lambda ledger: [ledger.reserve(posted, NOW) for posted in (stale, ran_out, *others)])
    found = await database.read(lambda ledger: ledger.stale_cards(NOW, 10, "telegram"))
    assert sorted(ids(found)) == sorted(ids((stale, ran_out)))
    assert len(await database.read(lambda ledger: ledger.stale_cards(NOW, 1, "telegram"))) == 1
    assert not await database.read(lambda ledger: ledger.stale_cards(NOW, 10, "slack"))


async def test_a_chat_that_moved_keeps_its_messages(database: Database) -> None:
    row = an_approval()
    await kept(database, row)
    posted = a_message(row, "-100", account="bot", thread="31", destination="telegram||-100|31", message_id="1")
    there = a_message(row, "-300", account="bot", message_id="2")
    await database.write(lambda ledger: [ledger.reserve(one, NOW) for one in (posted, there)])
    await database.write(lambda ledger: ledger.move("telegram", "bot", "-100", "-200"))
    read = database.read
    assert await read(lambda ledger: ledger.moved_to("telegram", "bot", "-100")) == "-200"
    assert await read(lambda ledger: ledger.moved_to("telegram", "", "-100")) == "-200"
    assert await read(lambda ledger: ledger.moved_to("telegram", "bot", "-300")) == "-300"
    assert await read(lambda ledger: ledger.moved_to("slack", "bot", "-100")) == "-100"
    moved = replace(posted, chat="-200")
    assert await read(lambda ledger: ledger.posted(posted.id)) == moved
    assert await read(lambda ledger: ledger.posted(there.id)) == there
    # And once more: the oldest id leads to the newest.
    await database.write(lambda ledger: ledger.move("telegram", "bot", "-200", "-400"))
    assert await read(lambda ledger: ledger.moved_to("telegram", "bot", "-100")) == "-400"
    await database.write(lambda ledger: ledger.move("telegram", "bot", "-200", "-400"))


async def test_a_move_onto_a_card_that_is_there_keeps_both(database: Database) -> None:
    row = an_approval()
    await kept(database, row)
    old, new = a_message(row, "-100", message_id="1"), a_message(row, "-200", message_id="2")
    await database.write(lambda ledger: [ledger.reserve(one, NOW) for one in (old, new)])
    await database.write(lambda ledger: ledger.move("telegram", "", "-100", "-200"))
    assert await database.read(lambda ledger: ledger.posted(old.id)) == replace(old, chat="-200")
    assert await database.read(lambda ledger: ledger.posted(new.id)) == new


# What happens around an answer


def a_rule(**changes: Any) -> Rule:
    """A standing rule for every call of one tool of billing's."""
    rule = Rule(id=new_id(NOW), agent="billing", tool="notes.share", operation="", scope_kind=ScopeKind.TOOL,
                scope_value="", label="notes.share", created_at=NOW, created_by="dana")  # fmt: skip
    return replace(rule, **changes)


async def test_open_rows_wait_or_were_allowed_and_nobody_has_the_answer(database: Database) -> None:
    approved = {"status": Status.APPROVED, "decided_at": NOW}
    first = an_approval(created_at=NOW - timedelta(hours=2), lane="chat", run_id="r1")
    second = an_approval(**approved, created_at=NOW - timedelta(hours=1), lane="chat", run_id="r2")
    third = an_approval(lane="other", run_id="r1")
    sent = {"outcome": Outcome.SENT, "claim_token": "c", "claimed_at": NOW, "consumed_at": NOW}
    await kept(
        database,
        third, second, first,
        an_approval(**approved, **sent, lane="chat"),
        an_approval(**approved, run=None, consumed_at=NOW, lane="chat"),
        an_approval(status=Status.DECLINED, decided_at=NOW, lane="chat", run_id="r1"),
        an_approval(agent="other", lane="chat", run_id="r1"),
    )  # fmt: skip
    for hold in (False, True):
        found = [
            await database.write(lambda ledger, more=more, hold=hold: ledger.open_rows("billing", hold=hold, **more))  # type: ignore[misc]
            for more in ({}, {"lane": "chat"}, {"run_id": "r1"}, {"lane": "chat", "run_id": "r2"})
        ]
        assert [ids(rows) for rows in found] == [
            [first.id, second.id, third.id], [first.id, second.id], [first.id, third.id], [second.id],
        ]  # fmt: skip


async def test_every_row_whose_answer_has_yet_to_take_effect_is_drawn_anew(database: Database) -> None:
    approved, declined = ({"status": status, "decided_at": NOW} for status in (Status.APPROVED, Status.DECLINED))
    touched = [
        an_approval(), an_approval(**approved), an_approval(**declined),
        an_approval(**approved, runtime=Runtime.EXTERNAL), an_approval(**declined, runtime=Runtime.DRAFT),
    ]  # fmt: skip
    sending = {"outcome": Outcome.SENDING, "claim_token": "c", "claimed_at": NOW, "consumed_at": NOW}
    left = [
        an_approval(**approved, consumed_at=NOW), an_approval(**declined, consumed_at=NOW),
        an_approval(**declined, runtime=Runtime.EXTERNAL), an_approval(**approved, **sending),
        an_approval(agent="other"),
    ]  # fmt: skip
    await kept(database, *touched, *left)
    revisions = dict(await database.write(lambda ledger: ledger.touch_open("billing")))
    assert revisions == {row.id: 2 for row in touched}
    assert [await database.read(methodcaller("approval", row.id)) for row in left] == left


async def test_held_rows_wait_for_who_changes_them_and_are_seen_as_that_left_them(postgres_database: str) -> None:
    await migrate.migrate(postgres_database)
    database = Database.open(postgres_database)
    noted, gone = an_approval(), an_approval()
    await kept(database, noted, gone)
    begun = asyncio.Event()

    def slow(ledger: Ledger) -> None:
        ledger.change(noted, note="first")
        ledger.change(gone, status=Status.CANCELLED, decided_at=NOW)
        begun.set()
        wait(asyncio.sleep(0.1))

    def end(ledger: Ledger) -> list[str | None]:
        rows = [ledger.change(row, outcome_note="x") for row in ledger.open_rows("billing", hold=True)]
        return [row.note if row is not None else "lost" for row in rows]

    first = asyncio.create_task(database.write(slow))
    await begun.wait()
    assert await database.write(end) == ["first"]
    await first
    await database.close()


async def test_the_last_of_a_lane_and_the_rows_of_a_run_are_turns(database: Database) -> None:
    rows = [
        an_approval(lane="chat", run_id="r1", created_at=NOW - timedelta(hours=hours)) for hours in (3, 2, 1)
    ] + [an_approval(lane="chat", run_id="r2", status=Status.EXPIRED, decided_at=NOW)]  # fmt: skip
    await kept(
        database, *reversed(rows),
        an_approval(lane="chat", run_id="r1", runtime=Runtime.DRAFT, created_at=LATER),
        an_approval(lane="chat", created_at=LATER),
        an_approval(agent="other", lane="chat", run_id="r1", created_at=LATER),
    )  # fmt: skip
    read = database.read
    assert await read(lambda ledger: ledger.last_of_lane("billing", "chat")) == rows[3]
    assert await read(lambda ledger: ledger.last_of_lane("billing", "else")) is None
    assert await read(lambda ledger: ledger.rows_of_run("billing", "r1")) == rows[:3]
    assert await read(lambda ledger: ledger.rows_of_run("billing", "r3")) == []


async def test_what_one_message_declined_is_found_by_it(database: Database) -> None:
    declined = {"status": Status.DECLINED, "decided_at": NOW, "decided_via": "http", "decision_key": "message:1"}
    one, two = an_approval(**declined, lane="chat"), an_approval(**declined, lane="chat", created_at=LATER)
    await kept(
        database, two, one,
        an_approval(**declined, lane="other"), an_approval(**declined), an_approval(lane="chat"),
        an_approval(**declined, lane="chat", agent="other"),
        an_approval(**(declined | {"decision_key": "message:2"}), lane="chat"),
    )  # fmt: skip
    assert await database.read(lambda ledger: ledger.declined_by("billing", "chat", "message:1")) == [one, two]
    assert await database.read(lambda ledger: ledger.declined_by("billing", "chat", "message:3")) == []


async def test_a_run_is_closed_once_and_for_its_agent(database: Database) -> None:
    for at in (NOW, LATER):
        await database.write(lambda ledger, at=at: ledger.close_run("billing", "r1", at))  # type: ignore[misc]
    assert await database.read(lambda ledger: ledger.run_closed("billing", "r1"))
    assert not await database.read(lambda ledger: ledger.run_closed("billing", "r2"))
    assert not await database.read(lambda ledger: ledger.run_closed("other", "r1"))


async def test_updates_are_read_after_a_number_and_by_agent(database: Database) -> None:
    row, theirs = an_approval(runtime=Runtime.DRAFT), an_approval(runtime=Runtime.DRAFT, agent="other")
    await kept(database, row, theirs)

    def told(agent: str, approval: Approval, text: str) -> Update:
        return Update(0, agent, approval.id, NOW, "approved", "sent", text)

    numbers = [
        await database.write(methodcaller("add_update", update))
        for update in (told("billing", row, "Grüße"), told("other", theirs, "b"), told("billing", row, "c"))
    ]
    assert numbers == sorted(set(numbers))
    heard = await database.read(lambda ledger: ledger.updates("billing", 0, 10))
    assert heard == [replace(told("billing", row, "Grüße"), number=numbers[0]),
                     replace(told("billing", row, "c"), number=numbers[2])]  # fmt: skip
    assert await database.read(lambda ledger: ledger.updates("billing", numbers[0], 10)) == heard[1:]
    assert await database.read(lambda ledger: ledger.updates("billing", 0, 1)) == heard[:1]
    assert await database.read(lambda ledger: ledger.updates("nobody", 0, 10)) == []


async def test_updates_of_many_at_once_are_numbered_in_the_order_of_their_commits(
    database: Database, other: Database
) -> None:
    row = an_approval(runtime=Runtime.DRAFT)
    await kept(database, row)
    seen: list[int] = []

    async def follow() -> None:
        # Whoever reads after the last number seen misses none: no lower number is committed later.
        while len(seen) < 40:
            heard = await database.read(methodcaller("updates", "billing", seen[-1] if seen else 0, 5))
            seen.extend(update.number for update in heard)

    async def tell(at: Database) -> None:
        for _ in range(10):
            await at.write(lambda ledger: ledger.add_update(Update(0, "billing", row.id, NOW, "approved", "sent", "x")))

    async with asyncio.timeout(30):
        await asyncio.gather(follow(), *(tell(at) for at in (database, other, database, other)))
    assert seen == sorted(set(seen))
    assert len(seen) == 40


async def test_cards_that_wait_in_a_chat_are_given_each_approval_once(database: Database) -> None:
    one, two, final = an_approval(), an_approval(), an_approval(status=Status.EXPIRED, decided_at=NOW)
    await kept(database, one, two, final)
    posted = {"message_id": "5", "posted_at": NOW, "account": "77"}
    cards = [
        a_message(one, "1001", **posted),
        a_message(two, "1001", **(posted | {"message_id": "6", "posted_at": SOON})),
    ]
    twice = a_message(
        one, "1001", **(posted | {"message_id": "9", "person": "dana", "posted_at": LATER}), id="twice", token="twice"
    )
    others = [
        a_message(final, "1001", **(posted | {"message_id": "7"})), a_message(one, "1002", **posted),
        a_message(two, "1001", **(posted | {"message_id": "8"}), kind=Kind.PROMPT, id="prompt", token="prompt"),
    ]  # fmt: skip
    await database.write(lambda ledger: [ledger.reserve(row, NOW) for row in (*cards, twice, *others)])
    found = await database.read(lambda ledger: ledger.waiting_in(Message("telegram", "77", "1001", "", "")))
    assert [approval.id for _, approval in found] == [one.id, two.id]
    assert {posted.chat for posted, _ in found} == {"1001"}
    for place in (Message("telegram", "78", "1001", "", ""), Message("slack", "77", "1001", "", "")):
        assert await database.read(methodcaller("waiting_in", place)) == []


async def test_a_vote_that_is_taken_back_is_gone_and_no_other(database: Database) -> None:
    row = an_approval()
    await kept(database, row)
    votes = [
        Vote("dana", 1, "allow", NOW, ("approver",)),
        Vote("ola", 1, "allow", SOON),
        Vote("dana", 2, "allow", LATER),
    ]
    for vote in votes:
        await database.write(methodcaller("vote", row.id, vote))
    assert await database.read(lambda ledger: ledger.votes_of(row.id)) == votes
    await database.write(lambda ledger: ledger.drop_vote(row.id, "dana", 1))
    assert await database.read(lambda ledger: ledger.votes_of(row.id)) == votes[1:]


async def test_rules_are_kept_by_scope_found_by_their_button_and_raise_the_version(database: Database) -> None:
    await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    write, read = database.write, database.read

    async def version() -> int:
        agent = await read(lambda ledger: ledger.agent("billing"))
        assert agent is not None
        return agent.version

    before = await version()
    rule = a_rule(expires_at=LATER)
    assert await write(methodcaller("add_rule", rule)) == rule
    assert await version() == before + 1
    # The same scope again is the same rule, with what the later one says.
    renewed = await write(methodcaller("add_rule", a_rule(label="again", created_by="ola")))
    assert renewed == replace(rule, label="again", created_by="ola", expires_at=None)
    narrow = a_rule(scope_kind=ScopeKind.RECIPIENT, scope_value='["", "Ada"]', created_at=SOON)
    await write(methodcaller("add_rule", narrow))
    assert await read(lambda ledger: ledger.rules("billing")) == [renewed, narrow]
    assert await read(lambda ledger: ledger.rule(narrow.id)) == narrow
    assert await read(lambda ledger: ledger.rule(token=rule_token(narrow.id))) == narrow
    assert await read(lambda ledger: ledger.rule(new_id(NOW))) is None
    assert await write(methodcaller("drop_rule", narrow.id))
    assert not await write(methodcaller("drop_rule", narrow.id))
    assert await version() == before + 4
    assert await write(methodcaller("add_rule", a_rule(agent="nobody"))) is None
    # A rule for money is not undone by one without a ceiling.
    money = a_rule(expires_at=LATER, ceiling_amount="50.00", ceiling_currency="GBP")
    assert await write(methodcaller("add_rule", money)) == replace(money, id=rule.id)
    assert await write(methodcaller("add_rule", a_rule())) is None
    assert await read(lambda ledger: ledger.rules("billing")) == [replace(money, id=rule.id)]


async def test_an_agent_that_leaves_takes_its_rules_along_and_comes_back_without_what_it_was(
    database: Database,
) -> None:
    write, read = database.write, database.read
    await write(lambda ledger: ledger.replace_directory(DIRECTORY))
    await write(methodcaller("add_rule", a_rule()))
    before = await read(lambda ledger: ledger.agent("billing"))
    assert before is not None
    await write(lambda ledger: ledger.replace_directory({**DIRECTORY, "agents": {}}))
    await write(lambda ledger: ledger.replace_directory(DIRECTORY))
    assert await read(lambda ledger: ledger.rules("billing")) == []
    again = [await read(lambda ledger: ledger.agent("billing"))]
    # Whoever kept the rules of a version never takes them for those of a later life of the agent.
    for _ in range(3):
        await write(methodcaller("add_rule", a_rule()))
        again.append(await read(lambda ledger: ledger.agent("billing")))
    assert before.version not in [agent.version for agent in again if agent is not None]


async def test_what_is_set_for_an_agent_outlives_an_apply_that_says_nothing_of_it(database: Database) -> None:
    quiet = json.loads(json.dumps(DIRECTORY))
    del quiet["agents"]["billing"]["mode"]
    write, read = database.write, database.read
    await write(lambda ledger: ledger.replace_directory(quiet))
    assert await write(lambda ledger: ledger.set_mode("billing", Mode.EVERYTHING))
    assert not await write(lambda ledger: ledger.set_mode("nobody", Mode.EVERYTHING))
    assert await write(lambda ledger: ledger.set_paused("billing", NOW, "dana"))
    assert not await write(lambda ledger: ledger.set_paused("billing", LATER, "ola"))
    assert await write(lambda ledger: ledger.raise_generation("billing")) == 2
    assert await write(lambda ledger: ledger.raise_generation("nobody")) is None
    await write(lambda ledger: ledger.replace_directory(quiet))
    for hold in ("", "share", "update"):
        agent = await write(methodcaller("agent", "billing", hold))
        assert (agent.mode, agent.paused_at, agent.generation) == (Mode.EVERYTHING, NOW, 2)
    await write(lambda ledger: ledger.replace_directory(DIRECTORY))
    agent = await read(lambda ledger: ledger.agent("billing"))
    assert agent is not None
    assert agent.mode is Mode.OUTSIDE
    assert await write(lambda ledger: ledger.set_paused("billing", None, None))
    assert not await write(lambda ledger: ledger.set_paused("billing", None, None))


@pytest.mark.parametrize(("first", "then", "waits"), [
    ("share", "share", False), ("share", "update", True), ("update", "share", True), ("update", "", False),
])  # fmt: skip
async def test_who_holds_an_agent_keeps_others_from_changing_it(
    postgres_database: str, first: str, then: str, waits: bool
) -> None:
    await migrate.migrate(postgres_database)
    database = Database.open(postgres_database)
    await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    held, go_on = asyncio.Event(), asyncio.Event()

    def hold(ledger: Ledger) -> None:
        ledger.agent("billing", first)  # type: ignore[arg-type]
        held.set()
        wait(go_on.wait())

    holder = asyncio.create_task(database.write(hold))
    await held.wait()
    other = asyncio.create_task(database.write(methodcaller("agent", "billing", then)))
    done, _ = await asyncio.wait({other}, timeout=0.15 if waits else 5)
    assert bool(done) is not waits
    go_on.set()
    await holder
    assert (await other).id == "billing"
    await database.close()


# People


def actor(platform: str, user: str, tenant: str = "", name: str = "") -> Actor:
    return Actor(platform, tenant, user, name)


async def test_the_directory_comes_back_as_it_was_applied(database: Database) -> None:
    empty: dict[str, Any] = {"people": {}, "chats": {}, "roles": {}, "members": {}, "agents": {}, "routes": []}
    empty |= {"groups": {}, "effects": {}}
    assert await database.read(lambda ledger: ledger.directory()) == empty
    for _ in range(2):
        await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
        assert await database.read(lambda ledger: ledger.directory()) == DIRECTORY
    await database.write(lambda ledger: ledger.replace_directory(empty))
    assert await database.read(lambda ledger: ledger.directory()) == empty


async def test_the_directory_answers_who_somebody_is(database: Database) -> None:
    await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    view, answer = Permission.VIEW, Permission.ANSWER
    dana = Person("dana", "Dana Reyes", frozenset({view, answer}), frozenset({"approver"}))
    kim = Person("kim", "Kim Sató", frozenset({view, answer, Permission.ADMIN}), frozenset({"admin", "approver"}))
    read = database.read
    assert await read(lambda ledger: ledger.person("dana")) == dana
    assert await read(lambda ledger: ledger.person("nobody")) is None
    assert await read(lambda ledger: ledger.person_of(actor("telegram", "1001", name="whatever"))) == dana
    assert await read(lambda ledger: ledger.person_of(actor("slack", "U01", "T01"))) == dana
    assert await read(lambda ledger: ledger.person_of(actor("discord", "4203"))) == kim
    for stranger in (
        actor("telegram", "1002"),
        actor("slack", "U01", "T02"),
        actor("slack", "U01"),
        actor("slack", "1001"),
    ):
        assert await read(methodcaller("person_of", stranger)) is None
    everybody = await read(lambda ledger: ledger.people())
    assert [person.id for person in everybody] == ["dana", "kim", "ola"]
    assert everybody[1] == kim
    assert [person.language for person in everybody] == ["", "", "de"]
    languages = await read(lambda ledger: ledger.languages())
    assert languages == {"telegram:-1001234": "de", "telegram:-1001234/31": "en"}
    identities = await read(lambda ledger: ledger.identities("dana"))
    assert [(who.platform, who.tenant, who.id) for who in identities] == [
        ("discord", "", "4201"), ("slack", "T01", "U01"), ("telegram", "", "1001"),
    ]  # fmt: skip


async def test_the_identities_of_people_with_a_language_of_their_own_are_read_at_once(database: Database) -> None:
    directory = json.loads(json.dumps(DIRECTORY))
    directory["people"]["dana"]["language"] = "en"
    await database.write(lambda ledger: ledger.replace_directory(directory))
    ola = actor("telegram", "2002", name="Ola on her phone")
    assert await database.write(lambda ledger: ledger.add_identity("ola", ola))
    spoken = await database.read(lambda ledger: ledger.languages_of_people())
    assert [(who.platform, who.tenant, who.id, language) for who, language in spoken] == [
        ("discord", "", "4201", "en"), ("slack", "T01", "U01", "en"),
        ("telegram", "", "1001", "en"), ("telegram", "", "2002", "de"),
    ]  # fmt: skip


async def test_the_directory_answers_what_agents_and_routes_there_are(database: Database) -> None:
    await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    billing = await database.read(lambda ledger: ledger.agent("billing"))
    assert billing is not None
    assert billing == Agent("billing", "dana", Mode.OUTSIDE, (("stripe.refund", "refund", "billing"),),
                            version=billing.version)  # fmt: skip
    assert await database.read(lambda ledger: ledger.agent("nobody")) is None
    assert await database.read(lambda ledger: ledger.agents()) == [billing]
    assert await database.read(lambda ledger: ledger.effects()) == DIRECTORY["effects"]
    assert await database.read(lambda ledger: ledger.mapped_roles()) == [
        Role("approver", frozenset({Permission.VIEW, Permission.ANSWER}),
             frozenset({"slack:T01/S01", "discord:500/7001"})),
    ]  # fmt: skip
    assert await database.read(lambda ledger: ledger.routes()) == [
        Route(("role:approver",), ("telegram:-1001234/31", "dm"), {"agent": "billing", "effect": "money"},
              timeout_s=86400, remind_s=14400),
        Route(("dana",), ("dm",)),
    ]  # fmt: skip


async def test_a_person_without_a_role_is_somebody_with_no_permission(database: Database) -> None:
    directory = {**DIRECTORY, "members": {}}
    await database.write(lambda ledger: ledger.replace_directory(directory))
    assert await database.read(lambda ledger: ledger.person_of(actor("telegram", "1001"))) == Person(
        "dana", "Dana Reyes"
    )


async def test_what_people_linked_from_chat_outlives_the_file(database: Database) -> None:
    ola, kim = actor("telegram", "2002", name="Ola on her phone"), actor("telegram", "3003")
    await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    assert await database.write(lambda ledger: ledger.add_identity("ola", ola))
    assert await database.write(lambda ledger: ledger.add_identity("kim", kim))
    assert not await database.write(lambda ledger: ledger.add_identity("kim", ola))
    await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    assert await database.read(lambda ledger: ledger.identities("ola")) == [ola]
    # The file names a Telegram identity for Kim, so the one from chat goes.
    directory = json.loads(json.dumps(DIRECTORY))
    directory["people"]["kim"]["identities"]["telegram"] = "3004"
    await database.write(lambda ledger: ledger.replace_directory(directory))
    assert await database.read(lambda ledger: ledger.person_of(kim)) is None
    person = await database.read(lambda ledger: ledger.person_of(actor("telegram", "3004")))
    assert person is not None
    assert person.id == "kim"
    # And the file's word on whose identity it is stands over the chat's.
    directory["people"]["dana"]["identities"]["telegram"] = "2002"
    await database.write(lambda ledger: ledger.replace_directory(directory))
    person = await database.read(lambda ledger: ledger.person_of(ola))
    assert person is not None
    assert person.id == "dana"


async def test_who_leaves_the_file_leaves_nothing_behind_but_the_record(database: Database) -> None:
    row = an_approval(decided_by="ola", status=Status.DECLINED)
    without = json.loads(json.dumps(DIRECTORY))
    del without["people"]["ola"]
    without["members"]["approver"].remove("ola")
    without["agents"] = {}

    def before(ledger: Ledger) -> None:
        ledger.replace_directory(DIRECTORY)
        ledger.insert(row)
        ledger.add_identity("ola", actor("telegram", "2002"))
        ledger.add_pairing("code", "ola", "kim", LATER)
        ledger.add_token("hash-1", "person", "ola", NOW)
        ledger.add_token("hash-2", "agent", "billing", NOW)
        ledger.add_token("hash-3", "person", "dana", NOW)
        ledger.audit(AuditLine(row.id, NOW, "decline", 2, person="ola"))

    await database.write(before)
    await database.write(lambda ledger: ledger.replace_directory(without))

    def after(ledger: Ledger) -> list[Any]:
        return [
            ledger.person("ola"), ledger.person_of(actor("telegram", "2002")), ledger.agent("billing"),
            ledger.token("hash-1"), ledger.token("hash-2"),
        ]  # fmt: skip

    assert await database.read(after) == [None] * 5
    assert await database.read(lambda ledger: ledger.token("hash-3")) is not None
    assert await database.write(lambda ledger: ledger.take_pairing("code", NOW)) is None
    assert await database.read(lambda ledger: ledger.approval(row.id)) == row
    assert (await database.read(lambda ledger: ledger.audit_of(row.id)))[0].person == "ola"


async def test_two_that_apply_at_once_end_with_one_of_the_two(database: Database, other: Database) -> None:
    variants = []
    for name in ("Dana A", "Dana B"):
        directory = json.loads(json.dumps(DIRECTORY))
        directory["people"]["dana"]["name"] = name
        variants.append(directory)
    await asyncio.gather(
        *((database, other)[n % 2].write(methodcaller("replace_directory", variants[n % 2])) for n in range(8))
    )
    assert await database.read(lambda ledger: ledger.directory()) in variants


# Codes, tokens, leases, keys


async def test_a_link_code_is_used_once_however_many_try(database: Database, other: Database) -> None:
    await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    await database.write(lambda ledger: ledger.add_pairing("code", "dana", "kim", SOON))
    assert await database.write(lambda ledger: ledger.take_pairing("other", NOW)) is None
    done = await asyncio.gather(
        *((database, other)[n % 2].write(lambda ledger: ledger.take_pairing("code", NOW)) for n in range(10))
    )
    assert sorted(map(str, done)) == ["None"] * 9 + ["dana"]


async def test_a_link_code_runs_out(database: Database) -> None:
    await database.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    await database.write(lambda ledger: ledger.add_pairing("code", "dana", "kim", SOON))
    assert await database.write(lambda ledger: ledger.take_pairing("code", SOON)) is None


async def test_a_bearer_token_is_found_by_its_hash(database: Database) -> None:
    token_id = await database.write(lambda ledger: ledger.add_token("hash", "agent", "billing", NOW))
    assert await database.read(lambda ledger: ledger.token("hash")) == (token_id, "agent", "billing")
    assert await database.read(lambda ledger: ledger.token("another")) is None


async def test_a_lease_has_one_holder_and_is_taken_over_when_it_ran_out(database: Database, other: Database) -> None:
    done = await asyncio.gather(
        *((database, other)[n % 2].write(methodcaller("take_lease", "poller", f"h{n}", NOW, SOON)) for n in range(10))
    )
    assert done.count(True) == 1
    holder = f"h{done.index(True)}"
    write = database.write
    assert await write(lambda ledger: ledger.take_lease("poller", holder, NOW, LATER))
    assert not await write(lambda ledger: ledger.take_lease("poller", "x", SOON, LATER))
    assert await write(lambda ledger: ledger.take_lease("another", "x", NOW, SOON))
    assert await write(lambda ledger: ledger.take_lease("poller", "x", LATER, LATER + timedelta(minutes=1)))
    assert not await write(lambda ledger: ledger.take_lease("poller", holder, LATER, LATER + timedelta(minutes=1)))
    await write(lambda ledger: ledger.drop_lease("poller", holder))
    assert not await write(lambda ledger: ledger.take_lease("poller", "y", LATER, LATER + timedelta(minutes=1)))
    await write(lambda ledger: ledger.drop_lease("poller", "x"))
    assert await write(lambda ledger: ledger.take_lease("poller", "y", NOW, SOON))


async def test_a_key_is_made_once(database: Database, other: Database) -> None:
    made = await asyncio.gather(
        *((database, other)[n % 2].write(lambda ledger: ledger.key("redaction")) for n in range(6))
    )
    assert len(set(made)) == 1
    assert len(made[0]) == 32
    assert await database.write(lambda ledger: ledger.key("another")) != made[0]
    assert await database.read(lambda ledger: ledger.key("redaction")) == made[0]


# Faults


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("mysql://root:hunter2@localhost/x", "only SQLite and PostgreSQL"),
        ("hunter2", "not a database URL"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_told(url: str, word: str) -> None:
    with pytest.raises(BadSetting, match=word) as refused:
        Database.open(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
async def test_a_server_that_is_not_there_is_unavailable(scheme: str) -> None:
    database = Database.open(f"{scheme}://placet:hunter2@127.0.0.1:1/placet")
    for transaction in (database.write, database.read):
        with pytest.raises(Unavailable) as refused:
            await transaction(lambda ledger: ledger.waiting())
        assert "hunter2" not in str(refused.value)
        assert refused.value.__cause__ is None
    await database.close()


async def test_a_folder_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    database = Database.open(f"sqlite:///{tmp_path / 'missing' / 'placet.db'}")
    with pytest.raises(Unavailable):
        await database.write(lambda ledger: ledger.waiting())
    (tmp_path / "missing").mkdir()
    await migrate.migrate(f"sqlite:///{tmp_path / 'missing' / 'placet.db'}")
    assert await database.write(lambda ledger: ledger.waiting()) == (0, None)
    await database.close()


async def test_a_database_that_was_never_migrated_is_a_fault(database_url: str) -> None:
    database = Database.open(database_url)
    with pytest.raises(Fault):
        await database.read(lambda ledger: ledger.waiting())
    await database.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this module's own, to be stopped and started."""
    with tempfile.TemporaryDirectory(prefix="placet-tests-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder))
        try:
            yield server
        finally:
            run(server.stop())


@pytest.fixture
async def server(own_server: PostgresServer) -> PostgresServer:
    if not own_server.running:
        await own_server.start()
    return own_server


@pytest.fixture
async def served_url(server: PostgresServer) -> str:
    url = server.url(await server.create_database())
    await migrate.migrate(url)
    return url


@pytest.fixture
async def served(served_url: str) -> AsyncIterator[Database]:
    database = Database.open(served_url)
    yield database
    await database.close()


async def test_a_server_that_comes_back_is_used_again(server: PostgresServer, served: Database) -> None:
    row = an_approval()
    await kept(served, row)
    await asyncio.gather(*(served.read(lambda ledger: ledger.waiting()) for _ in range(20)))
    await server.stop()
    with pytest.raises(Unavailable):
        await served.write(lambda ledger: ledger.change(row, note="lost"))
    with pytest.raises(Unavailable):
        await served.read(lambda ledger: ledger.approval(row.id))
    await server.start()
    assert await served.read(lambda ledger: ledger.approval(row.id)) == row
    assert await served.write(lambda ledger: ledger.change(row, note="found"))


async def test_a_restart_between_two_presses_is_not_noticed(server: PostgresServer, served: Database) -> None:
    row = an_approval()
    await kept(served, row)
    await asyncio.gather(*(served.read(lambda ledger: ledger.waiting()) for _ in range(20)))
    await server.kill()
    await server.start()
    # Sixteen connections of the pool are dead; every one of these finds a live one.
    done = await asyncio.gather(*(served.read(lambda ledger: ledger.approval(row.id)) for _ in range(32)))
    assert done == [row] * 32


async def test_a_server_that_dies_in_the_middle_decides_nothing(server: PostgresServer, served: Database) -> None:
    row = an_approval()
    await kept(served, row)
    calls = []

    def work(ledger: Ledger) -> None:
        calls.append(1)
        assert ledger.change(row, status=Status.APPROVED)
        wait(server.kill())
        ledger.audit(AuditLine(row.id, NOW, "allow", 2))

    with pytest.raises(Unavailable):
        await served.write(work)
    assert calls == [1]
    await server.start()
    assert await served.read(lambda ledger: ledger.approval(row.id)) == row


async def test_a_connection_lost_before_the_commit_commits_nothing(served: Database, served_url: str) -> None:
    row = an_approval()
    await kept(served, row)
    calls = []

    def work(ledger: Ledger) -> None:
        calls.append(1)
        assert ledger.change(row, status=Status.APPROVED)
        wait(statement(served_url, f"SELECT pg_terminate_backend(pid) FROM {OTHERS}"))

    with pytest.raises(Unavailable, match="whether it committed"):
        await served.write(work)
    assert calls == [1]
    assert await served.read(lambda ledger: ledger.approval(row.id)) == row


async def test_a_server_that_hangs_is_unavailable_in_time(served_url: str) -> None:
    database = Database.open(served_url, patience_s=1)
    row = an_approval()
    await kept(database, row)
    found = await statement(served_url, f"SELECT pid FROM {OTHERS}")
    for record in found:
        os.kill(record["pid"], signal.SIGSTOP)
    try:
        async with asyncio.timeout(8):
            with pytest.raises(Unavailable):
                await database.write(lambda ledger: ledger.change(row, note="x"))
    finally:
        for record in found:
            os.kill(record["pid"], signal.SIGCONT)
    assert await database.write(lambda ledger: ledger.change(row, note="x"))
    await database.close()


async def test_a_press_that_is_cancelled_leaves_nothing_and_harms_nobody(database: Database) -> None:
    row = an_approval()
    await kept(database, row)
    tasks = [
        asyncio.create_task(database.write(methodcaller("change", row, note=str(n), status=Status.DECLINED)))
        for n in range(40)
    ]
    await asyncio.sleep(0.002)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    now = await database.read(lambda ledger: ledger.approval(row.id))
    assert now is not None
    assert now.revision <= 2
    done = await asyncio.gather(*(database.read(lambda ledger: ledger.waiting()) for _ in range(40)))
    assert len(done) == 40


async def test_a_deadlock_is_unavailable_for_one_and_done_for_the_other(postgres_database: str) -> None:
    await migrate.migrate(postgres_database)
    database = Database.open(postgres_database)
    first, second = an_approval(), an_approval()
    await kept(database, first, second)
    both = asyncio.Barrier(2)

    def crosswise(one: Approval, two: Approval) -> Callable[[Ledger], None]:
        def work(ledger: Ledger) -> None:
            assert ledger.change(one, note="x")
            wait(both.wait())
            ledger.change(two, note="x")

        return work

    done = await asyncio.gather(
        database.write(crosswise(first, second)), database.write(crosswise(second, first)), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in done) == ["NoneType", "Unavailable"]
    await database.close()


async def test_transactions_that_do_not_end_are_ended_and_what_waited_behind_them(postgres_database: str) -> None:
    await migrate.migrate(postgres_database)
    database = Database.open(postgres_database, patience_s=1)
    row = an_approval()
    await kept(database, row)

    def hold(ledger: Ledger) -> None:
        ledger.audit(AuditLine(row.id, NOW, "held", 1))
        wait(asyncio.Event().wait())

    async with asyncio.timeout(8):
        held = await asyncio.gather(*(database.write(hold) for _ in range(CONNECTIONS + 4)), return_exceptions=True)
    assert [type(one) for one in held] == [Unavailable] * (CONNECTIONS + 4)
    assert await database.read(lambda ledger: ledger.audit_of(row.id)) == []
    await database.close()


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


async def test_a_file_that_another_process_holds_is_unavailable_in_time(sqlite_url: str) -> None:
    await migrate.migrate(sqlite_url)
    database = Database.open(sqlite_url, patience_s=0.5)
    row = an_approval()
    await kept(database, row)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, sqlite_url.removeprefix("sqlite:///")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"held\n"
        writes = [database.write(lambda ledger: ledger.change(row, note="x")) for _ in range(5)]
        async with asyncio.timeout(5):
            waiting = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(one) for one in waiting] == [Unavailable] * 5
        # Reading goes on meanwhile.
        assert await database.read(lambda ledger: ledger.approval(row.id)) == row
        assert holder.stdin is not None
        holder.stdin.close()
        await asyncio.to_thread(holder.wait)
    # What was told that it could not be written is not written afterwards.
    assert await database.write(lambda ledger: ledger.change(row, note="y"))
    await database.close()


async def test_the_agents_of_a_lane_are_those_that_stand_in_it(database: Database) -> None:
    directory = {**DIRECTORY, "agents": {name: {"owner": "dana"} for name in ("billing", "other", "third", "fourth")}}
    await database.write(lambda ledger: ledger.replace_directory(directory))
    over: dict[str, Any] = {"status": Status.DECLINED, "decided_at": NOW}
    await kept(
        database,
        an_approval(agent="other", lane="chat", run_id="r1", **over),
        an_approval(lane="chat"),
        an_approval(agent="third", lane="chat", **over),
        an_approval(agent="fourth", lane="else", run_id="r1"),
        an_approval(agent="gone", lane="chat"),
    )
    assert await database.read(lambda ledger: ledger.agents_of_lane("chat")) == ["billing", "other"]
    assert await database.read(lambda ledger: ledger.agents_of_lane("nowhere")) == []
