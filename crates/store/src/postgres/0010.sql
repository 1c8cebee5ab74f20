-- Steps of a turn at a lower cost. See the earlier steps.

-- The row of a session, locked. A function in the language SQL with a lock is planned anew by each
-- statement that calls it, and this one is not.
CREATE OR REPLACE FUNCTION logue.locked(p_id bytea) RETURNS SETOF logue.session
LANGUAGE plpgsql VOLATILE ROWS 1 AS $$
BEGIN
    RETURN QUERY SELECT * FROM logue.session
        WHERE substr(id, 1, 1024) = substr(p_id, 1, 1024) AND id = p_id FOR NO KEY UPDATE;
END $$;

-- Appends messages in the middle of a turn, as `commit` does when nothing else changes. `false` means that
-- nothing was changed; `commit` then returns the cause.
CREATE FUNCTION logue.append(p_id bytea, p_epoch bigint, p_owner bytea, p_invocation bytea,
    p_expected bigint, p_messages text[], p_now bigint, p_again boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    m logue.message;
    following bigint := p_expected + cardinality(p_messages);
BEGIN
    IF p_again AND EXISTS (SELECT 1 FROM logue.locked(p_id) s
        WHERE logue.has_happened(s, p_invocation, p_expected, p_messages, 0::smallint, NULL, p_now))
    THEN
        RETURN true;
    END IF;
    UPDATE logue.session s SET seq = following, has_state = true,
        updated_at = greatest(s.updated_at, p_now),
        -- As `sum_of`, of the new row.
        sum = logue.row_sum(record_send(ROW(s.sid, following, s.entries, s.cursor, s.created_at,
            greatest(s.updated_at, p_now), s.fields, s.labels, true, s.id, s.schema_version)))
        WHERE substr(s.id, 1, 1024) = substr(p_id, 1, 1024) AND s.id = p_id
            AND s.epoch = p_epoch AND s.owner = p_owner AND s.seq = p_expected
            AND s.sum = logue.sum_of(s)
            AND (s.cursor = s.entries OR EXISTS (SELECT 1 FROM logue.entry e
                WHERE e.pos = (s.sid << 32) + s.cursor + 1 AND e.invocation = p_invocation
                    AND e.sum = logue.sum_of(e)))
        RETURNING (s.sid << 32) + p_expected INTO m.pos;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    FOREACH m.body IN ARRAY p_messages LOOP
        INSERT INTO logue.message (pos, sum, body) VALUES (m.pos, logue.sum_of(m), m.body);
        m.pos := m.pos + 1;
    END LOOP;
    RETURN true;
END $$;
