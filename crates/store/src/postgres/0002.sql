-- Sessions and their inboxes. Each function is one operation of the store and so one transaction and
-- one round trip. `status` says what was refused; nothing is changed then. `p_again` says that the
-- answer to the same call was lost, so that its effect may be there.

-- The number of bytes of a text that a lock of its session guards: one lock for each operation, always
-- on the row of the session first.
CREATE FUNCTION logue.locked(p_id bytea) RETURNS SETOF logue.session
LANGUAGE sql VOLATILE ROWS 1 AS
$$ SELECT * FROM logue.session
   WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id FOR NO KEY UPDATE $$;

-- The session, made if it is missing.
CREATE FUNCTION logue.made(p_id bytea, p_now bigint) RETURNS logue.session
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    LOOP
        SELECT * INTO s FROM logue.session
            WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id FOR NO KEY UPDATE;
        IF FOUND THEN
            PERFORM logue.check_here(s);
            RETURN s;
        END IF;
        s := NULL;
        s.sid := nextval('logue.session_number');
        s.id := p_id;
        s.seq := 0;
        s.entries := 0;
        s.cursor := 0;
        s.epoch := coalesce((SELECT value FROM logue.meta WHERE name = 'epochs'), 0);
        s.until := 0;
        s.created_at := p_now;
        s.updated_at := p_now;
        s.fields := 0;
        s.labels := 0;
        s.has_state := false;
        s.sum := logue.sum_of(s);
        INSERT INTO logue.session SELECT s.* ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN s;
        END IF;
    END LOOP;
END $$;

-- Writes the row of a locked session with its checksum, and its lease except the epoch.
CREATE FUNCTION logue.put(s logue.session) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE logue.session SET seq = s.seq, entries = s.entries, cursor = s.cursor,
        updated_at = s.updated_at, fields = s.fields, labels = s.labels, has_state = s.has_state,
        schema_version = s.schema_version, owner = s.owner, until = s.until, sum = logue.sum_of(s)
    WHERE sid = s.sid;
END $$;

-- Writes the row of an entry with its checksum.
CREATE FUNCTION logue.put(e logue.entry) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE logue.entry SET at = e.at, replies_from = e.replies_from, replies_to = e.replies_to,
        claimed = e.claimed, kind = e.kind, cancel = e.cancel, key = e.key, digest = e.digest,
        invocation = e.invocation, work = e.work, body = e.body, sum = logue.sum_of(e)
    WHERE pos = e.pos;
END $$;

-- Whether a lease is one that no program has written.
CREATE FUNCTION logue.is_impossible(s logue.session) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT s.epoch NOT BETWEEN 0 AND 9007199254740992 OR s.until < 0
       OR (s.owner IS NULL AND s.until <> 0) $$;

-- The first damage of what the next turn of a session uses: its row, its entries that are not settled,
-- its labels and fields, and the journal of what runs. `NULL` if it is sound.
CREATE FUNCTION logue.damage(s logue.session) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    base bigint := s.sid << 32;
    found bigint;
    bad bigint;
    running bytea;
    tally bigint;
BEGIN
    IF s.sum IS DISTINCT FROM logue.sum_of(s) OR logue.is_impossible(s) THEN
        RETURN 'its row';
    END IF;
    SELECT count(*), min(CASE WHEN sum IS DISTINCT FROM logue.sum_of(e) OR work IS NULL
        THEN pos - base END) INTO found, bad
        FROM logue.entry e WHERE pos > base + s.cursor AND pos <= base + 4294967295;
    IF bad IS NOT NULL THEN
        RETURN 'entry ' || bad;
    END IF;
    IF found <> s.entries - s.cursor THEN
        SELECT min(n) INTO bad FROM generate_series(s.cursor + 1, s.entries) n
            WHERE NOT EXISTS (SELECT 1 FROM logue.entry WHERE pos = base + n);
        RETURN 'entry ' || coalesce(bad, s.entries + 1) || ' is missing';
    END IF;
    SELECT coalesce(count(*) << 32, 0) + coalesce(sum(l.sum) & 4294967295, 0),
        coalesce(bool_or(l.sum IS DISTINCT FROM logue.sum_of(l)), false)::integer
        INTO tally, bad FROM logue.label l WHERE sid = s.sid;
    IF bad > 0 OR tally <> s.labels THEN
        RETURN 'rows of the table `label`';
    END IF;
    SELECT coalesce(count(*) << 32, 0) + coalesce(sum(f.sum) & 4294967295, 0),
        coalesce(bool_or(f.sum IS DISTINCT FROM logue.sum_of(f)), false)::integer
        INTO tally, bad FROM logue.field f WHERE sid = s.sid;
    IF bad > 0 OR tally <> s.fields THEN
        RETURN 'rows of the table `field`';
    END IF;
    SELECT invocation INTO running FROM logue.entry WHERE pos = base + s.cursor + 1;
    IF running IS NOT NULL AND EXISTS (
        SELECT 1 FROM (SELECT n.sum IS DISTINCT FROM logue.sum_of(n)
                OR n.seq <> row_number() OVER (ORDER BY n.seq) - 1 AS is_bad FROM logue.note n
            WHERE sid = s.sid AND substr(invocation, 1, 1024) = substr(running, 1, 1024)
                AND invocation = running) AS notes WHERE is_bad)
    THEN
        RETURN 'rows of the table `note`';
    END IF;
    RETURN NULL;
END $$;

-- The tally of a session's rows after one was added or changed.
CREATE FUNCTION logue.tallied(tally bigint, old integer, new integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS
$$ SELECT (((tally >> 32) + (old IS NULL)::integer::bigint) << 32)
       + (((tally & 4294967295) - coalesce(old, 0) + new) & 4294967295) $$;

CREATE FUNCTION logue.append_entry(INOUT s logue.session, e logue.entry, p_now bigint)
LANGUAGE plpgsql AS $$
BEGIN
    s.entries := s.entries + 1;
    s.updated_at := greatest(s.updated_at, p_now);
    e.pos := (s.sid << 32) + s.entries;
    e.accepted_at := p_now;
    e.sum := logue.sum_of(e);
    INSERT INTO logue.entry SELECT e.*;
END $$;

CREATE FUNCTION logue.enqueue(p_id bytea, p_work text, p_continues bytea, p_resumes boolean,
    p_key bytea, p_digest bytea, p_retries bigint, p_idle boolean, p_after bigint, p_cancel smallint,
    p_now bigint, p_again boolean,
    OUT status text, OUT entry bigint, OUT is_new boolean, OUT ahead bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session := logue.made(p_id, p_now);
    base bigint := s.sid << 32;
    e logue.entry;
    fresh logue.entry;
    is_known boolean := false;
    sus logue.suspension;
BEGIN
    status := logue.damage(s);
    IF status IS NOT NULL THEN
        RETURN;
    END IF;
    status := 'entry';
    fresh.key := p_key;
    fresh.digest := CASE WHEN p_key IS NOT NULL THEN p_digest END;
    IF p_key IS NOT NULL THEN
        SELECT * INTO e FROM logue.entry WHERE pos >> 32 = s.sid
            AND substr(key, 1, 1024) = substr(p_key, 1, 1024) AND key = p_key;
        is_known := FOUND;
    END IF;
    IF is_known THEN
        entry := e.pos - base;
        ahead := greatest(entry - s.cursor - 1, 0);
        IF e.sum IS DISTINCT FROM logue.sum_of(e) THEN
            status := 'entry ' || entry;
            RETURN;
        END IF;
        IF e.digest <> p_digest THEN
            status := 'other';
            RETURN;
        END IF;
        IF p_retries IS DISTINCT FROM entry OR entry > s.cursor THEN
            is_new := p_again AND e.accepted_at = p_now AND entry > s.cursor AND e.work = p_work;
            RETURN;
        END IF;
    ELSIF p_retries > s.cursor OR (p_retries <> s.entries AND NOT EXISTS (
        SELECT 1 FROM logue.suspension o WHERE o.sid = s.sid AND o.entry = p_retries))
    THEN
        status := 'superseded';
        RETURN;
    END IF;
    IF p_after <> s.cursor OR ((p_idle OR p_after IS NOT NULL) AND s.cursor < s.entries) THEN
        status := 'busy';
        RETURN;
    END IF;
    IF p_cancel IS NOT NULL AND s.cursor < s.entries THEN
        SELECT * INTO e FROM logue.entry WHERE pos = base + s.cursor + 1;
        IF e.invocation IS NOT NULL THEN
            e.cancel := p_cancel;
            PERFORM logue.put(e);
        END IF;
    END IF;
    IF p_retries IS NOT NULL THEN
        SELECT * INTO e FROM logue.entry WHERE pos = base + p_retries;
        fresh.key := e.key;
        fresh.digest := e.digest;
        IF FOUND THEN
            e.key := NULL;
            e.digest := NULL;
            PERFORM logue.put(e);
        END IF;
    END IF;
    fresh.resumes := p_resumes;
    fresh.continues := p_continues;
    fresh.work := p_work;
    s := logue.append_entry(s, fresh, p_now);
    PERFORM logue.put(s);
    entry := s.entries;
    is_new := true;
    ahead := greatest(entry - s.cursor - 1, 0);
    IF p_retries IS NOT NULL THEN
        FOR sus IN SELECT * FROM logue.suspension o WHERE o.sid = s.sid AND o.entry = p_retries LOOP
            sus.entry := enqueue.entry;
            UPDATE logue.suspension o SET entry = sus.entry, sum = logue.sum_of(sus)
                WHERE o.num = sus.num;
        END LOOP;
    END IF;
END $$;

CREATE FUNCTION logue.request_cancel(p_id bytea, p_mode smallint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
    e logue.entry;
BEGIN
    SELECT * INTO s FROM logue.locked(p_id);
    PERFORM logue.check_here(s);
    IF s.sid IS NULL OR s.cursor >= s.entries THEN
        RETURN false;
    END IF;
    SELECT * INTO e FROM logue.entry WHERE pos = (s.sid << 32) + s.cursor + 1;
    IF e.invocation IS NULL THEN
        RETURN false;
    END IF;
    IF e.cancel IS DISTINCT FROM p_mode THEN
        e.cancel := p_mode;
        PERFORM logue.put(e);
    END IF;
    RETURN true;
END $$;

-- The name of the clock of an owner: what follows the last `@`, up to a `/`.
CREATE FUNCTION logue.clock_of(owner bytea) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(substring(encode(owner, 'escape') FROM '@([^@/]*)[^@]*$'), '') $$;

-- The name of the holder of a lease: an owner without its acquisition, which a `#` begins and the clock
-- ends.
CREATE FUNCTION logue.holder_of(owner bytea) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN position('@'::bytea IN owner) = 0
       THEN regexp_replace(encode(owner, 'escape'), '#[^#]*$', '')
       ELSE regexp_replace(encode(owner, 'escape'), '#[^#]*(@[^@]*)$', '\1') END $$;

-- Whether a lease keeps a session from an owner. Without `p_now` the time is that of the database, and all
-- owners share it; with it, times of owners with different clocks are not compared.
CREATE FUNCTION logue.is_held(s logue.session, p_owner bytea, p_now bigint, p_time bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(s.owner <> p_owner AND logue.holder_of(s.owner) <> logue.holder_of(p_owner)
       AND (p_time < s.until OR (p_now IS NOT NULL
           AND logue.clock_of(s.owner) <> logue.clock_of(p_owner))), false) $$;

-- The end of a lease.
CREATE FUNCTION logue.lease_end(p_time bigint, p_ttl bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN p_time > 9223372036854775807 - p_ttl THEN 9223372036854775807
       ELSE p_time + p_ttl END $$;

-- Lets the transaction be confirmed before it is on the disk. The next flush of any transaction brings it
-- there, and until then nothing that is stored or was answered depends on it.
CREATE FUNCTION logue.defer_flush() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- Takes a session.
CREATE FUNCTION logue.acquire(p_id bytea, p_owner bytea, p_gone bytea, p_end bigint, p_now bigint,
    p_ttl bigint,
    OUT status text, OUT epoch bigint, OUT holder bytea, OUT until bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
    time bigint;
BEGIN
    SELECT * INTO s FROM logue.session o
        WHERE substr(o.id, 1, 1024) = substr(p_id, 1, 1024) AND o.id = p_id;
    -- One that is held is not locked, so that waiting owners do not wait for each other.
    FOR attempt IN 1..2 LOOP
        IF s.sid IS NULL THEN
            status := 'missing';
            RETURN;
        END IF;
        PERFORM logue.check_here(s);
        time := coalesce(p_now, logue.server_time());
        IF logue.is_held(s, p_owner, p_now, time)
            AND NOT coalesce(p_gone = s.owner AND p_end = s.until, false)
        THEN
            status := 'held';
            holder := s.owner;
            until := s.until;
            RETURN;
        END IF;
        IF attempt = 1 THEN
            SELECT * INTO s FROM logue.locked(p_id);
        END IF;
    END LOOP;
    status := logue.damage(s);
    IF status IS NOT NULL THEN
        RETURN;
    END IF;
    status := 'lease';
    epoch := s.epoch + 1;
    until := logue.lease_end(time, p_ttl);
    UPDATE logue.session o SET epoch = acquire.epoch, owner = p_owner, until = acquire.until
        WHERE o.sid = s.sid;
END $$;

CREATE FUNCTION logue.renew(p_id bytea, p_epoch bigint, p_owner bytea, p_now bigint, p_ttl bigint,
    OUT status text, OUT current bigint, OUT cancel smallint)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
    time bigint;
BEGIN
    SELECT * INTO s FROM logue.locked(p_id);
    IF NOT FOUND THEN
        status := 'missing';
        RETURN;
    END IF;
    current := s.epoch;
    IF s.epoch <> p_epoch OR s.owner IS DISTINCT FROM p_owner THEN
        status := 'fenced';
        RETURN;
    END IF;
    time := coalesce(p_now, logue.server_time());
    PERFORM logue.defer_flush();
    UPDATE logue.session SET until = logue.lease_end(time, p_ttl) WHERE sid = s.sid;
    status := 'ok';
    IF s.cursor < s.entries THEN
        SELECT e.cancel INTO cancel FROM logue.entry e WHERE pos = (s.sid << 32) + s.cursor + 1;
        IF NOT FOUND THEN
            status := 'entry ' || s.cursor + 1 || ' is missing';
        END IF;
    END IF;
END $$;

CREATE FUNCTION logue.release(p_id bytea, p_epoch bigint, p_owner bytea) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM logue.defer_flush();
    UPDATE logue.session SET owner = NULL, until = 0
        WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id AND epoch = p_epoch
            AND owner = p_owner;
END $$;

-- Marks the next entry of a locked session as running under its lease.
CREATE FUNCTION logue.claim(s logue.session, p_invocation bytea, p_again boolean,
    OUT status text, OUT entry bigint, OUT work text, OUT key bytea, OUT invocation bytea,
    OUT accepted_at bigint, OUT cancel smallint, OUT recovered boolean, OUT notes text[])
LANGUAGE plpgsql AS $$
DECLARE
    e logue.entry;
BEGIN
    entry := s.cursor + 1;
    SELECT * INTO e FROM logue.entry o WHERE o.pos = (s.sid << 32) + claim.entry;
    IF NOT FOUND THEN
        status := 'entry ' || entry || ' is missing';
        RETURN;
    END IF;
    IF e.sum IS DISTINCT FROM logue.sum_of(e) THEN
        status := 'entry ' || entry;
        RETURN;
    END IF;
    status := 'entry';
    recovered := e.invocation IS NOT NULL AND NOT (p_again AND e.claimed IS NOT DISTINCT FROM s.epoch);
    IF e.invocation IS NULL THEN
        e.invocation := coalesce(e.continues, p_invocation);
        e.claimed := s.epoch;
        PERFORM logue.put(e);
    ELSIF recovered THEN
        SELECT array_agg(n.body ORDER BY n.seq) INTO notes FROM logue.note n
            WHERE n.sid = s.sid AND substr(n.invocation, 1, 1024) = substr(e.invocation, 1, 1024)
                AND n.invocation = e.invocation;
        UPDATE logue.entry o SET claimed = s.epoch WHERE o.pos = e.pos;
    END IF;
    work := e.work;
    key := e.key;
    invocation := e.invocation;
    accepted_at := e.accepted_at;
    cancel := e.cancel;
END $$;

CREATE FUNCTION logue.claim_next(p_id bytea, p_epoch bigint, p_owner bytea, p_invocation bytea,
    p_again boolean,
    OUT status text, OUT current bigint, OUT entry bigint, OUT work text, OUT key bytea,
    OUT invocation bytea, OUT accepted_at bigint, OUT cancel smallint, OUT recovered boolean,
    OUT notes text[])
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
    IF s.epoch <> p_epoch OR s.owner IS DISTINCT FROM p_owner THEN
        status := 'fenced';
        RETURN;
    END IF;
    IF s.cursor >= s.entries THEN
        status := 'none';
        RETURN;
    END IF;
    -- Flushed: without its mark, an owner with a valid lease could not end the turn.
    SELECT c.status, c.entry, c.work, c.key, c.invocation, c.accepted_at, c.cancel, c.recovered, c.notes
        INTO status, entry, work, key, invocation, accepted_at, cancel, recovered, notes
        FROM logue.claim(s, p_invocation, p_again) c;
END $$;

-- Takes a session and claims its next entry, if there is one. The answer has the session under the lease.
-- Each acquisition has an owner of its own, so that a repetition finds its lease.
CREATE FUNCTION logue.begin(p_id bytea, p_owner bytea, p_invocation bytea, p_now bigint, p_ttl bigint,
    p_again boolean,
    OUT status text, OUT id bytea, OUT seq bigint, OUT entries bigint, OUT cursor bigint,
    OUT epoch bigint, OUT has_state boolean, OUT schema_version bytea, OUT created_at bigint,
    OUT updated_at bigint, OUT owner bytea, OUT until bigint, OUT field_names bytea[],
    OUT field_values text[], OUT label_names bytea[], OUT label_values text[],
    OUT entry bigint, OUT work text, OUT key bytea, OUT invocation bytea, OUT accepted_at bigint,
    OUT cancel smallint, OUT recovered boolean, OUT notes text[])
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
    time bigint;
BEGIN
    SELECT * INTO s FROM logue.session o
        WHERE substr(o.id, 1, 1024) = substr(p_id, 1, 1024) AND o.id = p_id;
    -- Nothing is locked without need, as in `acquire`.
    FOR attempt IN 1..2 LOOP
        IF s.sid IS NULL THEN
            status := 'missing';
            RETURN;
        END IF;
        PERFORM logue.check_here(s);
        time := coalesce(p_now, logue.server_time());
        IF logue.is_held(s, p_owner, p_now, time) THEN
            status := 'held';
            owner := s.owner;
            until := s.until;
            RETURN;
        END IF;
        IF s.cursor >= s.entries THEN
            status := 'none';
            RETURN;
        END IF;
        IF attempt = 1 THEN
            SELECT * INTO s FROM logue.locked(p_id);
        END IF;
    END LOOP;
    status := logue.damage(s);
    IF status IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM logue.defer_flush();
    IF NOT p_again OR s.owner IS DISTINCT FROM p_owner THEN
        s.epoch := s.epoch + 1;
    END IF;
    s.owner := p_owner;
    s.until := logue.lease_end(time, p_ttl);
    SELECT c.status, c.entry, c.work, c.key, c.invocation, c.accepted_at, c.cancel, c.recovered, c.notes
        INTO status, entry, work, key, invocation, accepted_at, cancel, recovered, notes
        FROM logue.claim(s, p_invocation, p_again) c;
    IF status <> 'entry' THEN
        RETURN;
    END IF;
    UPDATE logue.session o SET epoch = s.epoch, owner = s.owner, until = s.until WHERE o.sid = s.sid;
    id := s.id;
    seq := s.seq;
    entries := s.entries;
    cursor := s.cursor;
    epoch := s.epoch;
    has_state := s.has_state;
    schema_version := s.schema_version;
    created_at := s.created_at;
    updated_at := s.updated_at;
    owner := s.owner;
    until := s.until;
    -- A number of 0 says that there are none.
    IF s.fields <> 0 THEN
        SELECT array_agg(f.name ORDER BY f.name), array_agg(logue.whole(f.value) ORDER BY f.name)
            INTO field_names, field_values FROM logue.field f WHERE f.sid = s.sid;
    END IF;
    IF s.labels <> 0 THEN
        SELECT array_agg(l.name ORDER BY l.name), array_agg(l.value ORDER BY l.name)
            INTO label_names, label_values FROM logue.label l WHERE l.sid = s.sid;
    END IF;
END $$;

-- Adds notes. `p_from` is where the journal ended when the call was made, if that is known.
CREATE FUNCTION logue.journal(p_id bytea, p_epoch bigint, p_owner bytea, p_invocation bytea,
    p_notes text[], p_from bigint, p_again boolean,
    OUT status text, OUT current bigint, OUT next bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
    running bytea;
    n logue.note;
BEGIN
    SELECT * INTO s FROM logue.locked(p_id);
    IF NOT FOUND THEN
        status := 'missing';
        RETURN;
    END IF;
    current := s.epoch;
    IF s.epoch <> p_epoch OR s.owner IS DISTINCT FROM p_owner THEN
        status := 'fenced';
        RETURN;
    END IF;
    SELECT o.invocation INTO running FROM logue.entry o
        WHERE o.pos = (s.sid << 32) + s.cursor + 1 AND s.cursor < s.entries;
    IF running IS DISTINCT FROM p_invocation THEN
        status := 'stopped';
        RETURN;
    END IF;
    SELECT coalesce(max(o.seq) + 1, 0) INTO next FROM logue.note o
        WHERE o.sid = s.sid AND substr(o.invocation, 1, 1024) = substr(p_invocation, 1, 1024)
            AND o.invocation = p_invocation;
    status := 'ok';
    IF p_again AND EXISTS (
        SELECT 1 FROM generate_series(p_from, next - cardinality(p_notes)) AS start
        WHERE p_notes = (SELECT array_agg(o.body ORDER BY o.seq) FROM logue.note o
            WHERE o.sid = s.sid AND substr(o.invocation, 1, 1024) = substr(p_invocation, 1, 1024)
                AND o.invocation = p_invocation
                AND o.seq BETWEEN start AND start + cardinality(p_notes) - 1))
    THEN
        RETURN;
    END IF;
    n.sid := s.sid;
    n.invocation := p_invocation;
    FOREACH n.body IN ARRAY p_notes LOOP
        n.seq := next;
        n.sum := logue.sum_of(n);
        INSERT INTO logue.note SELECT n.*;
        next := next + 1;
    END LOOP;
END $$;
