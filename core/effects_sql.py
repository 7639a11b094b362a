"""What SQL does, read so that no dialect can make more of it than is said here."""

from __future__ import annotations

import re

from core.approvals import Effect

# Longer than anybody reads on a card; and reading it all would keep presses waiting.
READ_LIMIT = 20_000
_LOOKING = frozenset(("select", "with", "values", "table", "show", "describe", "desc", "explain"))
# These count wherever they stand outside quotes and comments: some dialects need nothing between two statements.
_DESTROYING = frozenset(("delete", "drop", "truncate", "purge", "replace"))
_CHANGING = frozenset(
    str.split("""
    alter attach backup begin bulk call commit copy create dbcc declare deny detach disable do dumpfile enable
    exec execute export grant handler import insert install into kill load lock merge outfile pragma prepare
    raiserror reconfigure restore revoke rollback set shutdown unload update upsert use waitfor
""")
)
# Statements inside quotes.
_NESTING = frozenset(("begin", "call", "declare", "do", "exec", "execute", "prepare", "set"))
# A bracket after one of these groups; after any other word it holds the arguments of a function.
_BEFORE_BRACKET = frozenset(
    str.split("""
    all and any as between by case distinct else except exists explain filter from group having in intersect is
    join lateral like limit materialized not of offset on or over partition select some table then union using
    values when where with within
""")
)
_COMPUTING = frozenset(
    str.split("""
    abs array_agg array_length avg bool_and bool_or cast ceil ceiling char char_length character_length coalesce
    concat concat_ws count cume_dist current_date current_time current_timestamp date date_add date_diff
    date_format date_part date_sub date_trunc datediff datetime day decimal dense_rank every exp extract
    first_value floor from_unixtime greatest group_concat hour iif ifnull initcap instr int integer isnull
    json_agg json_array json_array_length json_extract json_object json_value jsonb_agg julianday lag last_value
    lead least left length listagg ln localtime localtimestamp locate log lower lpad ltrim max median min minute
    mod month now nth_value ntile nullif numeric nvl octet_length percent_rank percentile_cont percentile_disc
    position power rank reverse right round row_number rpad rtrim second sign split_part sqrt stddev strftime
    string_agg strpos substr substring sum time timestamp timestampdiff to_char to_date to_timestamp total trim
    trunc typeof unix_timestamp upper varchar variance week year
""")
)
# What is not matched is what dialects read differently: backslashes, dollar quotes, `#`, `--` without a space after it,
# nested and executable comments, quotes inside brackets, Oracle's q'[]', a line that ends in a bare carriage return.
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]++)
      | (?P<comment>--(?:[ \t][^\r\n]*+)?(?=\r?\n|\Z)|/\*(?!M?!|\+)(?:(?!/\*|\*/).)*+\*/)
      | (?P<text>'(?:[^'\\]|'')*+')
      | (?P<name>"(?:[^"\\]|"")*+"|`(?:[\w .]|-(?!-))*+`|\[[\w .]*+\])
      | (?P<word>[A-Za-z_]\w*+(?!')|[BNXbnx](?='))
      | (?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?![\w']))
      | (?P<parameter>[$:@%][0-9]++|:[A-Za-z]\w*+|\?|%s|%\([A-Za-z]\w*+\)s)
      | (?P<mark>::|<=|>=|<>|!=|\|\||->>|->|-(?!-)|/(?!\*)|\*(?!/)|[+%=<>(),.;])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_DESTRUCTION = re.compile(r"(?<![a-z])(?:delete|drop|truncate|purge)(?![a-z])", re.IGNORECASE)
_OPEN, _SEMICOLON, _DOT = ("mark", "("), ("mark", ";"), ("mark", ".")

_Token = tuple[str, str]


def effect_of_sql(text: str) -> Effect:
    """READ for plain statements that only look, MONEY for what deletes or drops, SEND for everything else.

    A CTE that writes, SELECT INTO, a second statement and EXPLAIN ANALYZE are seen through, since words count wherever
    they stand. A function that is not known only to compute may do anything, and so may text that dialects read
    differently; such text is MONEY as soon as it speaks of deleting. What a view, an operator or a function that is
    called without a bracket does is beyond what a text can tell: grant the agent's database user no more than it needs.
    """
    tokens = _tokens(text)
    if tokens is None:
        return Effect.MONEY if _DESTRUCTION.search(text) else Effect.SEND
    words = {value for kind, value in tokens if kind == "word"}
    if any(_destroys(tokens, at) for at in range(len(tokens))):
        return Effect.MONEY
    opaque = any(_may_do_anything(tokens, at) for at in range(len(tokens)))
    if (opaque or words & _NESTING) and any(kind == "text" and _DESTRUCTION.search(value) for kind, value in tokens):
        return Effect.MONEY
    first = {word for kind, word in _first_of_each(tokens) if kind == "word"}
    only_looks = bool(first) and first <= _LOOKING and len(first) == len(set(_first_of_each(tokens)))
    return Effect.SEND if opaque or words & _CHANGING or not only_looks else Effect.READ


def _tokens(text: str) -> list[_Token] | None:
    """Words in lower case, and the rest; None where dialects would not agree on where a token ends."""
    if len(text) > READ_LIMIT:
        return None
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        kind = found.lastgroup or ""
        if kind not in ("space", "comment"):
            tokens.append((kind, found[0].lower() if kind == "word" else found[0]))
        at = found.end()
    return tokens


def _destroys(tokens: list[_Token], at: int) -> bool:
    kind, value = tokens[at]
    if kind != "word" or value not in _DESTROYING:
        return False
    # replace(...) is a function over texts.
    return not (value == "replace" and tokens[at + 1 : at + 2] == [_OPEN])


def _may_do_anything(tokens: list[_Token], at: int) -> bool:
    """A bracket with the arguments of a function that is not known; or a text that is a place to read from."""
    kind, value = tokens[at]
    before = tokens[at - 1] if at else _SEMICOLON
    if kind in ("text", "name"):
        return "://" in value or (kind == "text" and before in (("word", "from"), ("word", "join")))
    if tokens[at] != _OPEN or before[0] in ("mark", "number", "parameter"):
        return False
    if before[0] != "word" or (at > 1 and tokens[at - 2] == _DOT):
        return True
    return before[1] not in _COMPUTING and before[1] not in _BEFORE_BRACKET and before[1] != "replace"


def _first_of_each(tokens: list[_Token]) -> list[_Token]:
    """The first token of every statement that is not empty."""
    starts = [_SEMICOLON, *tokens]
    return [
        token for token, before in zip(tokens, starts, strict=False) if before == _SEMICOLON and token != _SEMICOLON
    ]
