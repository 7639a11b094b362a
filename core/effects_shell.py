"""What a command line does, as far as its words tell: it can be known to delete or spend, never to be harmless."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from core.approvals import Effect

_DELETING = frozenset(
    str.split("""
    rm rmdir unlink shred dd wipefs dropdb dropuser truncate del erase rd remove-item ri rimraf trash trash-put
    srm fdisk parted userdel deluser groupdel delgroup lvremove vgremove pvremove flushall flushdb clear-content
    obliterate
""")
)
_PAYING = frozenset(
    ("stripe", "paypal", "braintree", "adyen", "razorpay", "paddle", "square", "sendtoaddress", "sendmany")
)
# Programs whose words are verbs; of others a word like `remove` may be anything.
_VERBAL = frozenset(
    str.split("""
    npm pnpm yarn pip pip3 apt apt-get brew snap dnf yum apk pacman rclone fly netlify vercel supabase firebase wp gam
    svn hg p4 zfs zpool consul glab mc etcdctl svc mysqladmin
""")
)
_VERBS = frozenset(
    str.split("""
    delete destroy purge remove uninstall unpublish autoremove drop rm erase wipe truncate deletefile
""")
)
# One of these is in whatever `_TEXTS` finds; a long text is searched for them much faster.
_HINTS = tuple(
    str.split("""
    delete destroy drop purge prune remove truncate mkfs reset wipe fresh unlink rmtree rmsync rmdir rm crontab flush
    absent down
""")
)
_ENDS = frozenset((";", "|", "&", "\n"))
# What git does for good, by its verb.
_GIT: Mapping[str, frozenset[str]] = {
    "push": frozenset(("--mirror", "--delete", "--prune")),
    "reset": frozenset(("--hard",)),
    "clean": frozenset(("--force",)),
    "branch": frozenset(("--delete",)),
    "tag": frozenset(("--delete",)),
    "update-ref": frozenset(),
    "stash": frozenset(("drop", "clear")),
    "reflog": frozenset(("expire", "delete")),
    "worktree": frozenset(("remove", "prune")),
}
_ENDING_VERB = re.compile(
    r"(?:delete|destroy|purge|purchase|remove|rm|rmi|rb|prune|uninstall|terminate|deregister|wipe|erase)(?:[-_][a-z0-9_-]+)?"
)
_DELETING_OPTION = r"""-(?:[a-z]{0,8}X|-?request|-?method)["',\s=]{0,8}delete(?![a-z])"""
_DELETING_REQUEST = re.compile(
    _DELETING_OPTION
    + r"""|(?<![a-z])(?:http|request)?_?(?:method|verb)["']?\s{0,8}[:=][\s"'\[]{0,8}(?:delete|purge)(?![a-z])""",
    re.IGNORECASE,
)
_PAYING_HOST = re.compile(
    r"""https?://[\w.:@-]{0,200}?(?<![a-z0-9])(?:stripe|paypal|braintree(?:gateway)?|adyen(?:payments)?|razorpay|paddle
      |checkout|gocardless|mollie|klarna|squareup|wise|coinbase|lemonsqueezy|dodopayments|plaid)\.(?:com|io|dev)""",
    re.VERBOSE | re.IGNORECASE,
)
_TEXTS = re.compile(
    _DELETING_OPTION
    + r"""|(?<![a-z])(?:drop\s+(?:table|database|schema|view|index|user|role|owned|column)|truncate\s+\w|delete\s+from)
      | (?<![a-z])(?:https?|xhs?)\s(?:-\S{1,80}\s){0,4}delete\s
      | (?<![a-z])_method=delete(?![a-z])
      | (?:^|\s)--?(?:delete|destroy|prune|purge|remove-files|remove-source-files)(?![a-z])
      | (?:^|[\s/])mkfs(?:\.|\s|$)
      | x-http-method(?:-override)?["']?\s*[:=]\s*["']?delete
      | \w:(?:delete|destroy|drop|purge|remove|reset|wipe|fresh)(?![a-z])
      | (?<![a-z])(?:dropDatabase|delete(?:One|Many)|unlink)\(|(?<![a-z])db\.\w{1,80}\.(?:drop|remove)\(
      | (?<![a-z])(?:rmtree|removedirs|unlinkSync|rmSync|rmdirSync|File\.delete|os\.(?:remove|rmdir))(?![a-z])
      | (?<![a-z-])rm\s{1,8}-
      | (?<![a-z])(?:db|migrate)\s{1,8}reset(?![a-z])|manage\.py\s{1,8}flush|(?<![a-z])state=absent
      | compose\s[^\n;|&]{0,80}?down\s[^\n;|&]{0,80}?(?:-v(?![a-z])|--volumes)
      | (?<![a-z])crontab\s{1,8}-r
    """,
    re.VERBOSE | re.IGNORECASE,
)
# A word, or what ends a command.
_WORD = re.compile(r"[^\s;|&()<>`$\"'{}\[\],\\]+|[;|&\n]")
_PLAIN = re.compile(r"[A-Za-z0-9 ._:/@=,+%*~-]*")


@dataclass(frozen=True, slots=True)
class Program:
    """A command line program of which some paths of words are known only to look.

    `looks` are those paths; a word that ends in `-` stands for every word that begins so, `?` for any one word. They
    look only with these `options`, or, where that is None, with all but those that begin as one of `never`.
    """

    looks: tuple[str, ...] = ()
    options: frozenset[str] | None = frozenset()
    never: tuple[str, ...] = ()


def effect_of_shell(text: str, programs: Mapping[str, Program]) -> Effect:
    """MONEY where the words say that something is deleted or paid, else SEND.

    Words count wherever they stand (behind sudo, xargs, in a substitution), so an echo of `rm` is MONEY too. A command
    can be written so that no reading of its words finds what it does; that is why a command is never less than SEND.
    """
    if effect_of_code(text) is Effect.MONEY:
        return Effect.MONEY
    known = verbal = False
    git: str | None = None
    for word in _WORD.findall(text):
        if git is not None:
            if _git_deletes(git, word):
                return Effect.MONEY
            git = None if word in _ENDS else word if not git and word in _GIT else git
        name = word.rpartition("/")[2].lower().removesuffix(".exe")
        if name in _DELETING or name in _PAYING or (known and _ENDING_VERB.fullmatch(name)):
            return Effect.MONEY
        if verbal and name in _VERBS:
            return Effect.MONEY
        known = known or name in programs
        verbal = verbal or name in _VERBAL
        git = "" if name == "git" else git
    return Effect.SEND


def _git_deletes(verb: str, word: str) -> bool:
    """Whether a word after `git <verb>` makes it lose what nobody has elsewhere."""
    if word == "filter-branch" or word in _GIT.get(verb, ()):
        return True
    short = word[1:] if word.startswith("-") and not word.startswith("--") else ""
    if verb == "push":
        return word.startswith((":", "+", "--force")) or "f" in short or "d" in short
    return (verb in ("branch", "tag", "update-ref") and "d" in short.lower()) or (verb == "clean" and "f" in short)


def effect_of_code(text: str) -> Effect:
    """MONEY where code names what deletes or pays, else READ, to be raised by what its tool is."""
    if _PAYING_HOST.search(text):
        return Effect.MONEY
    lower = text.lower()
    return Effect.MONEY if any(hint in lower for hint in _HINTS) and _TEXTS.search(text) else Effect.READ


def effect_of_request(text: str, *, looks: bool) -> Effect:
    """MONEY for an HTTP request, its parts written `name: value`, that says further in that it deletes, or that goes to
    a payment provider and does not only look; else READ, to be raised by its method."""
    if _DELETING_REQUEST.search(text) or (not looks and _PAYING_HOST.search(text)):
        return Effect.MONEY
    return Effect.READ


def effect_of_program(name: str, text: str, programs: Mapping[str, Program]) -> Effect:
    """The same for the command line of one known program, READ where it is plain and only looks."""
    if effect_of_shell(f"{name} {text}", programs) is Effect.MONEY:
        return Effect.MONEY
    words = text.split(" ") if _PLAIN.fullmatch(text) and "://" not in text else []
    words = [word for word in words if word]
    if words and words[0] == name:
        words = words[1:]
    program = programs[name]
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    if program.options is None:
        harmless = not any(option.startswith(program.never) for option in options)
    else:
        harmless = program.options.issuperset(options)
    return Effect.READ if harmless and any(_begins(words, path.split()) for path in program.looks) else Effect.SEND


def _begins(words: list[str], path: list[str]) -> bool:
    if len(words) < len(path):
        return False
    return all(
        (wanted == "?" and not word.startswith("-"))
        or word == wanted
        or (wanted.endswith("-") and word.startswith(wanted))
        for word, wanted in zip(words, path, strict=False)
    )
