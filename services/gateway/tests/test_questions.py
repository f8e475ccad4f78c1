"""This is about questions and their answers, on paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_gateway import questions
from aalis_gateway.questions import MAX_WAITING, SKIP_MS, Board, Question

LIMIT = 60_000


def question(key: str = "k", mode: str = "session", user: str = "chat:u") -> Question:
    fields = {"key": key, "prompt": "?", "mode": mode, "sessionId": "s", "platform": "chat"}
    return Question.from_object({**fields, "user": user})


def board(*asked: Question, now: int = 0) -> Board:
    made = Board()
    for each in asked:
        added = questions.add(made, each, now)
        assert added is not None
        made = added
    return made


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [
        ("Y", "session", "once"),
        (" yes\n", "always", "once"),
        ("YES", "session", "once"),
        ("YS", "session", "session"),
        ("ys", "always", "once"),
        ("n", "session", "no"),
        ("", "session", "no"),
        ("yes please", "session", "no"),
        ("是", "session", "no"),
    ],
)
def test_words_have_one_meaning(text: str, mode: str, expected: str) -> None:
    assert questions.meaning(text, mode) == expected


def test_one_question_is_open_and_the_next_follows_it() -> None:
    both = board(question("a"), question("b"))
    assert both.open is not None
    assert both.open.key == "a"
    assert both.waiting[1].asked_at is None

    closed = questions.answer(both, "chat:u", "y", "m1", 500)

    assert closed is not None
    assert (closed.given.question.key, closed.given.answer) == ("a", "once")
    assert closed.board.open is not None
    assert (closed.board.open.key, closed.board.open.asked_at) == ("b", 500)


def test_only_the_one_who_is_asked_can_answer() -> None:
    assert questions.answer(board(question()), "chat:other", "y", "m", 0) is None
    assert questions.answer(board(question()), None, "y", "m", 0) is None
    assert questions.answer(Board(), "chat:u", "y", "m", 0) is None


def test_the_same_message_is_known_again() -> None:
    closed = questions.answer(board(question()), "chat:u", "y", "m", 0)

    assert closed is not None
    assert questions.given_by(closed.board, "m") == closed.given
    assert questions.given_by(closed.board, "other") is None
    assert closed.board.answer_to("k") == "once"


def test_asking_twice_asks_once() -> None:
    once = board(question())

    assert questions.add(once, question(), 99) == once
    closed = questions.answer(once, "chat:u", "n", "m", 0)
    assert closed is not None
    assert questions.add(closed.board, question(), 99) == closed.board


def test_too_many_questions_are_refused() -> None:
    full = board(*(question(str(number)) for number in range(MAX_WAITING)))

    assert questions.add(full, question("more"), 0) is None


def test_no_answer_in_time_is_no() -> None:
    asked = board(question(), now=1000)

    assert questions.expire(asked, 1000 + LIMIT - 1, LIMIT) is None
    closed = questions.expire(asked, 1000 + LIMIT, LIMIT)
    assert closed is not None
    assert closed.given.answer == "timeout"
    assert questions.expire(Board(), 10**12, LIMIT) is None


def test_being_spared_ends_and_holds_for_one_person_and_one_mode() -> None:
    closed = questions.answer(board(question()), "chat:u", "YS", "m", 1000)

    assert closed is not None
    after = closed.board
    assert questions.may_skip(after, "chat:u", "session", 1000 + SKIP_MS - 1)
    assert not questions.may_skip(after, "chat:u", "session", 1000 + SKIP_MS)
    assert not questions.may_skip(after, "chat:u", "always", 1000)
    assert not questions.may_skip(after, "chat:v", "session", 1000)
    assert not questions.may_skip(after, None, "session", 1000)


def test_what_nobody_wants_to_know_any_more_is_withdrawn() -> None:
    asked = board(question("s.user:1.0.0"), question("s.user:10.0.0"), question("s.user:1.0.1"))

    after = questions.withdraw(asked, "s.user:1.", 7)

    assert after.open is not None
    assert (after.open.key, after.open.asked_at) == ("s.user:10.0.0", 7)
    assert after.answer_to("s.user:1.0.1") == "withdrawn"
    assert (
        questions.answer(questions.withdraw(after, "s.user:10.", 8), "chat:u", "y", "m", 9) is None
    )
    assert questions.withdraw(after, "x", 8) == after


moves = st.lists(
    st.tuples(
        st.sampled_from(["add", "answer", "expire", "withdraw"]),
        st.integers(0, 30),
        st.sampled_from(["chat:u", "chat:v"]),
        st.sampled_from(["y", "ys", "n"]),
    ),
    max_size=60,
)


@given(moves)
def test_whatever_happens_a_board_stays_small_and_answers_each_question_once(
    history: list[tuple[str, int, str, str]],
) -> None:
    now, state, answered = 0, Board(), list[str]()
    for number, (move, which, user, text) in enumerate(history):
        now += which * 5000
        if move == "add":
            state = questions.add(state, question(f"{number}", user=user), now) or state
        elif move == "answer":
            closed = questions.answer(state, user, text, f"m{number}", now)
            if closed is not None:
                answered.append(closed.given.question.key)
                state = closed.board
        elif move == "expire":
            closed = questions.expire(state, now, LIMIT)
            if closed is not None:
                answered.append(closed.given.question.key)
                state = closed.board
        else:
            state = questions.withdraw(state, str(which), now)
        assert len(state.waiting) <= MAX_WAITING
        assert len(state.given) <= 10
        assert state.open is None or state.open.asked_at is not None
        assert all(each.asked_at is None for each in state.waiting[1:])
    assert len(answered) == len(set(answered))
    assert Board.from_json(state.to_json()) == state
