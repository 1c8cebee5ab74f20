from ledger import parse_line


def test_a_line_is_an_entry():
    entry = parse_line("2026-01-31 -12.50 lunch with Ana #food #team")
    assert entry.amount == -12.50
    assert entry.note == "lunch with Ana"
    assert entry.tags == ["food", "team"]
