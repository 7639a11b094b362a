"""How far calls reach: the shipped table whole, its safe defaults, and what an administrator says instead."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.approvals import Effect
from core.effects import SHIPPED, BadEffects, Call, Tables, effect_of, key_of, sends_by_an_argument, tables_from
from core.effects_rows import PAYMENT_PROVIDERS, words_of
from core.effects_sql import READ_LIMIT, effect_of_sql
from core.effects_table import FAMILIES, PROGRAMS, TOOLS, _rows
from core.rules import ScopeKind, scopes_of

READ, WRITE, SEND, MONEY = Effect
NAMES = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)
IDENTIFIERS = st.from_regex(r"[A-Za-z][A-Za-z0-9_.:/-]{0,30}", fullmatch=True)


def effect(tool: str, operation: str = "", tables: Tables = SHIPPED, /, **arguments: Any) -> Effect:
    return effect_of(Call(tool, operation, arguments), tables)


def at_least(found: Effect, least: Effect) -> bool:
    return found.rank >= least.rank


# The shipped table


def listed_operations() -> Iterator[tuple[str, str, Effect]]:
    for family in FAMILIES:
        for stated, names in ((READ, family.read), (WRITE, family.write), (SEND, family.send), (MONEY, family.money)):
            for operation in names.split():
                for name in family.names.split():
                    yield name, operation, stated


def spellings(family: str, operation: str) -> Iterator[tuple[str, str]]:
    yield family, operation
    yield f"{family}.{operation}", ""
    yield f"{family}_{operation}", ""
    yield f"mcp__{family}__{operation}", ""
    yield f"mcp_{family}_{operation}", ""
    yield f"{family.upper()}/{operation.replace('_', '-')}", ""
    first, *rest = operation.split("_")
    yield f"{family}.{first}{''.join(word.title() for word in rest)}", ""


def test_every_operation_of_the_table_is_found_in_every_spelling_of_agents() -> None:
    for family, operation, stated in listed_operations():
        for tool, named in spellings(family, operation):
            assert effect(tool, named, attendees=["a@example.com"]) is stated, f"{tool} {named}"


def test_every_tool_of_one_name_is_found_in_every_spelling_of_agents() -> None:
    for stated, names in TOOLS.items():
        for name in names.split():
            title = "".join(word.title() for word in name.split("_"))
            for tool in (name, name.upper(), name.replace("_", "-"), title, f"functions.{name}"):
                assert effect(tool) is stated, tool


def test_no_name_stands_in_the_table_twice_and_every_effect_is_one_of_four() -> None:
    names = Counter(name for name, _ in _rows())
    assert [name for name, times in names.items() if times > 1] == []
    for family in FAMILIES:
        operations = Counter(map(key_of, f"{family.read} {family.write} {family.send} {family.money}".split()))
        assert [name for name, times in operations.items() if times > 1] == [], family.names
    for row in SHIPPED.rows.values():
        values = [row.effect, *row.operations.values(), *(e for listed in row.fields.values() for e in listed.values())]
        assert set(values) <= set(Effect)
        assert row.reads in {"", "shell", "line", "code", "sql", "patch", "http", "calls", *PROGRAMS}


def test_ac18_every_row_is_reachable_by_its_name_and_unlisted_operations_of_it_are_a_send_at_least() -> None:
    for name, row in SHIPPED.rows.items():
        found = effect(name)
        assert found in Effect
        if not row.operations and not row.reads and not row.fields:
            assert found is row.effect, name
        assert at_least(effect(name, "frobnicate_zz"), worst(SEND, row.effect)), name


ODD = (None, "frob", "", "reаd", "read;x", 7, 1.5, True, {"operation": "read"}, [None], ["frob"], [[{"a": 1}]])


def test_ac18_every_value_that_an_argument_of_the_table_has_is_listed_and_any_other_is_a_send_at_least() -> None:
    for name, row in SHIPPED.rows.items():
        for field in row.operation_fields:
            for operation, stated in row.operations.items():
                assert effect(name, guests=["a@example.com"], **{field: operation}) is stated, (name, field, operation)
                assert effect(name, guests=["a@example.com"], **{field: [[operation], operation]}) is stated
            for odd in ODD[1:]:
                assert at_least(effect(name, **{field: odd}), worst(SEND, row.effect)), (name, field, odd)
        for field, values in row.fields.items():
            assert row.defaults.get(field, "get") in values or name.startswith("graphql")
            for value, stated in values.items():
                assert at_least(effect(name, **{field: value}), stated), (name, field, value)
                assert at_least(effect(name, **{field: [value, "frob"]}), worst(SEND, stated))
            for odd in ODD[1:]:
                assert at_least(effect(name, **{field: odd}), worst(SEND, row.effect)), (name, field, odd)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted(
    (name, field)
    for name, row in SHIPPED.rows.items()
    for field in {*row.operation_fields, *row.fields}
    if row.operations or row.fields
)


def keys_in(value: Any) -> set[str]:
    """What of a value a table could list, in the way a table writes it."""
    if isinstance(value, list):
        return set().union(*map(keys_in, value))
    return {str(value).lower() if isinstance(value, bool) else key_of(str(value))}


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(FIELDS), VALUES.filter(lambda value: value is not None))
def test_ac18_whatever_value_is_not_listed_is_a_send_at_least(place: tuple[str, str], value: Any) -> None:
    name, field = place
    row = SHIPPED.rows[name]
    listed = {*row.operations, *row.fields.get(field, ())}
    if not keys_in(value) <= listed:
        assert at_least(effect(name, **{field: value}), SEND)


def test_ac18_a_read_of_the_table_is_none_once_an_argument_says_where_to_go_or_what_to_run() -> None:
    for name, operation, stated in listed_operations():
        row = SHIPPED.rows[key_of(name)]
        for field in row.sends:
            assert at_least(effect(name, operation, **{field: "https://example.com/x"}), worst(SEND, stated)), field
        assert effect(name, operation, delete=True) is MONEY
        if stated in (READ, WRITE) and not row.reaches_nobody:
            nothings: tuple[Any, ...] = (None, "", [], {}, False, "false")
            for nothing in nothings:
                found = effect(name, operation, **dict.fromkeys(row.sends - {"actions", "action"}, nothing))
                assert found is stated, (name, operation, nothing)


ADDRESS = "https://example.com/?d=secret"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        # Where a tool that reads files or pictures is given an address, it fetches that.
        ("read_file", {"path": ADDRESS}), ("Read", {"file_path": f" {ADDRESS} two"}),
        ("read_many_files", {"paths": ["a", ADDRESS]}),
        ("vision_analyze", {"image_url": ADDRESS}), ("vision_analyze", {"image": {"url": ADDRESS}}),
        ("document_parser", {"source": ADDRESS}), ("speech_to_text", {"audio": "ftp://example.com/x"}),
        # What a search is given beside its words goes to a program as it stands.
        ("ripgrep", {"pattern": "x", "args": ["--pre", "sh"]}), ("grep", {"pattern": "x", "flags": "--pre=sh"}),
        ("find_files", {"extra_args": ["-exec", "sh"]}), ("attempt_completion", {"result": "x", "command": "sh x"}),
        # git takes an option wherever a revision may stand, and this one writes a file.
        ("git.diff", {"target": "--output=/etc/x"}), ("git_show", {"revision": ["HEAD", "--output=x"]}),
        ("mcp__git__git_log", {"revision": "HEAD --output=x"}),
        # A database by its address is whatever stands there.
        ("sql", {"query": "SELECT 1", "database": "postgres://example.com/x"}),
        ("bigquery.query", {"query": "SELECT 1", "project": ADDRESS}),
    ],
)  # fmt: skip
def test_a_look_is_none_once_a_value_says_where_to_go_or_what_to_run(tool: str, arguments: dict[str, Any]) -> None:
    assert effect(tool, **arguments) is SEND
    assert [scope.kind for scope in scopes_of(Call(tool, "", arguments, digest="sha256:x"), SHIPPED)] == [
        ScopeKind.ARGUMENTS
    ]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("web_search", {"query": ADDRESS}), ("grep", {"pattern": "https://", "path": "src", "-A": 3}),
        ("chat_reply", {"text": ADDRESS}), ("final_answer", {"output": ADDRESS}), ("think", {"thought": ADDRESS}),
        ("exit_plan_mode", {"plan": ADDRESS}), ("webhook_response", {"body": {"see": ADDRESS}}),
        ("perplexity_ask", {"messages": [{"role": "user", "content": ADDRESS}]}), ("search_web", {"input": ADDRESS}),
        ("ask_user", {"question": f"Is it {ADDRESS}?"}), ("read_file", {"path": "notes/https.md"}),
        ("list_code_usages", {"paths": ["file:///src/a.py"]}),
        ("git.diff", {"target": "main -- a.py"}), ("git_log", {"max_count": "-5"}), ("redis.lrange", {"stop": "-1"}),
        ("sql", {"query": "SELECT 1 FROM pages WHERE address = $1", "params": [ADDRESS], "database": "shop"}),
    ],
)  # fmt: skip
def test_a_look_stays_one_where_a_value_is_only_looked_for_or_told(tool: str, arguments: dict[str, Any]) -> None:
    assert effect(tool, **arguments) is READ


def worst(*effects: Effect) -> Effect:
    return max(effects, key=lambda each: each.rank)


@settings(max_examples=400, deadline=None)
@given(NAMES, NAMES)
def test_whatever_is_not_listed_is_a_send_at_least(tool: str, operation: str) -> None:
    found = effect(tool, operation)
    words = (*words_of(tool), *words_of(operation))
    if not any("".join(words[:end]) in SHIPPED.rows for end in range(len(words) + 1)):
        assert at_least(found, SEND)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(SHIPPED.rows)), IDENTIFIERS)
def test_an_operation_that_a_listed_tool_does_not_list_is_a_send_at_least(name: str, operation: str) -> None:
    row = SHIPPED.rows[name]
    listed = {key_of(operation), *(key_of(operation[end:]) for end in range(len(operation)))}
    if not listed & set(row.operations) and name + key_of(operation) not in SHIPPED.rows and row.reads not in PROGRAMS:
        assert at_least(effect(f"mcp__{name}__{operation}"), SEND)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(PAYMENT_PROVIDERS)), IDENTIFIERS, NAMES)
def test_nothing_of_a_payment_provider_is_ever_less_than_money(provider: str, name: str, operation: str) -> None:
    for tool in (f"{provider}.{name}", f"{provider}_{name}", f"mcp__{provider}__{name}", f"my-{provider}/{name}"):
        assert effect(tool, operation) is MONEY
    assert effect(provider, operation) is MONEY


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(NAMES, st.recursive(st.none() | st.booleans() | st.integers() | NAMES, st.lists, max_leaves=5)),
    st.sampled_from(sorted(SHIPPED.rows)),
)
def test_arguments_of_any_kind_are_judged_and_money_is_never_lowered(arguments: dict[str, Any], name: str) -> None:
    assert effect(name, **arguments) in Effect
    assert (
        effect("calendar.delete_event", "", attendees=[], **{f"x{key}": each for key, each in arguments.items()})
        is MONEY
    )


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        # A server of that name may be anybody's: only what is listed for the server counts.
        ("mcp__evil__read_file", SEND), ("mcp__read__file", SEND), ("mcp_read_file", SEND), ("mcp__search", SEND),
        ("mcp__filesystem__read_file", READ), ("mcp__claude_ai_Gmail__search_threads", READ),
        ("mcp__github-mcp-server__get_issue", READ), ("mcp.github.get_issue", READ), ("mcp:github:get_issue", READ),
        ("mcp__acme__delete_everything", MONEY), ("mcp__my_stripe__find", MONEY), ("acme.refund", MONEY),
        # Letters that only look like those of a listed name.
        ("rеad_file", SEND), ("ｒead_file", SEND), ("read_file\u200b", SEND), ("read_file;x", SEND),
        ("read_file;rm", MONEY),
        ("read_file()", SEND),
        ("", SEND), ("_", SEND), ("read_file_and_mail_it", SEND), ("Read", READ), ("functions.read_file", READ),
        ("default_api:read_file", READ), ("delete_file_version", MONEY),
    ],
)  # fmt: skip
def test_a_name_that_is_almost_listed_is_not_lowered(tool: str, expected: Effect) -> None:
    assert effect(tool) is expected


def test_a_name_that_says_its_operation_twice_is_read_once() -> None:
    assert effect("gmail.search", "search") is READ
    assert effect("gmail.search", "send") is SEND
    assert effect("read_file", "delete") is MONEY


# Fields


def test_a_list_takes_its_worst_member_and_what_it_does_not_list_is_a_send() -> None:
    assert effect("monty") is READ
    assert effect("monty", capabilities=[]) is READ
    assert effect("monty", capabilities=["workspace_write"]) is WRITE
    assert effect("monty", capabilities=["workspace_write", "http_get", "workspace_read"]) is SEND
    assert effect("monty", capabilities=["workspace_read", ["workspace_write"]]) is WRITE
    for odd in ("root", "", "httpgeť", 7, True, 1.5, {"http_get": 1}, [None]):
        assert effect("monty", capabilities=["workspace_read", odd]) is SEND, odd


def test_an_operation_in_an_argument_counts_and_two_take_the_worse() -> None:
    assert effect("str_replace_based_edit_tool", command="view") is READ
    assert effect("str_replace_based_edit_tool", command=["view", "create"]) is WRITE
    assert effect("str_replace_based_edit_tool", command="frob") is SEND
    assert effect("str_replace_based_edit_tool") is SEND
    assert effect("github", "get_issue", operation="delete_repo") is MONEY
    assert effect("memory", action="list") is READ
    assert effect("memory", action="list", Action="write") is WRITE


def test_an_unset_field_takes_what_the_tool_takes() -> None:
    assert effect("browser") is READ
    assert effect("browser", operation="") is SEND
    assert effect("browser", url="https://example.com") is SEND
    assert effect("http_request", url="https://example.com") is SEND


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"method": "GET"}, SEND), ({"method": "post"}, SEND), ({"method": "DELETE"}, MONEY),
        ({"method": "Delete"}, MONEY),
        ({"method": "PURGE"}, MONEY), ({"method": "BREW"}, SEND), ({"method": ["GET", "DELETE"]}, MONEY), ({}, SEND),
        ({"method": "POST", "headers": {"X-HTTP-Method-Override": "DELETE"}}, MONEY),
        ({"method": "POST", "headers": [{"name": "x-method-override", "value": "delete"}]}, MONEY),
    ],
)  # fmt: skip
def test_http_is_judged_by_its_method(arguments: dict[str, Any], expected: Effect) -> None:
    assert effect("http_request", url="https://example.com/x", **arguments) is expected


# Reaching nobody


def test_reaching_nobody_makes_a_write_of_a_send() -> None:
    assert effect("calendar.create_event", title="Focus", start="2026-03-09T09:00") is WRITE
    assert effect("calendar", "create", title="Focus", attendees=[], guests=None, calendar_id="primary") is WRITE
    assert effect("mcp__google_calendar__create_event", summary="Focus") is WRITE


@pytest.mark.parametrize(
    "more",
    [{"attendees": ["a@example.com"]}, {"Attendees": ["a@example.com"]}, {"attendees": " "}, {"calendar_id": "team"},
     {"notify": "everybody"}, {"conference": {"invite": "a@example.com"}}],
)  # fmt: skip
def test_an_argument_that_may_reach_somebody_leaves_it_a_send(more: dict[str, Any]) -> None:
    assert effect("calendar.create_event", title="Focus", **more) is SEND


def test_reaching_nobody_lowers_neither_what_is_not_create_nor_money() -> None:
    assert effect("calendar.update_event", title="Focus") is SEND
    assert effect("calendar", "create", operation="update", title="Focus") is SEND
    assert effect("calendar.delete_event", event_id="1", attendees=[]) is MONEY
    tables = tables_from({"reaches_nobody": {"stripe": [{"empty": ["to"]}], "http": [{"empty": ["to"]}]}})
    assert effect("stripe", "", tables) is MONEY
    assert effect("http", "", tables, method="DELETE") is MONEY


# SQL


@pytest.mark.parametrize(
    "text",
    [
        "select 1", "SELECT * FROM t WHERE a = 'x' AND b IN (1, 2) ORDER BY c LIMIT 10;",
        "-- why\nSELECT count(*) FROM t",
        "WITH a AS (SELECT 1) SELECT * FROM a", "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 2) SELECT * FROM a",
        "/* note */ EXPLAIN ANALYZE SELECT 1", "SHOW TABLES", "DESCRIBE t", "VALUES (1), (2)", "SELECT 1; SELECT 2;",
        "SELECT lower(trim(a)), coalesce(b, 0) FROM t GROUP BY 1 HAVING sum(c) > 3",
        "SELECT 'it''s; drop table t' AS a",
        'SELECT "delete" FROM "a b"', "SELECT `my-project.set.t`.x FROM `my-project.set.t`",
        "SELECT replace(a, 'x', 'y') FROM t",
        "SELECT a::int, b->>'k' FROM t WHERE id = $1 AND x = :name AND y = ? AND z = %s",
        "select case when a then 1 else 2 end",
        "SELECT is_deleted, updated_at FROM t", "SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM t",
    ],
)  # fmt: skip
def test_plain_sql_that_only_looks_is_a_read(text: str) -> None:
    assert effect_of_sql(text) is READ
    assert effect("postgres.query", sql=text) is READ
    assert effect("mcp__postgres__query", sql=text) is READ
    assert effect("execute_sql", query=text, params=[1]) is READ


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM t", "delete from t where a = 1", "DROP TABLE t", "TRUNCATE t", "select 1; drop table t",
        "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone", "EXPLAIN ANALYZE DELETE FROM t",
        "EXPLAIN (ANALYZE, VERBOSE) DELETE FROM t", "SELECT 1 DROP TABLE t", "SET NOCOUNT ON DELETE FROM t",
        "/* select */ DROP TABLE t", "--\nDELETE FROM t", "ALTER TABLE t DROP COLUMN a", "REPLACE INTO t VALUES (1)",
        "INSERT OR REPLACE INTO t VALUES (1)", "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "DO $$ BEGIN DELETE FROM t; END $$", "EXECUTE 'drop table t'", "SELECT dblink_exec('x', 'DELETE FROM t')",
        "SELECT /*! 1; DROP TABLE t */ 1", "SELECT 1 # '\n; DROP TABLE t; -- '", "SELECT 1--1 '\n; DROP TABLE t; --'",
        "/* /* */ DROP TABLE t; -- */", "SELECT '\\'; DROP TABLE t; --'", "SELECT [a'b] ; DROP TABLE t --'",
        "SELECT q'[ ' ]'; DROP TABLE t; -- '", "-- x\r'\nDROP TABLE t -- '", "SELECT 1 /* never closed ; drop table t",
        "SELECT '\\' ', 1; DROP TABLE t; -- '", "/* /* */ ' */ ; DROP TABLE t; -- '", "SELECT [1\n; DROP TABLE t; ]",
        "SELECT $$ ' $$; DROP TABLE t; -- '", "SELECT ARRAY[$$]-- $$]; DROP TABLE t;",
        "SELECT ARRAY[$a$]-- $a$]; DROP TABLE t;", "SELECT 1 `$$`-- $$; DROP TABLE t;",
        "DROP\u00a0TABLE t", "dRoP/**/TaBlE t", "CREATE OR REPLACE TABLE t AS SELECT 1",
    ],
)  # fmt: skip
def test_sql_that_deletes_or_drops_is_money_however_it_is_hidden(text: str) -> None:
    assert effect_of_sql(text) is MONEY
    assert effect("sql", query=text) is MONEY
    assert effect("sql", queries=["select 1", text]) is MONEY


@pytest.mark.parametrize(
    "text",
    [
        "", ";", "--", "UPDATE t SET a = 1", "INSERT INTO t VALUES ('delete')", "CREATE TABLE t (a int)",
        "SELECT * INTO b FROM a",
        "SELECT 1 INTO OUTFILE '/tmp/x'", "WITH a AS (UPDATE t SET b = 1 RETURNING *) SELECT * FROM a",
        "GRANT ALL ON t TO u",
        "SELECT pg_sleep(10)", "SELECT nextval('s')", "SELECT pg_catalog.count(a) FROM t", 'SELECT "lower"(a) FROM t',
        "SELECT * FROM t FOR UPDATE", "COPY t TO PROGRAM 'sh'", "SELECT load_extension('x')", "CALL p()", "EXEC sp_who",
        "SELECT 1 EXEC sp_who", "PRAGMA journal_mode = wal", "ATTACH 'x' AS y", "SELECT @a := 1", "BEGIN",
        "SET ROLE admin",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1)", "SELECT * FROM read_csv('x')",
        "SELECT * FROM 'https://example.com/x.csv'",
        'SELECT * FROM "s3://bucket/x"', "VACUUM", "\\copy t from 'x'", ".shell ls", "SELECT $$x$$", "SELECT E'\\n'",
        "SELECT 'open", 'SELECT "open', "select 1; update t set a = 1", "SELECT ｃount(a) FROM t", "1", "(SELECT 1)",
    ],
)  # fmt: skip
def test_any_other_sql_is_a_send(text: str) -> None:
    assert effect_of_sql(text) is SEND


# What a dialect knows besides '...', "...", `-- ` and /* */: `#` and `--x` comments, /*! */, nested comments,
# backslashes, backticks, brackets, dollar quotes, q'[...]', and whether a carriage return ends a comment.
DIALECTS = {
    "mysql": "# ! \\ `",
    "mysql without backslashes": "# ! `",
    "postgresql": "--x nest $ cr",
    "postgresql, old": "--x nest $ cr \\",
    "sqlite": "--x [ `",
    "sql server": "--x nest [",
    "oracle": "--x q",
    "bigquery": "--x # \\ `",
    "snowflake": "--x $ \\ //",
}
CLOSING = {"[": "]", "(": ")", "{": "}", "<": ">"}


def outside(text: str, knows: list[str]) -> str:
    """What of a text a dialect would run: all but quotes and comments."""
    run, at = "", 0
    while at < len(text):
        rest, character = text[at:], text[at]
        line = rest.startswith("--") and ("--x" in knows or rest[2:3] in ("", " ", "\t", "\n", "\r"))
        if line or (character == "#" and "#" in knows) or (rest.startswith("//") and "//" in knows):
            ends = [text.find(end, at) for end in ("\n", "\r" if "cr" in knows else "\n")]
            at = min((end for end in ends if end >= 0), default=len(text))
        elif rest.startswith("/*!") and "!" in knows:
            at += 3
        elif rest.startswith("/*"):
            depth, at = 1, at + 2
            while depth and at < len(text):
                step = 1 if text[at : at + 2] == "/*" and "nest" in knows else -1 if text[at : at + 2] == "*/" else 0
                depth, at = depth + step, at + (2 if step else 1)
        elif rest[:2].lower() == "q'" and "q" in knows and len(rest) > 2:
            end = text.find(CLOSING.get(rest[2], rest[2]) + "'", at + 3)
            at = len(text) if end < 0 else end + 2
        elif "$" in knows and (dollar := re.match(r"\$([A-Za-z_]\w*)?\$", rest)):
            end = text.find(dollar[0], at + len(dollar[0]))
            at = len(text) if end < 0 else end + len(dollar[0])
        elif character in "'\"" or (character in "`[" and character in knows):
            close, at = CLOSING.get(character, character), at + 1
            while at < len(text) and (text[at] != close or text[at + 1 : at + 2] == close):
                at += 2 if text[at] == close or (text[at] == "\\" and "\\" in knows) else 1
            at += 1
        else:
            run, at = run + character, at + 1
    return run


PIECES = st.sampled_from([
    "SELECT 1", "a", "1", "'", '"', "--", "-- ", "/*", "/*!", "*/", "#", "`", "[", "]", "\\", "$", "$$", "$a$",
    "q'", "E'", "(",
    ")", "\r", "\n", " ", ";", "//", ",",
])  # fmt: skip
# A few of them, over and over: a trap needs its parts twice.
TRAPS = st.lists(PIECES, min_size=1, max_size=3, unique=True).map(
    lambda few: st.lists(st.sampled_from(few), max_size=6)
)
ANY = st.just(st.lists(PIECES, max_size=8))


@settings(max_examples=500, deadline=None)
@given((ANY | TRAPS).flatmap(lambda pieces: st.tuples(pieces, pieces)))
def test_a_statement_that_any_dialect_would_run_is_seen(around: tuple[list[str], list[str]]) -> None:
    text = "".join(["SELECT 1 ", *around[0], " ;DROP TABLE t; ", *around[1]])
    run_by = [name for name, knows in DIALECTS.items() if "DROP TABLE" in outside(text, knows.split())]
    if run_by:
        assert effect_of_sql(text) is MONEY, run_by


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("git_commit", {"repo_path": ".", "message": "Truncate long titles, unlink stale sockets"}, WRITE),
        ("git.commit", {"message": "Move from Square to Stripe"}, WRITE), ("git.log", {"path": "src/stripe"}, READ),
        ("git_add", {"files": ["src/trash", "rm"]}, WRITE), ("git_show", {"revision": "erase"}, READ),
        ("redis.get", {"key": "del"}, READ), ("redis.set", {"key": "a", "value": "erase it"}, SEND),
        ("mongodb.find", {"collection": "trash", "filter": {"by": "paypal"}}, READ),
        # What is run, and what nobody thought of, is read as a command all the same.
        ("redis.get", {"key": "a", "args": "x FLUSHALL"}, MONEY), ("git.push", {"branch": "--delete old"}, MONEY),
        ("redis.get", {"key": "a", "then": "FLUSHALL"}, MONEY),
    ],
)  # fmt: skip
def test_what_is_only_stored_or_looked_for_is_no_command(
    tool: str, arguments: dict[str, Any], expected: Effect
) -> None:
    assert effect(tool, **arguments) is expected


def test_sql_beside_arguments_that_nobody_thought_of_is_no_read() -> None:
    assert effect("sql", query="SELECT 1", database="main") is READ
    assert effect("sql", query="SELECT 1", connection="host=elsewhere") is SEND
    assert effect("sql") is SEND
    assert effect("sql", query=7) is SEND
    assert effect("sql", query={"text": "drop table t"}) is MONEY


# Commands


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -la", SEND), ("python3 safe.py", SEND), ("", SEND), ("rm -rf build", MONEY), ("sudo /bin/rm x", MONEY),
        ("find . -name x -delete", MONEY), ("find . | xargs rm", MONEY), ("echo $(rm x)", MONEY),
        ("bash -c 'rm x'", MONEY),
        ("curl -X DELETE https://example.com", MONEY), ("curl -XDELETE x", MONEY), ("curl --request delete x", MONEY),
        ("psql -c 'DROP TABLE t'", MONEY), ("terraform destroy", MONEY), ("aws s3 rm s3://b/x", MONEY),
        ("kubectl -n x delete pod y", MONEY), ("aws ec2 terminate-instances --instance-ids i", MONEY),
        ("stripe refunds create", MONEY),
        ("git push --delete origin x", MONEY), ("mkfs.ext4 /dev/sda", MONEY), ("npm run remove-nothing", SEND),
        ("git commit -m 'delete the old rows'", SEND), ("./deploy.sh", SEND),
    ],
)  # fmt: skip
def test_a_command_is_a_send_and_money_where_its_words_delete_or_pay(command: str, expected: Effect) -> None:
    for tool, name in (("bash", "command"), ("Shell", "cmd"), ("functions.exec_command", "input")):
        assert effect(tool, **{name: command}) is expected
    assert effect("run_in_terminal", command=command.split(" ")) is expected


@pytest.mark.parametrize(
    "tool", ["python", "code_interpreter", "javascript_executor", "browser.evaluate", "CodeExecution"]
)
def test_code_is_a_send(tool: str) -> None:
    assert effect(tool, code="print(1)") is SEND


@pytest.mark.parametrize(
    ("tool", "command", "expected"),
    [
        ("kubectl", "get pods -n web -o json", READ), ("kubectl", "kubectl describe pod x", READ),
        ("kubectl", "delete pod x", MONEY),
        ("kubectl", "apply -f x.yaml", SEND), ("kubectl", "get pods --kubeconfig evil", SEND),
        ("kubectl", "get --raw /x", SEND),
        ("kubectl", "-n get delete pod x", MONEY), ("kubectl", "-n get exec pod", SEND),
        ("kubectl", "get pods; curl x", SEND),
        ("kubectl", "get pods $(curl x)", SEND), ("kubectl", "get pods\nexec x", SEND),
        ("kubectl", "exec get pods", SEND),
        ("aws", "ec2 describe-instances --region eu-west-1", READ), ("aws", "aws s3 ls", READ),
        ("aws", "s3 cp a s3://b", SEND),
        ("aws", "ec2 describe-instances --endpoint-url http://x", SEND), ("aws", "ec2 describe-x --endpoint=x", SEND),
        ("aws", "ec2 run-instances", SEND), ("aws", "s3api delete-object --bucket b --key k", MONEY), ("aws", "", SEND),
        ("aws", "ec2 purchase-reserved-instances-offering", MONEY), ("aws", "secretsmanager get-secret-value", SEND),
        ("gcloud", "compute instances list --project p", READ), ("gcloud", "compute ssh describe", SEND),
        ("gcloud", "compute instances delete list", MONEY), ("az", "vm list -g x", READ),
        ("az", "group delete -n x", MONEY),
        ("terraform", "state list", READ), ("terraform", "plan", SEND), ("terraform", "apply", SEND),
        ("tofu", "destroy", MONEY),
        ("helm", "list -A", READ), ("helm", "uninstall x", MONEY), ("docker", "ps -a", READ),
        ("docker", "volume prune", MONEY),
        ("gh", "pr list --state open", READ), ("gh", "pr merge 1", SEND), ("gh", "repo delete x", MONEY),
        ("gh", "api -X DELETE /repos/x", MONEY), ("heroku", "apps:info", SEND),
    ],
)  # fmt: skip
def test_cloud_commands_are_judged_by_their_verb(tool: str, command: str, expected: Effect) -> None:
    assert effect(tool, command=command) is expected
    if "\n" not in command and "  " not in command and command:
        words = [word for word in command.split(" ") if word != tool]
        assert effect(tool, args=words) is expected
        assert effect(tool, words[0], args=words[1:]) is expected


def test_a_cloud_command_beside_arguments_that_nobody_thought_of_is_no_read() -> None:
    assert effect("kubectl", command="get pods", timeout=10) is READ
    assert effect("kubectl", command="get pods", env={"KUBECONFIG": "evil"}) is SEND
    assert effect("kubectl_delete", "get", args="pods") is MONEY
    assert effect("kubectl.exec", "get", args="pods") is SEND


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("curl -sX DELETE https://example.com/1", MONEY), ("curl -sX\"DELETE\" x", MONEY),
        ("wget --method=DELETE https://example.com/1", MONEY), ("http --form DELETE https://example.com/1", MONEY),
        ("xh delete https://example.com/1", MONEY), ("irm -Method Delete https://example.com/1", MONEY),
        ("gh api --method=DELETE /repos/x", MONEY), ("gh api -X POST /repos/x/issues", SEND),
        ("curl https://example.com/1 -d _method=delete", MONEY),
        ("curl https://api.stripe.com/v1/refunds -d charge=ch_1", MONEY),
        ("curl https://api-m.paypal.com/v2/payments", MONEY), ("curl https://otherwise.com", SEND),
        ("git push --force", MONEY), ("git -C x push -f origin main", MONEY), ("git push -uf origin main", MONEY),
        ("git push --force-with-lease", MONEY), ("git push origin :old", MONEY), ("git push origin +main", MONEY),
        ("git push origin main", SEND), ("git push -u origin main && docker build -f x .", SEND),
        ("git branch -D old", MONEY), ("git tag -d v1", MONEY), ("git clean -fdx", MONEY), ("git clean -n", SEND),
        ("git reset --hard HEAD~1", MONEY), ("git reset HEAD~1", SEND), ("git stash drop", MONEY),
        ("git reflog expire --all", MONEY), ("git filter-branch x", MONEY), ("git worktree remove x", MONEY),
        ("git diff", SEND), ("git log --grep delete", SEND),
        ("AWS_PROFILE=prod aws s3 rm s3://b/x", MONEY), ("env A=1 sh -c 'rm -rf x'", MONEY), ("(cd x; rm y)", MONEY),
        ("ls | xargs -n1 rm", MONEY), ("ssh host 'sudo rm x'", MONEY), ("docker run --rm -it x", SEND),
        ("python -c 'import shutil; shutil.rmtree(\"x\")'", MONEY), ("node -e 'fs.unlinkSync(1)'", MONEY),
        ("rclone purge r:x", MONEY), ("npm uninstall x", MONEY), ("apt-get purge -y x", MONEY), ("npm run build", SEND),
        ("heroku pg:reset", MONEY), ("rails db:drop", MONEY), ("fly apps destroy x", MONEY), ("crontab -r", MONEY),
        ("mongosh --eval 'db.people.drop()'", MONEY), ("mongosh --eval 'db.dropDatabase()'", MONEY),
        ("redis-cli FLUSHALL", MONEY), ("npx prisma migrate reset", MONEY), ("docker compose down -v", MONEY),
        ("docker compose down", SEND), ("rsync --remove-source-files a b", MONEY), ("userdel ada", MONEY),
        ("kubectl get pods", SEND), ("terraform apply -destroy", MONEY),
    ],
)  # fmt: skip
def test_what_deletes_or_pays_is_seen_in_a_command_as_people_write_them(command: str, expected: Effect) -> None:
    assert effect("bash", command=command) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("os.remove('x')", MONEY), ("subprocess.run('rm -rf x', shell=True)", MONEY), ("Path('x').unlink()", MONEY),
        ("db.execute('DELETE FROM t')", MONEY), ("requests.post('https://api.stripe.com/v1/charges')", MONEY),
        ("items.remove(1); frame.drop('a')", SEND), ("print('remove the lid')", SEND),
    ],
)  # fmt: skip
def test_what_deletes_or_pays_is_seen_in_code(code: str, expected: Effect) -> None:
    assert effect("execute_python", code=code) is expected


# Calls that carry more than their name says


@pytest.mark.parametrize(
    ("tool", "operation", "arguments", "expected"),
    [
        ("browser", "screenshot", {"url": "https://example.com/logout"}, SEND),
        ("playwright.take_snapshot", "", {"uri": "https://example.com"}, SEND),
        ("browser", "", {"actions": [{"type": "click"}]}, SEND), ("browser", "", {"script": "x()"}, SEND),
        ("browser", "wait_for", {"expression": "fetch('x')"}, SEND), ("browser", "wait_for", {"time": 3}, READ),
        ("browser_navigate", "", {"url": "https://example.com/delete?id=1"}, SEND),
        ("vision_analyze", "", {"url": "https://example.com/x.png"}, SEND),
        ("vision_analyze", "", {"path": "x.png"}, READ),
        ("discord", "download", {"url": "https://example.com/x"}, SEND), ("slack", "search", {"query": "x"}, READ),
        ("gmail", "create_draft", {"to": "a@example.com"}, WRITE), ("gmail", "send_draft", {"id": 1}, SEND),
        ("gmail", "create_draft", {"to": "a@example.com", "send": True}, SEND),
        ("gmail", "modify", {"addLabelIds": ["TRASH"]}, MONEY), ("gmail", "move", {"folder": "Trash"}, MONEY),
        ("gmail", "modify", {"addLabelIds": ["STARRED"]}, SEND),
        ("git", "log", {"args": "--output=x"}, SEND), ("git", "status", {}, READ), ("git", "commit", {}, WRITE),
        ("git", "push", {"force": True}, MONEY), ("git", "push", {"force": False}, SEND),
        ("git", "", {"command": "push --delete origin x"}, MONEY), ("git", "rm", {"path": "x"}, MONEY),
        ("github", "issue_write", {"method": "delete"}, MONEY), ("github", "issue_write", {"method": "update"}, SEND),
        ("github", "create_issue", {"labels": ["delete"]}, SEND), ("s3", "sync", {"delete": True}, MONEY),
        ("terraform", "apply", {"destroy": True}, MONEY), ("redis", "", {"command": "DEL x"}, MONEY),
        ("redis", "run", {"args": "DEL x"}, MONEY), ("redis", "get", {"key": "x"}, READ),
        ("acme", "", {"operation": "delete"}, MONEY), ("acme.sync", "", {"mode": "purge"}, MONEY),
        ("acme.set", "", {"mode": "fast"}, SEND),
        ("http_request", "", {"http_method": "DELETE"}, MONEY), ("fetch", "", {"init": {"method": "DELETE"}}, MONEY),
        ("http_request", "", {"requests": [{"url": "x", "method": "delete"}]}, MONEY),
        ("http_request", "", {"url": "https://example.com?_method=delete", "method": "POST"}, MONEY),
        ("curl", "", {"args": ["-X", "DELETE", "https://example.com"]}, MONEY), ("curl", "", {"args": "x"}, SEND),
        ("http_request", "", {"url": "https://api.stripe.com/v1/refunds", "method": "POST"}, MONEY),
        ("http_request", "", {"url": "https://api.stripe.com/v1/refunds", "json": {"charge": 1}}, MONEY),
        ("http_request", "", {"url": "https://stripe.com/docs"}, SEND),
        ("graphql", "", {"query": "mutation { deleteRepository(id: 1) { id } }"}, MONEY),
        ("graphql", "", {"query": "mutation Add { addStar(id: 1) { id } }"}, SEND),
        ("graphql", "", {"query": "{ me { isDeleted } }"}, SEND),
        ("postgres", "", {"operation": "query", "sql": "DELETE FROM t"}, MONEY),
        ("supabase.apply_migration", "", {"query": "DROP TABLE t"}, MONEY),
        ("postgres.explain_query", "", {"sql": "UPDATE t SET a = 1", "analyze": True}, SEND),
        ("postgres.explain_query", "", {"sql": "SELECT 1", "analyze": True}, READ),
        ("supabase.apply_migration", "", {"query": "SELECT 1"}, SEND), ("sql", "", {"text": "drop table t"}, MONEY),
        ("supabase.execute_sql", "", {"query": "SELECT 1", "project_id": "p"}, READ),
        ("aws", "", {"input": "s3 rm s3://b/x"}, MONEY), ("call_aws", "", {"cli_command": "aws s3 rm s3://b/x"}, MONEY),
        ("call_aws", "", {"cli_command": "aws ec2 describe-instances"}, READ),
        ("alpaca", "place_order", {}, MONEY), ("mcp__venmo__send", "", {}, MONEY), ("square", "list", {}, MONEY),
        ("acme.remove_user", "", {}, MONEY), ("docker", "remove_container", {}, MONEY), ("sleep", "", {"s": 1}, READ),
    ],
)  # fmt: skip
def test_what_a_call_does_is_seen_where_its_arguments_say_so(
    tool: str, operation: str, arguments: dict[str, Any], expected: Effect
) -> None:
    assert effect(tool, operation, **arguments) is expected


@pytest.mark.parametrize(
    "service", ["aws", "cloudflare", "gcloud", "github", "vercel", "discord", "dodo", "slack", "linear", "stripe"]
)
def test_an_operation_that_stands_for_a_whole_api_is_money_also_to_look(service: str) -> None:
    for operation in ("call", "custom", "api_request", "graphql"):
        assert effect(service, operation, method="GET", path="/me") is MONEY
        assert effect(f"{service}.{operation}") is MONEY


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("use_mcp_tool", {"server_name": "github", "tool_name": "get_issue", "arguments": '{"number": 1}'}, READ),
        ("use_mcp_tool", {"server_name": "github", "tool_name": "create_issue", "arguments": {}}, SEND),
        ("use_mcp_tool", {"server_name": "github", "tool_name": "delete_repo"}, MONEY),
        ("use_mcp_tool", {"server_name": "stripe", "tool_name": "list_charges", "arguments": {}}, MONEY),
        ("use_mcp_tool", {"server_name": "evil", "tool_name": "read_file", "arguments": {"path": "x"}}, SEND),
        ("call_tool", {"name": "read_file", "arguments": {"path": "x"}}, SEND),
        ("call_tool", {"name": "postgres_query", "arguments": {"sql": "DROP TABLE t"}}, MONEY),
        ("composio_execute_tool", {"tool_slug": "GITHUB_GET_ISSUE", "arguments": {}}, READ),
        ("use_mcp_tool", {"server_name": "github", "tool_name": "get_issue", "arguments": {}, "also": "x"}, SEND),
        ("multi_tool_use.parallel", {"tool_uses": [
            {"recipient_name": "functions.read_file", "parameters": {"path": "x"}},
            {"recipient_name": "functions.grep", "parameters": {"pattern": "x"}}]}, READ),
        ("multi_tool_use.parallel", {"tool_uses": [
            {"recipient_name": "functions.read_file", "parameters": {"path": "x"}},
            {"recipient_name": "functions.bash", "parameters": {"command": "rm x"}}]}, MONEY),
        ("batch_tool", {"invocations": [{"tool_name": "Write", "input": '{"path": "x"}'}]}, WRITE),
        ("batch_tool", {"calls": [{"type": "function", "function": {"name": "read_file", "arguments": "{}"}}]}, READ),
        ("batch_tool", {"calls": [{"name": "batch_tool", "arguments": {"calls": [{"name": "delete_file"}]}}]}, MONEY),
    ],
)  # fmt: skip
def test_a_call_that_passes_others_on_is_judged_by_what_it_carries(
    tool: str, arguments: dict[str, Any], expected: Effect
) -> None:
    assert effect(tool, **arguments) is expected


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"tool_name": ""}, {"tool_name": 7}, {"tool_name": ["read_file"]}, {"arguments": {"path": "x"}},
        {"name": "read_file", "tool": "delete_file"}, {"tool_name": "read_file", "toolName": "delete_file"},
        {"tool_name": "read_file", "arguments": "{"}, {"tool_name": "read_file", "arguments": [1]},
        {"tool_name": "read_file", "arguments": {}, "input": {}}, {"tool_name": "read_file", "server": 7},
        {"tool_uses": ["read_file"]}, {"tool_uses": []}, {"tool_uses": [{"name": "read_file"}], "more": "x"},
        {"tool_name": "x" * 201}, {"calls": "[" * 100_000},
    ],
)  # fmt: skip
def test_a_call_that_passes_on_what_cannot_be_read_is_money(arguments: dict[str, Any]) -> None:
    for tool in ("use_mcp_tool", "multi_tool_use.parallel"):
        assert effect(tool, **arguments) is MONEY


def test_calls_within_calls_are_followed_only_so_far() -> None:
    inner: dict[str, Any] = {"name": "read_file"}
    for _ in range(3):
        inner = {"name": "batch_tool", "arguments": {"calls": [inner]}}
    assert effect("batch_tool", calls=[inner]) is READ
    for _ in range(2000):
        inner = {"name": "batch_tool", "arguments": {"calls": [inner]}}
    assert effect("batch_tool", calls=[inner]) is MONEY
    nested: Any = "x"
    for _ in range(2000):
        nested = {"more": nested}
    assert effect("batch_tool", calls=nested) is MONEY


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["name", "tool_name", "server", "arguments", "calls"]) | NAMES, VALUES))
def test_whatever_is_passed_on_is_a_read_only_as_a_listed_read(arguments: dict[str, Any]) -> None:
    named = [value for name, value in arguments.items() if key_of(name) in ("name", "toolname", "tool")]
    if not named or any(not isinstance(name, str) or key_of(name) not in SHIPPED.rows for name in named):
        assert at_least(effect("batch_tool", **arguments), SEND)


def test_the_directory_may_say_what_a_tool_that_passes_others_on_is() -> None:
    tables = tables_from({"tools": {"run_tool": "write"}, "operations": {"call_tool": {"find": "read"}}})
    assert effect("run_tool", "", tables, name="delete_file") is WRITE
    assert effect("call_tool", "find", tables, name="delete_file") is READ
    assert effect("call_tool", "frob", tables) is SEND


def test_the_directorys_word_on_a_whole_tool_stands_whatever_its_arguments() -> None:
    tables = tables_from({"tools": {"browser.screenshot": "read", "acme.sync": "write"}})
    assert effect("browser", "screenshot", tables, url="https://example.com") is READ
    assert effect("acme.sync", "", tables, delete=True, mode="purge") is WRITE
    told = tables_from({"tools": {"read_file": "read"}})
    assert effect("read_file", "", told, path=ADDRESS) is READ
    assert not sends_by_an_argument(Call("read_file", "", {"path": ADDRESS}), told)


def test_a_patch_that_deletes_a_file_is_money() -> None:
    assert effect("apply_patch", input="*** Begin Patch\n*** Update File: a\n+x") is WRITE
    assert effect("apply_patch", input="*** Begin Patch\n*** Delete File: a") is MONEY
    assert effect("apply_patch", path="a", diff="--- a/x\n+++ /dev/null\n-x") is MONEY


def test_large_and_hostile_arguments_are_judged_in_time_that_grows_with_their_length_alone() -> None:
    # Three times as much as an ask may hold.
    pieces = ("'", "(", "/*", "rm ", "-X ", "drop ", "--", "git push ", "http -a ", "compose down ", "mutation ")
    texts = [piece * (250_000 // len(piece)) for piece in pieces]
    started = time.perf_counter()
    for text in texts:
        for tool in ("sql", "bash", "kubectl", "http_request", "apply_patch", text):
            assert effect(tool, text if tool == text else "", query=text, command=text, headers=text) in Effect
    assert time.perf_counter() - started < 30
    assert effect_of_sql("SELECT 1" + " " * READ_LIMIT) is SEND


# The administrator's word


DIRECTORY = {
    "tools": {"acme.lookup": "read", "bash": "read", "mcp__wiki__page": "write", "read_file": "send"},
    "operations": {
        "crm": {"find": "read", "note": "write", "mail": "send", "merge": "money"},
        "stripe": {"list_charges": "read"},
        "paypal": {"*": "send"},
        "postgres": {"query": "write"},
    },
    "fields": {"crm": {"visibility": {"private": "write",
    "public": "send"}}, "poster": {"draft": {True: "write", False: "send"}}},
    "defaults": {"crm": {"visibility": "private"}, "poster": {"draft": False}},
    "url_fields": {"acme.fetch": ["url", "callback"]},
    "recipients": {"crm": ["to", "cc"]},
    "amounts": {"acme.pay": ["total", "currency"]},
    "commands": ["acme.run"],
    "reaches_nobody": {"crm": [{"operations": ["mail"], "empty": ["to", "cc"], "only": ["subject", "visibility"]}]},
}  # fmt: skip


def test_the_directory_adds_to_the_table_and_may_raise_or_lower_it() -> None:
    tables = tables_from(DIRECTORY)
    said = {
        ("acme.lookup", ""): READ, ("acme_lookup", ""): READ, ("mcp__acme__lookup", ""): READ, ("acme.lookup",
        "x"): SEND,
        ("bash", ""): READ, ("mcp__wiki__page", ""): WRITE, ("read_file", ""): SEND, ("crm", "find"): WRITE,
        ("crm.merge", ""): MONEY, ("crm", "frob"): SEND, ("stripe", "list_charges"): READ, ("stripe.refund", ""): MONEY,
        ("stripe.list_charges", ""): READ, ("paypal.anything", ""): SEND, ("postgres.query", ""): WRITE, ("poster",
        ""): SEND,
        ("github.get_issue", ""): READ,
    }  # fmt: skip
    assert {call: effect(*call, tables) for call in said} == said
    assert effect("crm", "find", tables, visibility="public") is SEND
    assert effect("crm", "find", tables, visibility="frob") is SEND
    assert effect("crm", "mail", tables, subject="x") is WRITE
    assert effect("crm", "mail", tables, subject="x", bcc="a@example.com") is SEND
    assert effect("crm", "merge", tables) is MONEY
    assert effect("poster", "", tables, draft=True) is WRITE
    assert effect("poster", "", tables, draft="maybe") is SEND


def test_without_a_section_the_table_is_the_shipped_one() -> None:
    assert tables_from(None) is SHIPPED
    assert tables_from({}) is SHIPPED
    assert tables_from({"tools": None}).rows == SHIPPED.rows


@pytest.mark.parametrize(
    ("section", "path", "problem"),
    [
        ({"tool": {}}, "effects.tool", "unknown section; did you mean tools?"),
        ({"tools": []}, "effects.tools", "must be a mapping"),
        ({"tools": {"a": "none"}}, "effects.tools.a", "must be one of read, write, send, money"),
        ({"tools": {"a": None}}, "effects.tools.a", "must be one of"),
        ({"tools": {"": "read"}}, "effects.tools", "is no name"),
        ({"tools": {7: "read"}}, "effects.tools", "is no name"),
        ({"tools": {"größe": "read"}}, "effects.tools", "is no name"),
        ({"tools": {"a_b": "read", "a.b": "money"}}, "effects.tools.a.b", "is the same tool as a_b"),
        ({"operations": {"a": {}}}, "effects.operations.a", "at least one operation"),
        ({"operations": {"a": "read"}}, "effects.operations.a", "must be a mapping"),
        ({"operations": {"a": {"x_y": "read", "xY": "send"}}}, "effects.operations.a.xY", "twice"),
        ({"operations": {"a": {"x": "reed"}}}, "effects.operations.a.x", "must be one of"),
        ({"fields": {"a": {"f": {}}}}, "effects.fields.a.f", "at least one value"),
        ({"fields": {"a": {"f": {"v": 1}}}}, "effects.fields.a.f.v", "must be one of"),
        ({"url_fields": {"a": "url"}}, "effects.url_fields.a", "must be a list"),
        ({"url_fields": {"a": [1]}}, "effects.url_fields.a", "is no name"),
        ({"amounts": {"a": ["total"]}}, "effects.amounts.a", "two arguments"),
        ({"commands": "a"}, "effects.commands", "must be a list"),
        ({"reaches_nobody": {"a": [{}]}}, "effects.reaches_nobody.a.0", "must say by `empty` or `equal`"),
        ({"reaches_nobody": {"a": [{"empti": ["to"]}]}}, "effects.reaches_nobody.a.0.empti", "did you mean empty?"),
    ],
)  # fmt: skip
def test_a_wrong_section_is_refused_with_its_key_and_what_would_be_right(section: Any, path: str, problem: str) -> None:
    with pytest.raises(BadEffects) as refused:
        tables_from(section)
    assert ".".join(refused.value.path) == path
    assert problem in refused.value.problem
    assert isinstance(refused.value, ValueError)
