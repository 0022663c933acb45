"""What is read back is what was written, or an error says that it is damaged."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.tables.files import (
    SEAL,
    DamagedError,
    digest_of,
    read_sealed,
    sealed_json,
    unseal,
    why_not_written,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
FACTS = st.dictionaries(st.text().filter(lambda key: key != SEAL), VALUES, max_size=4)


@given(FACTS, st.sampled_from([None, 2]))
@settings(deadline=None)
def test_there_and_back(facts, indent):
    text = sealed_json(facts, indent)
    assert indent or text.count("\n") == 1
    assert read_sealed(text, "x", plain=()) == facts
    assert read_sealed(text.encode(), "x") == facts


@given(FACTS, st.data())
@settings(deadline=None, max_examples=300)
def test_a_flipped_bit_is_found_or_changes_nothing(facts, data):
    content = bytearray(sealed_json(facts).encode())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    try:
        assert read_sealed(bytes(content), "x", plain=()) == facts
    except DamagedError as error:
        assert str(error).startswith("x is damaged")  # noqa: PT017


@given(FACTS, st.data())
@settings(deadline=None)
def test_a_truncated_text_is_found(facts, data):
    content = sealed_json(facts).rstrip().encode()
    with pytest.raises(DamagedError):
        read_sealed(content[: data.draw(st.integers(0, len(content) - 1))], "x")


def test_what_was_written_without_a_digest():
    assert read_sealed('{"a": 1}', "x") == {"a": 1}
    with pytest.raises(DamagedError, match="x is damaged: its digest is missing"):
        read_sealed('{"a": 1}', "x", plain=())


@pytest.mark.parametrize("text", ["", "[1]", "3", "{", "\x00", "[" * 100_000, '{"a":' * 100_000, "9" * 9999])
def test_other_text(text):
    with pytest.raises(DamagedError):
        read_sealed(text, "x")


def test_the_order_of_keys_is_no_damage():
    facts = json.loads(sealed_json({"a": 1, "b": [1.5, None]}))
    assert unseal(dict(reversed(facts.items())), "x", plain=()) == {"a": 1, "b": [1.5, None]}


def test_where_parts_end_counts():
    assert digest_of([b"ab", b"c"]) != digest_of([b"a", b"bc"]) != digest_of([b"abc"])


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(28, "No space left on device"), "Free some space"),
        (OSError(30, "Read-only file system"), "may write to"),
        (PermissionError(13, "Permission denied"), "may write to"),
        (ValueError("I/O error: No space left on device (os error 28)"), "No space left on device. Free"),
        (OSError(5, "Input/output error"), "Check the path"),
        (ValueError("odd"), "odd. Check the path"),
    ],
)
def test_why_a_file_was_not_written(error, advice):
    assert advice in why_not_written(error)
