"""This is about command lines on the mesh: who runs what, once, and what comes back."""

from __future__ import annotations

import json

import pytest

from aalis_contracts import subjects
from aalis_contracts.hooks import ClearReport
from aalis_contracts.registry import CommandArg, CommandEntry, CommandOption
from aalis_contracts.rpc import ClearResults, CommandRun, MemoryClear
from aalis_gateway.testing import Rig, said
from aalis_sdk import topology
from aalis_sdk.buckets import Bucket
from aalis_sdk.plugin import Plugin


class Echo:
    """A plugin with commands of every level; remembers what it was asked to run."""

    def __init__(self) -> None:
        self.runs: list[CommandRun] = []
        self.plugin = Plugin("echo")
        options = [CommandOption(name="loud", short="l")]
        args = [CommandArg(name="what", type="text", required=True)]
        offer = self.plugin.command
        offer("echo", "say it again", args=args, options=options, risk="safe")(self._run)
        offer("echo.risky", "needs level 1", risk="sensitive")(self._run)
        offer("echo.risky.more", "declares less than its parent", risk="safe")(self._run)
        offer("echo.fails", "raises", risk="safe")(self._fail)
        offer("echo.silent", "answers nothing", risk="safe")(self._nothing)

    async def _run(self, call: CommandRun) -> str:
        self.runs.append(call)
        return f"ran {call.path} {call.args.get('what', '')}".strip()

    async def _fail(self, call: CommandRun) -> str:
        self.runs.append(call)
        raise ValueError

    async def _nothing(self, call: CommandRun) -> None:
        self.runs.append(call)


@pytest.fixture
async def echo(rig: Rig) -> Echo:
    await rig.gateway()
    made = Echo()
    await made.plugin.attach(rig.mesh, rig.registry)
    await rig.hear_registry()
    return made


async def authority(rig: Rig, body: object) -> None:
    raw = body if isinstance(body, bytes) else json.dumps({"authority": body}).encode()
    await Bucket(rig.mesh, topology.PROFILES).put("defaults", raw)
    await rig.heard_by_gateways()


async def answers(rig: Rig, count: int = 1) -> list[str]:
    return [message.content for message in await rig.answers(count)]


async def test_a_command_runs_where_it_is_offered_and_is_answered(rig: Rig, echo: Echo) -> None:
    await rig.publish(said("/echo -l hello  world", message_id="1", nickname="Ann"))

    (message,) = await rig.answers()
    assert (message.content, message.source) == ("ran echo hello world", "command")
    (run,) = echo.runs
    assert (run.args, run.options) == ({"what": "hello world"}, {"loud": True})
    assert (run.context.key, run.context.nickname) == ("chat:s:1", "Ann")


async def test_a_command_reaches_neither_the_agent_nor_the_archive(rig: Rig, echo: Echo) -> None:
    await rig.publish(said("/echo hello"))
    await rig.publish(said("/unknown is chat"))

    assert [message.content for message in await rig.inputs()] == ["/unknown is chat"]
    assert len(echo.runs) == 1


@pytest.mark.parametrize("stream_id", [None, "same"])
async def test_a_command_delivered_twice_has_one_effect_and_one_answer(
    rig: Rig, echo: Echo, stream_id: str | None
) -> None:
    for _ in range(2):
        await rig.publish(said("/echo hello", message_id="1"), message_id=stream_id)
    await rig.publish(said("/echo bye", message_id="2"))

    assert await answers(rig, 2) == ["ran echo hello", "ran echo bye"]
    assert len(echo.runs) == 2


async def test_a_command_whose_gateway_died_is_not_run_again(rig: Rig, echo: Echo) -> None:
    import hashlib  # noqa: PLC0415

    started = b'{"state":"started"}'
    key = "command-" + hashlib.sha256(b"chat:s:1").hexdigest()
    await Bucket(rig.mesh, topology.TOOL_RESULTS).put(key, started)

    await rig.publish(said("/echo hello", message_id="1"))

    assert "结果未知" in (await answers(rig))[0]
    assert echo.runs == []


async def test_what_is_typed_wrong_is_answered_with_usage(rig: Rig, echo: Echo) -> None:
    await rig.publish(said("/echo --loudly hello"))
    await rig.publish(said("/echo"))

    unknown, missing = await answers(rig, 2)
    assert "未知选项 --loudly" in unknown
    assert "缺少参数 what" in missing
    assert "/echo [-l] <what:text>" in missing
    assert echo.runs == []


@pytest.mark.parametrize(
    ("line", "named"), [("/echo.fails", "执行失败"), ("/gone", "没有运行"), ("/slow", "结果未知")]
)
@pytest.mark.usefixtures("echo")
async def test_a_command_that_does_not_work_is_answered_in_one_line(
    rig: Rig, line: str, named: str
) -> None:
    await rig.announce(subjects.command_key("gone"), CommandEntry(path="gone", plugin="x"))
    slow = CommandEntry(path="slow", plugin="x", timeout_ms=50)
    await rig.announce(subjects.command_key("slow"), slow)
    await rig.never_answer("command.run.slow")

    await rig.publish(said(line))

    (text,) = await answers(rig)
    assert named in text
    assert "\n" not in text


async def test_no_text_is_no_answer(rig: Rig, echo: Echo) -> None:
    await rig.publish(said("/echo.silent"))
    await rig.publish(said("/echo after"))

    assert await answers(rig) == ["ran echo after"]
    assert len(echo.runs) == 2


@pytest.mark.usefixtures("echo")
async def test_a_level_is_needed_for_what_is_sensitive(rig: Rig) -> None:
    await authority(rig, {"levels": {"chat:trusted": 1}, "owners": ["chat:boss"]})

    for user in ("anyone", "trusted", "boss"):
        await rig.publish(said("/echo risky", user_id=user))

    refused, *ran = await answers(rig, 3)
    assert "没有权限" in refused
    assert ran == ["ran echo.risky"] * 2


async def test_a_declaration_further_down_cannot_loosen(rig: Rig, echo: Echo) -> None:
    await rig.publish(said("/echo.risky.more"))

    assert "需要等级 1" in (await answers(rig))[0]
    assert echo.runs == []


@pytest.mark.usefixtures("echo")
async def test_the_actor_decides_over_the_person_of_the_platform(rig: Rig) -> None:
    console = {"platform": "cli", "userId": "console"}
    await rig.publish(said("/echo.risky", actor=console))

    assert await answers(rig) == ["ran echo.risky"]


@pytest.mark.usefixtures("echo")
async def test_what_the_operator_switched_off_runs_for_nobody(rig: Rig) -> None:
    await authority(rig, {"denied": ["echo"], "owners": ["chat:u"]})

    await rig.publish(said("/echo.risky"))

    assert "停用" in (await answers(rig))[0]


async def test_unreadable_authority_data_refuses_until_it_is_mended(rig: Rig, echo: Echo) -> None:
    await authority(rig, b'{"authority": {"levels": "all"}}')
    await rig.publish(said("/echo risky", user_id="boss"))
    await rig.publish(said("/echo fine"))
    first = await answers(rig, 2)

    await authority(rig, {"owners": ["chat:boss"]})
    await rig.publish(said("/echo risky", user_id="boss"))

    assert "权限数据无法读取" in first[0]
    assert (await answers(rig, 3))[1:] == ["ran echo fine", "ran echo.risky"]
    assert len(echo.runs) == 2


async def test_the_scheduler_is_trusted_and_answers_to_the_log(rig: Rig, echo: Echo) -> None:
    await rig.publish(said("/echo tick", source="scheduler"))
    await rig.publish(said("/echo tock"))

    assert await answers(rig) == ["ran echo tock"]
    assert [run.args["what"] for run in echo.runs] == ["tick", "tock"]


async def test_help_lists_what_there_is(rig: Rig, echo: Echo) -> None:
    await rig.publish(said("/help"))
    await rig.publish(said("/help echo risky"))
    await rig.publish(said("/help echo.risky"))
    await rig.publish(said("/help nothing"))

    listed, one, dotted, unknown = await answers(rig, 4)
    assert "/echo [-l] <what:text>（4 个子命令）  say it again" in listed
    assert "/status" in listed
    assert "/echo.risky" in one
    assert "needs level 1" in one
    assert one == dotted
    assert "没有命令 nothing" in unknown
    assert echo.runs == []


async def test_help_works_with_an_empty_registry(rig: Rig) -> None:
    await rig.gateway()
    await rig.mesh.js.purge_stream("KV_registry")

    await rig.publish(said("/help"))

    assert "/status" in (await answers(rig))[0]


@pytest.mark.usefixtures("echo")
async def test_a_mention_of_the_bot_before_a_command_does_not_matter(rig: Rig) -> None:
    await rig.publish(said('<at self id="b">Bot</at> /echo hi', session_type="group"))

    assert await answers(rig) == ["ran echo hi"]


async def test_status_counts_the_services(rig: Rig) -> None:
    await rig.gateway()
    await rig.announce_service("memory", "memory")

    await rig.publish(said("/status"))

    assert "memory：1 个实例" in (await answers(rig))[0]


async def test_a_parent_without_a_handler_answers_with_its_children(rig: Rig) -> None:
    await rig.gateway()
    await rig.announce(
        subjects.command_key("memo.add"),
        CommandEntry(path="memo.add", plugin="x", description="add one"),
    )

    await rig.publish(said("/memo"))

    assert "/memo.add  add one" in (await answers(rig))[0]


class Memory:
    """What memory does when it is told to clear."""

    def __init__(self, *reports: ClearReport) -> None:
        self.asked: list[MemoryClear] = []
        self.reports = list(reports)

    async def clear(self, request: MemoryClear) -> ClearResults:
        self.asked.append(request)
        return ClearResults(results=self.reports)

    async def serve(self, rig: Rig) -> None:
        await rig.mesh.respond(subjects.MEMORY_CLEAR, MemoryClear, self.clear)


async def test_clearing_is_confirmed_and_reported_line_by_line(rig: Rig) -> None:
    await rig.gateway()
    memory = Memory(
        ClearReport(source="memory", success=True, message="12 rows"),
        ClearReport(source="persona", success=False),
    )
    await memory.serve(rig)

    await rig.publish(said("/clear -t history,summary"))
    await rig.answers(1)
    assert memory.asked == []
    await rig.publish(said("Y"))

    _, done = await answers(rig, 2)
    assert done == "memory：12 rows\npersona：清除失败"
    (request,) = memory.asked
    assert (request.scope, request.session_id) == ("session", "s")
    assert request.types == ["context", "summary"]


async def test_nothing_to_clear_is_said(rig: Rig) -> None:
    await rig.gateway()
    memory = Memory()
    await memory.serve(rig)

    await rig.publish(said("/clear -t all"))
    await rig.publish(said("yes"))

    assert (await answers(rig, 2))[1] == "没有可清除的内容。"
    assert memory.asked[0].types is None


async def test_an_unknown_type_is_answered_with_the_valid_ones(rig: Rig) -> None:
    await rig.gateway()

    await rig.publish(said("/clear -t dreams"))
    await rig.publish(said("y"))
    await rig.publish(said("/clear.list"))

    _, unknown, listed = await answers(rig, 3)
    assert "没有类型 dreams" in unknown
    assert "context, summary, vector" in unknown
    assert "persona" in listed


async def test_clearing_in_a_group_or_everywhere_needs_level_two(rig: Rig) -> None:
    await rig.gateway()

    await rig.publish(said("/clear", session_type="group"))
    await rig.publish(said("/clear.all"))

    assert all("需要等级 2" in text for text in await answers(rig, 2))


async def test_memory_that_is_absent_cannot_be_cleared(rig: Rig) -> None:
    await rig.gateway()

    await rig.publish(said("/clear"))
    await rig.publish(said("y"))

    assert "没有运行" in (await answers(rig, 2))[1]
