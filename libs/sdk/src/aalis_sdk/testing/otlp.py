"""This is about receiving traces: an OTLP/HTTP endpoint that keeps spans as simple objects.

Processes under test export to it as they would to a collector, so that one trace across services
can be looked at as a whole.
"""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

Value = str | bool | int | float | bytes | list["Value"] | dict[str, "Value"] | None

_KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")
_STATUS: Final = ("unset", "ok", "error")


@dataclass(frozen=True)
class ReceivedSpan:
    """One span; ids are hex, times nanoseconds since the epoch, `parent_id` "" for a root."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    service: str
    instance: str
    start: int
    end: int
    status: str
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    links: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


class OtlpReceiver:
    """Listens on a free port; processes reach it by OTEL_EXPORTER_OTLP_ENDPOINT=`endpoint`."""

    def __init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(body)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - not our name
                """Say nothing: standard error belongs to the test."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._lock = threading.Lock()
        self._spans: list[ReceivedSpan] = []
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    def stop(self) -> None:
        """Stop receiving; what came stays readable."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def spans(self) -> list[ReceivedSpan]:
        """Everything received so far, by start time."""
        with self._lock:
            return sorted(self._spans, key=lambda span: span.start)

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """Return the spans of one trace, by start time."""
        return [span for span in self.spans if span.trace_id == trace_id]

    def named(self, name: str) -> list[ReceivedSpan]:
        """Return the spans of one name, by start time."""
        return [span for span in self.spans if span.name == name]

    def clear(self) -> None:
        """Forget what came."""
        with self._lock:
            self._spans.clear()

    async def wait_for(
        self, condition: Callable[[list[ReceivedSpan]], bool], timeout: float = 10.0
    ) -> list[ReceivedSpan]:
        """Wait until `condition` holds for the spans received; say what came if it never does."""
        try:
            async with asyncio.timeout(timeout):
                # Spans come in on another thread, which cannot set an event of this loop.
                while not condition(spans := self.spans):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError:
            came = ", ".join(f"{span.service}/{span.name}" for span in self.spans) or "nothing"
            message = f"the spans waited for did not come in {timeout:g} s; came: {came}"
            raise AssertionError(message) from None
        return spans

    def take(self, body: bytes) -> None:
        """Read one export request."""
        request = ExportTraceServiceRequest.FromString(body)
        found: list[ReceivedSpan] = []
        for resource in request.resource_spans:
            of = _attributes(resource.resource.attributes)
            service, instance = of.get("service.name"), of.get("service.instance.id")
            for scope in resource.scope_spans:
                found += [_span(span, str(service), str(instance)) for span in scope.spans]
        with self._lock:
            self._spans += found


def _span(span: ProtoSpan, service: str, instance: str) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        kind=_KINDS[span.kind],
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        service=service,
        instance=instance,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        status=_STATUS[span.status.code],
        attributes=_attributes(span.attributes),
        links=tuple(link.span_id.hex() for link in span.links),
        events=tuple(event.name for event in span.events),
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    plain: Value = getattr(value, kind)
    return plain
