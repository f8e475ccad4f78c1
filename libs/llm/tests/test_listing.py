"""The models of one instance: fetched, joined, described (LLM-3, LLM-4)."""

import asyncio
import json
import logging

import httpx2
import pytest

from aalis_llm.listing import Listing
from aalis_llm.port import ModelError
from aalis_llm.settings import CustomModel, OpenAISettings, Patience, ProviderSettings


def answering(*pages: object) -> "Fetch":
    return Fetch(list(pages))


class Fetch:
    """Answers with one page a call, and remembers after which id it was asked."""

    def __init__(self, pages: list[object]) -> None:
        self.pages = pages
        self.asked: list[str | None] = []

    async def __call__(self, after: str | None) -> httpx2.Response:
        self.asked.append(after)
        return httpx2.Response(200, content=json.dumps(self.pages[len(self.asked) - 1]))


def settings(**changes: object) -> ProviderSettings:
    fields: dict[str, object] = {"provider_id": "p", "context_length": 1000, **changes}
    return OpenAISettings(**fields)  # pyright: ignore[reportArgumentType] - given by each test


async def ids_after(listing: Listing, fetch: Fetch) -> list[str]:
    await listing.refresh(fetch)
    return [entry.id for entry in listing.entries()]


@pytest.mark.parametrize(
    ("page", "ids"),
    [
        ({"data": [{"id": "b"}, {"id": "a"}]}, ["a", "b"]),
        ([{"id": "a"}], ["a"]),
        ({"models": [{"name": "n"}, {"model": "m"}]}, ["m", "n"]),
        ({"data": [{"id": ""}, {"id": 3}, "x", None, {"id": "a"}]}, ["a"]),
        ({"data": "x"}, []),
        (3, []),
    ],
)
async def test_any_form_of_a_list_is_read(page: object, ids: list[str]) -> None:
    assert await ids_after(Listing(settings(), "openai"), answering(page)) == ids


async def test_pages_are_followed_to_their_end() -> None:
    fetch = answering(
        {"data": [{"id": "a"}], "has_more": True, "last_id": "a"},
        {"data": [{"id": "b"}], "has_more": True, "last_id": "b"},
        {"data": [{"id": "c"}], "has_more": False, "last_id": "c"},
    )

    assert await ids_after(Listing(settings(), "openai"), fetch) == ["a", "b", "c"]
    assert fetch.asked == [None, "a", "b"]


async def test_a_list_that_never_ends_is_not_followed_for_ever() -> None:
    page = {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}

    assert await ids_after(Listing(settings(), "openai"), answering(page, page)) == ["a"]


async def test_configured_models_are_listed_before_and_beside_the_fetched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    custom = (CustomModel("mine", 77, 7), CustomModel("a", 55), CustomModel("b"))
    listing = Listing(settings(custom_models=custom, max_tokens=9), "openai")
    assert [entry.id for entry in listing.entries()] == ["a", "b", "mine"]

    page = {"data": [{"id": "a"}, {"id": "b", "context_length": 66}, {"id": "c"}]}
    report = await listing.refresh(answering(page))

    windows = {e.id: (e.context_length, e.max_output_tokens) for e in listing.entries()}
    assert windows == {"a": (55, 9), "b": (66, 9), "c": (1000, 9), "mine": (77, 7)}
    assert report.added == ("c",)
    assert "p: model a is listed twice" in caplog.messages


async def test_a_list_longer_than_any_is_read_in_part() -> None:
    pages = [{"data": [{"id": f"m{n}"}], "has_more": True, "last_id": f"m{n}"} for n in range(60)]

    assert len(await ids_after(Listing(settings(), "openai"), answering(*pages))) == 50


def test_a_model_configured_twice_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    listing = Listing(settings(custom_models=(CustomModel("a", 1), CustomModel("a", 2))), "openai")

    assert [entry.context_length for entry in listing.entries()] == [2]
    assert caplog.messages == ["p: model a is listed twice"]


async def test_a_refresh_says_what_came_and_went() -> None:
    listing = Listing(settings(), "openai")
    await listing.refresh(answering({"data": [{"id": "a"}, {"id": "b"}]}))
    report = await listing.refresh(answering({"data": [{"id": "b"}, {"id": "c"}]}))

    assert (report.added, report.removed, report.total) == (("c",), ("a",), 2)
    assert report.problem is None


@pytest.mark.parametrize(
    "key", ["max_model_len", "max_context_length", "context_window", "max_input_tokens"]
)
async def test_a_window_that_the_provider_names_is_taken(key: str) -> None:
    listing = Listing(settings(), "openai")
    await listing.refresh(answering({"data": [{"id": "a", key: 42}, {"id": "b", key: 0}]}))

    assert [entry.context_length for entry in listing.entries()] == [42, 1000]


async def test_a_failed_refresh_reports_and_removes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(after: str | None) -> httpx2.Response:
        raise ModelError("auth", f"no {after}", status=401)

    async def nonsense(after: str | None) -> httpx2.Response:
        return httpx2.Response(200, content=f"<{after}>")

    async def hang(after: str | None) -> httpx2.Response:
        await asyncio.Event().wait()
        return httpx2.Response(200, content=str(after))

    listing = Listing(settings(patience=Patience(listing=0.01)), "openai")
    await listing.refresh(answering({"data": [{"id": "a"}]}))
    for fetch, told in ((refuse, "auth: no None"), (nonsense, "Expecting"), (hang, "did not come")):
        report = await listing.refresh(fetch)
        assert report.problem is not None
        assert told in report.problem
        assert report.total == 1

    assert [entry.id for entry in listing.entries()] == ["a"]
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 3


async def test_no_model_at_all_is_a_problem_of_the_instance() -> None:
    report = await Listing(settings(discover_models=False), "openai").refresh(answering())

    assert report.problem == "no model is listed or configured"


async def test_capabilities_are_the_models_own_or_the_providers() -> None:
    listing = Listing(
        settings(
            model_capabilities={"a": ("chat", "vision"), "text-embedding-3": ("chat",)},
            provider_capabilities=("chat", "streaming"),
        ),
        "strict",
    )
    page = {
        "data": [{"id": n} for n in ("a", "b", "text-embedding-3", "text-embedding-4", "whisper-1")]
    }
    await listing.refresh(answering(page))
    found = {entry.id: entry.capabilities for entry in listing.entries()}

    assert found == {
        "a": ["chat", "vision"],
        "b": ["chat", "streaming"],
        "text-embedding-3": ["chat"],
        "text-embedding-4": ["streaming"],
        "whisper-1": ["streaming"],
    }
    assert all(entry.profile == "strict" for entry in listing.entries())
