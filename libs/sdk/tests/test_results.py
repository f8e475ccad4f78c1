"""This is about results: every value that a handler may return has one text (SPEC TOOL-8)."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from pydantic import BaseModel

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.registry import PromptEntry
from aalis_contracts.tools import ToolResult, error_result
from aalis_sdk.results import as_result, failure_text, fit

TEXTS = Catalogue("zh")


class Model(BaseModel):
    when: dt.date


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def text(value: object) -> str:
    return as_result(value, TEXTS).content


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("as it is\n", "as it is\n"),
        (None, TEXTS.text("noOutput")),
        (True, "true"),
        (3, "3"),
        (float("nan"), "null"),
        (b"abc", '"<3 bytes>"'),
        pytest.param(memoryview(b"abcd"), '"<4 bytes>"', id="a view of bytes"),
        (dt.datetime(2030, 1, 2, 3, 4, tzinfo=dt.UTC), '"2030-01-02T03:04:00+00:00"'),
        pytest.param({"b", "a"}, '["a","b"]', id="a set"),
        ((1, [2, {"k": dt.date(2030, 1, 2)}]), '[1,[2,{"k":"2030-01-02"}]]'),
        ({1: {"x"}}, '{"1":["x"]}'),
        (Model(when=dt.date(2030, 1, 2)), '{"when":"2030-01-02"}'),
        (
            PromptEntry(plugin="p", id="i", anchor="context"),
            '{"plugin":"p","id":"i","anchor":"context"}',
        ),
        ({"u": "\ud83d"}, '{"u":"\ufffd"}'),
    ],
    ids=repr,
)
def test_every_value_has_its_text(value: object, content: str) -> None:
    assert text(value) == content


def test_what_contains_itself_or_cannot_be_spoken_is_named_by_a_short_repr() -> None:
    cycle: dict[str, Any] = {"a": 1}
    cycle["self"] = cycle
    assert json.loads(text(cycle))["a"] == 1
    assert text([Unspeakable()]) == '["<Unspeakable: repr failed: RuntimeError>"]'
    assert len(text([object(), "x" * 5])) < 100


def test_a_result_passes_as_it_is() -> None:
    given = ToolResult(content="seen \ud83d", images=["data:image/png;base64,AA"])
    assert as_result(given, TEXTS) == given.model_copy(update={"content": "seen \ufffd"})


def test_a_failure_is_never_empty() -> None:
    assert failure_text(ValueError("why")) == "why"
    assert failure_text(KeyError()) == "KeyError"


def test_a_result_that_fits_is_untouched_and_another_says_how_long_it_was() -> None:
    short = error_result("no")
    assert fit(short, 1000, TEXTS) is short
    cut = fit(ToolResult(content="字" * 1000), 800, TEXTS)
    assert cut.content == "字" * 100 + TEXTS.text("toolResultCut", length=1000)
    assert cut.original_length == 1000
    assert len(cut.to_json()) <= 800


def test_images_that_are_too_big_are_left_out_and_the_text_says_so() -> None:
    cut = fit(ToolResult(content="a cat", images=["x" * 5000]), 800, TEXTS)
    assert cut == ToolResult(content="a cat" + TEXTS.text("toolResultCut", length=5))
