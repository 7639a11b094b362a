"""Hostile JSON is refused with its place, whatever it is made of, and in a time that grows with its length alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.asks import Invalid, read_ask
from core.canonical import Unfit, fields_of, value_at


def ask(arguments: str, **more: Any) -> str:
    rest = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in more.items())
    return f'{{"agent": "a", "tool": "t", "arguments": {arguments}{rest}}}'


@pytest.mark.parametrize("number", ["0e99999999999999999999", "1e-99999999999999999999", "-0.0E-99999999999999999999"])
def test_a_number_with_an_endless_exponent_is_refused_by_its_path(number: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_ask(ask(f'{{"amount": {number}}}'), over="http")
    assert refused.value.field == "arguments.amount"
    assert "send it as a string" in refused.value.problem


def test_a_key_that_stands_twice_among_thousands_is_refused_by_its_object() -> None:
    pairs = ",".join(f'"{number:x}":1' for number in range(20_000))
    with pytest.raises(Unfit) as refused:
        fields_of(f'{{"a": {{"b": {{{pairs},"4e1f":2}}}}}}')
    assert (refused.value.path, refused.value.problem) == ("a.b", "a key of this object stands twice")


@pytest.mark.parametrize("part", ["9" * 5000, "٣", "01", "-1", "1e0"])
def test_a_pointer_to_no_place_of_a_list_points_at_nothing(part: str) -> None:
    assert value_at({"rows": [1, 2, 3, 4]}, f"/rows/{part}") is None
    with pytest.raises(Invalid) as refused:
        read_ask(ask('{"rows": [1]}', presentation={"lines": [["Row", f"/rows/{part}"]]}), over="http")
    assert "points at nothing" in refused.value.problem
