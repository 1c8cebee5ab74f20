"""Prints the total of a ledger and one line a tag."""

import sys

from ledger import load


def total(entries):
    return sum(entry.amount for entry in entries)


def by_tag(entries):
    totals = {}
    for entry in entries:
        for tag in entry.tags:
            totals[tag] = totals.get(tag, 0) + entry.amount
    return totals


def main(path):
    entries = load(path)
    print(f"total: {total(entries):.2f}")
    for tag, amount in sorted(by_tag(entries).items()):
        print(f"#{tag}: {amount:.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
