-- The checksum of each row, over its own columns. It finds damage, not an editor who computes it anew.
-- The lease of a session (`epoch`, `owner`, `until`) is left out: it changes without the rest.

ALTER TABLE session ADD COLUMN sum INTEGER;
ALTER TABLE field ADD COLUMN sum INTEGER;
ALTER TABLE label ADD COLUMN sum INTEGER;
ALTER TABLE message ADD COLUMN sum INTEGER;
ALTER TABLE entry ADD COLUMN sum INTEGER;
ALTER TABLE work ADD COLUMN sum INTEGER;
ALTER TABLE note ADD COLUMN sum INTEGER;
ALTER TABLE suspension ADD COLUMN sum INTEGER;
ALTER TABLE audit ADD COLUMN sum INTEGER;

UPDATE session SET sum = row_sum(sid, id, seq, entries, cursor, has_state, schema_version, created_at, updated_at);
UPDATE field SET sum = row_sum(sid, name, value);
UPDATE label SET sum = row_sum(sid, name, value);
UPDATE message SET sum = row_sum(pos, body);
UPDATE entry SET sum = row_sum(pos, resumes, key, digest, invocation, cancel, accepted_at, kind,
    replies_from, replies_to, body, at);
UPDATE work SET sum = row_sum(pos, body);
UPDATE note SET sum = row_sum(sid, invocation, seq, body);
UPDATE suspension SET sum = row_sum(num, invocation, sid, signal_id, metadata, status, entry, record, since);
UPDATE audit SET sum = row_sum(pos, invocation, body, at);

-- Rows that a repair took out of the tables above, each as a JSON object of its columns.
CREATE TABLE quarantine (
    num INTEGER PRIMARY KEY,
    session TEXT,
    record TEXT NOT NULL,
    position INTEGER,
    reason TEXT NOT NULL,
    content TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
