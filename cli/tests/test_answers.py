"""How an answer is printed, and what is said when there is none."""

import pytest

from aalis_cli.ask import as_object, problem
from aalis_cli.hearing import Answer, ToolCallSeen
from aalis_contracts.messages import ModelInfo, OutgoingMessage

REPLY = OutgoingMessage(
    id="t.reply",
    content="你好\nthere",
    session_id="s",
    platform="cli",
    turn_id="t",
    source="agent",
    model_info=ModelInfo(model="demo"),
)


def test_the_object_has_every_field_whatever_is_known() -> None:
    whole = as_object(
        Answer("replied", REPLY, "t", [ToolCallSeen("look", {"a": 1}, "r")]), "trace", "s"
    )
    empty = as_object(Answer("silent"), None, "s")

    assert whole == {
        "reply": "你好\nthere",
        "turnId": "t",
        "traceId": "trace",
        "sessionId": "s",
        "outcome": "replied",
        "toolCalls": [{"name": "look", "args": {"a": 1}, "result": "r"}],
        "usage": None,
        "usages": [],
        "modelInfo": {"model": "demo"},
    }
    assert empty.keys() == whole.keys()
    assert empty["reply"] is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer("replied", REPLY), None),
        (Answer("silent"), None),
        (Answer("error", REPLY), "你好 there"),
        (Answer("error", error="the model\nfailed"), "the model failed"),
        (Answer("error"), "no reason"),
    ],
)
def test_a_problem_is_one_line(answer: Answer, why: str | None) -> None:
    assert problem(answer) == why


def test_an_end_without_a_reply_is_explained() -> None:
    assert "aborted" in (problem(Answer("aborted")) or "")
    assert "withheld" in (problem(Answer("replied")) or "")
