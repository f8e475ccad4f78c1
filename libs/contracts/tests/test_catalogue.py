"""The texts that models and people read, in every locale (SPEC CAT-1 to CAT-3)."""

from __future__ import annotations

import json
from pathlib import Path
from string import Formatter

import pytest

from aalis_contracts.catalogue import LOCALES, TEXTS, Catalogue, any_form

MARKERS: dict[str, str] = json.loads(
    (Path(__file__).parent / "data" / "markers.zh.json").read_text("utf-8")
)
KEYS = sorted(TEXTS["zh"])


def placeholders(text: str) -> list[str]:
    return sorted({name for _, name, _, _ in Formatter().parse(text) if name is not None})


def test_every_locale_has_the_same_keys_in_the_same_order() -> None:
    assert [list(TEXTS[locale]) for locale in LOCALES] == [list(TEXTS["zh"])] * len(LOCALES)


@pytest.mark.parametrize("key", KEYS)
def test_every_locale_has_the_same_placeholders_and_some_text(key: str) -> None:
    for locale in LOCALES:
        text = TEXTS[locale][key]
        assert text.strip()
        assert placeholders(text) == placeholders(TEXTS["zh"][key])
        assert all(name.isidentifier() for name in placeholders(text))


@pytest.mark.parametrize("key", sorted(MARKERS))
def test_the_markers_of_trimming_are_those_of_the_vectors(key: str) -> None:
    assert Catalogue().text(key) == MARKERS[key]


@pytest.mark.parametrize("key", KEYS)
def test_a_text_is_filled_with_values_that_may_hold_braces(key: str) -> None:
    values = dict.fromkeys(placeholders(TEXTS["zh"][key]), "{x}")
    for locale in LOCALES:
        filled = Catalogue(locale).text(key, **values)
        assert filled.count("{x}") >= len(values)
        assert "{" not in filled.replace("{x}", "")


@pytest.mark.parametrize("key", KEYS)
def test_english_texts_are_english(key: str) -> None:
    assert not any("\u4e00" <= char <= "\u9fff" for char in TEXTS["en"][key])


@pytest.mark.parametrize(
    "key",
    [
        "toolResultCut",
        "middleCut",
        "inputConventions",
        "fusedAnswer",
        "delegation",
        "focusGuidance",
        "formatFeedback",
        "historyStart",
        "noUserMessage",
        "noOutput",
        "resultMissing",
        "outcomeUnknown",
        "imageOmitted",
    ],
)
def test_the_keys_that_the_specification_names_exist(key: str) -> None:
    assert key in KEYS


@pytest.mark.parametrize(
    ("key", "forms"),
    [
        ("systemHint", ("[系统提示]", "[System hint]")),
        ("systemNotice", ("[系统通知]", "[System notice]")),
        ("delegationPrefix", ("[跨会话委派]", "[Cross-session delegation]")),
        ("systemAnswer", ("[系统]", "[System]")),
        ("errorAnswer", ("[错误]", "[Error]")),
        ("image", ("图片", "image")),
        ("file", ("文件", "file")),
    ],
)
def test_a_marker_is_known_in_the_form_of_every_locale(key: str, forms: tuple[str, ...]) -> None:
    assert any_form(key) == forms


@pytest.mark.parametrize("locale", LOCALES)
def test_texts_that_open_with_a_marker_open_with_that_of_their_locale(locale: str) -> None:
    texts = Catalogue(locale)
    for key in ("continuationHint", "fusedAnswer", "focusGuidance", "noUserMessage"):
        assert texts.text(key).startswith(texts.text("systemHint"))
    delegation = texts.text("delegation", source="s", task="t")
    assert delegation.startswith(texts.text("delegationPrefix"))


def test_chinese_is_the_default() -> None:
    assert Catalogue().locale == "zh"


def test_an_unknown_locale_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'fr' is unknown; use one of zh, en"):
        Catalogue("fr")


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(KeyError):
        Catalogue().text("noSuchKey")
