"""What a person reads about a failed call: one line, no address, no key (LLM-13, ERR-2)."""

import pytest

from aalis_contracts.catalogue import LOCALES, Catalogue
from aalis_contracts.errors import ModelErrorKind
from aalis_llm.errors import ModelError, person_line, public_text, without_keys

KINDS: list[ModelErrorKind] = [
    "auth",
    "balance",
    "notFound",
    "rateLimit",
    "overflow",
    "refused",
    "badRequest",
    "upstream",
    "timeout",
    "connection",
    "cut",
]


def test_the_line_is_status_hint_and_what_the_provider_said() -> None:
    error = ModelError("auth", "Incorrect API key", status=401)

    assert person_line(error, Catalogue("en")) == (
        "401 the model service refused the key; check the API key: Incorrect API key"
    )
    assert person_line(error, Catalogue("zh")).startswith("401 模型服务拒绝了密钥")


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_line_in_every_locale(kind: ModelErrorKind, locale: str) -> None:
    assert person_line(ModelError(kind, ""), Catalogue(locale))


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF0123456789",
        "sk-abc***********wxyz",
        "sk-ant-api03-xyzxyzxyz",
        "Bearer abcdef0123456789",
        'api_key: "hunter2hunter2"',
        "AIzaSyA1234567890abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "0123456789abcdef0123456789abcdef",
        "https://api.internal.example/v1/chat?key=1",
        "http://10.0.0.7:8080/v1",
        "10.20.30.40:443",
        "[2001:db8:0:1::7]:443",
        "api.openai.com",
        "gateway.svc.cluster.local:9000",
        "localhost:11434",
        "someone@company.example",
        "/home/service/app/main.py",
        r"C:\Users\x\secrets.txt",
    ],
)
def test_addresses_and_keys_are_not_shown(secret: str) -> None:
    told = ModelError("upstream", f"failed at {secret}, sorry").message

    assert "sorry" in told
    assert not any(len(part) > 5 and part in told for part in secret.replace('"', " ").split()[-1:])


@pytest.mark.parametrize(
    "text",
    [
        "claude-sonnet-4-5-20250929 is not a model",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "messages.3.content.0: expected `thinking`",
        "at 10:30:12 we said no/yes",
        "数量 1.5 / 3.5，请重试",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert public_text(text) == text


def test_a_long_page_becomes_one_line_of_500_characters() -> None:
    told = public_text("<html>\n\n  broken \t gateway </html>" * 100_000)

    assert "\n" not in told
    assert len(told) == 501
    assert told.endswith("…")


def test_a_configured_key_of_any_form_is_hidden_in_the_raw_body_too() -> None:
    assert without_keys("key=geheim!", ["geheim!", ""]) == "key=…"
    assert ModelError("auth", "x", raw="Bearer abcdef012345").raw == "…"


def test_lone_surrogates_become_replacement_characters() -> None:
    assert public_text("broken \ud83d") == "broken \ufffd"


@pytest.mark.parametrize(
    "unit", ["a.", "1.", "/a", "::", "a@", "sk-", "Bearer ", "<a", "key:", "0a:"]
)
def test_no_text_makes_the_search_slow(unit: str) -> None:
    assert len(public_text(unit * 200_000)) <= 501
