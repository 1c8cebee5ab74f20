-- Notes that arrive late, and the question of an owner to the log. See the earlier steps.

-- Adds notes. `p_from` is where the journal ended when the call was made, if that is known. An owner adds
-- one batch after the other, so that an equal batch at that place is this one: it was sent again, and its
-- first statement waited in the server meanwhile.
CREATE OR REPLACE FUNCTION logue.journal(p_id bytea, p_epoch bigint, p_owner bytea, p_invocation bytea,
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
    IF p_from < next AND EXISTS (
        SELECT 1 FROM generate_series(p_from, CASE WHEN p_again THEN next - cardinality(p_notes)
            ELSE p_from END) AS start
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

-- The epoch that refuses events of a turn under a lease; `NULL` if they may be appended. Without an entry,
-- the owner of the lease asks whether it still has the session: what others append is in the log then, as
-- the caller has its lock.
CREATE OR REPLACE FUNCTION logue.event_fence(l logue.log, p_epoch bigint, p_owner bytea, p_entry bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    p_entry := coalesce(p_entry, l.settled + 1);
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
