-- The log of events. A row is a batch, which was appended in one step.

CREATE SEQUENCE logue.log_generation;

CREATE TABLE logue.log (
    num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    generation bigint NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    accepted bigint NOT NULL DEFAULT 0,
    settled bigint NOT NULL DEFAULT 0,
    cursor bigint NOT NULL DEFAULT 0,
    removed bigint NOT NULL DEFAULT 0,
    id bytea NOT NULL
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX log_id ON logue.log (substr(id, 1, 1024), logue.id_rest(id));

CREATE TABLE logue.event (
    log bigint NOT NULL,
    -- The number of its last event.
    last bigint NOT NULL,
    at bigint NOT NULL,
    -- The last of its entries.
    top bigint NOT NULL,
    entries bigint[] NOT NULL,
    texts text[] NOT NULL,
    PRIMARY KEY (log, last)
);
CREATE INDEX event_top ON logue.event (log, top);

-- The generation of the numbers of a log. A promoted standby may lack the last events, so that their
-- numbers are given again: the number of its timeline is a part.
CREATE FUNCTION logue.generation(l logue.log) RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT (('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint << 32)
       + l.generation $$;

CREATE FUNCTION logue.forget(p_id bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    l logue.log;
BEGIN
    DELETE FROM logue.log WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id
        RETURNING * INTO l;
    IF FOUND THEN
        DELETE FROM logue.event WHERE log = l.num;
    END IF;
END $$;

-- The epoch that refuses events of a turn under a lease; `NULL` if they may be appended.
--
-- The last events of a turn may come after its commit and the release of its lease, but not after its
-- outcome. The caller has the lock of the log, so that an owner that takes the session over meanwhile
-- appends its own events later.
CREATE FUNCTION logue.event_fence(l logue.log, p_epoch bigint, p_owner bytea, p_entry bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.session
        WHERE substr(id, 1, 1024) = substr(l.id, 1, 1024) AND id = l.id;
    IF l.settled < p_entry AND (
        (s.epoch = p_epoch AND coalesce(s.owner, p_owner) = p_owner)
        OR (s.cursor >= p_entry AND EXISTS (SELECT 1 FROM logue.entry
            WHERE pos = (s.sid << 32) + p_entry AND claimed = p_epoch)))
    THEN
        RETURN NULL;
    END IF;
    RETURN coalesce(s.epoch, 0);
END $$;

-- Appends events. `p_moves` says that the log must be at a position, and gets another one. With an
-- epoch, they are of a turn that runs under this lease, and `fence` is the epoch that refuses them.
CREATE FUNCTION logue.log_append(p_id bytea, p_moves boolean, p_was_accepted bigint,
    p_was_cursor bigint, p_accepted bigint, p_settled bigint, p_cursor bigint, p_entries bigint[],
    p_texts text[], p_epoch bigint, p_owner bytea, p_at bigint, p_again boolean,
    OUT has_moved boolean, OUT fence bigint, OUT generation bigint, OUT seq bigint, OUT accepted bigint,
    OUT settled bigint, OUT cursor bigint)
LANGUAGE plpgsql AS $$
DECLARE
    l logue.log;
    is_there boolean := false;
    own bigint;
BEGIN
    has_moved := true;
    LOOP
        SELECT * INTO l FROM logue.log
            WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        IF NOT p_moves OR p_was_accepted <> 0 OR p_was_cursor <> 0 THEN
            RETURN;
        END IF;
        INSERT INTO logue.log (generation, id) VALUES (nextval('logue.log_generation'), p_id)
            ON CONFLICT DO NOTHING;
    END LOOP;
    IF p_again THEN
        -- Another node may have appended after it.
        SELECT max(e.last) INTO own FROM logue.event e WHERE e.log = l.num AND e.last > l.seq - 4096
            AND e.at = p_at AND e.entries = p_entries AND e.texts = p_texts;
        is_there := own IS NOT NULL;
        is_there := is_there OR (cardinality(p_texts) = 0 AND p_moves
            AND l.accepted = p_accepted AND l.cursor = p_cursor);
    END IF;
    IF NOT is_there AND p_epoch IS NOT NULL THEN
        fence := logue.event_fence(l, p_epoch, p_owner,
            (SELECT max(entry) FROM unnest(p_entries) AS entry));
        IF fence IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    IF NOT is_there THEN
        IF p_moves AND (l.accepted <> p_was_accepted OR l.cursor <> p_was_cursor) THEN
            RETURN;
        END IF;
        l.seq := l.seq + cardinality(p_texts);
        IF p_moves THEN
            l.accepted := p_accepted;
            l.settled := p_settled;
            l.cursor := p_cursor;
        END IF;
        UPDATE logue.log o SET seq = l.seq, accepted = l.accepted, settled = l.settled,
            cursor = l.cursor WHERE o.num = l.num;
        IF cardinality(p_texts) > 0 THEN
            INSERT INTO logue.event VALUES (l.num, l.seq, p_at,
                (SELECT max(entry) FROM unnest(p_entries) AS entry), p_entries, p_texts);
        END IF;
    END IF;
    has_moved := false;
    generation := logue.generation(l);
    -- The number of the last of these events.
    seq := coalesce(own, l.seq);
    accepted := l.accepted;
    settled := l.settled;
    cursor := l.cursor;
END $$;

-- A row with the state of the log, and the events after a number, until there are many or large ones.
CREATE FUNCTION logue.log_since(p_id bytea, p_after bigint, p_limit bigint,
    OUT generation bigint, OUT removed bigint, OUT seq bigint, OUT entry bigint, OUT body text)
RETURNS SETOF record LANGUAGE plpgsql STABLE ROWS 20 AS $$
DECLARE
    l logue.log;
    b logue.event;
    bytes bigint := 0;
    given bigint := 0;
BEGIN
    SELECT * INTO l FROM logue.log
        WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    generation := logue.generation(l);
    removed := l.removed;
    RETURN NEXT;
    FOR b IN SELECT * FROM logue.event e WHERE e.log = l.num AND e.last > p_after ORDER BY e.last LOOP
        FOR i IN 1..cardinality(b.texts) LOOP
            seq := b.last - cardinality(b.texts) + i;
            CONTINUE WHEN seq <= p_after;
            IF given >= p_limit OR bytes >= 65536 THEN
                RETURN;
            END IF;
            entry := b.entries[i];
            body := b.texts[i];
            given := given + 1;
            bytes := bytes + octet_length(body);
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;

-- The last events that begin with one of some texts, the latest first.
CREATE FUNCTION logue.log_latest(p_id bytea, p_beginnings text[], p_limit bigint,
    OUT seq bigint, OUT entry bigint, OUT body text)
RETURNS SETOF record LANGUAGE plpgsql STABLE ROWS 20 AS $$
DECLARE
    l logue.log;
    b logue.event;
    given bigint := 0;
BEGIN
    SELECT * INTO l FROM logue.log
        WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id;
    FOR b IN SELECT * FROM logue.event e WHERE e.log = l.num ORDER BY e.last DESC LOOP
        FOR i IN REVERSE cardinality(b.texts)..1 LOOP
            IF given >= p_limit THEN
                RETURN;
            END IF;
            body := b.texts[i];
            CONTINUE WHEN NOT EXISTS (
                SELECT 1 FROM unnest(p_beginnings) AS beginning WHERE starts_with(body, beginning));
            seq := b.last - cardinality(b.texts) + i;
            entry := b.entries[i];
            given := given + 1;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;

CREATE FUNCTION logue.log_first_after(p_id bytea, p_entry bigint) RETURNS bigint
LANGUAGE sql STABLE AS
$$ SELECT min(e.last - cardinality(e.texts) + u.n)
   FROM logue.log l JOIN logue.event e ON e.log = l.num AND e.top > p_entry,
       LATERAL unnest(e.entries) WITH ORDINALITY AS u (entry, n)
   WHERE substr(l.id, 1, 1024) = substr(p_id, 1, 1024) AND l.id = p_id AND u.entry > p_entry $$;

-- Removes old batches of settled entries from the beginning of each log, at most some.
CREATE FUNCTION logue.log_trim(p_before bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    candidate bigint;
    l logue.log;
    keeps bigint;
    gone bigint;
    upto bigint;
    total bigint := 0;
BEGIN
    FOR candidate IN SELECT g.num FROM logue.log g, LATERAL (
            SELECT e.at, e.top FROM logue.event e WHERE e.log = g.num ORDER BY e.last LIMIT 1) AS first
        WHERE first.at < p_before AND first.top <= g.settled ORDER BY g.num
    LOOP
        EXIT WHEN total >= 4096;
        SELECT * INTO l FROM logue.log g WHERE g.num = candidate FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        SELECT min(e.last) INTO keeps FROM (SELECT * FROM logue.event o WHERE o.log = l.num
            ORDER BY o.last LIMIT 4096) AS e WHERE e.at >= p_before OR e.top > l.settled;
        WITH removed AS (DELETE FROM logue.event e WHERE e.log = l.num AND e.last IN (
                SELECT o.last FROM logue.event o WHERE o.log = l.num AND (keeps IS NULL OR o.last < keeps)
                ORDER BY o.last LIMIT 4096)
            RETURNING e.last, cardinality(e.texts) AS events)
        SELECT max(r.last), coalesce(sum(r.events), 0) INTO upto, gone FROM removed r;
        IF gone > 0 THEN
            UPDATE logue.log g SET removed = upto WHERE g.num = l.num;
            total := total + gone;
        END IF;
    END LOOP;
    RETURN total;
END $$;
