"""One trace, from the adapter's publish to the tool in the other process and back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from aalis_sdk import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from aalis_sdk.testing.otlp import OtlpReceiver, ReceivedSpan
    from aalis_sdk.testing.person import Person
    from aalis_sdk.testing.stack import Stack

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def environment(environment: dict[str, str], otlp: OtlpReceiver) -> dict[str, str]:
    return {**environment, "OTEL_EXPORTER_OTLP_ENDPOINT": otlp.endpoint}


@pytest.fixture(autouse=True)
def _traced_here(otlp: OtlpReceiver) -> Iterator[None]:
    tracing.configure("adapter", "test", otlp.endpoint)
    yield
    tracing.shutdown()


async def test_one_trace_covers_the_whole_turn(
    stack: Stack, person: Callable[..., Awaitable[Person]], otlp: OtlpReceiver
) -> None:
    somebody = await person()
    await somebody.ask("how full is your context?")
    trace_id = somebody.trace_ids["m1"]
    names = {
        "say",
        "publish inbound.message.{platform}.{session}",
        "process inbound.{partition}.message.{platform}.{session}",
        "publish agent.inbox.{session}.{lane}",
        "process agent.inbox.{session}.{lane}",
        "invoke_agent aalis",
        "chat demo",
        "request tool.call.{name}",
        "process tool.call.{name}",
        "execute_tool prompt_budget_info",
        "request gateway.outbound.dispatch",
        "process gateway.outbound.dispatch",
        "publish outbound.message.{platform}.{session}",
    }

    def complete(spans: list[ReceivedSpan]) -> bool:
        return names <= {span.name for span in spans if span.trace_id == trace_id}

    tracing.shutdown()
    await otlp.wait_for(complete, 20.0)
    trace = otlp.trace(trace_id)
    by_id = {span.span_id: span for span in trace}

    def ancestors(span: ReceivedSpan) -> list[str]:
        above: list[str] = []
        while span.parent_id:
            span = by_id[span.parent_id]
            above.append(span.name)
        return above

    tool = next(span for span in trace if span.name == "execute_tool prompt_budget_info")
    assert tool.service == "aalis-prompt-budget"
    assert ancestors(tool)[-1] == "say"
    assert "invoke_agent aalis" in ancestors(tool)
    reply = next(span for span in trace if span.name.startswith("publish outbound.message"))
    assert ancestors(reply)[-1] == "say"
    assert {span.service for span in trace} >= {
        "adapter",
        "aalis-gateway",
        "aalis-agent",
        "aalis-prompt-budget",
        "aalis-memory",
    }


async def test_names_are_templates_and_genai_attributes_are_there(
    stack: Stack, person: Callable[..., Awaitable[Person]], otlp: OtlpReceiver
) -> None:
    somebody = await person("a session.with *odd> id")
    await somebody.ask("how full is your context?")
    await otlp.wait_for(
        lambda spans: {"chat demo", "execute_tool prompt_budget_info"} <= {s.name for s in spans},
        20.0,
    )
    for span in otlp.spans:
        assert "odd" not in span.name
        assert not re.search(r"\d{4}", span.name)
    chat = otlp.named("chat demo")[0]
    assert chat.kind == "client"
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.provider.name"] == "scripted"
    assert chat.attributes["gen_ai.request.model"] == "demo"
    assert chat.attributes["gen_ai.conversation.id"] == "a session.with *odd> id"
    assert chat.attributes["gen_ai.usage.input_tokens"]
    tool = otlp.named("execute_tool prompt_budget_info")[0]
    assert tool.attributes["gen_ai.tool.name"] == "prompt_budget_info"
    assert tool.attributes["gen_ai.tool.call.id"] == "call_0_0"
