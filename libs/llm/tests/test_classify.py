"""Which kind a failure is, from what providers really answer (LLM-13)."""

import json
from datetime import UTC, datetime

import pytest

from aalis_contracts.errors import ModelErrorKind
from aalis_llm.classify import error_facts, failure, kind_of, retry_after_seconds


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (400, "", "badRequest"),
        (401, "", "auth"),
        (402, "", "balance"),
        (403, "", "auth"),
        (404, "", "notFound"),
        (408, "", "timeout"),
        (409, "", "badRequest"),
        (413, "", "overflow"),
        (422, "", "badRequest"),
        (429, "", "rateLimit"),
        (429, "Request too large: context window exceeded per minute", "rateLimit"),
        (500, "", "upstream"),
        (503, "maximum context length", "upstream"),
        (529, "", "upstream"),
        (None, "", "upstream"),
        (400, "This model's maximum context length is 65536 tokens", "overflow"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "overflow"),
        (400, "input length and `max_tokens` exceed context limit: 1 + 2 > 2", "overflow"),
        (400, "the request exceeds the available context size", "overflow"),
        (400, "exceed_context_size_error", "overflow"),
        (400, "Your request exceeded model token limit: 8192", "overflow"),
        (400, "Range of input length should be [1, 30720]", "overflow"),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed", "overflow"),
        (400, "This model's maximum prompt length is 131072", "overflow"),
        (400, "max_tokens must be at least 1", "badRequest"),
        (400, "The response was filtered due to the content management policy", "refused"),
        (400, "Content Exists Risk", "refused"),
        (400, "data_inspection_failed", "refused"),
        (400, "Your credit balance is too low to access the API", "balance"),
        (400, "Unsupported parameter: 'temperature'", "badRequest"),
    ],
)
def test_status_and_words_name_the_kind(
    status: int | None, text: str, kind: ModelErrorKind
) -> None:
    assert kind_of(status, text) == kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("overloaded_error", "upstream"),
        ("rate_limit_error", "rateLimit"),
        ("authentication_error", "auth"),
        ("billing_error", "balance"),
        ("invalid_request_error", "badRequest"),
        ("api_error", "upstream"),
        ("something_new", "upstream"),
    ],
)
def test_an_error_event_in_a_stream_is_read_by_its_code(code: str, kind: ModelErrorKind) -> None:
    body = json.dumps({"type": "error", "error": {"type": code, "message": "no"}})

    assert failure(None, body).kind == kind


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ('{"error": {"message": "m", "type": "t", "code": "c"}}', "m", "c"),
        ('{"error": {"message": "m", "type": "t", "code": null}}', "m", "t"),
        ('{"type": "error", "error": {"type": "t", "message": "m"}}', "m", "t"),
        ('{"error": "m", "code": 7}', "m", "7"),
        ('{"detail": "m"}', "m", None),
        ('{"detail": [{"loc": ["body"]}]}', "[{'loc': ['body']}]", None),
        ('[{"error": {"message": "m", "code": 400}}]', "m", "400"),
        ('{"message": "m", "code": true}', "m", None),
        ('"m"', "m", None),
        ("null", "", None),
        ("[]", "[]", None),
        ("<html><b>502</b> Bad Gateway</html>", "502 Bad Gateway", None),
        ("plain", "plain", None),
        ("[" * 100_000, "[" * 500 + "…", None),
        ("", "", None),
    ],
)
def test_any_body_is_read(body: str, message: str, code: str | None) -> None:
    error = failure(400, body)

    assert error.message == (message or code or "")
    assert error.code == code


def test_what_is_no_object_is_read_too() -> None:
    assert error_facts(3).message == "3"


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", True),
        ("`tool_use` ids were found without `tool_result` blocks", True),
        ("An assistant message with 'tool_calls' must be followed by tool messages", True),
        ("Missing `reasoning_content` field in the assistant message", True),
        ("roles must alternate between user and assistant", True),
        ("Unsupported value: temperature", False),
    ],
)
def test_a_refusal_of_the_history_is_recognised(message: str, shape: bool) -> None:
    assert failure(400, json.dumps({"error": {"message": message}})).history_shape is shape


def test_only_a_bad_request_is_about_the_history() -> None:
    assert not failure(500, "thinking").history_shape


def test_a_key_echoed_by_the_provider_is_nowhere() -> None:
    error = failure(401, '{"error": {"message": "bad key geheim-42"}}', secrets=["geheim-42"])

    assert "geheim" not in f"{error.message} {error.raw} {error}"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 -0000"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
    ],
)
def test_the_asked_for_wait_is_read(headers: dict[str, str], seconds: float | None) -> None:
    now = datetime(2015, 10, 21, 7, 28, 0, tzinfo=UTC).timestamp()

    assert retry_after_seconds(headers, now) == seconds
