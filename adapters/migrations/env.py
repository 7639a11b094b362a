"""What Alembic runs: the migrations over the connection that `adapters.migrate` opened and locked."""

from __future__ import annotations

from alembic import context

from adapters.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
    compare_server_default=True,
)
context.run_migrations()
