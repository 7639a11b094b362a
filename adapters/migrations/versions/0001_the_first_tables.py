"""The first tables

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FLAG = sa.Boolean().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")

# The audit is append-only, whoever writes to it.
SQLITE_TRIGGERS = [
    f"CREATE TRIGGER audit_refuses_{verb} BEFORE {verb} ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
    for verb in ("UPDATE", "DELETE")
]
POSTGRESQL_TRIGGERS = [
    "CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$",
    "CREATE TRIGGER audit_refuses_change BEFORE UPDATE OR DELETE ON audit"
    " FOR EACH ROW EXECUTE FUNCTION audit_refuses()",
    "CREATE TRIGGER audit_refuses_truncate BEFORE TRUNCATE ON audit"
    " FOR EACH STATEMENT EXECUTE FUNCTION audit_refuses()",
]


def _index_where(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(name, table, columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("runtime", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("content_revision", sa.Integer(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("final_arguments", sa.Text(), nullable=False),
        sa.Column("presentation", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("needed", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("reasoning", sa.Text(), nullable=True),
        sa.Column("context", sa.Text(), nullable=True),
        sa.Column("on_behalf_of", sa.Text(), nullable=True),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("lane", sa.Text(), nullable=True),
        sa.Column("generation", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=True),
        sa.Column("first_run_id", sa.Text(), nullable=True),
        sa.Column("asked_by", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("idempotency_hash", sa.Text(), nullable=True),
        sa.Column("remind_at", MOMENT, nullable=True),
        sa.Column("reminded_at", MOMENT, nullable=True),
        sa.Column("escalate_at", MOMENT, nullable=True),
        sa.Column("decided_at", MOMENT, nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_via", sa.Text(), nullable=True),
        sa.Column("decision_key", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("by_message", FLAG, server_default=sa.false(), nullable=False),
        sa.Column("claim_token", sa.Text(), nullable=True),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("claimed_at", MOMENT, nullable=True),
        sa.Column("consumed_at", MOMENT, nullable=True),
        sa.Column("valid_until", MOMENT, nullable=True),
        sa.Column("grace_until", MOMENT, nullable=True),
        sa.Column("restore_until", MOMENT, nullable=True),
        sa.Column("undeliverable", sa.Text(), nullable=True),
        sa.Column("outcome_note", sa.Text(), nullable=True),
        sa.Column("outcome_at", MOMENT, nullable=True),
        sa.Column("checked_at", MOMENT, nullable=True),
        sa.Column("closed_rounds", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("effect IN ('read', 'write', 'send', 'money')", name=op.f("ck_approvals_effect")),
        sa.CheckConstraint("outcome = 'none' OR status = 'approved'", name=op.f("ck_approvals_outcome_of_approved")),
        sa.CheckConstraint(
            "outcome IN ('none', 'sending', 'sent', 'not_sent', 'unknown')", name=op.f("ck_approvals_outcome")
        ),
        sa.CheckConstraint("runtime IN ('turn', 'draft', 'external')", name=op.f("ck_approvals_runtime")),
        sa.CheckConstraint(
            "status IN ('pending', 'approved', 'declined', 'expired', 'cancelled')", name=op.f("ck_approvals_status")
        ),
        sa.CheckConstraint("needed >= 1", name=op.f("ck_approvals_needed")),
        sa.CheckConstraint("revision >= 1 AND content_revision >= 1", name=op.f("ck_approvals_revisions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
        sa.UniqueConstraint("asked_by", "idempotency_key", name=op.f("uq_approvals_asked_by_idempotency_key")),
        sa.UniqueConstraint("workflow_id", "first_run_id", name=op.f("uq_approvals_workflow_id_first_run_id")),
        sqlite_strict=True,
    )
    op.create_index("ix_approvals_agent", "approvals", ["agent", "created_at"], unique=False)
    op.create_index("ix_approvals_created_at", "approvals", ["created_at"], unique=False)
    _index_where("ix_approvals_expiring", "approvals", ["expires_at"], "status = 'pending'")
    _index_where("ix_approvals_sending", "approvals", ["claimed_at"], "outcome = 'sending'")
    _index_where("ix_approvals_pending", "approvals", ["created_at"], "status = 'pending'")
    _index_where("ix_approvals_final", "approvals", ["status", "created_at"], "status <> 'pending'")
    _index_where(
        "ix_approvals_unclaimed",
        "approvals",
        ["valid_until"],
        "runtime = 'external' AND status = 'approved' AND outcome = 'none' AND claimed_at IS NULL",
    )
    _index_where(
        "ix_approvals_unconsumed",
        "approvals",
        ["decided_at"],
        "status <> 'pending' AND consumed_at IS NULL AND claimed_at IS NULL AND runtime IN ('turn', 'draft')",
    )
    _index_where(
        "ix_approvals_unsettled",
        "approvals",
        ["checked_at"],
        "runtime = 'turn' AND (consumed_at IS NULL OR outcome = 'sending')",
    )
    _index_where(
        "ix_approvals_unstarted", "approvals", ["created_at"], "status = 'pending' AND runtime IN ('draft', 'external')"
    )
    _index_where(
        "uq_approvals_decision",
        "approvals",
        ["decided_via", "decision_key"],
        "decision_key IS NOT NULL AND decided_via NOT IN ('http', 'cli')",
        unique=True,
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("person", sa.Text(), nullable=True),
        sa.Column("identity", sa.Text(), nullable=True),
        sa.Column("surface", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("shown_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_index("ix_audit_approval_id", "audit", ["approval_id"], unique=False)
    _index_where("ix_audit_shown_id", "audit", ["shown_id"], "shown_id IS NOT NULL")
    op.create_table(
        "keys",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_keys")),
        sqlite_strict=True,
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
        sqlite_strict=True,
    )
    op.create_table(
        "moves",
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("moved_to", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("platform", "account", "chat", name=op.f("pk_moves")),
        sqlite_strict=True,
    )
    op.create_table(
        "people",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("identities", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_people")),
        sqlite_strict=True,
    )
    op.create_table(
        "roles",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("permissions", sa.Text(), nullable=False),
        sa.Column("members", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_roles")),
        sqlite_strict=True,
    )
    op.create_table(
        "routes",
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_routes")),
        sqlite_strict=True,
    )
    op.create_table(
        "shown",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shown")),
        sqlite_strict=True,
    )
    op.create_index("ix_shown_at", "shown", ["at"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.CheckConstraint("kind IN ('agent', 'person')", name=op.f("ck_tokens_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_tokens_token_hash")),
        sqlite_strict=True,
    )
    op.create_index("ix_tokens_subject", "tokens", ["kind", "subject"], unique=False)
    op.create_table(
        "agents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=True),
        sa.Column("runs", sa.Text(), nullable=True),
        sa.CheckConstraint("mode IN ('outside', 'everything', 'money_only')", name=op.f("ck_agents_mode")),
        sa.ForeignKeyConstraint(["owner"], ["people.id"], name=op.f("fk_agents_owner")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
        sqlite_strict=True,
    )
    op.create_index("ix_agents_owner", "agents", ["owner"], unique=False)
    op.create_table(
        "identities",
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.CheckConstraint("source IN ('file', 'chat')", name=op.f("ck_identities_source")),
        sa.ForeignKeyConstraint(["person"], ["people.id"], name=op.f("fk_identities_person"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("platform", "tenant", "id", name=op.f("pk_identities")),
        sqlite_strict=True,
    )
    op.create_index("ix_identities_person", "identities", ["person"], unique=False)
    op.create_table(
        "memberships",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["person"], ["people.id"], name=op.f("fk_memberships_person"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["role"], ["roles.id"], name=op.f("fk_memberships_role"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("person", "role", name=op.f("pk_memberships")),
        sqlite_strict=True,
    )
    op.create_index("ix_memberships_role", "memberships", ["role"], unique=False)
    op.create_table(
        "messages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("shown_revision", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("shown_id", sa.Text(), nullable=True),
        sa.Column("attached_revision", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("posted_at", MOMENT, nullable=True),
        sa.Column("failed", sa.Text(), nullable=True),
        sa.Column("claim", sa.Text(), nullable=True),
        sa.Column("claim_until", MOMENT, nullable=True),
        sa.CheckConstraint("kind IN ('card', 'prompt', 'reminder', 'file', 'menu')", name=op.f("ck_messages_kind")),
        sa.ForeignKeyConstraint(["approval_id"], ["approvals.id"], name=op.f("fk_messages_approval_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sa.UniqueConstraint(
            "approval_id", "destination", "kind", "person", name=op.f("uq_messages_approval_id_destination_kind_person")
        ),
        sa.UniqueConstraint("token", name=op.f("uq_messages_token")),
        sqlite_strict=True,
    )
    _index_where(
        "ix_messages_cards",
        "messages",
        ["approval_id", "shown_revision"],
        "kind = 'card' AND message_id IS NOT NULL AND failed IS NULL",
    )
    op.create_index("ix_messages_place", "messages", ["platform", "chat", "message_id"], unique=False)
    _index_where("ix_messages_shown_id", "messages", ["shown_id"], "shown_id IS NOT NULL")
    op.create_table(
        "pairings",
        sa.Column("code_hash", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("issued_by", sa.Text(), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("used_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["person"], ["people.id"], name=op.f("fk_pairings_person"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("code_hash", name=op.f("pk_pairings")),
        sqlite_strict=True,
    )
    op.create_index("ix_pairings_person", "pairings", ["person"], unique=False)
    op.create_table(
        "votes",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("content_revision", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.CheckConstraint("verdict IN ('allow', 'decline')", name=op.f("ck_votes_verdict")),
        sa.ForeignKeyConstraint(["approval_id"], ["approvals.id"], name=op.f("fk_votes_approval_id")),
        sa.PrimaryKeyConstraint("approval_id", "person", "content_revision", name=op.f("pk_votes")),
        sqlite_strict=True,
    )
    op.create_table(
        "rules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("scope_kind", sa.Text(), nullable=False),
        sa.Column("scope_value", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=True),
        sa.Column("ceiling", sa.Text(), nullable=False),
        sa.CheckConstraint("ceiling IN ('read', 'write', 'send')", name=op.f("ck_rules_ceiling")),
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
        sqlite_strict=True,
    )
    dialect = op.get_bind().dialect.name
    for statement in SQLITE_TRIGGERS if dialect == "sqlite" else POSTGRESQL_TRIGGERS:
        op.execute(statement)


def downgrade() -> None:
    for table in (
        "rules",
        "votes",
        "pairings",
        "messages",
        "memberships",
        "identities",
        "agents",
        "tokens",
        "shown",
        "routes",
        "roles",
        "people",
        "moves",
        "leases",
        "keys",
        "audit",
        "approvals",
    ):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_refuses()")
