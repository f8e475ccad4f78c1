"""Tool markup that leaked into text (TXT-2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.text import JsonObject
from aalis_llm.leaked import LeakFilter, recover_calls, without_markers
from aalis_llm.openai_stream import OpenAIStream
from aalis_llm.response import Collected


def invoke(name: str, bar: str = "｜", **values: str) -> str:
    parameters = "".join(
        f'<{bar}DSML{bar}parameter name="{key}" string="{str(value[0] != "#").lower()}">'
        f"{value.removeprefix('#')}</{bar}DSML{bar}parameter>\n"
        for key, value in values.items()
    )
    return f'<{bar}DSML{bar}invoke name="{name}">\n{parameters}</{bar}DSML{bar}invoke>\n'


def block(*invokes: str, bar: str = "｜") -> str:
    inside = "".join(invokes)
    return f"<{bar}DSML{bar}function_calls>\n{inside}</{bar}DSML{bar}function_calls>"


LEAK = block(invoke("weather", city="Oslo", days="#3", odd="#x{"))
PLAIN = 'a | b || c < d <| e |> [历史工具调用] f → {"a": 1} <tool_call>{}</tool_call>'


@pytest.mark.parametrize(
    "text", ["", "hello", PLAIN, "|" * 1000, "DSML", "the DSML format", "<DSML>"]
)
def test_ordinary_text_comes_back_unchanged(text: str) -> None:
    assert without_markers(text) == (text, 0)
    assert recover_calls(text) == (text, [], 0)


@pytest.mark.parametrize("bar", ["｜", "|", "||", "｜｜"])
def test_markers_of_any_width_are_removed(bar: str) -> None:
    leak = block(invoke("f", bar, a="x"), bar=bar)

    assert without_markers(f"before {leak} after") == ("before \n\nx\n\n after", 6)


@pytest.mark.parametrize("bar", ["｜", "||"])
def test_complete_calls_are_recovered_with_derived_ids(bar: str) -> None:
    leak = block(invoke("f", bar, a="x"), invoke("g", bar), bar=bar)
    found, again = recover_calls(f"before {leak} after"), recover_calls(leak)

    assert found.text == "before  after"
    assert [(c.function.name, c.function.arguments) for c in found.calls] == [
        ("f", '{"a":"x"}'),
        ("g", "{}"),
    ]
    assert [call.id for call in found.calls] == [call.id for call in again.calls]
    assert len({call.id for call in found.calls}) == 2


def test_values_are_text_or_json_as_they_say() -> None:
    arguments = recover_calls(LEAK).calls[0].function.arguments

    assert arguments == '{"city":"Oslo","days":3,"odd":"x{"}'


def test_identical_calls_count_once() -> None:
    twice = block(invoke("f", a="x"), invoke("f", a="x")) + block(invoke("f", a="x"))

    assert len(recover_calls(twice).calls) == 1


def test_of_a_cut_block_only_complete_calls_count() -> None:
    cut = block(invoke("f", a="x"), invoke("g", a="y"))
    cut = cut[: cut.index("</", cut.index("y<"))]
    found = recover_calls(f"text {cut}")

    assert [call.function.name for call in found.calls] == ["f"]
    assert found.text == "text \n\ny"


@pytest.mark.parametrize(
    "odd",
    [
        '<｜DSML｜invoke name="f"></｜DSML｜invoke>',
        "<｜DSML｜function_calls><｜DSML｜invoke></｜DSML｜invoke></｜DSML｜function_calls>",
        "<｜DSML｜function_calls></｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
    ],
)
def test_calls_outside_a_block_or_without_a_name_are_none(odd: str) -> None:
    assert recover_calls(odd).calls == []
    assert recover_calls(odd).text == ""


@given(st.data())
def test_pieces_of_any_size_give_the_same_as_the_whole(data: st.DataObject) -> None:
    text = f"one <b> {LEAK} two <｜DSML｜x> | <｜ three <"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    watch = LeakFilter()
    shown = "".join(watch.feed(piece) for piece in pieces) + watch.close()
    whole = recover_calls(text)

    assert (shown, watch.calls, watch.removed) == whole


def test_what_may_be_a_marker_is_held_back_and_nothing_else() -> None:
    watch = LeakFilter()

    assert watch.feed("a < b <") == "a < b "
    assert watch.feed("｜DS") == ""
    assert watch.feed("K") == "<｜DSK"
    assert watch.feed("x<b>") == "x<b>"


@pytest.mark.parametrize(
    "text",
    [
        "|" * 2_000_000 + "DSML",
        "<" * 500_000 + "DSML",
        "<|" * 500_000 + "DSML",
        "<｜DSML｜" * 100_000,
        "<｜DSML｜function_calls>" + "x" * 200_000,
    ],
)
def test_no_text_makes_it_slow(text: str) -> None:
    without_markers(text)
    found = recover_calls(text)

    assert found.calls == []


def test_a_long_text_in_small_pieces_takes_linear_work() -> None:
    watch = LeakFilter()
    shown = [watch.feed(piece) for piece in ["DSML <|", *["||||"] * 50_000, LEAK]]

    assert sum(map(len, shown)) > 199_000
    assert len(watch.calls) == 1


def test_deepseek_streams_recover_and_others_do_not() -> None:
    frames: list[JsonObject] = [
        {"choices": [{"delta": {"content": part}}]}
        for part in ("hi <", LEAK[1:30], LEAK[30:], " <")
    ]
    frames.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    told: list[tuple[str, int, str]] = []
    for recovers in (True, False):
        stream, collected = OpenAIStream("p", "m", recovers_leaks=recovers), Collected()
        for frame in frames:
            for chunk in stream.add(frame):
                collected.add(chunk)
        collected.add(stream.finish(terminated=True))
        response = collected.response()
        told.append(
            (response.content or "", len(response.tool_calls or []), response.finish_reason)
        )

    assert told == [("hi  <", 1, "tool_calls"), (f"hi {LEAK} <", 0, "stop")]
