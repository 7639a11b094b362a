"""What a command line does, as far as its words tell: it can be known to delete or spend, never to be harmless."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from core.approvals import Effect

_DELETING = frozenset(
    str.split("""
    rm rmdir unlink shred dd wipefs dropdb dropuser truncate del erase rd remove-item ri rimraf trash trash-put
    srm fdisk parted
""")
)
_PAYING = frozenset(("stripe", "paypal", "braintree", "adyen", "razorpay", "paddle", "square"))
_ENDING_VERB = re.compile(
    r"(?:delete|destroy|purge|purchase|remove|rm|rmi|rb|prune|uninstall|terminate|deregister|wipe|erase)(?:-[a-z0-9-]+)?"
)
_TEXTS = re.compile(
    r"""(?<![a-z])(?:drop\s+(?:table|database|schema|view|index|user|role|owned|column)|truncate\s+\w|delete\s+from)
      | (?:-X|--request[=\s])\s*["']?delete(?![a-z])
      | (?:^|\s)--?(?:delete|destroy|prune|purge)(?![a-z])
      | (?:^|[\s/])mkfs(?:\.|\s|$)
      | x-http-method(?:-override)?["']?\s*[:=]\s*["']?delete
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORD = re.compile(r"[^\s;|&()<>`$\"'{}\[\],\\]+")
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
    if _TEXTS.search(text):
        return Effect.MONEY
    known = False
    for word in _WORD.findall(text):
        name = word.rpartition("/")[2].lower().removesuffix(".exe")
        if name in _DELETING or name in _PAYING or (known and _ENDING_VERB.fullmatch(name)):
            return Effect.MONEY
        known = known or name in programs
    return Effect.SEND


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
