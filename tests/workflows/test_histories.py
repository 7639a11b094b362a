"""What runs now still understands what ran before: replayed histories, and the names that others rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from adapters.app import running
from adapters.settings import read_settings
from adapters.temporal import APPROVAL_WORKFLOW, NUDGE, QUEUE, SWEEP_WORKFLOW, QueueWorker, Temporal, data_converter
from core.asks import NOTIFY_SIGNAL
from tests.services import free_port
from tests.workflows.record_histories import ALL
from workflows import payloads
from workflows.activities import Bookkeeping, Posts
from workflows.approval import ApprovalWorkflow
from workflows.steps import HEARD
from workflows.sweep import SweepWorkflow

FOLDER = Path(__file__).parents[1] / "histories"
GOLDEN = Path(__file__).with_name("golden.json")
# By name, so that a lost file is noticed, and a way through the workflow that was never recorded.
SCENARIOS = tuple(ALL)


def replayer() -> Replayer:
    return Replayer(workflows=[ApprovalWorkflow, SweepWorkflow], data_converter=data_converter())


@pytest.mark.parametrize("name", SCENARIOS)
async def test_ac16_ac17_a_recorded_history_is_replayed(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text()
    await replayer().replay_workflow(WorkflowHistory.from_json(name, text))


async def test_a_changed_workflow_is_noticed() -> None:
    text = (FOLDER / "allow.json").read_text()
    changed = text.replace('"name": "refund"', '"name": "another"')
    assert changed != text
    with pytest.raises(workflow.NondeterminismError):
        await replayer().replay_workflow(WorkflowHistory.from_json("allow", changed))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_recorded_history_names_no_machine(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text()
    assert identities(json.loads(text)["events"]) <= {"placet", "caller", "", "history-service"}
    assert "site-packages" not in text
    assert str(Path(__file__).parents[2]) not in text


def identities(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*(identities(member) for member in value))
    if isinstance(value, dict):
        own = {text for key, text in value.items() if key == "identity"}
        return own.union(*(identities(member) for member in value.values()))
    return set()


def test_every_recorded_history_is_replayed() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(SCENARIOS)


def test_ac16_ac19_the_names_that_others_rely_on_are_those_of_the_golden_file() -> None:
    """A change here breaks approvals that wait, or callers: it needs a new name beside the old one."""
    golden = json.loads(GOLDEN.read_text())
    assert golden == {
        "workflows": {
            payloads.APPROVAL_WORKFLOW: messages(ApprovalWorkflow),
            payloads.SWEEP_WORKFLOW: messages(SweepWorkflow),
        },
        "told": {NOTIFY_SIGNAL: list(HEARD)},
        "activities": {
            "placet": names(Bookkeeping),
            payloads.BOTS_QUEUE: names(Posts),
        },
    }


async def test_ac19_a_process_serves_every_activity_of_the_golden_file(
    tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: dict[str, list[str]] = {}
    build = Temporal.worker

    def noted(self: Temporal, queue: str, **more: Any) -> QueueWorker:
        definitions = [activity._Definition.must_from_callable(each) for each in more["activities"]]
        served[queue] = sorted(definition.name or "" for definition in definitions)
        return build(self, queue, **more)

    monkeypatch.setattr(Temporal, "worker", noted)
    settings = read_settings(
        data_dir=tmp_path,
        redis_url=valkey_url,
        # Nobody answers there, which keeps a process from nothing.
        temporal_address=f"127.0.0.1:{free_port()}",
        http_bind=f"127.0.0.1:{free_port()}",
    )
    async with running(settings, platforms={}):
        assert served == json.loads(GOLDEN.read_text())["activities"]


def test_the_client_speaks_of_the_same_names() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert list(golden["workflows"]) == [APPROVAL_WORKFLOW, SWEEP_WORKFLOW]
    assert golden["workflows"][APPROVAL_WORKFLOW]["signals"] == [NUDGE]
    assert list(golden["activities"]) == [QUEUE, "placet-bots"]


def messages(cls: type) -> dict[str, list[str]]:
    definition = workflow._Definition.must_from_class(cls)
    return {
        "signals": sorted(str(name) for name in definition.signals),
        "queries": sorted(str(name) for name in definition.queries),
        "updates": sorted(str(name) for name in definition.updates),
    }


def names(holder: type) -> list[str]:
    found = (activity._Definition.from_callable(member) for member in vars(holder).values() if callable(member))
    return sorted(definition.name or "" for definition in found if definition is not None)
