"""Tables for people: drawn by rich on a terminal, aligned plain text into a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers stand to the right."""

    name: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]

    def lines(self, indent: str = "") -> list[str]:
        """Plain text: headings, then rows, two spaces between columns, nothing at the ends of lines."""
        shown = [[column.name for column in self.columns], *map(list, self.rows)]
        widths = [max(len(row[position]) for row in shown) for position in range(len(self.columns))]
        return [
            indent
            + "  ".join(
                cell.rjust(width) if column.is_number else cell.ljust(width)
                for cell, width, column in zip(row, widths, self.columns, strict=True)
            ).rstrip()
            for row in shown
        ]


Block = str | Table
"""What a command shows: a line of text, or a table."""


def show(blocks: Sequence[Block]) -> None:
    """Print to the terminal with rich, or into a pipe as plain text."""
    if not sys.stdout.isatty():
        for block in blocks:
            print("\n".join(block.lines("  ")) if isinstance(block, Table) else block)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    for block in blocks:
        console.print(_drawn(block) if isinstance(block, Table) else Text(block))


def _drawn(table: Table) -> object:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        drawn.add_column(Text(column.name), justify="right" if column.is_number else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn
