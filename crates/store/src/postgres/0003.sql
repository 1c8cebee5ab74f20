-- Turns, suspensions, forks and removals. See the functions of the inbox.

-- Stores large bodies. The number of uses changes, so that no collector removes one meanwhile.
CREATE FUNCTION logue.keep(p_hashes bytea[], p_bodies text[]) RETURNS void LANGUAGE sql VOLATILE AS
$$ INSERT INTO logue.payload (hash, body)
   SELECT DISTINCT ON (given.hash) given.hash, given.body
   FROM unnest(p_hashes, p_bodies) AS given (hash, body) ORDER BY given.hash
   ON CONFLICT (hash) DO UPDATE SET uses = payload.uses + 1 $$;

-- Removes payloads that nothing refers to. A writer that takes one up meanwhile changes its number of
-- uses, and this statement, which then waits for the writer, finds another number.
CREATE FUNCTION logue.collect(p_hashes bytea[]) RETURNS bigint LANGUAGE sql VOLATILE AS
$$ WITH seen AS MATERIALIZED (
       SELECT hash, uses FROM logue.payload WHERE p_hashes IS NULL OR hash = ANY (p_hashes)),
   removed AS (
       DELETE FROM logue.payload p USING seen
       WHERE p.hash = seen.hash AND p.uses = seen.uses
           AND NOT EXISTS (SELECT 1 FROM logue.message m
               WHERE left(m.body, 1) = '#' AND m.body = '#' || encode(p.hash, 'hex'))
           AND NOT EXISTS (SELECT 1 FROM logue.field f
               WHERE left(f.value, 1) = '#' AND f.value = '#' || encode(p.hash, 'hex'))
       RETURNING 1)
   SELECT count(*) FROM removed $$;

-- A body as it was given. `NULL` if its payload is missing or is another text.
CREATE FUNCTION logue.whole(body text) RETURNS text LANGUAGE sql STABLE AS
$$ SELECT CASE WHEN left(body, 1) = '#' THEN (SELECT p.body FROM logue.payload p
       WHERE p.hash = decode(substr($1, 2), 'hex')
           AND sha256(convert_to(p.body, 'UTF8')) = p.hash) ELSE body END $$;

CREATE FUNCTION logue.put_field(INOUT s logue.session, p_name bytea, p_value text)
LANGUAGE plpgsql AS $$
DECLARE
    f logue.field;
    old integer;
BEGIN
    f.sid := s.sid;
    f.name := p_name;
    f.value := p_value;
    f.sum := logue.sum_of(f);
    SELECT o.sum INTO old FROM logue.field o WHERE o.sid = f.sid AND o.name = f.name;
    IF FOUND THEN
        UPDATE logue.field SET value = f.value, sum = f.sum WHERE sid = f.sid AND name = f.name;
    ELSE
        INSERT INTO logue.field SELECT f.*;
    END IF;
    s.fields := logue.tallied(s.fields, old, f.sum);
END $$;

CREATE FUNCTION logue.put_label(INOUT s logue.session, p_name bytea, p_value text)
LANGUAGE plpgsql AS $$
DECLARE
    l logue.label;
    old integer;
BEGIN
    l.sid := s.sid;
    l.name := p_name;
    l.value := p_value;
    l.sum := logue.sum_of(l);
    SELECT o.sum INTO old FROM logue.label o WHERE o.sid = l.sid AND o.name = l.name;
    IF FOUND THEN
        UPDATE logue.label SET value = l.value, sum = l.sum WHERE sid = l.sid AND name = l.name;
    ELSE
        INSERT INTO logue.label SELECT l.*;
    END IF;
    s.labels := logue.tallied(s.labels, old, l.sum);
END $$;

CREATE FUNCTION logue.set_label(p_id bytea, p_name bytea, p_value text, p_now bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s logue.session := logue.made(p_id, p_now);
BEGIN
    IF s.sum IS DISTINCT FROM logue.sum_of(s) THEN
        RETURN 'its row';
    END IF;
    s := logue.put_label(s, p_name, p_value);
    s.updated_at := greatest(s.updated_at, p_now);
    PERFORM logue.put(s);
    RETURN 'ok';
END $$;

-- The latest suspension of an invocation.
CREATE FUNCTION logue.latest(p_invocation bytea) RETURNS SETOF logue.suspension
LANGUAGE sql STABLE ROWS 1 AS
$$ SELECT * FROM logue.suspension
   WHERE sha256(invocation) = sha256(p_invocation) AND invocation = p_invocation
   ORDER BY num DESC LIMIT 1 $$;

-- Returns whether an invocation may begin to wait in a session.
CREATE FUNCTION logue.may_wait(p_sid bigint, p_invocation bytea, p_ends boolean) RETURNS boolean
LANGUAGE sql STABLE AS
$$ SELECT NOT EXISTS (SELECT 1 FROM logue.latest(p_invocation) o
       WHERE o.sid <> p_sid OR NOT (o.status = 2 OR p_ends)) $$;

CREATE FUNCTION logue.begin_wait(p_sid bigint, p_invocation bytea, p_signal bytea, p_metadata text,
    p_record text, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w logue.suspension;
BEGIN
    w.num := nextval('logue.suspension_num_seq');
    w.sid := p_sid;
    w.invocation := p_invocation;
    w.signal := p_signal;
    w.metadata := p_metadata;
    w.record := p_record;
    w.status := 0;
    w.since := p_now;
    w.sum := logue.sum_of(w);
    INSERT INTO logue.suspension OVERRIDING SYSTEM VALUE SELECT w.*;
END $$;

CREATE FUNCTION logue.end_wait(p_invocation bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w logue.suspension;
BEGIN
    SELECT * INTO w FROM logue.latest(p_invocation);
    IF FOUND THEN
        w.status := 2;
        w.record := NULL;
        UPDATE logue.suspension SET status = 2, record = NULL, sum = logue.sum_of(w)
            WHERE num = w.num;
    END IF;
END $$;

CREATE FUNCTION logue.append_messages(s logue.session, p_messages text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    m logue.message;
BEGIN
    m.pos := (s.sid << 32) + s.seq;
    FOREACH m.body IN ARRAY p_messages LOOP
        m.sum := logue.sum_of(m);
        INSERT INTO logue.message SELECT m.*;
        m.pos := m.pos + 1;
    END LOOP;
END $$;

-- `p_end`: 0 saves in the middle of a turn, 1 ends it, 2 suspends it, 3 puts its entry back.
CREATE FUNCTION logue.commit(p_id bytea, p_epoch bigint, p_owner bytea, p_invocation bytea, p_expected bigint,
    p_messages text[], p_hashes bytea[], p_payloads text[], p_names bytea[], p_values text[],
    p_schema bytea, p_end smallint, p_kind smallint, p_from bigint, p_body text,
    p_keep_journal boolean, p_keep_wait boolean, p_signal bytea, p_metadata text, p_record text,
    p_has_state boolean, p_now bigint, p_release boolean, p_again boolean,
    OUT status text, OUT current bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
    e logue.entry;
    base bigint;
    old logue.entry;
BEGIN
    SELECT * INTO s FROM logue.locked(p_id);
    IF NOT FOUND THEN
        status := 'missing';
        RETURN;
    END IF;
    base := s.sid << 32;
    IF p_again AND logue.has_happened(s, p_invocation, p_expected, p_messages, p_end, p_kind, p_now) THEN
        status := 'ok';
        RETURN;
    END IF;
    IF s.epoch <> p_epoch OR s.owner IS DISTINCT FROM p_owner THEN
        status := 'fenced';
        current := s.epoch;
        RETURN;
    END IF;
    IF s.sum IS DISTINCT FROM logue.sum_of(s) THEN
        status := 'its row';
        RETURN;
    END IF;
    IF s.seq <> p_expected THEN
        status := 'conflict';
        current := s.seq;
        RETURN;
    END IF;
    IF s.cursor < s.entries THEN
        SELECT * INTO e FROM logue.entry WHERE pos = base + s.cursor + 1;
        IF NOT FOUND THEN
            status := 'entry ' || s.cursor + 1 || ' is missing';
            RETURN;
        END IF;
    END IF;
    IF (e.invocation IS NULL AND p_end > 0) OR e.invocation <> p_invocation THEN
        status := 'stopped';
        RETURN;
    END IF;
    IF e.sum IS DISTINCT FROM logue.sum_of(e) AND e.pos IS NOT NULL THEN
        status := 'entry ' || e.pos - base;
        RETURN;
    END IF;
    IF p_end = 2 AND NOT logue.may_wait(s.sid, p_invocation, e.resumes) THEN
        status := 'exists';
        RETURN;
    END IF;

    status := 'ok';
    IF cardinality(p_hashes) > 0 THEN
        PERFORM logue.keep(p_hashes, p_payloads);
    END IF;
    PERFORM logue.append_messages(s, p_messages);
    s.seq := s.seq + cardinality(p_messages);
    FOR i IN 1..cardinality(p_names) LOOP
        s := logue.put_field(s, p_names[i], p_values[i]);
    END LOOP;
    s.has_state := s.has_state OR p_has_state;
    s.schema_version := coalesce(p_schema, s.schema_version);
    s.updated_at := greatest(s.updated_at, p_now);
    IF p_end IN (1, 2) THEN
        e.cancel := NULL;
        -- The last owner stays: its last events may follow.
        e.kind := p_kind;
        e.replies_from := p_from;
        e.replies_to := s.seq;
        e.body := p_body;
        e.at := p_now;
        -- The message is in the history now.
        IF s.seq > p_expected AND NOT e.resumes AND left(e.work, 17) = '{"kind":"message"' THEN
            e.work := NULL;
        END IF;
        PERFORM logue.put(e);
        s.cursor := s.cursor + 1;
        IF e.resumes AND (p_end = 2 OR NOT p_keep_wait) THEN
            PERFORM logue.end_wait(p_invocation);
        END IF;
        IF p_end = 2 THEN
            PERFORM logue.begin_wait(s.sid, p_invocation, p_signal, p_metadata, p_record, p_now);
        END IF;
    ELSIF p_end = 3 THEN
        e.invocation := NULL;
        e.cancel := NULL;
        e.claimed := NULL;
        PERFORM logue.put(e);
    END IF;
    IF p_release THEN
        s.owner := NULL;
        s.until := 0;
    END IF;
    PERFORM logue.put(s);
    IF p_end > 1 OR (p_end = 1 AND NOT p_keep_journal) THEN
        DELETE FROM logue.note n WHERE n.sid = s.sid
            AND substr(n.invocation, 1, 1024) = substr(p_invocation, 1, 1024)
            AND n.invocation = p_invocation;
    END IF;
END $$;

-- Whether a commit whose answer was lost is there.
CREATE FUNCTION logue.has_happened(s logue.session, p_invocation bytea, p_expected bigint,
    p_messages text[], p_end smallint, p_kind smallint, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    base bigint := s.sid << 32;
    found text[];
BEGIN
    IF p_end IN (1, 2) AND NOT EXISTS (
        SELECT 1 FROM logue.entry WHERE pos BETWEEN base + greatest(s.cursor - 1000, 1) AND base + s.cursor
            AND invocation = p_invocation AND kind = p_kind AND at = p_now
            AND replies_to = p_expected + cardinality(p_messages))
    THEN
        RETURN false;
    END IF;
    IF p_end = 3 AND EXISTS (SELECT 1 FROM logue.entry
        WHERE pos = base + s.cursor + 1 AND invocation = p_invocation)
    THEN
        RETURN false;
    END IF;
    -- A save without messages sets fields, which may be set again.
    IF p_end = 0 AND cardinality(p_messages) = 0 THEN
        RETURN false;
    END IF;
    SELECT array_agg(body ORDER BY pos) INTO found FROM logue.message
        WHERE pos >= base + p_expected AND pos < base + p_expected + cardinality(p_messages);
    RETURN coalesce(found, '{}') = p_messages;
END $$;

CREATE FUNCTION logue.signal(p_invocation bytea, p_signal bytea, p_work text, p_now bigint,
    p_again boolean,
    OUT status text, OUT session bytea, OUT entry bigint, OUT is_new boolean)
LANGUAGE plpgsql AS $$
DECLARE
    w logue.suspension;
    s logue.session;
    e logue.entry;
    was text;
BEGIN
    SELECT * INTO w FROM logue.latest(p_invocation);
    SELECT * INTO s FROM logue.session o WHERE o.sid = w.sid FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := 'unknown';
        RETURN;
    END IF;
    -- Another signal, or the end of the turn, may have come before the lock.
    SELECT * INTO w FROM logue.latest(p_invocation);
    IF w.sid IS DISTINCT FROM s.sid THEN
        status := 'unknown';
        RETURN;
    END IF;
    session := s.id;
    is_new := false;
    IF w.signal <> p_signal THEN
        SELECT o.entry INTO entry FROM logue.suspension o
            WHERE sha256(o.invocation) = sha256(p_invocation) AND o.invocation = p_invocation
                AND o.signal = p_signal ORDER BY o.num DESC LIMIT 1;
        status := CASE WHEN entry IS NULL THEN 'unknown' ELSE 'entry' END;
        RETURN;
    END IF;
    PERFORM logue.check_here(s);
    status := 'entry';
    IF w.entry IS NOT NULL THEN
        entry := w.entry;
        IF p_again THEN
            SELECT o.work INTO was FROM logue.entry o WHERE o.pos = (s.sid << 32) + w.entry
                AND o.accepted_at = p_now;
            is_new := coalesce(was = p_work, false);
        END IF;
        RETURN;
    END IF;
    IF s.sum IS DISTINCT FROM logue.sum_of(s) THEN
        status := 'its row';
        RETURN;
    END IF;
    IF w.sum IS DISTINCT FROM logue.sum_of(w) THEN
        status := 'a suspension';
        RETURN;
    END IF;
    e.resumes := true;
    e.continues := p_invocation;
    e.work := p_work;
    s := logue.append_entry(s, e, p_now);
    PERFORM logue.put(s);
    entry := s.entries;
    is_new := true;
    w.status := 1;
    w.entry := s.entries;
    UPDATE logue.suspension o SET status = 1, entry = w.entry, sum = logue.sum_of(w)
        WHERE o.num = w.num;
END $$;

CREATE FUNCTION logue.audit(p_id bytea, p_invocation bytea, p_records text[], p_now bigint,
    p_again boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s logue.session := logue.made(p_id, p_now);
    base bigint := s.sid << 32;
    a logue.audit;
    found text[];
BEGIN
    IF s.sum IS DISTINCT FROM logue.sum_of(s) THEN
        RETURN 'its row';
    END IF;
    SELECT coalesce(max(pos) + 1, base) INTO a.pos FROM logue.audit
        WHERE pos BETWEEN base AND base + 4294967295;
    IF p_again THEN
        SELECT array_agg(body ORDER BY pos) INTO found FROM logue.audit
            WHERE pos BETWEEN greatest(a.pos - 1000, base) AND base + 4294967295
                AND at = p_now AND invocation = p_invocation;
        IF found @> p_records AND cardinality(found) >= cardinality(p_records) THEN
            RETURN 'ok';
        END IF;
    END IF;
    a.invocation := p_invocation;
    a.at := p_now;
    FOREACH a.body IN ARRAY p_records LOOP
        a.sum := logue.sum_of(a);
        INSERT INTO logue.audit SELECT a.*;
        a.pos := a.pos + 1;
    END LOOP;
    RETURN 'ok';
END $$;

CREATE FUNCTION logue.fork(p_id bytea, p_into bytea, p_upto bigint, p_messages text[],
    p_hashes bytea[], p_payloads text[], p_waiting bytea[], p_signals bytea[], p_metadata text[],
    p_records text[], p_work text, p_continues bytea, p_resumes boolean, p_now bigint,
    p_again boolean,
    OUT status text, OUT current bigint)
LANGUAGE plpgsql AS $$
DECLARE
    o logue.session;
    c logue.session;
    e logue.entry;
    shift bigint;
BEGIN
    SELECT * INTO o FROM logue.session
        WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id FOR SHARE;
    IF NOT FOUND THEN
        status := 'missing';
        RETURN;
    END IF;
    PERFORM logue.check_here(o);
    SELECT * INTO c FROM logue.session
        WHERE substr(id, 1, 1024) = substr(p_into, 1, 1024) AND id = p_into;
    IF FOUND THEN
        status := 'exists';
        IF p_again AND c.created_at = p_now AND c.seq = p_upto + cardinality(p_messages)
            AND c.cursor = 0
        THEN
            status := 'ok';
        END IF;
        RETURN;
    END IF;
    IF p_upto > o.seq THEN
        status := 'conflict';
        current := o.seq;
        RETURN;
    END IF;
    FOR i IN 1..cardinality(p_waiting) LOOP
        IF EXISTS (SELECT 1 FROM logue.latest(p_waiting[i])) THEN
            status := 'waits';
            current := i;
            RETURN;
        END IF;
    END LOOP;
    c := logue.made(p_into, p_now);
    IF c.entries > 0 OR c.seq > 0 OR c.labels > 0 OR c.created_at <> p_now THEN
        status := 'exists';
        RETURN;
    END IF;
    status := 'ok';
    IF cardinality(p_hashes) > 0 THEN
        PERFORM logue.keep(p_hashes, p_payloads);
    END IF;
    -- A damaged row has no checksum in the copy: it does not become sound by being copied.
    shift := (c.sid << 32) - (o.sid << 32);
    INSERT INTO logue.message SELECT m.pos + shift,
            CASE WHEN m.sum = logue.sum_of(m)
                THEN logue.sum_of(ROW(m.pos + shift, NULL, m.body)::logue.message) END,
            m.body
        FROM logue.message m
        WHERE m.pos >= o.sid << 32 AND m.pos < (o.sid << 32) + p_upto ORDER BY m.pos;
    c.seq := p_upto;
    PERFORM logue.append_messages(c, p_messages);
    c.seq := p_upto + cardinality(p_messages);
    INSERT INTO logue.field SELECT c.sid,
            CASE WHEN f.sum = logue.sum_of(f)
                THEN logue.sum_of(ROW(c.sid, NULL, f.name, f.value)::logue.field) END,
            f.name, f.value
        FROM logue.field f WHERE f.sid = o.sid;
    INSERT INTO logue.label SELECT c.sid,
            CASE WHEN l.sum = logue.sum_of(l)
                THEN logue.sum_of(ROW(c.sid, NULL, l.name, l.value)::logue.label) END,
            l.name, l.value
        FROM logue.label l WHERE l.sid = o.sid;
    SELECT (count(*) << 32) + (coalesce(sum(f.sum), 0) & 4294967295) INTO c.fields
        FROM logue.field f WHERE f.sid = c.sid;
    SELECT (count(*) << 32) + (coalesce(sum(l.sum), 0) & 4294967295) INTO c.labels
        FROM logue.label l WHERE l.sid = c.sid;
    c.has_state := o.has_state;
    c.schema_version := o.schema_version;
    FOR i IN 1..cardinality(p_waiting) LOOP
        PERFORM logue.begin_wait(c.sid, p_waiting[i], p_signals[i], p_metadata[i], p_records[i], p_now);
    END LOOP;
    IF p_work IS NOT NULL THEN
        e.resumes := p_resumes;
        e.continues := p_continues;
        e.work := p_work;
        c := logue.append_entry(c, e, p_now);
    END IF;
    PERFORM logue.put(c);
END $$;

CREATE FUNCTION logue.remove(s logue.session) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    base bigint := s.sid << 32;
    hashes bytea[];
BEGIN
    -- A lease of this session must not match a later session of that name.
    INSERT INTO logue.meta AS m VALUES ('epochs', s.epoch)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE m.value < excluded.value;
    SELECT array_agg(DISTINCT decode(substr(body, 2), 'hex')) INTO hashes FROM (
        SELECT body FROM logue.message
            WHERE pos BETWEEN base AND base + 4294967295 AND left(body, 1) = '#'
        UNION ALL SELECT value FROM logue.field WHERE sid = s.sid AND left(value, 1) = '#') AS large
        WHERE body ~ '^#[0-9a-f]{64}$';
    DELETE FROM logue.message WHERE pos BETWEEN base AND base + 4294967295;
    DELETE FROM logue.entry WHERE pos BETWEEN base AND base + 4294967295;
    DELETE FROM logue.audit WHERE pos BETWEEN base AND base + 4294967295;
    DELETE FROM logue.note WHERE sid = s.sid;
    DELETE FROM logue.field WHERE sid = s.sid;
    DELETE FROM logue.label WHERE sid = s.sid;
    DELETE FROM logue.suspension WHERE sid = s.sid;
    DELETE FROM logue.session WHERE sid = s.sid;
    IF hashes IS NOT NULL THEN
        PERFORM logue.collect(hashes);
    END IF;
    PERFORM logue.forget(s.id);
END $$;

CREATE FUNCTION logue.delete(p_id bytea, p_again boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.session
        WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id FOR UPDATE;
    IF FOUND THEN
        PERFORM logue.remove(s);
        RETURN true;
    END IF;
    -- Without its session, the log is of a removal by another program.
    PERFORM logue.forget(p_id);
    RETURN p_again;
END $$;

CREATE FUNCTION logue.prune(p_id bytea, p_since bigint, p_busy boolean, p_again boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.session
        WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN p_again;
    END IF;
    IF s.updated_at > p_since OR substr(s.owner, 1, 9) = 'arriving:'::bytea
        OR (NOT p_busy AND substr(s.owner, 1, 6) IS DISTINCT FROM 'moved:'::bytea AND (s.entries <> s.cursor
        OR EXISTS (SELECT 1 FROM logue.suspension WHERE sid = s.sid AND status < 2)))
    THEN
        RETURN false;
    END IF;
    PERFORM logue.remove(s);
    RETURN true;
END $$;
