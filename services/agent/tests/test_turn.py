"""The story of one turn, told on ports in memory: what is said, kept and announced."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from aalis_agent.adapters.fakes import Stop
from aalis_agent.intake import Intake
from aalis_agent.options import Options
from aalis_agent.ports import ChainFailed
from aalis_agent.tokens import HeuristicCounter, TiktokenCounter
from aalis_contracts.hooks import (
    INPUT_BEFORE,
    LLM_AFTER,
    LLM_BEFORE,
    REPLY_BEFORE,
    TOOL_AFTER,
    TOOL_BEFORE,
)
from aalis_contracts.messages import Actor, Message, MessageAttachment, ModelRef
from aalis_contracts.rpc import PersonaPrompt
from aalis_contracts.sessions import SessionConfig

if TYPE_CHECKING:
    from aalis_contracts.hooks import PromptBuild
    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallContext

    from .conftest import World

HELLO: dict[str, Any] = {"reply": "hello back"}


def calls(*tools: str, text: str = "", **more: Any) -> dict[str, Any]:
    """Write a rule of a script: when asked for `text`, call these tools with no arguments."""
    when = {"iteration": 0, "text": text}
    return {"when": when, "call": [{"tool": tool} for tool in tools], **more}


def after_results(text: str = "done: {result}") -> dict[str, Any]:
    return {"when": {"iteration": 1}, "reply": text}


async def echo(args: JsonObject, context: ToolCallContext) -> str:
    _ = context
    return f"echo {json.dumps(args)}"


async def test_a_message_is_answered_saved_and_announced_in_this_order(world: World) -> None:
    await world.open(HELLO)

    assert await world.ask("hello") == "hello back"

    seq = 1
    assert world.rows() == [("user", "hello"), ("assistant", "hello back")]
    assert [(row.input_seq, row.index) for row in world.memory.of("s")] == [(seq, 0), (seq, 1)]
    turn = world.turn_id(seq)
    assert world.outbound.order == [f"{turn}.done", f"{turn}.reply", f"{turn}.after"]
    assert world.outcome(seq) == "replied"
    assert "".join(f.content_delta or "" for f in world.outbound.frames) == "hello back"
    after = world.outbound.after[turn]
    assert (after.reply, after.message.content, after.input_seq) == ("hello back", "hello", seq)


async def test_frames_are_numbered_and_done_comes_last(world: World) -> None:
    await world.open({"reply": "a long answer", "stream": {"chunk": 2, "delayMs": 25}})

    await world.ask("hello")

    numbers = [frame.seq for frame in world.outbound.frames]
    assert len(numbers) > 1
    assert numbers == sorted(set(numbers))
    assert world.outbound.done[world.turn_id(1)].seq > numbers[-1]


@pytest.mark.parametrize(("limit", "words"), [(2, []), (50, ["incomplete tool groups left out"])])
async def test_a_group_that_the_window_cuts_is_nothing_to_warn_of(
    world: World, caplog: pytest.LogCaptureFixture, limit: int, words: list[str]
) -> None:
    world.options = Options(history_limit=limit)
    world.tools.add("echo", echo)
    await world.open(calls("echo", text="go"), {**after_results("done"), "repeat": True})
    await world.ask("go")
    if limit > 2:
        stored = world.memory.of("s")
        await world.memory.save("s", [stored[2].model_copy(update={"index": 9})])

    with caplog.at_level("WARNING"):
        await world.ask("again")

    assert [record.getMessage() for record in caplog.records] == words


async def test_the_reply_says_what_it_took(world: World) -> None:
    usage = {"promptTokens": 20, "completionTokens": 5}
    world.tools.add("echo", echo)
    await world.open(
        calls("echo", usage={"promptTokens": 10, "completionTokens": 3}),
        {**after_results("all done"), "usage": usage},
    )

    await world.ask("hello")

    info = world.outbound.sent[f"{world.turn_id(1)}.reply"].model_info
    assert info is not None
    assert (info.prompt_tokens, info.completion_tokens, info.total_tokens) == (20, 8, 28)
    assert (info.provider, info.model) == ("scripted", "demo")
    assert (info.elapsed_ms or 0) > 0


async def test_a_tool_is_called_and_its_result_answered_from(world: World) -> None:
    world.tools.add("echo", echo)
    await world.open(calls("echo"), after_results())

    assert await world.ask("go") == "done: echo {}"

    assert world.rows() == [
        ("user", "go"),
        ("assistant", ""),
        ("tool", "echo {}"),
        ("assistant", "done: echo {}"),
    ]
    turn = world.turn_id(1)
    assert list(world.outbound.tools) == [f"{turn}.0.0.start", f"{turn}.0.0.end"]
    assert world.tools.effects == [f"{turn}.0.0"]
    assert [usage.iteration for usage in world.outbound.usages] == [0, 1]


async def test_parallel_calls_do_not_touch_each_other(world: World) -> None:
    async def fails(_: JsonObject, __: ToolCallContext) -> str:
        raise RuntimeError("broken inside")

    async def hangs(_: JsonObject, __: ToolCallContext) -> str:
        await asyncio.Event().wait()
        return "never"

    world.tools.add("echo", echo)
    world.tools.add("fails", fails)
    world.tools.add("hangs", hangs, timeout_ms=20)
    world.tools.add("absent", echo)
    world.tools.away.add("absent")
    world.tools.add("strict", echo, schema={"type": "object", "required": ["city"]})
    await world.open(
        {
            "when": {"iteration": 0},
            "call": [
                {"tool": "hangs"},
                {"tool": "fails"},
                {"tool": "echoo"},
                {"tool": "echo", "args": "{not json"},
                {"tool": "echo", "args": "[1]"},
                {"tool": "absent"},
                {"tool": "strict"},
                {"tool": "echo", "args": {"n": 1}},
            ],
        },
        after_results("done"),
    )

    assert await world.ask("go") == "done"

    results = [row.content or "" for row in world.memory.of("s") if row.role == "tool"]
    assert "0.02 seconds" in results[0]
    assert "unknown" in results[0]
    assert "broken inside" in results[1]
    assert "not found" in results[2]
    assert "echo" in results[2].partition("Similar")[2]
    assert "not a JSON object" in results[3]
    assert "not a JSON object" in results[4]
    assert "absent" in results[5]
    assert "city" in results[6]
    assert results[7] == 'echo {"n": 1}'
    assert all(json.loads(text)["error"] for text in results[:7])
    turn = world.turn_id(1)
    shown = {key.removeprefix(f"{turn}.0.") for key in world.outbound.tools}
    silent = {"3", "4"}
    assert shown == {f"{n}.{p}" for n in "01234567" if n not in silent for p in ("start", "end")}
    assert world.tools.cancelled == [f"hangs {turn}.0.0 timeout"]


async def test_a_host_lost_after_it_was_asked_leaves_an_unknown_outcome(world: World) -> None:
    world.tools.add("gone", echo)
    world.tools.add("lost", echo)
    world.tools.away.add("gone")
    world.tools.lost.add("lost")
    await world.open(calls("gone", "lost"), after_results("done"))

    await world.ask("go")

    gone, lost = (row.content or "" for row in world.memory.of("s") if row.role == "tool")
    unknown = world.texts.text("outcomeUnknown")
    assert "absent" in gone
    assert unknown not in gone
    assert "absent" in lost
    assert unknown in lost


async def test_a_call_cut_off_by_the_length_limit_is_not_executed(world: World) -> None:
    world.tools.add("echo", echo)
    await world.open(calls("echo", finish="length"), after_results("{result}"))

    assert "cut off" in (await world.ask("go") or "")
    assert world.tools.effects == []


@pytest.mark.parametrize(
    "arguments", ['{"a":' * 300 + "1" + "}" * 300, '{"a": NaN}', '{"a": ' + "1" * 5_000 + "}"]
)
async def test_arguments_that_no_body_can_hold_are_not_executed(
    world: World, arguments: str
) -> None:
    world.tools.add("echo", echo)
    broken = {"when": {"iteration": 0}, "call": [{"tool": "echo", "args": arguments}]}
    await world.open(broken, after_results("{result}"))

    assert "echo" not in (await world.ask("go") or "echo")
    assert world.tools.effects == []
    assert world.rows()[2][1].startswith('{"error"')


async def test_a_long_result_is_cut_before_it_is_stored_sent_or_shown(world: World) -> None:
    async def long(_: JsonObject, __: ToolCallContext) -> str:
        return "x" * 100_000

    world.tools.add("long", long)
    await world.open(calls("long"), after_results("done"))

    await world.ask("go")

    limit = int(32_000 * 0.15 * 3.5)
    stored = world.memory.of("s")[2].content or ""
    assert stored.startswith("x" * limit + "\n")
    assert "100000" in stored
    shown = world.outbound.tools[f"{world.turn_id(1)}.0.0.end"].result
    sent = world.provider.asked[1].messages[-1].content
    assert shown == sent == stored


async def test_images_of_a_result_serve_the_next_request_only(world: World) -> None:
    world.tools.add("look", echo)
    world.tools.add("echo", echo)
    world.tools.images["look"] = ["data:image/png;base64,AAAA"]
    await world.open(
        calls("look"),
        {"when": {"iteration": 1}, "call": [{"tool": "echo"}]},
        {"when": {"iteration": 2}, "reply": "seen"},
    )

    assert await world.ask("go") == "seen"

    pictures = [
        sum(len(message.images or []) for message in request.messages)
        for request in world.provider.asked
    ]
    assert pictures == [0, 1, 0]
    assert all(not row.images for row in world.memory.of("s"))


async def test_a_call_says_for_whom_it_is_made(world: World) -> None:
    world.tools.add("echo", echo)
    world.settings.configs["s"] = SessionConfig(enabled_tool_groups=["g"])
    await world.open(calls("echo"), after_results())

    await world.ask("go", user_id="u7", actor=Actor(platform="webui", user_id="console"))

    context = world.tools.contexts[0]
    assert (context.platform, context.user_id) == ("cli", "u7")
    assert context.actor == Actor(platform="webui", user_id="console")
    assert context.enabled_groups == ["g"]
    assert (context.turn_id, context.call_id) == (world.turn_id(1), "call_0_0")


async def test_a_grouped_tool_without_its_group_is_unknown_and_not_suggested(world: World) -> None:
    world.tools.add("secret", echo, groups=["g"])
    await world.open(calls("secret"), after_results("{result}"))

    answer = await world.ask("go") or ""

    assert "not found" in answer
    assert "Similar" not in answer
    assert world.provider.asked[0].tools is None


async def test_the_limit_ends_the_loop_and_nothing_pending_is_run_or_kept(world: World) -> None:
    world.tools.add("echo", echo)
    world.settings.configs["s"] = SessionConfig(max_tool_iterations=2)
    await world.open({"call": [{"tool": "echo"}], "reply": "still working"})

    assert await world.ask("go") == "still working"

    assert len(world.tools.effects) == 2
    assert [role for role, _ in world.rows()].count("tool") == 2
    assert world.outbound.done[world.turn_id(1)].tool_limit_reached is True


async def test_three_responses_without_an_executable_call_end_the_loop(world: World) -> None:
    world.tools.add("echo", echo)
    await world.open({"call": [{"tool": ""}, {"tool": "echo", "args": "nonsense"}]})

    assert await world.ask("go") is None

    assert len(world.provider.asked) == 3
    assert world.outcome(1) == "silent"
    assert world.outbound.done[world.turn_id(1)].tool_limit_reached is True


async def test_a_reply_without_its_format_is_sent_back_until_it_has_it(world: World) -> None:
    async def demand(data: Any) -> dict[str, object]:
        if data.attempt == 2:
            return {"content": "inner", "archiveContent": data.content}
        return {"retryRequested": True, "retryFeedback": "JSON please", "maxRetries": 2}

    world.interceptors.add(REPLY_BEFORE, "persona", demand)
    world.tools.add("echo", echo)
    await world.open({"reply": "plain", "repeat": True})

    assert await world.ask("hello") == "inner"

    asked = world.provider.asked
    assert [bool(request.tools) for request in asked] == [True, False, False]
    assert [m.role for m in asked[2].messages] == ["system", "user"] + ["assistant", "system"] * 2
    assert "JSON please" in (asked[2].messages[-1].content or "")
    assert len(world.outbound.usages) == 1
    assert world.rows() == [("user", "hello"), ("assistant", "plain")]


async def test_a_format_that_never_comes_is_silence(world: World) -> None:
    async def demand(data: Any) -> dict[str, object]:
        return {"retryRequested": True, "retryFeedback": str(data.attempt), "maxRetries": 2}

    world.interceptors.add(REPLY_BEFORE, "persona", demand)
    await world.open({"reply": "plain", "repeat": True})

    assert await world.ask("hello") is None

    assert len(world.provider.asked) == 3
    assert world.outcome(1) == "silent"
    assert world.rows() == [("user", "hello")]


async def test_metadata_that_no_journal_could_give_back_is_refused_and_its_lane_goes_on(
    world: World,
) -> None:
    await world.open({"reply": "{text}"})
    verdicts: list[str] = []
    for levels in (200, 201, 238, 2000):
        carried = '{"a":' * levels + "1" + "}" * levels
        body = f'{{"content":"x{levels}","sessionId":"s","platform":"cli","metadata":{carried}}}'
        await world.settle(world.post(body.encode()))
        verdicts.append(world.verdicts[-1][1])

    assert verdicts == ["ack", "reject", "reject", "reject"]
    assert await world.ask("next") == "next"


class Watched(HeuristicCounter):
    """A counter that remembers in which threads it worked."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def message(self, message: Message) -> int:
        self.threads.add(threading.get_ident())
        return super().message(message)


@pytest.mark.parametrize(("characters", "on_the_loop"), [(1_000, True), (200_000, False)])
async def test_a_list_with_much_text_is_trimmed_off_the_event_loop(
    world: World, characters: int, on_the_loop: bool
) -> None:
    counter = Watched()

    async def counter_for(_: str) -> Watched:
        return counter

    await world.open({"when": {"text": "y"}, "reply": "second"}, {"reply": "first"})
    parts = world.replica.parts
    world.replica.intake = Intake(
        replace(parts, counter_for=counter_for), world.replica.debts, "watched", 3
    )

    # The second time every text is counted already; what trimming cuts is cut again.
    assert await world.ask("x" * characters) == "first"
    assert await world.ask("y" + "x" * characters) == "second"

    assert (threading.get_ident() in counter.threads) is on_the_loop


LEAKED = "<｜DSML｜function_calls>"
BROKEN_TABLE = "| a | b |\n| --- |\n| 1 | 2 |"
TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |"


async def test_leaked_markup_and_broken_tables_are_mended_before_anybody_sees_the_reply(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def look(data: Any) -> None:
        seen.append(data.content)

    world.interceptors.add(REPLY_BEFORE, "looks", look)
    raw = f"{LEAKED}see:\n{BROKEN_TABLE}"
    await world.open({"reply": raw, "repeat": True})

    assert await world.ask("hello") == f"see:\n{TABLE}"

    assert seen == [f"see:\n{TABLE}"]
    assert world.rows()[-1] == ("assistant", f"see:\n{TABLE}")
    segments = world.memory.of("s")[-1].segments or []
    assert [one.content for one in segments] == [raw]
    warnings = [record for record in caplog.records if "leaked" in record.getMessage()]
    assert len(warnings) == 1
    # What is compared is what was kept, so a model that is stuck is noticed through the mending.
    assert await world.ask("again") is None


async def test_a_text_that_is_sent_back_is_mended_too_and_reads_the_same_after_a_crash(
    world: World,
) -> None:
    async def demand(data: Any) -> dict[str, object]:
        return {"retryRequested": data.attempt == 0, "retryFeedback": "JSON", "maxRetries": 1}

    world.interceptors.add(REPLY_BEFORE, "persona", demand)
    await world.open({"reply": f"{LEAKED}{BROKEN_TABLE}", "repeat": True})
    await world.ask("hello")
    asked = world.provider.asked[1].messages

    world.provider.asked.clear()
    world.outbound.deaf = True

    async def die(entry: Any) -> None:
        if entry.facts and entry.facts[-1].type == "reply.retried":
            world.journal.after_append = None
            world.replica.kill()

    world.journal.after_append = die
    seq = world.say("hello", session="other")
    await world.deliver(seq)
    world.start()
    await world.settle(seq)

    resumed = world.provider.asked[-1].messages
    assert [m.content for m in resumed if m.role == "assistant"] == [TABLE]
    assert [m.content for m in asked if m.role == "assistant"] == [TABLE]


async def test_a_reply_that_a_hook_reworded_is_kept_as_the_model_wrote_it(world: World) -> None:
    async def politely(data: Any) -> dict[str, object]:
        return {"content": f"{data.content}, dear"}

    world.interceptors.add(REPLY_BEFORE, "polite", politely)
    await world.open({"reply": "hello"})

    assert await world.ask("hi") == "hello, dear"

    row = world.memory.of("s")[-1]
    assert row.content == "hello"
    assert (row.metadata or {})["visibleContent"] == "hello, dear"


async def test_a_validated_reply_is_kept_as_it_was_written_and_shown_as_meant(world: World) -> None:
    async def inner(_: Any) -> dict[str, object]:
        return {"content": "inner", "archiveContent": '{"reply":"inner"}'}

    world.interceptors.add(REPLY_BEFORE, "persona", inner)
    await world.open({"reply": '{"reply": "inner"}'})

    assert await world.ask("hello") == "inner"

    row = world.memory.of("s")[-1]
    assert row.content == '{"reply":"inner"}'
    assert (row.metadata or {})["visibleContent"] == "inner"


@pytest.mark.parametrize("reply", ["", "  \n "])
async def test_a_blank_reply_is_silence(world: World, reply: str) -> None:
    await world.open({"reply": reply})

    assert await world.ask("hello") is None

    assert world.outcome(1) == "silent"
    assert world.outbound.done[world.turn_id(1)].outcome == "silent"
    assert world.rows() == [("user", "hello")]


async def test_the_same_answer_twice_in_a_row_is_a_stuck_model_and_silent(world: World) -> None:
    await world.open({"reply": "again", "repeat": True})

    assert await world.ask("one") == "again"
    assert await world.ask("two") is None
    assert world.outcome(2) == "silent"


async def test_a_swallowed_input_leaves_nothing_but_a_done_frame(world: World) -> None:
    async def swallow(_: Any) -> None:
        raise Stop

    world.interceptors.add(INPUT_BEFORE, "filter", swallow)
    await world.open(HELLO)

    assert await world.ask("hello") is None

    assert world.outbound.order == [f"{world.turn_id(1)}.done"]
    assert world.outbound.done[world.turn_id(1)].outcome is None
    assert world.rows() == []
    assert world.provider.asked == []


async def test_what_interceptors_make_of_an_input_is_what_all_later_steps_use(world: World) -> None:
    async def rewrite(data: Any) -> dict[str, object]:
        message = data.message.model_copy(
            update={"content": "rewritten", "session_id": "elsewhere", "platform": "elsewhere"}
        )
        return {"message": message.to_object(), "metadata": {"began": 1}}

    world.interceptors.add(INPUT_BEFORE, "rewriter", rewrite)
    await world.open({"reply": "you said {text}"})

    assert await world.ask("original", nickname="Ann") == "you said rewritten"

    assert world.rows()[0] == ("user", "rewritten")
    after = world.outbound.after[world.turn_id(1)]
    assert after.metadata == {"began": 1}
    assert (after.message.session_id, after.message.platform) == ("s", "cli")


async def test_an_idle_input_is_answered_but_not_stored(world: World) -> None:
    await world.open(HELLO)

    assert await world.ask("wake up", lane="idle-trigger") == "hello back"

    assert world.rows() == [("assistant", "hello back")]


async def test_the_working_list_keeps_what_an_interceptor_put_there(world: World) -> None:
    async def shorten(data: Any) -> dict[str, object]:
        if data.iteration:
            return {}
        kept = [data.messages[0], data.messages[-1]]
        return {"messages": [one.to_object() for one in kept], "tools": []}

    world.interceptors.add(LLM_BEFORE, "shortener", shorten)
    world.tools.add("echo", echo)
    await world.open(calls("echo", text="go"), {"reply": "fine {count}"})
    await world.ask("first")

    world.provider.asked.clear()
    await world.ask("go")

    first, second = world.provider.asked
    assert first.tools is None
    assert second.tools is not None
    assert [m.role for m in second.messages] == ["system", "user", "assistant", "tool"]


async def test_a_stopped_question_is_asked_all_the_same(world: World) -> None:
    async def stop(_: Any) -> None:
        raise Stop

    world.interceptors.add(LLM_BEFORE, "stopper", stop)
    await world.open(HELLO)

    assert await world.ask("hello") == "hello back"


async def test_a_response_can_be_changed_before_it_counts(world: World) -> None:
    async def change(data: Any) -> dict[str, object]:
        response = data.response.model_copy(update={"content": "changed"})
        return {"response": response.to_object()}

    world.interceptors.add(LLM_AFTER, "changer", change)
    await world.open(HELLO)

    assert await world.ask("hello") == "changed"


@pytest.mark.parametrize("hook", [INPUT_BEFORE, LLM_BEFORE, LLM_AFTER, REPLY_BEFORE])
async def test_an_interceptor_that_must_not_be_missed_fails_the_turn(
    world: World, hook: str
) -> None:
    async def fail(_: Any) -> None:
        raise ChainFailed(f"{hook} failed in plugin guard")

    world.interceptors.add(hook, "guard", fail)
    await world.open(HELLO)

    assert await world.ask("hello") is None

    assert world.outcome(1) == "error"
    assert "[Error]" in (world.answer(1, "failure") or "")
    assert "guard" in (world.outbound.after[world.turn_id(1)].error or "")
    if hook == INPUT_BEFORE:
        await world.replica.debts.pay_all()
    assert world.rows() == [("user", "hello")]


@pytest.mark.parametrize("hook", [TOOL_BEFORE, TOOL_AFTER])
async def test_a_guard_of_tools_that_fails_refuses_the_call_and_the_turn_goes_on(
    world: World, hook: str
) -> None:
    async def fail(_: Any) -> None:
        raise ChainFailed("failed in plugin guard")

    world.interceptors.add(hook, "guard", fail)
    world.tools.add("echo", echo)
    await world.open(calls("echo"), after_results("{result}"))

    assert "guard" in (await world.ask("go") or "")
    assert len(world.tools.effects) == (1 if hook == TOOL_AFTER else 0)


async def test_interceptors_change_calls_and_results(world: World) -> None:
    async def rename(data: Any) -> dict[str, object]:
        return {"name": "echo", "args": {"was": data.name}}

    async def rework(data: Any) -> dict[str, object]:
        return {"result": f"<{data.result}>"}

    world.interceptors.add(TOOL_BEFORE, "renamer", rename)
    world.interceptors.add(TOOL_AFTER, "reworker", rework)
    world.tools.add("echo", echo)
    world.tools.add("other", echo)
    await world.open(calls("other"), after_results("{result}"))

    assert await world.ask("go") == '<echo {"was": "other"}>'


async def test_a_call_renamed_to_nothing_is_not_found(world: World) -> None:
    async def rename(_: Any) -> dict[str, object]:
        return {"name": "nothing"}

    world.interceptors.add(TOOL_BEFORE, "renamer", rename)
    world.tools.add("echo", echo)
    await world.open(calls("echo"), after_results("{result}"))

    assert "nothing" in (await world.ask("go") or "")


@pytest.mark.parametrize(
    ("patch", "answer"), [({}, "stopped by plugin guard"), ({"result": "instead"}, "instead")]
)
async def test_a_stopped_call_is_not_executed(
    world: World, patch: dict[str, object], answer: str
) -> None:
    async def stop(_: Any) -> None:
        raise Stop(**patch)

    world.interceptors.add(TOOL_BEFORE, "guard", stop)
    world.tools.add("echo", echo)
    await world.open(calls("echo"), after_results("{result}"))

    assert answer in (await world.ask("go") or "")
    assert world.tools.effects == []


async def test_contributions_are_built_side_by_side_and_late_ones_are_absent(world: World) -> None:
    both = asyncio.Barrier(2)

    async def one(request: PromptBuild) -> str:
        await both.wait()
        return f"from {request.session_id}"

    async def other(_: PromptBuild) -> list[str]:
        await both.wait()
        return ["a", "", "b"]

    async def late(_: PromptBuild) -> str:
        await asyncio.Event().wait()
        return "too late"

    async def lost(_: PromptBuild) -> str:
        return "nowhere to go"

    world.options = Options(prompt_build_timeout=0.05)
    world.contributors.add("p", "one", "knowledge", one)
    world.contributors.add("p", "other", "turn-context", other)
    world.contributors.add("p", "late", "knowledge", late)
    world.contributors.add("p", "lost", "no-such-anchor", lost)
    await world.open(HELLO)

    assert await world.ask("hello") == "hello back"

    texts = [message.content or "" for message in world.provider.asked[0].messages]
    assert texts[1] == "from s"
    assert texts[-3:-1] == ["a", "b"]
    assert "too late" not in texts
    assert "nowhere to go" not in texts


async def test_a_persona_gives_identity_and_its_volatile_text_comes_late(world: World) -> None:
    world.personas.answer = PersonaPrompt(
        system_prompt="I am Ann", volatile_prompt="it is noon", name="Ann"
    )
    world.options = Options(system_prompt="Be kind")
    await world.open(HELLO)
    await world.ask("one")
    world.provider.asked.clear()

    await world.ask("two")

    texts = [message.content or "" for message in world.provider.asked[0].messages]
    assert texts[0].startswith("I am Ann\n\nBe kind\n\n")
    assert texts[-2] == "it is noon"


async def test_without_a_persona_service_the_turn_answers(world: World) -> None:
    world.personas.away = True
    await world.open(HELLO)

    assert await world.ask("hello") == "hello back"


async def test_images_of_the_input_reach_the_model(world: World) -> None:
    picture = MessageAttachment(kind="image", data="data:image/png;base64,AAAA")
    await world.open(HELLO)

    await world.ask("look", attachments=[picture])

    assert world.provider.asked[0].messages[-1].images == ["data:image/png;base64,AAAA"]


async def test_images_that_a_model_is_not_sent_do_not_count(world: World) -> None:
    pictures = [MessageAttachment(kind="image", data="data:image/png;base64,AAAA")] * 9
    blind = {"id": "blind", "contextLength": 4_000, "capabilities": ["chat", "streaming"]}
    world.counter = TiktokenCounter(len)
    await world.open({"reply": "cannot see"}, models=[blind])

    assert await world.ask("look", attachments=pictures) == "cannot see"

    (shown,) = [one for one in world.provider.asked[0].messages if one.role == "user"]
    assert shown.images is None
    assert (shown.content or "").endswith(f"look\n{world.texts.text('imageOmitted')}")
    assert world.outbound.usages[0].used < 2_000


async def test_compressing_the_history_in_mid_turn_builds_the_list_anew(world: World) -> None:
    async def compress(_: JsonObject, __: ToolCallContext) -> str:
        world.memory.rows["s"] = {
            key: row for key, row in world.memory.rows["s"].items() if key[0] > 1
        }
        return '{"ok": true, "rowsBefore": 2, "rowsAfter": 0}'

    world.tools.add("memory_compress", compress)
    await world.open(calls("memory_compress", text="compress"), HELLO)
    await world.ask("old")
    world.provider.asked.clear()

    await world.ask("compress")

    before, after = world.provider.asked
    assert any("old" in (message.content or "") for message in before.messages)
    assert not any("old" in (message.content or "") for message in after.messages)
    assert [m.role for m in after.messages] == ["system", "user", "assistant", "tool"]


async def test_a_failed_compression_changes_nothing(world: World) -> None:
    for content in ('{"ok": false}', "[]", "not json"):

        async def compress(_: JsonObject, __: ToolCallContext, text: str = content) -> str:
            return text

        world.tools.add("memory_compress", compress)
    await world.open(calls("memory_compress"), after_results("done"))

    assert await world.ask("go") == "done"


async def test_a_failing_model_is_an_error_that_a_person_can_read(world: World) -> None:
    await world.open({"fail": {"status": 401, "message": "bad key sk-1234567890"}})

    assert await world.ask("hello") is None

    text = world.answer(1, "failure") or ""
    assert text.startswith("[Error]")
    assert "sk-1234567890" not in text
    assert world.outbound.done[world.turn_id(1)].outcome == "error"
    assert world.outcome(1) == "error"
    assert world.rows() == [("user", "hello")]
    assert world.outbound.order[0].endswith(".done")


async def test_a_call_that_fails_once_is_made_again_as_a_new_attempt(world: World) -> None:
    await world.open(
        {"first": 1, "fail": {"status": 503, "retryAfter": 0}},
        {"reply": "second time"},
    )

    assert await world.ask("hello") == "second time"
    assert {frame.attempt for frame in world.outbound.frames} == {2}


async def test_a_provider_that_overflows_is_asked_once_more_with_less(world: World) -> None:
    await world.open({"first": 1, "overflow": True}, {"reply": "shorter"})

    assert await world.ask("hello") == "shorter"

    assert len(world.outbound.usages) == 2
    assert world.outbound.usages[1].token_budget < world.outbound.usages[0].token_budget


async def test_a_second_overflow_is_an_error(world: World) -> None:
    await world.open({"overflow": True})

    assert await world.ask("hello") is None

    assert len(world.provider.asked) == 2
    assert "overflow" in (world.outbound.after[world.turn_id(1)].error or "")


async def test_what_cannot_be_made_small_enough_is_not_asked(world: World) -> None:
    world.options = Options(system_prompt="字" * 40_000, default_llm="scripted/tiny")
    await world.open(HELLO)

    assert await world.ask("hello") is None

    assert world.provider.asked == []
    assert world.outcome(1) == "error"
    assert "Too much for the model" in (world.answer(1, "failure") or "")


async def test_a_message_too_long_for_its_model_is_answered_and_marked(world: World) -> None:
    world.options = Options(default_llm="scripted/tiny")
    await world.open(HELLO)

    assert await world.ask("word " * 20_000) == "hello back"

    assert world.outbound.done[world.turn_id(1)].shortened is True
    assert (world.memory.of("s")[-1].metadata or {})["shortened"] is True


async def test_a_turn_may_name_its_model_and_an_unknown_one_is_explained(world: World) -> None:
    await world.open(HELLO)

    await world.ask("hello", llm=ModelRef(provider="scripted", model="tiny"))
    assert world.outbound.usages[-1].context_window == 4000

    assert await world.ask("hello", llm=ModelRef(provider="nobody", model="none")) is None
    text = world.answer(2, "failure") or ""
    assert text.startswith("[System]")
    assert "nobody/none" in text
    assert "scripted/demo" in text
    assert world.outcome(2) == "error"
    assert world.rows()[-1] == ("user", "hello")


async def test_without_any_history_wanted_none_is_loaded(world: World) -> None:
    world.options = Options(history_limit=0)
    await world.open({"reply": "{count}"})

    assert await world.ask("one") == "1"
    assert await world.ask("two") == "1"


async def test_an_incomplete_group_in_the_history_is_not_shown(world: World) -> None:
    world.tools.add("echo", echo)
    await world.open(calls("echo"), HELLO)
    await world.ask("go")
    del world.memory.rows["s"][(1, 2)]
    world.provider.asked.clear()

    await world.ask("next")

    assert all(not message.tool_calls for message in world.provider.asked[0].messages)
