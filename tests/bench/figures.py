"""A figure beside its floor, and how they are shown and written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, in `unit`, and the floor measured in the same run; None where there is none.

    The bar is on the ratio to the floor (`bar_is` "ratio") or on the value itself ("value"); a `higher` figure must
    reach its bar, any other must stay at or below it. Without a bar the figure is reported. `against` says what the
    floor is, `cause` where a miss comes from.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    bar: float | None = None
    higher: bool = False
    bar_is: str = "ratio"
    against: str = ""
    cause: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def ok(self) -> bool | None:
        """Whether the bar holds; None without one."""
        held = self.value if self.bar_is == "value" else self.ratio
        if self.bar is None or held is None:
            return None
        return held >= self.bar if self.higher else held <= self.bar


def write(figures: Sequence[Figure], path: Path) -> None:
    rows = [
        {
            "name": figure.name,
            "value": round(figure.value, 4),
            "floor": None if figure.floor is None else round(figure.floor, 4),
            "ratio": None if figure.ratio is None else round(figure.ratio, 4),
            "bar": figure.bar,
            "ok": figure.ok,
        }
        for figure in figures
    ]
    path.write_text(json.dumps({"figures": rows}, indent=2) + "\n", encoding="utf-8")


def show(figures: Sequence[Figure], console: Console) -> None:
    table = Table(title="Each figure beside its floor, measured in the same run")
    table.add_column("figure")
    for column in ("value", "floor", "ratio", "bar", ""):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("the floor")
    for figure in figures:
        mark = {True: "[green]ok[/]", False: "[red]missed[/]", None: ""}[figure.ok]
        table.add_row(
            figure.name, amount(figure.value, figure.unit), amount(figure.floor, figure.unit),
            "" if figure.ratio is None else f"{figure.ratio:.2f}", bar(figure), mark, figure.against,
        )  # fmt: skip
    console.print(table)
    for figure in figures:
        if figure.ok is False:
            console.print(f"missed: {figure.name}. {figure.cause}", style="red", highlight=False)


def amount(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    number = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    return f"{number} {unit}".strip()


def bar(figure: Figure) -> str:
    if figure.bar is None:
        return "reported"
    return f"{'≥' if figure.higher else '≤'} {amount(figure.bar, figure.unit if figure.bar_is == 'value' else '')}"


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which a share of all lies, the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def over_rounds(rounds: Sequence[Sequence[float]], share: float) -> float:
    """The median over the rounds of each round's percentile: one disturbed round does not move it."""
    return median(percentile(values, share) for values in rounds)
