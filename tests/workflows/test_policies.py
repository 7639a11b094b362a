"""Whatever the workflows start says how often it is tried, how long it may take, and what it goes before."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "workflows"
LOCALLY = frozenset({"execute_local_activity", "execute_local_activity_method"})
ACTIVITIES = LOCALLY | {"execute_activity", "execute_activity_method", "start_activity", "start_activity_method"}
CHILDREN = frozenset({"execute_child_workflow", "start_child_workflow"})
SOURCES = {path.name: ast.parse(path.read_text()) for path in sorted(ROOM.glob("*.py"))}


def started() -> list[tuple[str, str, dict[str | None, str]]]:
    """Every place that starts something: where, by what, and the words it is given by name."""
    return [
        (f"{name}:{node.lineno}", node.func.attr, {word.arg: ast.unparse(word.value) for word in node.keywords})
        for name, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        and node.func.attr in ACTIVITIES | CHILDREN
    ]  # fmt: skip


@pytest.mark.parametrize(("where", "how", "words"), started(), ids=[f"{where} {how}" for where, how, _ in started()])
def test_what_is_started_states_its_policies(where: str, how: str, words: dict[str | None, str]) -> None:
    if how in ACTIVITIES:
        assert words["retry_policy"].startswith("retries."), where
        assert {"start_to_close_timeout", "schedule_to_close_timeout"} & set(words), where
    else:
        assert {"parent_close_policy", "cancellation_type", "id_reuse_policy"} <= set(words), where
    if how not in LOCALLY:
        assert words["priority"].startswith("retries."), where


def test_the_callers_own_call_is_tried_once() -> None:
    calls = [words for _, how, words in started() if how in ACTIVITIES and "activity_id" in words]
    assert [words["retry_policy"] for words in calls] == ["retries.ONCE"]


def test_every_retry_policy_is_a_named_constant() -> None:
    made = {
        name
        for name, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("RetryPolicy", "Priority"))
    }
    assert made == {"retries.py"}
