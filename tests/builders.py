"""Rows as tests need them: a plausible approval of which a test names only what matters to it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import uuid_utils

from adapters.directory_file import read_directory
from core.approvals import Approval, Effect, Outcome, Runtime, Status
from core.canonical import digest_of

NOW = datetime(2026, 3, 9, 12, 0, tzinfo=UTC)
REFUND = {"charge": "ch_1", "amount": 4900, "currency": "GBP", "reason": "duplicate"}
REFUND_CARD = {
    "title": "Refund a duplicate charge",
    "lines": [["Amount", "/amount", "money:/currency"], ["Charge", "/charge"], ["Customer", "Ada Lovelace"]],
}
RUN = {"activity": "refund", "task_queue": "billing", "start_to_close_s": 600, "schedule_to_start_s": 600}

# Dana and Ola are asked and may answer; Eve may answer but is not asked; Pat is asked nothing and may only look.
DIRECTORY = read_directory("""
people:
  dana: {name: Dana Reyes, identities: {telegram: 1001}}
  ola: {name: Ola Berg, identities: {telegram: 1002}}
  eve: {name: Eve Moss, identities: {telegram: 1003}}
  pat: {name: Pat Lund, identities: {telegram: 1004}}
roles:
  approver: [approvals:view, approvals:answer]
  viewer: [approvals:view]
members: {approver: [dana, ola, eve], viewer: [pat]}
agents:
  billing: {owner: dana, runs: [{tool: refund, activity: refund, task_queue: billing}]}
routes:
  - {match: {agent: billing}, ask: [dana, ola], at: ["telegram:-100500"]}
""")


def an_approval(**changes: Any) -> Approval:
    """A pending refund for 49 GBP, asked at NOW, expiring a week later, with a fresh id.

    Any column can be changed; `arguments`, `final_arguments`, `presentation`, `route` and `run` also as objects, and
    `final_arguments` follows `arguments` and `digest` the content unless they are given.
    """
    for column in ("arguments", "final_arguments", "presentation", "route", "run"):
        if column in changes and not isinstance(changes[column], str | None):
            changes[column] = json.dumps(changes[column], ensure_ascii=False)
    approval = Approval(
        id=str(uuid_utils.uuid7()),
        agent="billing",
        tool="stripe.refund",
        operation="create",
        effect=Effect.MONEY,
        runtime=Runtime.TURN,
        status=Status.PENDING,
        outcome=Outcome.NONE,
        revision=1,
        content_revision=1,
        arguments=json.dumps(REFUND),
        final_arguments=changes.get("arguments", json.dumps(REFUND)),
        presentation=json.dumps(REFUND_CARD),
        route=json.dumps({"ask": ["dana"], "at": ["dm"]}),
        digest="",
        needed=1,
        created_at=NOW,
        expires_at=NOW + timedelta(days=7),
        run=json.dumps(RUN),
        reasoning="The customer was charged twice.",
    )
    approval = replace(approval, **changes)
    if not approval.digest:
        approval = replace(
            approval,
            digest=digest_of(approval.tool, approval.operation, approval.run, approval.final_arguments),
        )
    return approval
