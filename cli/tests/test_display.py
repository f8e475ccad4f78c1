"""What a person sees of a turn at a terminal."""

import pytest

from aalis_cli.display import LiveText, budget_line, shortened, tool_line
from aalis_contracts.events import TokenUsage, ToolExecute, UsageBreakdown
from aalis_contracts.messages import StreamFrame


def frame(
    seq: int, text: str | None = None, *, iteration: int = 0, attempt: int = 1, turn: str = "t"
) -> StreamFrame:
    return StreamFrame(
        session_id="s",
        platform="cli",
        turn_id=turn,
        seq=seq,
        iteration=iteration,
        attempt=attempt,
        content_delta=text,
    )


def shown(*frames: StreamFrame) -> str:
    live = LiveText()
    return "".join(live.take(one) for one in frames)


def test_text_appears_as_it_is_written() -> None:
    live = LiveText()

    assert live.take(frame(1, "Hel")) == "Hel"
    assert live.take(frame(2, "lo")) == "lo"
    assert live.last == "Hello"


def test_a_frame_is_shown_once() -> None:
    assert shown(frame(1, "a"), frame(2, "b"), frame(2, "b"), frame(1, "a"), frame(3, "c")) == "abc"


def test_the_frames_of_another_turn_are_not_shown() -> None:
    assert shown(frame(1, "ours"), frame(2, "theirs", turn="other")) == "ours"


def test_another_model_call_begins_on_a_line_of_its_own() -> None:
    live = LiveText()
    live.take(frame(1, "Let me look."))

    assert live.take(frame(2, "Found.", iteration=1)) == "\nFound."
    assert live.last == "Found."


def test_a_call_that_is_made_again_begins_anew() -> None:
    live = LiveText()
    live.take(frame(1, "half a sen"))

    assert live.take(frame(2, "A whole sentence.", attempt=2)) == "\nA whole sentence."
    assert live.last == "A whole sentence."


def test_frames_without_text_show_nothing() -> None:
    assert shown(frame(1), frame(2)) == ""


def test_a_line_that_was_begun_is_ended_once() -> None:
    live = LiveText()
    live.take(frame(1, "begun"))

    assert live.end_line()
    assert not live.end_line()
    live.take(frame(2, "ended\n"))
    assert not live.end_line()


def usage(ratio: float) -> TokenUsage:
    nothing = dict.fromkeys(UsageBreakdown.model_fields, 0)
    return TokenUsage(
        session_id="s",
        platform="cli",
        context_window=32000,
        max_tokens=1,
        token_budget=1,
        used=12345,
        usage_ratio=ratio,
        breakdown=UsageBreakdown.model_validate({**nothing, "injectors": {}}),
    )


@pytest.mark.parametrize(
    ("ratio", "tag"),
    [
        (0.0, "OK"),
        (0.4999, "OK"),
        (0.5, "INFO"),
        (0.69996, "INFO"),
        (0.7, "WARN"),
        (0.85, "CRITICAL"),
        (1.7, "CRITICAL"),
    ],
)
def test_a_boundary_belongs_to_the_higher_tag(ratio: float, tag: str) -> None:
    assert budget_line(usage(ratio)).endswith(f"12,345 / 32,000 tokens {tag}")


@pytest.mark.parametrize(("ratio", "filled"), [(0.0, 0), (0.5, 10), (1.0, 20), (3.0, 20)])
def test_the_bar_is_as_full_as_the_window(ratio: float, filled: int) -> None:
    bar = budget_line(usage(ratio)).split(" ", 1)[0]

    assert bar == "█" * filled + "░" * (20 - filled)


def test_a_call_is_one_line_that_fits() -> None:
    start = ToolExecute(
        session_id="s",
        platform="cli",
        turn_id="t",
        call_id="c",
        tool_name="read",
        args={"path": "a\nb"},
        phase="start",
    )
    end = start.model_copy(update={"phase": "end", "result": "long " * 100})

    assert tool_line(start) == '→ read {"path":"a\\nb"}'
    assert tool_line(end).startswith("← read long long")
    assert len(tool_line(end)) == 160
    assert tool_line(end).endswith("…")


def test_what_fits_stays_whole() -> None:
    assert shortened("a  b\n c") == "a b c"
