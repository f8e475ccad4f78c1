"""Tables whose separator row does not fit (TXT-3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_llm.tables import count_cells, repair_tables


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("| a | b |\n|---|\n| 1 | 2 |\n", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"),
        ("| a | b |\n|:-:|---|---:|\n", "| a | b |\n| :-: | --- |\n"),
        ("|a|b|c|\n|:--|--:|", "|a|b|c|\n| :-- | --: | --- |"),
        ("a | b | c\n--- | ---\n", "a | b | c\n| --- | --- | --- |\n"),
        ("  | a | b |\r\n  |---|\r\n", "  | a | b |\r\n  | --- | --- |\r\n"),
        (r"| a \| b | c |" + "\n|---|\n", r"| a \| b | c |" + "\n| --- | --- |\n"),
        ("| `a|b` | c |\n|---|\n", "| `a|b` | c |\n| --- | --- |\n"),
        ("| ``a|`b`` | c |\n|---|\n", "| ``a|`b`` | c |\n| --- | --- |\n"),
        ("| `a | c |\n|---|\n", "| `a | c |\n| --- | --- |\n"),
        (
            "text\n\n| a | b |\n|-|\n\n| c |\n|-|-|\n",
            "text\n\n| a | b |\n| - | --- |\n\n| c |\n| - |\n",
        ),
    ],
)
def test_the_separator_gets_the_columns_of_the_header(text: str, repaired: str) -> None:
    assert repair_tables(text) == repaired


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no table",
        "| a | b |\n|---|---|\n| 1 |\n",
        "| a | b |\n| :-- | --: |\n|---|\n",
        "```\n| a | b |\n|---|\n```\n",
        "~~~~md\n| a | b |\n|---|\n~~~\n| a | b |\n|---|\n",
        "    | a | b |\n    |---|\n",
        "\t| a | b |\n\t|---|\n",
        "a | b\n\n---\n",
        "a | b\n---\n",
        "|---|---|\n|---|\n",
        "- a | b\n- c\n",
        "|\n",
        "text\n|---|---|\n",
        "| a | b |\n| - x |\n",
        "`a | b`\n|---|\n",
    ],
)
def test_everything_else_is_untouched(text: str) -> None:
    assert repair_tables(text) == text


def test_a_table_after_a_closed_fence_is_repaired() -> None:
    text = "```py\n| x | y |\n|---|\n````\n| a | b |\n|---|\n"

    assert repair_tables(text).endswith("````\n| a | b |\n| --- | --- |\n")


@pytest.mark.parametrize(
    ("row", "cells"), [("| a |", 1), ("a", 1), ("a | b", 2), ("|a|b", 2), ("||", 1), ("| | |", 2)]
)
def test_cells_are_counted(row: str, cells: int) -> None:
    assert count_cells(row) == cells


@given(
    st.lists(
        st.sampled_from(["| a | b |", "|---|", "a|`b|", "```", "---", "", " :-: | - ", "\\|"]),
        max_size=8,
    )
)
def test_repairing_twice_is_repairing_once(lines: list[str]) -> None:
    once = repair_tables("\n".join(lines))

    assert repair_tables(once) == once
    assert len(once.splitlines()) == len("\n".join(lines).splitlines())


@pytest.mark.parametrize("unit", ["|-", "`|", "| a |\n|-|\n", "\\", "```|-\n", "-|:"])
def test_no_text_makes_it_slow(unit: str) -> None:
    assert repair_tables(unit * 200_000)
