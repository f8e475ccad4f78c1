"""Rows of the sessions, and metadata by namespace and key."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the two tables and their indexes; the columns are explained in `adapters.tables`."""
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "messages",
        sa.Column("id", identity, primary_key=True, autoincrement=True),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("session_full", sa.Text),
        sa.Column("input_seq", sa.BigInteger, nullable=False),
        sa.Column("row_index", sa.BigInteger, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("content", sa.Text),
        sa.Column("kind", sa.Text),
        sa.Column("tool_calls", sa.Text),
        sa.Column("tool_call_id", sa.Text),
        sa.Column("name", sa.Text),
        sa.Column("timestamp", sa.BigInteger),
        sa.Column("reasoning_content", sa.Text),
        sa.Column("segments", sa.Text),
        sa.Column("metadata", sa.Text),
        sa.Column("provider_data", sa.Text),
        sa.Column("platform", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("session", "input_seq", "row_index", name="uq_messages_key"),
        sqlite_autoincrement=True,
    )
    # archived IS false, as the queries spell it: only then is a partial index used.
    live = sa.column("archived", sa.Boolean).is_(sa.false())
    op.create_index(
        "ix_messages_live",
        "messages",
        ["session", "input_seq", "row_index"],
        sqlite_where=live,
        postgresql_where=live,
    )
    keyed = sa.column("idempotency_key").is_not(None)
    op.create_index(
        "ix_messages_idempotency_key",
        "messages",
        ["session", "idempotency_key"],
        unique=True,
        sqlite_where=keyed,
        postgresql_where=keyed,
    )
    op.create_index(
        "ix_messages_recent",
        "messages",
        ["created_at", "id"],
        sqlite_where=live,
        postgresql_where=live,
    )
    op.create_table(
        "metadata",
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("namespace_full", sa.Text),
        sa.Column("key_full", sa.Text),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
