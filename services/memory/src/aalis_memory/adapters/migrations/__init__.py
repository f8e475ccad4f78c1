"""The history of the schema: Alembic runs these scripts when the service starts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import SQLAlchemyError

PLACE: Final = Path(__file__).parent


class NewerSchema(SQLAlchemyError):
    """The schema is one that this version has never heard of."""


def upgrade(connection: sa.Connection, stands_at: str | None) -> None:
    """Bring the schema from `stands_at` to the newest revision, in the transaction that is open."""
    settings = configuration()
    known = {script.revision for script in ScriptDirectory.from_config(settings).walk_revisions()}
    if stands_at is not None and stands_at not in known:
        raise NewerSchema(f"schema {stands_at} is of a newer version than this one")
    settings.attributes["connection"] = connection
    command.upgrade(settings, "head")


def configuration() -> Config:
    """Return what Alembic has to know."""
    settings = Config()
    settings.set_main_option("script_location", str(PLACE).replace("%", "%%"))
    return settings
