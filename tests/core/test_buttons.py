"""Button data: short, strict, and the same after a round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.buttons import ButtonData, Verb, new_token, unpack

TOKENS = st.text("abcXYZ019_-", min_size=16, max_size=16)


@given(st.sampled_from(Verb), TOKENS, st.integers(1, 2**53))
def test_what_was_packed_comes_back_and_is_under_64_bytes(verb: Verb, token: str, revision: int) -> None:
    data = ButtonData(verb, token, revision)
    packed = data.pack()
    assert packed.startswith(f"{verb.value}.{token}.")
    assert len(packed.encode()) < 64
    assert unpack(packed) == data


@given(st.text(max_size=80))
def test_anything_that_unpacks_is_exactly_what_pack_writes(text: str) -> None:
    data = unpack(text)
    assert data is None or data.pack() == text


TOKEN = "AAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        f"a.{TOKEN}",
        f"a.{TOKEN}.",
        f"a.{TOKEN}.0",
        f"a.{TOKEN}.01",
        f"a.{TOKEN}.A",
        f"a.{TOKEN}.1.",
        f"a.{TOKEN}.1\n",
        f" a.{TOKEN}.1",
        f"z.{TOKEN}.1",
        f"allow.{TOKEN}.1",
        f"a.{TOKEN[1:]}.1",
        f"a.{TOKEN}A.1",
        f"a.{TOKEN[1:]}\u0410.1",
        f"a.{TOKEN}.\u0661",
        f"a.{TOKEN}.{'z' * 60}",
    ],
)
def test_malformed_data_is_nothing(text: str) -> None:
    assert unpack(text) is None


def test_t4_ids_of_60_characters_and_cyrillic_ones_never_reach_the_data() -> None:
    for foreign in ("x" * 60, "заявка-на-возврат"):
        with pytest.raises(ValueError, match="new_token"):
            ButtonData(Verb.ALLOW, foreign, 1).pack()
    assert len(ButtonData(Verb.ALLOW, new_token(), 2**53).pack().encode()) < 64


@pytest.mark.parametrize("revision", [0, -1])
def test_a_revision_counts_from_one(revision: int) -> None:
    with pytest.raises(ValueError, match="revision"):
        ButtonData(Verb.ALLOW, TOKEN, revision).pack()


def test_tokens_are_16_characters_and_differ() -> None:
    tokens = {new_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert {len(token) for token in tokens} == {16}
