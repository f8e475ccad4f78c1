"""This is about settings: what memory can be told, beside what every process can."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import quote

from aalis_sdk.settings import MeshSettings


class MemorySettings(MeshSettings):
    """The settings of the memory service."""

    data_dir: Path = Path(".aalis")
    """Directory of what is kept on this machine."""
    database_url: str | None = None
    """Where rows are kept: sqlite:///PATH or postgresql://…; none = memory.db in AALIS_DATA_DIR."""
    database_sync: Literal["normal", "full"] = "normal"
    """What SQLite waits for: normal survives any crash of a process, full a power failure too."""
    history_allow: str = ""
    """Who may read any session with session_get_history: platform:userId or session ids, commas."""

    @property
    def database(self) -> str:
        """The address of the database."""
        file = (self.data_dir / "memory.db").absolute()
        return self.database_url or f"sqlite:///{quote(str(file))}"

    @property
    def allowed(self) -> frozenset[str]:
        """The entries of `history_allow`."""
        return frozenset(entry.strip() for entry in self.history_allow.split(",") if entry.strip())
