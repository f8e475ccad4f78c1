"""This is about pages: the names that a keyword finds, twenty at a time (SPEC CMD-20, CMD-21)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aalis_contracts.catalogue import Catalogue

PER_PAGE: Final = 20


@dataclass(frozen=True, slots=True)
class Kind:
    """What is listed, by which command, and the catalogue's keys for saying so."""

    command: str
    header: str
    found: str
    not_found: str


MODELS: Final = Kind("model", "modelsHeader", "modelsFound", "modelsNotFound")
PERSONAS: Final = Kind("persona", "personasHeader", "personasFound", "personasNotFound")


@dataclass(frozen=True, slots=True)
class Search:
    """What was asked for: all of it, or what a keyword finds; `prefix` opens a command."""

    keyword: str = ""
    page: float = 1
    prefix: str = "/"


def page_of(kind: Kind, names: Iterable[str], search: Search, texts: Catalogue) -> str:
    """Return one page of `names`: each once, sorted, the keyword in whatever case.

    A page that does not exist is the nearest that does. The last line but one leads to the next
    page, after the last one to the first.
    """
    keyword = search.keyword.strip()
    sought = keyword.casefold()
    found = sorted({name for name in names if sought in name.casefold()})
    if not found:
        return texts.text(kind.not_found, keyword=keyword)
    pages = -(-len(found) // PER_PAGE)
    page = int(min(max(1, search.page), pages))
    values = {"total": len(found), "page": page, "pages": pages}
    header = (
        texts.text(kind.found, keyword=keyword, **values)
        if keyword
        else texts.text(kind.header, **values)
    )
    shown = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    command = f"{search.prefix}{kind.command}"
    again = f"{command} {_typed(keyword)}" if keyword else command
    footer = [texts.text("nextPage", command=f"{again} -p {page % pages + 1}")]
    if not keyword:
        footer.append(texts.text("searchBy", command=command))
    return "\n".join([header, *(f"  {name}" for name in shown), *footer])


def _typed(keyword: str) -> str:
    """Return a keyword as it is typed: quoted where its characters mean something else (CMD-2)."""
    plain = not any(c in "\"'\\" for c in keyword)
    if plain and not any(word.startswith("-") for word in keyword.split()):
        return keyword
    escaped = keyword.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
