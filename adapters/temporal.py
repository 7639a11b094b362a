"""Temporal: the client, the bell that wakes what waits, the workers, and the sweep's schedule."""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
    WorkflowExecutionStatus,
)
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    PayloadCodec,
    PayloadConverter,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.runtime import LogForwardingConfig, LoggingConfig, TelemetryConfig, TelemetryFilter
from temporalio.runtime import Runtime as Core
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from core.approvals import Approval, Runtime
from core.ports import BadSetting, Meter, Unavailable

log = logging.getLogger("placet.temporal")

QUEUE = "placet"
APPROVAL_WORKFLOW, SWEEP_WORKFLOW, NUDGE = "ApprovalWorkflow", "SweepWorkflow", "nudge"
SWEEP_ID = "placet-sweep"
SWEEP_EVERY = timedelta(seconds=30)
SWEEP_AT_MOST = timedelta(minutes=2)
CATCH_UP = timedelta(seconds=10)
BOUND = timedelta(seconds=1)
DESCRIBE_BOUND = timedelta(seconds=5)
GRACE = timedelta(seconds=10)
# How long a workflow's task waits for the worker that knows it, after that worker was killed.
STICKY = timedelta(seconds=5)
RETRY_S, RETRY_MAX_S = 0.5, 5.0
CACHE = 1000
ASKED, HOUSEKEEPING = Priority(priority_key=3), Priority(priority_key=4)


class TolerantCodec(PayloadCodec):
    """A caller's codec, save that a payload that it cannot decode passes as it is.

    What reads the payload then says so: an ask is refused, a result is `null` with an error. Failing here instead
    would fail the workflow's task for ever. OSError and Unavailable (a key service that is away) are raised, and the
    task is tried again.
    """

    def __init__(self, codec: PayloadCodec) -> None:
        self._codec = codec

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self._codec.encode(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        decoded: list[Payload] = []
        for payload in payloads:
            try:
                decoded.extend(await self._codec.decode([payload]))
            except (OSError, Unavailable):
                raise
            except Exception as error:
                log.warning("payload not decoded", extra={"error": type(error).__name__})
                decoded.append(payload)
        return decoded


_CONVERTERS = tuple(PydanticPayloadConverter().converters.values())


class SharedConverter(CompositePayloadConverter):
    """Pydantic's payload converter. The SDK makes one for every workflow in memory: these all share its parts."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)


class TolerantFailureConverter(DefaultFailureConverter):
    """Reads every failure, if need be without its details: a caller's may hold what Placet cannot decode."""

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        try:
            return super().from_failure(failure, payload_converter)
        except Exception:
            bare = Failure()
            bare.CopyFrom(failure)
            if bare.HasField("application_failure_info"):
                bare.application_failure_info.ClearField("details")
            if bare.HasField("canceled_failure_info"):
                bare.canceled_failure_info.ClearField("details")
            if bare.HasField("timeout_failure_info"):
                bare.timeout_failure_info.ClearField("last_heartbeat_details")
            return super().from_failure(bare, payload_converter)


def data_converter(codec: PayloadCodec | None = None) -> DataConverter:
    """Pydantic's JSON, tolerant of what a caller's activity may answer."""
    return DataConverter(
        payload_converter_class=SharedConverter,
        failure_converter_class=TolerantFailureConverter,
        payload_codec=None if codec is None else TolerantCodec(codec),
    )


def load_codec(name: str) -> PayloadCodec:
    """The payload codec that `module:object` names: a codec, or a class or function that makes one."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
        codec = found if isinstance(found, PayloadCodec) else found()
    except Exception as error:
        raise BadSetting("PLACET_TEMPORAL_CODEC", f"cannot be loaded ({type(error).__name__})") from error
    if not isinstance(codec, PayloadCodec):
        raise BadSetting("PLACET_TEMPORAL_CODEC", "names no temporalio.converter.PayloadCodec")
    return codec


@functools.cache
def _core() -> Core:
    """The SDK's core, one for the process; what it says goes to the logs instead of the terminal.

    The fields of its lines are left out, since they quote what passes through.
    """
    forwarding = LogForwardingConfig(
        logging.getLogger("temporalio.core"),
        append_target_to_name=False,
        prepend_target_on_message=False,
        append_log_fields_to_message=False,
    )
    wanted = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return Core(telemetry=TelemetryConfig(logging=LoggingConfig(wanted, forwarding)))


class Temporal:
    """The server as this process sees it: it may be down now and at any time, and is reached again by itself."""

    def __init__(
        self, address: str, namespace: str = "default", *, codec: PayloadCodec | None = None, identity: str = "placet"
    ) -> None:
        self.address, self.namespace = address, namespace
        self._converter, self._identity = data_converter(codec), identity
        self._client: Client | None = None
        self._connected: Client | None = None

    async def client(self) -> Client:
        """The client, which connects with its first call."""
        if self._client is None:
            self._client = await self._connect(lazy=True)
        return self._client

    async def _connect(self, *, lazy: bool) -> Client:
        return await Client.connect(
            self.address,
            namespace=self.namespace,
            data_converter=self._converter,
            identity=self._identity,
            lazy=lazy,
            runtime=_core(),
        )

    async def check(self) -> str | None:
        """None when the server answers within 1 s, else what is wrong, in one line."""
        client = await self.client()
        try:
            await asyncio.wait_for(client.service_client.check_health(timeout=BOUND), BOUND.total_seconds())
        except (RPCError, RuntimeError, TimeoutError) as error:
            return f"Temporal at {self.address} does not answer ({type(error).__name__})"
        return None

    async def ready(self) -> Client:
        """Wait until the server can be reached; a connected client, which a worker needs."""
        pause = RETRY_S
        while self._connected is None:
            try:
                self._connected = self._client = await self._connect(lazy=False)
            except (RPCError, RuntimeError) as error:
                log.warning("temporal is down", extra={"address": self.address, "error": type(error).__name__})
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_MAX_S)
        return self._connected

    def worker(
        self,
        queue: str,
        *,
        workflows: Sequence[type] = (),
        activities: Sequence[Callable[..., Any]] = (),
        cache: int = CACHE,
    ) -> QueueWorker:
        """What serves a task queue; `cache` is how many waiting workflows stay in memory, others are replayed."""
        return QueueWorker(self, queue, workflows, activities, cache)

    async def describe(self, approval: Approval) -> str:
        """What the server says of a row's workflow: `open`, `closed` or `missing`. Raises Unavailable.

        By Describe, since visibility lags behind.
        """
        handle = (await self.client()).get_workflow_handle(workflow_of(approval))
        try:
            # The call's own limit does not count the time that it takes to connect.
            said = await asyncio.wait_for(handle.describe(rpc_timeout=DESCRIBE_BOUND), DESCRIBE_BOUND.total_seconds())
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return "missing"
            raise Unavailable("the Temporal server does not say") from error
        except (RuntimeError, TimeoutError) as error:
            raise Unavailable("the Temporal server cannot be reached") from error
        # The id may have been used again by a later run of the caller's, which asked for a row of its own.
        first = said.raw_description.workflow_execution_info.first_run_id
        if first and approval.first_run_id and first != approval.first_run_id:
            return "closed"
        return "open" if said.status is WorkflowExecutionStatus.RUNNING else "closed"

    async def ensure_schedule(self) -> str:
        """Make the schedule `placet-sweep`, or bring it up to date: `created`, `updated` or `unchanged`.

        Waits for a server that is down. Whether an operator paused the schedule stays as it is.
        """
        client, wanted = await self.ready(), sweep_schedule()
        try:
            await client.create_schedule(SWEEP_ID, wanted)
        except ScheduleAlreadyRunningError:
            handle = client.get_schedule_handle(SWEEP_ID)
            if _essence((await handle.describe()).schedule) == _essence(wanted):
                return "unchanged"

            def update(input: ScheduleUpdateInput) -> ScheduleUpdate:
                return ScheduleUpdate(replace(wanted, state=input.description.schedule.state))

            await handle.update(update)
            log.info("schedule updated", extra={"schedule": SWEEP_ID})
            return "updated"
        log.info("schedule created", extra={"schedule": SWEEP_ID})
        return "created"

    async def close(self) -> None:
        """Forget the client; its connection ends with it."""
        self._client = self._connected = None


class QueueWorker:
    """Serves one task queue; workflows run in the SDK's sandbox."""

    def __init__(
        self,
        temporal: Temporal,
        queue: str,
        workflows: Sequence[type],
        activities: Sequence[Callable[..., Any]],
        cache: int,
    ) -> None:
        self._temporal, self._queue = temporal, queue
        self._workflows, self._activities, self._cache = workflows, activities, cache

    async def run(self) -> None:
        """Serve until cancelled, then stop in good order; waits for a server that is down.

        Raises what ended the worker; it can be run again.
        """
        client = await self._temporal.ready()
        worker = Worker(
            client,
            task_queue=self._queue,
            workflows=self._workflows,
            activities=self._activities,
            max_cached_workflows=self._cache,
            graceful_shutdown_timeout=GRACE,
            sticky_queue_schedule_to_start_timeout=STICKY,
        )
        log.info("serving", extra={"queue": self._queue})
        async with worker:
            await asyncio.Event().wait()


def workflow_of(approval: Approval) -> str:
    """The id of the workflow that stands for a row: the one that waits for it, or Placet's own."""
    # A draft that nobody had to be asked for runs where it was asked.
    if approval.workflow_id and (approval.runtime is Runtime.TURN or approval.unasked):
        return approval.workflow_id
    return own_workflow_of(approval)


def own_workflow_of(approval: Approval) -> str:
    return f"approval-{approval.id}"


class TemporalBell:
    """core.ports.Bell over signals and starts: never raises, each call bounded to 1 s."""

    def __init__(self, temporal: Temporal, meter: Meter) -> None:
        self._temporal, self._meter = temporal, meter

    async def ring(self, approval: Approval) -> None:
        """The signal `nudge`, without data. A claimed row is skipped: its workflow waits for the call alone."""
        if approval.claim_token is not None:
            return
        client = await self._temporal.client()
        handle = client.get_workflow_handle(workflow_of(approval))
        result = await self._bounded("nudge", approval, handle.signal(NUDGE, rpc_timeout=BOUND))
        self._meter.nudge(result)
        # An answer that came before its workflow could be started: it is started now, and finds it.
        if result == "gone" and (approval.runtime is Runtime.DRAFT or approval.pending):
            await self._start(approval, nudge=workflow_of(approval) != own_workflow_of(approval))

    async def start(self, approval: Approval) -> None:
        """Start the workflow of a row that Placet stands for, unless it runs.

        Once it has ended well, only a draft's is started again: a person may have it sent once more. A run that is
        not needed finds the row consumed, and ends.
        """
        await self._start(approval, nudge=False)

    async def _start(self, approval: Approval, *, nudge: bool) -> None:
        if approval.runtime is Runtime.TURN:
            return
        client = await self._temporal.client()
        again = approval.runtime is Runtime.DRAFT
        start = client.start_workflow(
            APPROVAL_WORKFLOW,
            {"approval_id": approval.id},
            id=own_workflow_of(approval),
            task_queue=QUEUE,
            id_reuse_policy=(
                WorkflowIDReusePolicy.ALLOW_DUPLICATE if again else WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
            ),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=NUDGE if nudge else None,
            priority=ASKED,
            rpc_timeout=BOUND,
        )
        await self._bounded("start", approval, start)

    async def _bounded(self, what: str, approval: Approval, call: Awaitable[Any]) -> str:
        try:
            await asyncio.wait_for(call, BOUND.total_seconds())
        except WorkflowAlreadyStartedError:
            return "gone"
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                log.info(f"{what} found no workflow", extra={"approval": approval.id})
                return "gone"
            return self._failed(what, approval, error.status.name)
        except Exception as error:
            return self._failed(what, approval, type(error).__name__)
        return "sent"

    @staticmethod
    def _failed(what: str, approval: Approval, error: str) -> str:
        log.warning(f"{what} failed", extra={"approval": approval.id, "error": error})
        return "failed"


# The sweep's schedule


def sweep_schedule() -> Schedule:
    """A round every 30 s, never two at once, and no catching up after an outage."""
    return Schedule(
        action=ScheduleActionStartWorkflow(
            SWEEP_WORKFLOW,
            id=SWEEP_ID,
            task_queue=QUEUE,
            execution_timeout=SWEEP_AT_MOST,
            priority=HOUSEKEEPING,
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=SWEEP_EVERY)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
    )


def _essence(schedule: Schedule) -> tuple[object, ...]:
    action = schedule.action
    assert isinstance(action, ScheduleActionStartWorkflow)
    return (
        (action.workflow, action.task_queue, action.execution_timeout, action.priority.priority_key),
        [interval.every for interval in schedule.spec.intervals],
        (schedule.policy.overlap, schedule.policy.catchup_window),
    )
