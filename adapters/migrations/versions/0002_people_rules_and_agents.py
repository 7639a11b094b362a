"""People's languages, groups, standing rules, and what is set for an agent

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MOMENT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ADDED: dict[str, list[sa.Column[Any]]] = {
    "approvals": [
        sa.Column("edited_at", MOMENT, nullable=True),
        sa.Column("edited_by", sa.Text(), nullable=True),
        sa.Column("escalated_at", MOMENT, nullable=True),
        sa.Column("dismissed_at", MOMENT, nullable=True),
        sa.Column("notify", sa.Text(), nullable=True),
    ],
    "votes": [sa.Column("roles", sa.Text(), nullable=True)],
    "messages": [
        sa.Column("verb", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("content_revision", sa.Integer(), server_default=sa.text("0"), nullable=False),
    ],
    "people": [sa.Column("language", sa.Text(), nullable=True)],
    "roles": [sa.Column("groups", sa.Text(), nullable=True)],
    "agents": [
        sa.Column("mode_set", sa.Text(), nullable=True),
        sa.Column("paused_at", MOMENT, nullable=True),
        sa.Column("paused_by", sa.Text(), nullable=True),
        sa.Column("generation", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("1"), nullable=False),
    ],
}


def _index_where(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def upgrade() -> None:
    for table, columns in ADDED.items():
        for column in columns:
            op.add_column(table, column)
    _index_where("ix_approvals_lane", "approvals", ["agent", "lane"], "lane IS NOT NULL")
    _index_where("ix_approvals_run", "approvals", ["agent", "run_id"], "run_id IS NOT NULL")
    is_open = "(status = 'pending' OR (status = 'approved' AND outcome = 'none' AND consumed_at IS NULL))"
    _index_where("ix_approvals_open", "approvals", ["agent", "created_at"], is_open)
    # No version before this one wrote a rule.
    op.drop_table("rules")
    op.create_table(
        "rules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("scope_kind", sa.Text(), nullable=False),
        sa.Column("scope_value", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=True),
        sa.Column("ceiling_amount", sa.Text(), nullable=True),
        sa.Column("ceiling_currency", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "scope_kind IN ('arguments', 'recipient', 'host', 'operation', 'tool')", name=op.f("ck_rules_scope_kind")
        ),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_rules_agent"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rules")),
        sa.UniqueConstraint(
            "agent",
            "tool",
            "operation",
            "scope_kind",
            "scope_value",
            name=op.f("uq_rules_agent_tool_operation_scope_kind_scope_value"),
        ),
        sa.UniqueConstraint("token", name=op.f("uq_rules_token")),
        sqlite_strict=True,
    )
    op.create_table(
        "runs",
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("closed_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("agent", "run_id", name=op.f("pk_runs")),
        sqlite_strict=True,
    )
    op.create_table(
        "updates",
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_updates")),
        sqlite_strict=True,
        sqlite_autoincrement=True,
    )
    op.create_index("ix_updates_agent", "updates", ["agent", "number"])
    op.create_table(
        "documents",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_documents")),
        sqlite_strict=True,
    )
    op.create_table(
        "chats",
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("place", name=op.f("pk_chats")),
        sqlite_strict=True,
    )


def downgrade() -> None:
    for table in ("chats", "documents", "updates", "runs"):
        op.drop_table(table)
    op.drop_index("ix_approvals_open", "approvals")
    op.drop_index("ix_approvals_run", "approvals")
    op.drop_index("ix_approvals_lane", "approvals")
    for table, columns in ADDED.items():
        for column in reversed(columns):
            op.drop_column(table, column.name)
