"""This is about traces: one a turn, from the adapter's publish to the reply (DESIGN §5).

Span names and attributes use subject *templates*: a raw subject holds a session id, and one name
a session would drown every backend. GenAI and messaging names are copied here because their
Python constants are marked deprecated upstream.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from opentelemetry.util.types import AttributeValue

    from aalis_contracts.subjects import Subject

CONVERSATION_ID: Final = "gen_ai.conversation.id"
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_FINISH: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
AGENT_NAME: Final = "gen_ai.agent.name"
TURN_ID: Final = "aalis.turn.id"
OUTCOME: Final = "aalis.turn.outcome"
DELIVERY: Final = "aalis.delivery"

_propagator = TraceContextTextMapPropagator()
_tracer = trace.get_tracer("aalis")


def configure(service: str, instance: str, otlp_endpoint: str | None) -> None:
    """Set up tracing for this process.

    Without an endpoint spans are not recorded, but trace ids are made and passed on, so that log
    lines of one turn can still be found by one id.
    """
    resource = Resource.create(
        {"service.name": service, "service.namespace": "aalis", "service.instance.id": instance}
    )
    if otlp_endpoint:
        # Imported here: the exporter takes a third of a process's start, and few export.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        provider = TracerProvider(resource=resource, sampler=ParentBased(ALWAYS_ON))
        endpoint = otlp_endpoint.rstrip("/") + "/v1/traces"
        exporter = OTLPSpanExporter(endpoint=endpoint)
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
    else:
        provider = TracerProvider(resource=resource, sampler=ALWAYS_OFF)
    trace.set_tracer_provider(provider)


def shutdown() -> None:
    """Send what has been recorded."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


@contextlib.contextmanager
def span(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Mapping[str, AttributeValue] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Generator[Span]:
    """Open a span; `headers` (of a received message) make its sender the parent.

    An exception marks the span as failed, by its class name; cancellation does not.
    """
    context = _propagator.extract(headers) if headers is not None else None
    with _tracer.start_as_current_span(
        name,
        context=context,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as opened:
        try:
            yield opened
        except Exception as error:
            opened.set_attribute("error.type", type(error).__name__)
            opened.set_status(Status(StatusCode.ERROR, str(error)[:200]))
            raise


def messaging(operation: str, subject: Subject) -> dict[str, AttributeValue]:
    """Return the attributes of a span about a message on `subject`."""
    kind = "send" if operation in {"publish", "request"} else operation
    return {
        "messaging.system": "nats",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.template": subject.template,
        "messaging.destination.name": subject.name,
    }


def inject(headers: dict[str, str]) -> None:
    """Write the current trace context into the headers of a message."""
    _propagator.inject(headers)


def trace_id() -> str | None:
    """Return the current trace id as hex, if there is one."""
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None
