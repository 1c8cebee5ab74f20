-- Positions are numbered within a session: `pos` is the session's number times 2^32 plus the position,
-- so that a session lies together, is found without another index, and grows at its own end.
-- Ids are a blob of 16 bytes where they are UUIDs in their usual spelling, and text otherwise.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    sid INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    seq INTEGER NOT NULL DEFAULT 0,
    entries INTEGER NOT NULL DEFAULT 0,
    cursor INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL,
    owner TEXT,
    until INTEGER NOT NULL DEFAULT 0,
    has_state INTEGER NOT NULL DEFAULT 0,
    schema_version TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX session_changed ON session (updated_at DESC, id);

CREATE TABLE field (
    sid INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (sid, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE label (
    sid INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (sid, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
    pos INTEGER PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

-- An entry of the inbox and how it ended. Entries are worked off in order and each ends once, so the
-- session's cursor is the last one that ended, and the next one runs or waits.
CREATE TABLE entry (
    pos INTEGER PRIMARY KEY,
    resumes INTEGER NOT NULL,
    key ANY,
    invocation ANY,
    cancel INTEGER,
    accepted_at INTEGER NOT NULL,
    kind INTEGER,
    replies_from INTEGER,
    replies_to INTEGER,
    body TEXT,
    at INTEGER
) STRICT;
CREATE UNIQUE INDEX entry_key ON entry (pos >> 32, key) WHERE key IS NOT NULL;

-- What an entry asks for, until it is a part of the history.
CREATE TABLE work (
    pos INTEGER PRIMARY KEY REFERENCES entry ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE note (
    sid INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    invocation ANY NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (sid, invocation, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE suspension (
    num INTEGER PRIMARY KEY,
    invocation ANY NOT NULL,
    sid INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    signal_id ANY NOT NULL,
    metadata TEXT,
    status INTEGER NOT NULL,
    entry INTEGER,
    record TEXT,
    since INTEGER NOT NULL
) STRICT;
CREATE INDEX suspension_invocation ON suspension (invocation);
CREATE INDEX suspension_session ON suspension (sid);
CREATE INDEX suspension_open ON suspension (num) WHERE status < 2;
