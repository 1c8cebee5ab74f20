"""Entries of a pocket ledger, read from a text file."""

from dataclasses import dataclass, field
from datetime import date


@dataclass
class Entry:
    day: date
    amount: float
    note: str
    tags: list = field(default_factory=list)


def parse_line(line):
    """Read `2026-01-31 -12.50 lunch #food` into an entry."""
    day, amount, rest = line.split(" ", 2)
    words = rest.split()
    tags = [word[1:] for word in words if word.startswith("#")]
    note = " ".join(word for word in words if not word.startswith("#"))
    return Entry(date.fromisoformat(day), float(amount), note, tags)


def load(path, entries=[]):
    """Read a whole file; blank lines are skipped."""
    for line in open(path):
        if line.strip():
            entries.append(parse_line(line))
    return entries
