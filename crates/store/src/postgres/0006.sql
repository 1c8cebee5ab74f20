-- Complete records of sessions: reading one, writing one in pieces, and the marks of a move. The owner
-- of a session that another store continues is `moved:` or `arriving:` and an address.

-- Refuses a session that another store continues.
CREATE FUNCTION logue.check_here(s logue.session) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF substr(s.owner, 1, 6) = 'moved:'::bytea OR substr(s.owner, 1, 9) = 'arriving:'::bytea THEN
        RAISE EXCEPTION USING ERRCODE = 'LG001', MESSAGE = encode(s.owner, 'hex'),
            DETAIL = encode(s.id, 'hex');
    END IF;
END $$;

-- A text that differs after each change of the record of a session.
CREATE FUNCTION logue.fingerprint(p_sid bigint) RETURNS text LANGUAGE sql STABLE AS
$$ SELECT concat_ws(' ', s.sum, s.seq, s.entries, s.fields, s.labels,
       (SELECT count(*) || ' ' || coalesce(sum(e.sum::bigint * (e.pos & 65535)), 0) FROM logue.entry e
        WHERE e.pos BETWEEN s.sid << 32 AND (s.sid << 32) + 4294967295),
       (SELECT count(*) || ' ' || coalesce(sum(n.sum::bigint), 0) FROM logue.note n WHERE n.sid = s.sid),
       (SELECT count(*) || ' ' || coalesce(sum(w.sum::bigint), 0) FROM logue.suspension w
        WHERE w.sid = s.sid),
       (SELECT count(*) || ' ' || coalesce(sum(a.sum::bigint), 0) FROM logue.audit a
        WHERE a.pos BETWEEN s.sid << 32 AND (s.sid << 32) + 4294967295),
       (SELECT count(*) || ' ' || coalesce(max(q.num), 0) FROM logue.quarantine q WHERE q.session = s.id))
   FROM logue.session s WHERE s.sid = p_sid $$;

-- Marks a session as moved, if its record still has a fingerprint.
CREATE FUNCTION logue.mark_moved(p_id bytea, p_epoch bigint, p_owner bytea, p_fingerprint text,
    p_mark bytea, p_again boolean,
    OUT status text, OUT current bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.locked(p_id);
    IF NOT FOUND THEN
        status := 'missing';
        RETURN;
    END IF;
    current := s.epoch;
    status := 'ok';
    IF p_again AND s.epoch = p_epoch + 1 AND s.owner = p_mark THEN
        RETURN;
    END IF;
    IF s.epoch <> p_epoch OR s.owner IS DISTINCT FROM p_owner THEN
        status := 'fenced';
        RETURN;
    END IF;
    IF logue.fingerprint(s.sid) <> p_fingerprint THEN
        status := 'changed';
        RETURN;
    END IF;
    UPDATE logue.session SET epoch = s.epoch + 1, owner = p_mark, until = 9223372036854775807
        WHERE sid = s.sid;
END $$;

-- Lets this store continue a session that arrived. An incomplete one is damaged.
CREATE FUNCTION logue.mark_arrived(p_id bytea, p_again boolean,
    OUT status text, OUT arrived boolean)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.locked(p_id);
    IF NOT FOUND THEN
        status := 'missing';
        RETURN;
    END IF;
    status := 'ok';
    arrived := coalesce(substr(s.owner, 1, 9) = 'arriving:'::bytea, p_again AND s.owner IS NULL);
    IF NOT arrived OR s.owner IS NULL THEN
        RETURN;
    END IF;
    SELECT f.record INTO status FROM logue.faults(s.sid) f LIMIT 1;
    IF FOUND THEN
        RETURN;
    END IF;
    status := 'ok';
    UPDATE logue.session SET owner = NULL, until = 0 WHERE sid = s.sid;
END $$;

-- Creates the row of an arriving session. One that the record may replace is removed.
CREATE FUNCTION logue.import(p_id bytea, p_arriving bytea, p_moved bytea, p_epoch bigint,
    p_seq bigint, p_entries bigint, p_cursor bigint, p_has_state boolean, p_schema bytea,
    p_created bigint, p_updated bigint,
    OUT status text, OUT sid bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.session o
        WHERE substr(o.id, 1, 1024) = substr(p_id, 1, 1024) AND o.id = p_id FOR UPDATE;
    IF FOUND THEN
        IF coalesce(s.owner <> p_moved AND substr(s.owner, 1, 9) <> 'arriving:'::bytea, true) THEN
            status := 'exists';
            RETURN;
        END IF;
        PERFORM logue.remove(s);
        DELETE FROM logue.quarantine q WHERE q.session = p_id;
    ELSE
        -- What an earlier session of that id left stays, and is not a part of this one.
        UPDATE logue.quarantine q SET session = NULL WHERE q.session = p_id;
        PERFORM logue.forget(p_id);
    END IF;
    s := NULL;
    s.sid := nextval('logue.session_number');
    s.id := p_id;
    s.seq := p_seq;
    s.entries := p_entries;
    s.cursor := p_cursor;
    s.epoch := greatest(p_epoch,
        coalesce((SELECT value FROM logue.meta WHERE name = 'epochs'), 0)) + 1;
    s.owner := p_arriving;
    s.until := 9223372036854775807;
    s.created_at := p_created;
    s.updated_at := p_updated;
    s.fields := 0;
    s.labels := 0;
    s.has_state := p_has_state;
    s.schema_version := p_schema;
    s.sum := logue.sum_of(s);
    INSERT INTO logue.session SELECT s.* ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        status := 'exists';
        RETURN;
    END IF;
    sid := s.sid;
    status := 'ok';
END $$;

-- The row of an arriving session, locked.
CREATE FUNCTION logue.arriving(p_sid bigint) RETURNS SETOF logue.session LANGUAGE sql VOLATILE ROWS 1 AS
$$ SELECT * FROM logue.session
   WHERE sid = p_sid AND substr(owner, 1, 9) = 'arriving:'::bytea FOR NO KEY UPDATE $$;

CREATE FUNCTION logue.import_messages(p_sid bigint, p_first bigint, p_bodies text[],
    p_hashes bytea[], p_payloads text[])
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    m logue.message;
BEGIN
    PERFORM 1 FROM logue.arriving(p_sid);
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    IF cardinality(p_hashes) > 0 THEN
        PERFORM logue.keep(p_hashes, p_payloads);
    END IF;
    m.pos := (p_sid << 32) + p_first;
    FOREACH m.body IN ARRAY p_bodies LOOP
        m.sum := logue.sum_of(m);
        INSERT INTO logue.message SELECT m.* ON CONFLICT DO NOTHING;
        m.pos := m.pos + 1;
    END LOOP;
    RETURN 'ok';
END $$;

CREATE FUNCTION logue.import_values(p_sid bigint, p_names bytea[], p_values text[], p_hashes bytea[],
    p_payloads text[], p_are_labels boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.arriving(p_sid);
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    IF cardinality(p_hashes) > 0 THEN
        PERFORM logue.keep(p_hashes, p_payloads);
    END IF;
    FOR i IN 1..cardinality(p_names) LOOP
        IF p_are_labels THEN
            s := logue.put_label(s, p_names[i], p_values[i]);
        ELSE
            s := logue.put_field(s, p_names[i], p_values[i]);
        END IF;
    END LOOP;
    PERFORM logue.put(s);
    RETURN 'ok';
END $$;

-- `p_rows` is a JSON array of entries; their bytes are in hexadecimal digits.
CREATE FUNCTION logue.import_entries(p_sid bigint, p_rows text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r record;
    e logue.entry;
BEGIN
    PERFORM 1 FROM logue.arriving(p_sid);
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    FOR r IN SELECT * FROM json_to_recordset(p_rows::json) AS x (place bigint, resumes boolean,
        key text, digest text, invocation text, continues text, cancel smallint, accepted bigint,
        work text, kind smallint, replies_from bigint, replies_to bigint, body text, at bigint)
    LOOP
        e.pos := (p_sid << 32) + r.place;
        e.resumes := r.resumes;
        e.key := decode(r.key, 'hex');
        e.digest := decode(r.digest, 'hex');
        e.invocation := decode(r.invocation, 'hex');
        e.continues := decode(r.continues, 'hex');
        e.cancel := r.cancel;
        e.accepted_at := r.accepted;
        e.work := r.work;
        e.kind := r.kind;
        e.replies_from := r.replies_from;
        e.replies_to := r.replies_to;
        e.body := r.body;
        e.at := r.at;
        e.sum := logue.sum_of(e);
        INSERT INTO logue.entry SELECT e.* ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN 'ok';
END $$;

CREATE FUNCTION logue.import_notes(p_sid bigint, p_rows text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r record;
    n logue.note;
BEGIN
    PERFORM 1 FROM logue.arriving(p_sid);
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    FOR r IN SELECT * FROM json_to_recordset(p_rows::json) AS x (invocation text, seq bigint, body text)
    LOOP
        n.sid := p_sid;
        n.invocation := decode(r.invocation, 'hex');
        n.seq := r.seq;
        n.body := r.body;
        n.sum := logue.sum_of(n);
        IF NOT EXISTS (SELECT 1 FROM logue.note o WHERE o.sid = p_sid AND o.seq = n.seq
            AND substr(o.invocation, 1, 1024) = substr(n.invocation, 1, 1024)
            AND o.invocation = n.invocation)
        THEN
            INSERT INTO logue.note SELECT n.*;
        END IF;
    END LOOP;
    RETURN 'ok';
END $$;

-- `p_count` is the number of suspensions that the session has already.
CREATE FUNCTION logue.import_suspension(p_sid bigint, p_count bigint, p_invocation bytea,
    p_signal bytea, p_metadata text, p_status smallint, p_entry bigint, p_record text, p_since bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    w logue.suspension;
BEGIN
    PERFORM 1 FROM logue.arriving(p_sid);
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    IF EXISTS (SELECT 1 FROM logue.latest(p_invocation) o WHERE o.sid <> p_sid) THEN
        RETURN 'waits';
    END IF;
    IF (SELECT count(*) FROM logue.suspension o WHERE o.sid = p_sid) > p_count THEN
        RETURN 'ok';
    END IF;
    w.num := nextval('logue.suspension_num_seq');
    w.sid := p_sid;
    w.invocation := p_invocation;
    w.signal := p_signal;
    w.metadata := p_metadata;
    w.status := p_status;
    w.entry := p_entry;
    w.record := p_record;
    w.since := p_since;
    w.sum := logue.sum_of(w);
    INSERT INTO logue.suspension OVERRIDING SYSTEM VALUE SELECT w.*;
    RETURN 'ok';
END $$;

CREATE FUNCTION logue.import_audits(p_sid bigint, p_rows text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r record;
    a logue.audit;
BEGIN
    PERFORM 1 FROM logue.arriving(p_sid);
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    FOR r IN SELECT * FROM json_to_recordset(p_rows::json)
        AS x (place bigint, invocation text, body text, at bigint)
    LOOP
        a.pos := (p_sid << 32) + r.place;
        a.invocation := decode(r.invocation, 'hex');
        a.body := r.body;
        a.at := r.at;
        a.sum := logue.sum_of(a);
        INSERT INTO logue.audit SELECT a.* ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN 'ok';
END $$;

-- `p_count` is the number of records in quarantine that the session has already.
CREATE FUNCTION logue.import_quarantine(p_sid bigint, p_count bigint, p_record text, p_place bigint,
    p_reason text, p_content text, p_at bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.arriving(p_sid);
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    IF (SELECT count(*) FROM logue.quarantine q WHERE q.session = s.id) = p_count THEN
        INSERT INTO logue.quarantine (session, record, "position", reason, content, at)
            VALUES (s.id, p_record, p_place, p_reason, p_content, p_at);
    END IF;
    RETURN 'ok';
END $$;

-- Removes what an import that failed has written.
CREATE FUNCTION logue.undo_import(p_sid bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.arriving(p_sid);
    IF FOUND THEN
        DELETE FROM logue.quarantine q WHERE q.session = s.id;
        PERFORM logue.remove(s);
    END IF;
END $$;
