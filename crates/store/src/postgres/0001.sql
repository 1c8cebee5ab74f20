-- Positions are numbered within a session: `pos` is the session's number times 2^32 plus the position,
-- so that a session lies together, is found by one index, and grows at its own end.
-- Ids and names are bytes, because they may contain the character that texts of PostgreSQL cannot.
-- An invocation, a key or a signal is UTF-8, or the byte 255 and the 16 bytes of a UUID.
-- Times are milliseconds since 1970. Only `session.until` is by the clock of the database.

CREATE TABLE logue.meta (
    name text PRIMARY KEY,
    value bigint NOT NULL
);

CREATE SEQUENCE logue.session_number MAXVALUE 2147483647;

CREATE TABLE logue.session (
    sid bigint PRIMARY KEY,
    seq bigint NOT NULL DEFAULT 0,
    entries bigint NOT NULL DEFAULT 0,
    cursor bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL,
    until bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    -- The number of its fields and of its labels times 2^32, plus the sum of their checksums.
    fields bigint NOT NULL DEFAULT 0,
    labels bigint NOT NULL DEFAULT 0,
    sum integer,
    has_state boolean NOT NULL DEFAULT false,
    id bytea NOT NULL,
    owner bytea,
    schema_version bytea
) WITH (fillfactor = 60);

-- The part of an id beyond what an index can hold.
CREATE FUNCTION logue.id_rest(id bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN length(id) > 1024 THEN sha256(id) ELSE ''::bytea END $$;

CREATE UNIQUE INDEX session_id ON logue.session (substr(id, 1, 1024), logue.id_rest(id));
CREATE INDEX session_changed ON logue.session (updated_at DESC);
CREATE INDEX session_pending ON logue.session (sid) WHERE entries > cursor;

CREATE TABLE logue.field (
    sid bigint NOT NULL,
    sum integer,
    name bytea NOT NULL,
    value text NOT NULL
);
CREATE INDEX field_session ON logue.field (sid);

CREATE TABLE logue.label (
    sid bigint NOT NULL,
    sum integer,
    name bytea NOT NULL,
    value text NOT NULL
);
CREATE INDEX label_session ON logue.label (sid);

-- A body is `#` and the SHA-256 of a payload, or `u`, `a` or `s` and the text of a user, an assistant
-- or the system, or JSON. The values of fields are payloads or JSON.
CREATE TABLE logue.message (
    pos bigint PRIMARY KEY,
    sum integer,
    body text NOT NULL
);

-- Large bodies, by their hash. Forks share them.
CREATE TABLE logue.payload (
    hash bytea PRIMARY KEY,
    -- Counts the writers. A collector that saw an earlier number removes nothing.
    uses bigint NOT NULL DEFAULT 0,
    body text NOT NULL
);
CREATE INDEX message_payload ON logue.message (body) WHERE left(body, 1) = '#';
CREATE INDEX field_payload ON logue.field (value) WHERE left(value, 1) = '#';

-- An entry of the inbox and how it ended. Entries are worked off in order and each ends once, so the
-- session's cursor is the last one that ended, and the next one runs or waits.
CREATE TABLE logue.entry (
    pos bigint PRIMARY KEY,
    accepted_at bigint NOT NULL,
    at bigint,
    replies_from bigint,
    replies_to bigint,
    -- The epoch of the lease under which it runs, or ran last.
    claimed bigint,
    sum integer,
    kind smallint,
    cancel smallint,
    resumes boolean NOT NULL,
    key bytea,
    digest bytea,
    invocation bytea,
    -- The invocation that its work continues.
    continues bytea,
    -- What it asks for, until that is a part of the history.
    work text,
    body text
);
CREATE INDEX entry_key ON logue.entry ((pos >> 32), substr(key, 1, 1024)) WHERE key IS NOT NULL;

CREATE TABLE logue.note (
    sid bigint NOT NULL,
    seq bigint NOT NULL,
    sum integer,
    invocation bytea NOT NULL,
    body text NOT NULL
);
CREATE INDEX note_invocation ON logue.note (sid, substr(invocation, 1, 1024), seq);

CREATE TABLE logue.suspension (
    num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sid bigint NOT NULL,
    entry bigint,
    since bigint NOT NULL,
    sum integer,
    status smallint NOT NULL,
    invocation bytea NOT NULL,
    signal bytea NOT NULL,
    metadata text,
    record text
);
CREATE INDEX suspension_invocation ON logue.suspension (sha256(invocation), num);
CREATE UNIQUE INDEX suspension_waits ON logue.suspension (sha256(invocation)) WHERE status < 2;
CREATE INDEX suspension_session ON logue.suspension (sid, num);
CREATE INDEX suspension_open ON logue.suspension (num) WHERE status < 2;

-- What was decided about calls of tools, and by what. Rows are only added, and go with their session.
CREATE TABLE logue.audit (
    pos bigint PRIMARY KEY,
    at bigint NOT NULL,
    sum integer,
    invocation bytea NOT NULL,
    body text NOT NULL
);

-- Rows that a repair took out of the tables above, each as JSON.
CREATE TABLE logue.quarantine (
    num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session bytea,
    record text NOT NULL,
    "position" bigint,
    reason text NOT NULL,
    content text NOT NULL,
    at bigint NOT NULL
);

-- Checksums, over the binary form of the columns. They find damage, not an editor who computes them
-- anew. The lease of a session (`epoch`, `owner`, `until`) is left out: it changes without the rest.

CREATE FUNCTION logue.row_sum(content bytea) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT ('x' || encode(substr(sha256(content), 1, 4), 'hex'))::bit(32)::integer $$;

CREATE FUNCTION logue.sum_of(r logue.session) RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT logue.row_sum(record_send(ROW(r.sid, r.seq, r.entries, r.cursor, r.created_at, r.updated_at,
       r.fields, r.labels, r.has_state, r.id, r.schema_version))) $$;

CREATE FUNCTION logue.sum_of(r logue.field) RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT logue.row_sum(record_send(ROW(r.sid, r.name, r.value))) $$;

CREATE FUNCTION logue.sum_of(r logue.label) RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT logue.row_sum(record_send(ROW(r.sid, r.name, r.value))) $$;

CREATE FUNCTION logue.sum_of(r logue.message) RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT logue.row_sum(record_send(ROW(r.pos, r.body))) $$;

CREATE FUNCTION logue.sum_of(r logue.entry) RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT logue.row_sum(record_send(ROW(r.pos, r.accepted_at, r.at, r.replies_from, r.replies_to,
       r.kind, r.cancel, r.resumes, r.key, r.digest, r.invocation, r.continues, r.work, r.body))) $$;

CREATE FUNCTION logue.sum_of(r logue.note) RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT logue.row_sum(record_send(ROW(r.sid, r.seq, r.invocation, r.body))) $$;

CREATE FUNCTION logue.sum_of(r logue.suspension) RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT logue.row_sum(record_send(ROW(r.num, r.sid, r.entry, r.since, r.status, r.invocation,
       r.signal, r.metadata, r.record))) $$;

CREATE FUNCTION logue.sum_of(r logue.audit) RETURNS integer LANGUAGE sql STABLE AS
$$ SELECT logue.row_sum(record_send(ROW(r.pos, r.at, r.invocation, r.body))) $$;

-- The clock of leases.
CREATE FUNCTION logue.server_time() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;
