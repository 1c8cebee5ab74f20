"""The cases of `conformance/openchatml`, and the reader in Rust."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CASES = ROOT / "conformance" / "openchatml"

#: Folder to the dialects in which its cases are read.
DIALECTS = {
    "envelope": ["ocml2.2", "harmony"],
    "checks": ["ocml2.2"],
    "harmony": ["harmony"],
    "legacy": ["ocml0.1", "chatml"],
    "convert": ["ocml2.2", "harmony"],
}


def cases():
    """Yield (dialect, start_role, text) of every case."""
    for folder, dialects in DIALECTS.items():
        for path in sorted((CASES / folder).glob("*.md")):
            text = path.read_text(encoding="utf-8")
            for part in text.split("\n## ")[1:]:
                block = re.search(r"^(`{3,})([^\n]*)\n(.*?)^\1$", part, re.MULTILINE | re.DOTALL)
                if not block:
                    continue
                source = block[3].removesuffix("\n")
                for dialect in dialects:
                    roles = [None, "assistant"] if dialect == "harmony" else [None]
                    for role in roles:
                        yield dialect, role, source


def rust_events(requests):
    """Return the events of the reader in Rust for (dialect, start_role, bytes or ids)."""
    program = os.environ.get("OPENCHATML_EVENTS")
    if not program:
        pytest.skip("OPENCHATML_EVENTS does not name the reader in Rust")
    lines = []
    for dialect, role, source in requests:
        if isinstance(source, bytes):
            source = source.hex()
        lines.append(json.dumps([dialect, role, source]))
    done = subprocess.run(
        [program], input="\n".join(lines).encode() + b"\n", stdout=subprocess.PIPE, check=True
    )
    events = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    assert len(events) == len(requests)
    return events
