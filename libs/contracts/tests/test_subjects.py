"""Subjects: ids as tokens, the table of subjects, and who may overlap whom (SPEC CON-10, RPC-3)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts import subjects
from aalis_contracts.schemas import contracts
from aalis_contracts.subjects import ROUTES, Route, Subject, overlap
from aalis_contracts.text import well_formed

any_text = st.text(st.characters(), min_size=1)

ODD_IDS = [
    "a",
    "a.b",
    "a..b",
    ".",
    " ",
    "a b\tc\r\n",
    "*",
    ">",
    "a.>",
    "%",
    "%2E",
    "%%2525",
    "=",
    "=2E",
    "a~b_c-d",
    "/\\:?#[]@!$&'()+,;",
    "会话:群·1",
    "🙂👨‍👩‍👧‍👦",
    "\x00\x7f",
    "é",
    "x" * 300,
    "字" * 300,
]


# Tokens ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identifier", ODD_IDS)
def test_an_id_becomes_one_legal_token_and_back(identifier: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_%-]+", subjects.token(identifier))
    assert subjects.untoken(subjects.token(identifier)) == identifier
    assert re.fullmatch(r"[A-Za-z0-9_=-]+", subjects.kv_key(identifier))
    assert subjects.from_kv_key(subjects.kv_key(identifier)) == identifier


@given(any_text)
def test_any_text_becomes_one_legal_token_and_back_in_well_formed_shape(identifier: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_%-]+", subjects.token(identifier))
    assert subjects.untoken(subjects.token(identifier)) == well_formed(identifier)
    assert re.fullmatch(r"[A-Za-z0-9_=-]+", subjects.kv_key(identifier))
    assert subjects.from_kv_key(subjects.kv_key(identifier)) == well_formed(identifier)


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_ids_have_different_tokens(left: str, right: str) -> None:
    assert (subjects.token(left) == subjects.token(right)) == (left == right)
    assert (subjects.kv_key(left) == subjects.kv_key(right)) == (left == right)


def test_a_lone_surrogate_in_an_id_becomes_a_replacement() -> None:
    assert subjects.untoken(subjects.token("a\ud800")) == "a\ufffd"
    assert subjects.token("\ud83d\ude42") == subjects.token("🙂")


def test_a_legal_id_is_its_own_token() -> None:
    assert subjects.token("Web_chat-1") == "Web_chat-1"
    assert subjects.token("a.b") == "a%2Eb"
    assert subjects.kv_key("a.b") == "a=2Eb"


def test_an_empty_id_has_no_token() -> None:
    with pytest.raises(ValueError, match="empty"):
        subjects.token("")
    with pytest.raises(ValueError, match="empty"):
        subjects.kv_key("")


@pytest.mark.parametrize("encoded", ["%", "%zz", "%ED%A0%80", "%FF"])
def test_a_token_that_nobody_wrote_is_read_without_raising(encoded: str) -> None:
    assert subjects.untoken(encoded).encode()


ids = st.text(st.characters(codec="utf-8"), min_size=1)


@given(ids, ids, ids, ids)
def test_two_lanes_have_one_key_only_if_session_and_lane_are_equal(
    session: str, lane: str, other_session: str, other_lane: str
) -> None:
    key = subjects.lane_key(session, lane)
    assert key.count(".") == 1
    assert (key == subjects.lane_key(other_session, other_lane)) == (
        (session, lane) == (other_session, other_lane)
    )


@given(ids, ids)
def test_session_and_lane_are_read_back_from_every_subject_of_a_lane(
    session: str, lane: str
) -> None:
    for make in (subjects.inbox, subjects.journal, subjects.abort):
        assert subjects.lane_of(make(session, lane).name) == (session, lane)


def test_a_turn_is_named_by_its_lane_and_its_input() -> None:
    assert subjects.turn_id("a.b", "user", 7) == "a%2Eb.user:7"


# Overlap -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a.b", "a", False),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.*", True),
        ("*.b", "a.c", False),
        ("*", "*", True),
        ("a.>", "a", False),
        ("a.>", "a.b", True),
        ("a.>", "a.b.c.d", True),
        ("a.>", "b.c", False),
        ("a.>", "*.c", True),
        ("a.*.c", "a.>", True),
        (">", "a", True),
        (">", ">", True),
        ("a.b.>", "a.*", False),
        ("a.b.>", "a.*.c", True),
        ("agent.input", "agent.input.before", False),
        ("ab.c", "a.bc", False),
    ],
)
def test_two_patterns_overlap_if_one_subject_fits_both(
    left: str, right: str, expected: bool
) -> None:
    assert overlap(left, right) is expected
    assert overlap(right, left) is expected


def fits(pattern: str, subject: str) -> bool:
    """Match as the server does, written in another way than `overlap`."""
    expression = re.escape(pattern).replace(r"\*", r"[^.]+").replace(">", r".+")
    return re.fullmatch(expression, subject) is not None


words = st.sampled_from(["a", "b"])


def joined(parts: list[str], rest: bool) -> str:
    return ".".join([*parts, ">"] if rest or not parts else parts)


patterns = st.builds(joined, st.lists(words | st.just("*"), max_size=3), st.booleans())
concrete = [
    ".".join(parts)
    for one in "ab"
    for parts in (
        [one],
        *[[one, two] for two in "ab"],
        *[[one, two, three] for two in "ab" for three in "ab"],
        *[[one, two, three, four] for two in "ab" for three in "ab" for four in "ab"],
    )
]


@given(patterns, patterns)
def test_overlap_agrees_with_trying_every_subject(left: str, right: str) -> None:
    both = any(fits(left, subject) and fits(right, subject) for subject in concrete)
    assert overlap(left, right) == both


# The table ---------------------------------------------------------------------------------------

STREAMS = {
    "INBOUND": ["inbound.message.*.*", *(f"inbound.{n}.message.*.*" for n in range(16))],
    "AGENT_INBOX": ["agent.inbox.*.*"],
    "AGENT_JOURNAL": ["agent.journal.*.*"],
    "TOKEN_USAGE": ["token.usage.*"],
    "EVENTS": ["agent.turn.after.*", "tool.execute.*", "session.*.*", "inbound.archived.*"],
    "OUTBOUND": ["outbound.message.*.*"],
    "STREAMS": ["outbound.stream.*.*"],
    "DEAD": ["dead.>"],
}
"""DESIGN §4; what INBOUND takes, and under which names it stores it."""

STORED = [subject for taken in STREAMS.values() for subject in taken]


def streams_of(pattern: str) -> set[str]:
    """Return the streams that could store a message published on `pattern`."""
    return {
        name
        for name, taken in STREAMS.items()
        if any(overlap(pattern, subject) for subject in taken)
    }


def template(route: Route) -> str:
    return route.template


@pytest.mark.parametrize("route", [r for r in ROUTES if r.kind != "stream"], ids=template)
def test_no_stream_swallows_a_request_or_a_core_event(route: Route) -> None:
    assert streams_of(route.pattern) == set()


@pytest.mark.parametrize("route", [r for r in ROUTES if r.kind == "stream"], ids=template)
def test_every_durable_subject_is_kept_by_exactly_one_stream(route: Route) -> None:
    assert len(streams_of(route.pattern)) == 1


@pytest.mark.parametrize("subject", STORED)
def test_every_subject_of_a_stream_is_in_the_table(subject: str) -> None:
    assert any(overlap(route.pattern, subject) for route in ROUTES if route.kind == "stream")


def test_a_request_under_a_durable_name_would_be_found() -> None:
    assert streams_of("agent.turn.after.*") == {"EVENTS"}
    assert streams_of("agent.inbox.>") == {"AGENT_INBOX"}
    assert streams_of("inbound.*.message.*.*") == {"INBOUND"}


def test_no_two_streams_want_the_same_subject() -> None:
    for name, taken in STREAMS.items():
        for subject in taken:
            assert streams_of(subject) == {name}


def test_no_two_rows_of_the_table_overlap_unless_one_is_the_others_wildcard() -> None:
    pairs = [
        (left.template, right.template)
        for i, left in enumerate(ROUTES)
        for right in ROUTES[i + 1 :]
        if overlap(left.pattern, right.pattern)
    ]
    assert pairs == []


def test_every_body_and_answer_of_the_table_is_a_contract() -> None:
    names = {route.body for route in ROUTES} | {r.answer for r in ROUTES if r.answer is not None}
    assert names <= contracts().keys()


def test_a_request_and_nothing_else_has_an_answer() -> None:
    assert {route.kind == "request" for route in ROUTES if route.answer is not None} == {True}
    assert [route for route in ROUTES if route.kind == "request" and route.answer is None] == []


# The functions -----------------------------------------------------------------------------------

S, L, P = "s.1 *>", "user", "p.q"

MADE = [
    subjects.inbound(P, S),
    subjects.inbox(S, L),
    subjects.journal(S, L),
    subjects.abort(S, L),
    subjects.archived(S),
    subjects.outbound(P, S),
    subjects.stream(P, S),
    subjects.tool_execute(S),
    subjects.tool_cancel("web.search *"),
    subjects.token_usage(S),
    subjects.token_request(S),
    subjects.turn_after(S),
    *(
        subjects.session_event(verb, S)
        for verb in ("created", "updated", "completed", "deleted", "compress", "compressing")
    ),
    subjects.history_changed(S),
    subjects.messages_deleted(S),
    subjects.todo_updated(S),
    subjects.phase_done(S),
    subjects.dead("inbound.message.p.s"),
    subjects.tool_call("no such tool.*"),
    subjects.command_run("session.set"),
    subjects.command_run("rm *"),
    subjects.hook("agent:llm:before", "plug.in"),
    subjects.hook("memory:clear", "p"),
    subjects.prompt("plug.in", "a.b"),
    subjects.request(subjects.HISTORY_GET),
]


def name_of(subject: Subject) -> str:
    return subject.name


@pytest.mark.parametrize("made", MADE, ids=name_of)
def test_a_subject_fits_the_pattern_of_its_own_row_and_of_no_other(made: Subject) -> None:
    assert "*" not in made.name
    assert ">" not in made.name
    assert " " not in made.name
    rows = [route.template for route in ROUTES if overlap(route.pattern, made.name)]
    assert rows == [made.template]


@pytest.mark.parametrize(
    ("template", "pattern"),
    [
        (subjects.INBOX, "agent.inbox.*.*"),
        (subjects.DEAD, "dead.>"),
        (subjects.COMMAND_RUN, "command.run.>"),
        (subjects.HISTORY_GET, "memory.history.get"),
    ],
)
def test_a_pattern_has_a_wildcard_for_every_token(template: str, pattern: str) -> None:
    assert subjects.pattern(template) == pattern


def test_filters_take_their_own_and_nothing_else() -> None:
    assert overlap(subjects.inbound_partition(3), "inbound.3.message.p.s")
    assert not overlap(subjects.inbound_partition(3), "inbound.13.message.p.s")
    assert overlap(subjects.outbound_of(P), subjects.outbound(P, S).name)
    assert not overlap(subjects.outbound_of(P), subjects.outbound("p", S).name)
    assert overlap(subjects.journals_of(S), subjects.journal(S, L).name)
    assert not overlap(subjects.journals_of(S), subjects.journal("s", L).name)
    assert overlap(subjects.inboxes_of(S), subjects.inbox(S, L).name)
    assert not overlap(subjects.inboxes_of(S), subjects.inbox("s", L).name)


@pytest.mark.parametrize("source", ["a" * 10_000, "a." * 5_000, "a" * 2_999 + ".b"])
def test_a_dead_letter_of_a_long_subject_has_a_legal_one(source: str) -> None:
    name = subjects.dead(source).name
    assert len(name) <= 3_005
    assert overlap("dead.>", name)
    assert name == name.strip(".")
    assert f"dead.{source}".startswith(name)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (subjects.hook_key("agent:llm:before", "p"), "hook.agent.llm.before.p"),
        (subjects.prompt_key("p", "a.b"), "prompt.p.a=2Eb"),
        (subjects.tool_key("web_search"), "tool.web_search"),
        (subjects.command_key("session.set"), "command.session.set"),
        (subjects.command_key("a b.c"), "command.a=20b.c"),
        (subjects.service_key("memory", "host 1"), "service.memory.host=201"),
    ],
)
def test_keys_of_the_registry_are_legal_and_name_their_entry(key: str, expected: str) -> None:
    assert key == expected
    assert re.fullmatch(r"[-/_=.a-zA-Z0-9]+", key)


@pytest.mark.parametrize(
    ("stored", "ingest", "template"),
    [
        ("inbound.07.message.cli.a%2Eb", "inbound.message.cli.a%2Eb", subjects.INBOUND),
        ("inbound.message.cli.s", "inbound.message.cli.s", subjects.INBOUND),
        ("agent.inbox.s.user", "agent.inbox.s.user", subjects.INBOX),
        ("agent.turn.after.s", "agent.turn.after.s", subjects.TURN_AFTER),
    ],
)
def test_a_stored_message_is_sent_again_where_it_came_in(
    stored: str, ingest: str, template: str
) -> None:
    assert subjects.ingest(stored) == (ingest, template)


@pytest.mark.parametrize("stored", ["tool.call.x", "inbound", "inbound.07", "", "x.>"])
def test_a_subject_of_no_stream_is_sent_nowhere(stored: str) -> None:
    with pytest.raises(ValueError, match="no stream"):
        subjects.ingest(stored)
