"""Requests between services and their answers (SPEC §1.4)."""

from __future__ import annotations

import pytest

from aalis_contracts.contract import InvalidBody
from aalis_contracts.examples import example
from aalis_contracts.rpc import (
    ArchiveFind,
    CommandContext,
    HistoryFull,
    HistoryGet,
    MessagesRange,
    MessagesRecent,
    MessageUpdate,
    MetadataChange,
    RowKey,
)


def test_a_range_travels_as_from_and_to() -> None:
    span = MessagesRange(
        session_id="s", start=RowKey(input_seq=1, index=0), end=RowKey(input_seq=2, index=3)
    )
    body = b'{"sessionId":"s","from":{"inputSeq":1,"index":0},"to":{"inputSeq":2,"index":3}}'
    assert span.to_json() == body
    assert MessagesRange.from_json(body) == span
    with pytest.raises(InvalidBody, match=r"^MessagesRange: to: "):
        MessagesRange.from_json(b'{"sessionId":"s","from":{"inputSeq":1,"index":0}}')


def test_defaults_are_those_of_the_specification() -> None:
    assert HistoryFull(session_id="s").limit == 200
    assert MessageUpdate(session_id="s", old="a", new="").recent_limit == 100
    assert ArchiveFind(session_id="s", message_id="m").scan_limit == 100
    assert CommandContext(session_id="s", platform="p", key="k").prefix == "/"


@pytest.mark.parametrize("limit", [-1, 0, 50])
def test_any_limit_of_history_is_legal_since_none_means_no_rows(limit: int) -> None:
    assert HistoryGet(session_id="s", limit=limit).limit == limit


@pytest.mark.parametrize("limit", [0, 501])
def test_a_scan_is_bounded(limit: int) -> None:
    with pytest.raises(InvalidBody, match="scanLimit"):
        ArchiveFind.from_object({"sessionId": "s", "messageId": "m", "scanLimit": limit})


def test_recent_rows_are_at_most_a_thousand() -> None:
    with pytest.raises(InvalidBody, match="limit"):
        MessagesRecent.from_json(b'{"limit":1001}')


def test_a_change_of_metadata_is_a_put_or_a_delete() -> None:
    body = example(MetadataChange).to_object()
    with pytest.raises(InvalidBody, match="op"):
        MetadataChange.from_object({**body, "op": "merge"})
