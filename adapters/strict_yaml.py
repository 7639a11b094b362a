"""YAML read strictly, every piece with its line: the mapping, list or text that must stand there, or a refusal."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

# About 4,500 people; reading that takes a few seconds.
SIZE_LIMIT = 256 * 1024
# Aliases make a small file large: this bounds what is read, however often a part of it is repeated.
READ_LIMIT = 100_000
DEPTH_LIMIT = 20
TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,200}")
YAML_TAG = "tag:yaml.org,2002:"


class DirectoryError(Exception):
    """The file cannot be applied: `line` counts from 1, `problem` says what is wrong there and what would be right."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


def root_of(text: str) -> Node:
    if len(text) > SIZE_LIMIT:
        raise DirectoryError(1, f"the file is larger than {SIZE_LIMIT // 1024} KB")
    try:
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem).split())
        raise DirectoryError(mark.line + 1 if mark else 1, f"is no valid YAML: {problem}") from None
    except RecursionError:
        raise DirectoryError(1, "is nested too deep") from None
    except Exception as error:
        # The parser lets through whatever trips it (OverflowError on a character's number, ReaderError and others).
        raise DirectoryError(1, f"is no valid YAML ({type(error).__name__})") from None
    if root is None:
        raise DirectoryError(1, "the file is empty; declare people at least")
    return root


@dataclass(slots=True)
class Entry:
    """A key of the file and what stands behind it."""

    key: str
    line: int
    value: Node


@dataclass(slots=True)
class Reading:
    """One reading of a file. Nothing at all (`routes:` alone) is an empty mapping or list."""

    left: int = READ_LIMIT

    def _count(self, node: Node) -> None:
        self.left -= 1
        if self.left < 0:
            refuse(line_of(node), "the file repeats too much through aliases")

    def entries(self, node: Node, what: str) -> Iterator[Entry]:
        if is_nothing(node):
            return
        if not isinstance(node, MappingNode) or str(node.tag) != YAML_TAG + "map":
            refuse(line_of(node), f"{what} must be a mapping (name: value)")
        seen: dict[str, int] = {}
        for key_node, value in node.value:
            self._count(key_node)
            key, line = self.scalar(key_node, f"a key of {what}", "str", "int"), line_of(key_node)
            if key in seen:
                refuse(line, f"{shown(key)} is there twice in {what}; first on line {seen[key]}")
            seen[key] = line
            if is_nothing(value):
                # The parser puts nothing where the next thing begins.
                value.start_mark = key_node.start_mark
            yield Entry(key, line, value)

    def fields(self, node: Node, what: str, known: Collection[str], needed: Collection[str] = ()) -> dict[str, Entry]:
        fields = {}
        for entry in self.entries(node, what):
            if entry.key not in known:
                unknown(entry.line, entry.key, f"key of {what}", known)
            fields[entry.key] = entry
        for name in needed:
            if name not in fields:
                refuse(line_of(node), f"{what} needs {name}")
        return fields

    def items(self, node: Node, what: str, least: int = 0) -> Iterator[Node]:
        if not is_nothing(node) and (not isinstance(node, SequenceNode) or str(node.tag) != YAML_TAG + "seq"):
            refuse(line_of(node), f"{what} must be a list")
        if is_nothing(node) or not node.value:
            if least:
                refuse(line_of(node), f"{what} must name at least one")
            return
        for item in node.value:
            self._count(item)
            yield item

    def names(self, node: Node, what: str, kind: str, known: Collection[str]) -> list[str]:
        names: dict[str, None] = {}
        for item in self.items(node, what, least=1 if what == "ask" else 0):
            name = self.text(item, f"a {kind}")
            if name not in known:
                unknown(line_of(item), name, kind, known)
            if name in names:
                refuse(line_of(item), f"{name} is there twice in {what}")
            names[name] = None
        return list(names)

    def plain(self, node: Node, what: str, depth: int = 0) -> Any:
        """What stands there as it is, in mappings, lists, text and flags; a number is text."""
        if depth > DEPTH_LIMIT:
            refuse(line_of(node), f"{what} is nested too deep")
        if is_nothing(node):
            return None
        if isinstance(node, MappingNode):
            return {entry.key: self.plain(entry.value, entry.key, depth + 1) for entry in self.entries(node, what)}
        if isinstance(node, SequenceNode):
            return [self.plain(item, what, depth + 1) for item in self.items(node, what)]
        if str(node.tag) == YAML_TAG + "bool":
            return self.flag(node, what)
        text = self.scalar(node, what, "str", "int")
        if not TEXT.fullmatch(text):
            refuse(line_of(node), f"{what} must be one line of 1 to 200 characters")
        return text

    def text(self, node: Node, what: str) -> str:
        text = self.scalar(node, what, "str")
        if not TEXT.fullmatch(text):
            refuse(line_of(node), f"{what} must be one line of 1 to 200 characters")
        return text

    def flag(self, node: Node, what: str) -> bool:
        return self.scalar(node, what, "bool").lower() == "true"

    def scalar(self, node: Node, what: str, *kinds: str) -> str:
        kind = str(node.tag).removeprefix(YAML_TAG)
        if isinstance(node, ScalarNode) and kind in kinds:
            return str(node.value)
        if "str" in kinds:
            quote = f" (write it in quotes: {shown(node.value)})" if isinstance(node, ScalarNode) and node.value else ""
            refuse(line_of(node), f"{what} must be text{quote}")
        refuse(line_of(node), f"{what} must be {'true or false' if 'bool' in kinds else 'a whole number'}")


def line_at(node: Node, path: Sequence[str]) -> int:
    """The line of what `path` leads to, through keys and places in lists, or of the last of it that is there."""
    line = line_of(node)
    for step in path:
        found: Node | None = None
        if isinstance(node, MappingNode):
            for key, value in node.value:
                if str(key.value) == step:
                    line, found = line_of(key), value
        elif isinstance(node, SequenceNode) and step.isdecimal() and int(step) < len(node.value):
            found = node.value[int(step)]
            line = line_of(found)
        if found is None:
            return line
        node = found
    return line


def is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and str(node.tag) == YAML_TAG + "null"


def line_of(node: Node) -> int:
    return int(node.start_mark.line) + 1


def shown(text: str) -> str:
    """A piece of the file inside one line of an error."""
    return ascii(text if len(text) <= 60 else text[:57] + "...") if not text.isprintable() else repr(text[:60])


def refuse(line: int, problem: str) -> NoReturn:
    raise DirectoryError(line, problem)


def unknown(line: int, name: str, kind: str, known: Collection[str]) -> NoReturn:
    near = difflib.get_close_matches(name[:200], list(known), n=1)
    if near:
        hint = f"; did you mean {near[0]}?"
    else:
        there = "there is only" if len(known) == 1 else "there are"
        hint = f"; {there} {', '.join(list(known)[:12])}" if known else f"; no {kind} is declared"
    raise DirectoryError(line, f"unknown {kind} {shown(name)}{hint}")
