"""What travels between the workflows and their activities: ids, instants and answers, never a secret of Placet's."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from core.approvals import Destination, Outcome

APPROVAL_WORKFLOW = "ApprovalWorkflow"
SWEEP_WORKFLOW = "SweepWorkflow"
BOTS_QUEUE = "placet-bots"
# The field of a fault that is not one field's.
WHOLE = "(the whole ask)"


class _Payload(BaseModel):
    # Fields that a newer worker added are ignored by an older one, so that both can serve one queue.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Call(_Payload):
    """The caller's activity; durations in seconds."""

    activity: str
    task_queue: str
    start_to_close_s: int
    schedule_to_start_s: int


class Answer(_Payload):
    """What the caller is given, without `result` and `arguments`, which the workflow puts in as the texts they are.

    `status` is approved, declined, expired, cancelled, auto (ran unasked) or pending (a draft); `text` is the
    sentence for the model.
    """

    approval_id: str
    status: str
    outcome: Outcome
    error: str | None
    decided_by: str | None
    decided_at: datetime | None
    note: str | None
    by_message: bool
    text: str | None


class Place(_Payload):
    """One place a card goes to."""

    platform: str
    account: str
    chat: str
    thread: str
    person: str

    @property
    def destination(self) -> Destination:
        return Destination(self.platform, self.account, self.chat, self.thread)


class Notify(_Payload):
    """The workflow that hears what became of a draft, and by which signal."""

    workflow_id: str
    signal: str


class Row(_Payload):
    """What a waiting run needs of its row.

    While `pending` there is nothing for it to do before `expires_at`, unless it is nudged: the row waits for an answer,
    or the answer for the end of its Undo, or for its agent to go on.

    `answer` and `arguments` (the exact text of the final ones) are set once the row is final, so that waiting carries
    nothing; `answer` also for a draft that its asker does not wait for. `call` is set when this run may run it now,
    and only then. `notify` is set once a draft has ended whose ask names a workflow. `places` are where cards of a
    waiting row are missing: a link, an apply or its escalation may have opened one since.
    """

    id: str
    pending: bool
    expires_at: datetime
    remind_at: datetime | None = None
    answer: Answer | None = None
    arguments: str | None = None
    call: Call | None = None
    places: tuple[Place, ...] = ()
    notify: Notify | None = None


class Fault(_Payload):
    """Why an ask cannot be taken: the field and the fix, never the value."""

    field: str
    problem: str


class Opening(_Payload):
    """What came of an ask: a fault, or the row and where its cards go.

    `handed_over`: the row lives in the workflow `approval-<id>`, which is to be started, and this run returns at once.
    `draft`: nobody has to be asked, and the run that asked makes the call itself unless it would have to wait.
    """

    fault: Fault | None = None
    row: Row | None = None
    places: tuple[Place, ...] = ()
    handed_over: bool = False
    draft: bool = False


class Posting(_Payload):
    """One card to post."""

    approval_id: str
    place: Place


class Ended(_Payload):
    """What became of a call, as the run that made it saw it."""

    approval_id: str
    run_id: str
    outcome: Outcome
    error: str | None = None


class Round(_Payload):
    """What one round of the sweep did; a step that failed is named in `failed`."""

    rung: int = 0
    expired: int = 0
    settled: int = 0
    started: int = 0
    checked: int = 0
    missing: int = 0
    redrawn: int = 0
    failed: tuple[str, ...] = ()
