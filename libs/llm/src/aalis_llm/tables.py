"""This is about Markdown tables that models get wrong (SPEC TXT-3). Pure, linear, idempotent.

The separator row gets as many columns as the header; without that no page shows a table at all.
"""

from __future__ import annotations

import re
from typing import Final

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_SEPARATOR: Final = re.compile(r" {0,3}[|:\-][ \t|:\-]*")
_CELL: Final = re.compile(r"[ \t]*:?-+:?[ \t]*")
_PIPE_OR_CODE: Final = re.compile(r"\\.|(?P<ticks>`+)|(?P<pipe>\|)")


def repair_tables(text: str) -> str:
    """Return `text` with the separator rows of its tables as wide as their headers.

    Alignment is kept; fenced and indented code, inline code and horizontal rules are untouched.
    """
    if "|" not in text or "-" not in text:
        return text
    lines = text.splitlines(keepends=True)
    fence = ""
    in_table = False
    for at, line in enumerate(lines):
        opened = _FENCE.match(line)
        if fence:
            if opened and opened[1].startswith(fence) and not line[opened.end() :].strip():
                fence = ""
            continue
        if opened:
            fence, in_table = opened[1], False
        elif "|" not in line or line.startswith(("    ", "\t")):
            in_table = False
        elif not in_table and at and _is_separator(line) and _is_header(lines[at - 1]):
            lines[at] = _fitted(line, count_cells(lines[at - 1]))
            in_table = True
    return "".join(lines)


def count_cells(row: str) -> int:
    """Return the number of cells of a row; escaped pipes and those in inline code are text."""
    inner = row.strip().removeprefix("|")
    pipes = _pipes(inner)
    ends_with_pipe = bool(pipes) and pipes[-1] == len(inner) - 1
    return len(pipes) + (0 if ends_with_pipe else 1)


def _pipes(text: str) -> list[int]:
    """Return where the pipes stand that part cells."""
    found: list[int] = []
    last = _last_of_each_length(text)
    code = 0  # ticks that opened the inline code we are in
    for match in _PIPE_OR_CODE.finditer(text):
        ticks = len(match["ticks"] or "")
        if code:
            code = 0 if ticks == code else code
        elif match["pipe"]:
            found.append(match.start())
        elif ticks and last[ticks] > match.start():
            code = ticks
    return found


def _last_of_each_length(text: str) -> dict[int, int]:
    return {len(run[0]): run.start() for run in re.finditer(r"`+", text)}


def _is_separator(line: str) -> bool:
    if not _SEPARATOR.fullmatch(line.rstrip()):
        return False
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return all(_CELL.fullmatch(cell) for cell in cells)


def _is_header(line: str) -> bool:
    return "|" in line and not _is_separator(line) and not line.startswith(("    ", "\t"))


def _fitted(line: str, columns: int) -> str:
    """Return the separator row with `columns` cells, unchanged if it has them."""
    body = line.rstrip()
    indent = body[: len(body) - len(body.lstrip())]
    cells = [cell.strip() for cell in body.strip().removeprefix("|").removesuffix("|").split("|")]
    if len(cells) == columns:
        return line
    fitted = (cells + ["---"] * columns)[:columns]
    return f"{indent}| {' | '.join(fitted)} |{line[len(body) :]}"
