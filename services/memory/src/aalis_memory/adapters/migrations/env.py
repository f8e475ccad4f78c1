"""Run the migrations on the connection that the service has opened (see `adapters.database`)."""

from alembic import context

from aalis_memory.adapters.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
context.run_migrations()
