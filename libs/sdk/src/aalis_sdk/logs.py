"""This is about log lines: one JSON object each: what happened, ids, what to do (SPEC TXT-4)."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from opentelemetry import trace

if TYPE_CHECKING:
    from collections.abc import Generator

_bound: ContextVar[dict[str, object] | None] = ContextVar("aalis_log_fields", default=None)
_ATTRIBUTE: Final = "aalis_fields"


class Log:
    """A logger whose lines carry fields: `log.warning("memory absent", session=…)`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        """Log details for whoever looks for a fault; the only level that may hold texts."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log what happened."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, *, exc_info: bool = False, **fields: object) -> None:
        """Log that something is degraded."""
        self._write(logging.WARNING, event, fields, exc_info=exc_info)

    def error(self, event: str, *, exc_info: bool = False, **fields: object) -> None:
        """Log that something failed and somebody should look."""
        self._write(logging.ERROR, event, fields, exc_info=exc_info)

    def exception(self, event: str, **fields: object) -> None:
        """Log the exception that is being handled, with its stack: nobody foresaw it."""
        self._write(logging.ERROR, event, fields, exc_info=True)

    def _write(
        self, level: int, event: str, fields: dict[str, object], *, exc_info: bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={_ATTRIBUTE: fields}, exc_info=exc_info)


@contextlib.contextmanager
def bound(**fields: object) -> Generator[None]:
    """Add `fields` to every line logged inside (this task and the tasks it starts)."""
    mark = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(mark)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields that a line was logged with."""
    fields: dict[str, object] = getattr(record, _ATTRIBUTE, {})
    return fields


class _JsonLines(logging.Formatter):
    def __init__(self, service: str, instance: str) -> None:
        super().__init__()
        self._identity = {"service": service, "instance": instance}

    def format(self, record: logging.LogRecord) -> str:
        seconds, fraction = divmod(record.created, 1)
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            + f".{int(fraction * 1000):03d}Z",
            "level": record.levelname.lower(),
            **self._identity,
            "event": record.getMessage(),
            **(_bound.get() or {}),
            **fields_of(record),
        }
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            line["traceId"] = trace.format_trace_id(context.trace_id)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.encode("utf-8", "replace").decode()


def configure(service: str, instance: str, level: str) -> None:
    """Send every log line of this process to standard error as one JSON object."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines(service, instance))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("nats", "faststream", "httpx2", "httpcore", "uvicorn", "opentelemetry"):
        logging.getLogger(noisy).setLevel(
            max(logging.WARNING, logging.getLevelNamesMapping()[level])
        )
