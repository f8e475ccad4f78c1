"""This is about leaving nothing behind: a task that is lost or fails unheard fails its test."""

import gc
import logging
from collections.abc import Generator

import pytest


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


_complaints = _Complaints()
logging.getLogger("asyncio").addHandler(_complaints)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """Fail when asyncio has complained, now that the test's event loop is gone."""
    yield
    gc.collect()
    lines = list(_complaints.lines)
    _complaints.lines.clear()
    assert not lines, "\n".join(lines)
