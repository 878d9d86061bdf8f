"""Names of documents: bounded, and the scope before them says what they are names in."""

from hypothesis import given
from hypothesis import strategies as st

from streamer.records.names import ID_BYTES_MAX, SCOPE_BYTES_MAX, scope_named, within, without_scope
from tests.support.examples import examples

TEXTS = st.text(st.sampled_from("ab~/01#"), max_size=6) | st.text(max_size=40)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
@examples(300)
def test_two_names_are_equal_only_if_scope_and_name_are(scope: str, name: str, other: str, other_name: str) -> None:
    is_equal = within(scope_named(scope), name) == within(scope_named(other), other_name)
    assert is_equal == ((scope, name) == (other, other_name))


@given(TEXTS, TEXTS)
@examples(100)
def test_the_first_slash_ends_the_scope(scope: str, name: str) -> None:
    whole = within(scope_named(scope), name)
    assert whole.partition("/")[0] == scope_named(scope)
    assert without_scope(whole) == name


def test_a_long_scope_leaves_room_for_the_name_and_stays_another_one() -> None:
    one, other = (scope_named("s/" * 50_000 + end) for end in "ab")
    assert one != other
    assert "/" not in one
    assert len(one.encode()) <= SCOPE_BYTES_MAX
    names = {within(scope, "n" * 5_000) for scope in (one, other)}
    assert len(names) == 2
    assert all(len(name.encode()) <= ID_BYTES_MAX for name in names)


def test_names_without_scopes_are_as_they_are() -> None:
    assert within(None, "tenant-a/42") == "tenant-a/42"
