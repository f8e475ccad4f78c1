"""Names by the page (SPEC CMD-20, CMD-21)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_agent.pages import MODELS, PER_PAGE, PERSONAS, Search, page_of
from aalis_contracts.catalogue import Catalogue

EN = Catalogue("en")
ZH = Catalogue("zh")
MANY = [f"p/model-{number:02}" for number in range(45)]


def lines(names: list[str], search: Search, texts: Catalogue = EN) -> list[str]:
    return page_of(MODELS, names, search, texts).split("\n")


def test_a_page_has_a_header_its_names_and_the_way_on() -> None:
    assert lines(["b/x", "a/y", "b/x"], Search()) == [
        "2 models, page 1/1:",
        "  a/y",
        "  b/x",
        "Next page: /model -p 1",
        "Search: /model KEYWORD",
    ]


def test_chinese_says_the_same() -> None:
    assert lines(["b/x", "a/y"], Search(), ZH) == [
        "可用的模型共 2 个，第 1/1 页：",
        "  a/y",
        "  b/x",
        "下一页：/model -p 1",
        "搜索：/model 关键词",
    ]


def test_personas_are_listed_by_the_command_for_personas() -> None:
    text = page_of(PERSONAS, ["catgirl"], Search(), EN)
    assert text.split("\n") == [
        "1 personas, page 1/1:",
        "  catgirl",
        "Next page: /persona -p 1",
        "Search: /persona KEYWORD",
    ]


@pytest.mark.parametrize(
    ("asked", "shown", "following"),
    [(1, 1, 2), (2, 2, 3), (3, 3, 1), (4, 3, 1), (1e300, 3, 1), (0, 1, 2), (-7, 1, 2), (2.9, 2, 3)],
)
def test_a_page_that_does_not_exist_is_the_nearest_and_the_last_leads_to_the_first(
    asked: float, shown: int, following: int
) -> None:
    found = lines(MANY, Search(page=asked))
    first = (shown - 1) * PER_PAGE
    assert found[0] == f"45 models, page {shown}/3:"
    assert found[1:-2] == [f"  {name}" for name in MANY[first : first + PER_PAGE]]
    assert found[-2] == f"Next page: /model -p {following}"


@pytest.mark.parametrize("keyword", ["MODEL-4", "  model-4 ", "p/Model-4"])
def test_a_keyword_finds_names_in_whatever_case(keyword: str) -> None:
    found = lines(MANY, Search(keyword))
    assert found[0] == f'5 models with "{keyword.strip()}" in their name, page 1/1:'
    assert found[1:-1] == [f"  p/model-4{digit}" for digit in range(5)]
    assert found[-1] == f"Next page: /model {keyword.strip()} -p 1"


def test_what_no_name_has_is_named() -> None:
    assert page_of(MODELS, MANY, Search("gpt"), EN) == 'No model has "gpt" in its name.'
    assert page_of(PERSONAS, ["x"], Search("猫"), ZH) == "没有名称含 “猫” 的人设。"


@pytest.mark.parametrize(
    ("keyword", "typed"),
    [
        ("a b", "a b"),
        ("-p", '"-p"'),
        ("a -b", '"a -b"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("a'b", '"a\'b"'),
        ("{x}", "{x}"),
    ],
)
def test_the_way_on_can_be_typed_as_it_stands(keyword: str, typed: str) -> None:
    assert lines([keyword], Search(keyword))[-1] == f"Next page: /model {typed} -p 1"


def test_another_prefix_opens_the_commands() -> None:
    assert lines(["a/b"], Search(prefix="!"))[-2:] == [
        "Next page: !model -p 1",
        "Search: !model KEYWORD",
    ]


@given(st.integers(1, 70), st.floats())
def test_walking_on_from_any_page_shows_every_name_once(count: int, page: float) -> None:
    names = [f"n{number:02}" for number in range(count)]
    pages = -(-count // PER_PAGE)
    seen: list[str] = []
    for _ in range(pages):
        found = lines(names, Search(page=page))
        seen += [line.strip() for line in found[1:-2]]
        page = float(found[-2].rpartition(" ")[2])
    assert sorted(seen) == names
