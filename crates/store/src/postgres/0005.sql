-- The check of what is stored. One statement sees one moment.

CREATE FUNCTION logue.is_json(body text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    PERFORM body::json;
    RETURN true;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN false;
END $$;

-- Whether bytes are an invocation, a key or a signal.
CREATE FUNCTION logue.is_id(id bytea) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF length(id) = 17 AND get_byte(id, 0) = 255 THEN
        RETURN true;
    END IF;
    PERFORM convert_from(decode(replace(encode(id, 'hex'), '00', '01'), 'hex'), 'UTF8');
    RETURN true;
EXCEPTION WHEN data_exception THEN
    RETURN false;
END $$;

-- Whether a body is a message.
CREATE FUNCTION logue.is_message(body text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT left(body, 1) IN ('u', 'a', 's') OR logue.is_json(body) $$;

-- The rules that a row with a sound checksum breaks, and the rows with another one: of one session, or
-- of all without a number.
CREATE FUNCTION logue.faults(p_sid bigint,
    OUT sid bigint, OUT record text, OUT place bigint, OUT name bytea, OUT problem text)
RETURNS SETOF record LANGUAGE plpgsql STABLE ROWS 10 AS $$
DECLARE
    low bigint := coalesce(p_sid << 32, 0);
    high bigint := coalesce((p_sid << 32) + 4294967295, 9223372036854775807);
    other text := 'the checksum does not match the content';
BEGIN
    RETURN QUERY SELECT s.sid, 'session', NULL::bigint, NULL::bytea, f.problem
        FROM logue.session s, LATERAL (VALUES
            (s.sum IS DISTINCT FROM logue.sum_of(s), other),
            (logue.is_impossible(s), 'has an invalid lease'),
            (s.cursor NOT BETWEEN 0 AND s.entries, s.cursor || ' of ' || s.entries || ' entries are settled'),
            (s.labels <> (SELECT (count(*) << 32) + (coalesce(sum(l.sum), 0) & 4294967295)
                FROM logue.label l WHERE l.sid = s.sid), 'the labels are not those that were stored last'),
            (s.fields <> (SELECT (count(*) << 32) + (coalesce(sum(f.sum), 0) & 4294967295)
                FROM logue.field f WHERE f.sid = s.sid), 'the fields are not those that were stored last')
        ) AS f (is_bad, problem)
        WHERE (p_sid IS NULL OR s.sid = p_sid) AND f.is_bad;

    RETURN QUERY SELECT m.pos >> 32, 'message', m.pos & 4294967295, NULL::bytea,
            CASE WHEN m.sum IS DISTINCT FROM logue.sum_of(m) THEN other
                WHEN m.pos & 4294967295 >= s.seq THEN 'is beyond the end of the history'
                WHEN logue.whole(m.body) IS NULL THEN 'its payload is missing or damaged'
                WHEN NOT logue.is_message(logue.whole(m.body)) THEN 'is invalid JSON' END
        FROM logue.message m LEFT JOIN logue.session s ON s.sid = m.pos >> 32
        WHERE m.pos BETWEEN low AND high AND (m.sum IS DISTINCT FROM logue.sum_of(m)
            OR m.pos & 4294967295 >= s.seq OR logue.is_message(logue.whole(m.body)) IS NOT TRUE);
    RETURN QUERY SELECT s.sid, 'message', n, NULL::bytea, 'is missing'
        FROM logue.session s, LATERAL (SELECT n FROM generate_series(0, least(s.seq, 4294967295) - 1) n
            WHERE NOT EXISTS (SELECT 1 FROM logue.message m WHERE m.pos = (s.sid << 32) + n)
            LIMIT 10000) AS missing (n)
        WHERE (p_sid IS NULL OR s.sid = p_sid)
            AND s.seq <> (SELECT count(*) FROM logue.message m WHERE m.pos >= s.sid << 32
                AND m.pos < (s.sid << 32) + s.seq);

    RETURN QUERY SELECT e.pos >> 32, 'entry', e.pos & 4294967295, NULL::bytea, f.problem
        FROM logue.entry e JOIN logue.session s ON s.sid = e.pos >> 32, LATERAL (SELECT CASE
            WHEN e.sum IS DISTINCT FROM logue.sum_of(e) THEN other
            WHEN NOT (logue.is_id(e.key) AND logue.is_id(e.digest) AND logue.is_id(e.invocation)
                AND logue.is_id(e.continues)) IS NOT DISTINCT FROM true
                THEN 'has an invalid key, digest or invocation'
            WHEN least(e.accepted_at, e.at, e.replies_from, e.replies_to) < 0
                THEN 'has a negative number'
            WHEN (e.pos & 4294967295) NOT BETWEEN 1 AND s.entries THEN 'is beyond the end of the inbox'
            WHEN (e.pos & 4294967295) <= s.cursor AND (e.kind IS NULL OR e.at IS NULL
                OR e.invocation IS NULL OR e.replies_from IS NULL
                OR coalesce(e.replies_to > s.seq, true)) THEN 'is settled without a complete outcome'
            WHEN (e.pos & 4294967295) > s.cursor AND e.kind IS NOT NULL
                THEN 'has an outcome and is not settled'
            WHEN e.kind NOT BETWEEN 0 AND 3 THEN 'has an outcome of an unknown kind'
            WHEN e.cancel NOT BETWEEN 0 AND 1 THEN 'has an unknown kind of cancellation'
            WHEN (e.pos & 4294967295) > s.cursor + 1 AND e.invocation IS NOT NULL
                THEN 'runs and is not the next one'
            WHEN (e.pos & 4294967295) > s.cursor AND e.work IS NULL THEN 'is pending without a payload'
            WHEN NOT logue.is_json(e.work) THEN 'has a payload with invalid JSON'
            WHEN NOT logue.is_json(e.body) THEN 'has an outcome with invalid JSON'
            WHEN EXISTS (SELECT 1 FROM logue.entry o WHERE o.pos >> 32 = s.sid
                AND substr(o.key, 1, 1024) = substr(e.key, 1, 1024) AND o.key = e.key AND o.pos < e.pos)
                THEN 'has the key of an earlier entry'
            END) AS f (problem)
        WHERE e.pos BETWEEN low AND high AND f.problem IS NOT NULL;
    RETURN QUERY SELECT s.sid, 'entry', n, NULL::bytea, 'is missing'
        FROM logue.session s, LATERAL (SELECT n FROM generate_series(1, least(s.entries, 4294967295)) n
            WHERE NOT EXISTS (SELECT 1 FROM logue.entry e WHERE e.pos = (s.sid << 32) + n)
            LIMIT 10000) AS missing (n)
        WHERE (p_sid IS NULL OR s.sid = p_sid)
            AND s.entries <> (SELECT count(*) FROM logue.entry e WHERE e.pos > s.sid << 32
                AND e.pos <= (s.sid << 32) + s.entries);

    RETURN QUERY SELECT n.sid, 'note', n.seq, n.invocation,
            CASE WHEN n.sum IS DISTINCT FROM logue.sum_of(n) THEN other
                WHEN NOT logue.is_id(n.invocation) THEN 'has an invalid invocation'
                ELSE 'is invalid JSON' END
        FROM logue.note n WHERE (p_sid IS NULL OR n.sid = p_sid)
            AND (n.sum IS DISTINCT FROM logue.sum_of(n) OR NOT logue.is_id(n.invocation)
                OR NOT logue.is_json(n.body));
    RETURN QUERY SELECT n.sid, 'note', min(n.seq), n.invocation, 'its journal has gaps'
        FROM logue.note n WHERE p_sid IS NULL OR n.sid = p_sid
        GROUP BY n.sid, n.invocation
        HAVING min(n.seq) <> 0 OR max(n.seq) <> count(*) - 1 OR count(DISTINCT n.seq) <> count(*);

    RETURN QUERY SELECT w.sid, 'suspension', NULL::bigint, w.invocation,
            CASE WHEN w.sum IS DISTINCT FROM logue.sum_of(w) THEN other
                WHEN NOT (logue.is_id(w.invocation) AND logue.is_id(w.signal))
                    THEN 'has an invalid invocation or signal'
                WHEN NOT coalesce(logue.is_json(w.metadata) AND logue.is_json(w.record), true)
                    THEN 'is invalid JSON'
                ELSE 'disagrees with its entry' END
        FROM logue.suspension w WHERE (p_sid IS NULL OR w.sid = p_sid)
            AND (w.sum IS DISTINCT FROM logue.sum_of(w)
                OR NOT (logue.is_id(w.invocation) AND logue.is_id(w.signal))
                OR NOT logue.is_json(w.metadata) OR NOT logue.is_json(w.record)
                OR w.status NOT BETWEEN 0 AND 2 OR (w.status = 0) <> (w.entry IS NULL)
                OR (w.entry IS NOT NULL AND NOT EXISTS (SELECT 1 FROM logue.entry e
                    WHERE e.pos = (w.sid << 32) + w.entry)));

    RETURN QUERY SELECT a.pos >> 32, 'audit', a.pos & 4294967295, NULL::bytea,
            CASE WHEN a.sum IS DISTINCT FROM logue.sum_of(a) THEN other
                WHEN NOT logue.is_id(a.invocation) THEN 'has an invalid invocation'
                ELSE 'is invalid JSON' END
        FROM logue.audit a WHERE a.pos BETWEEN low AND high
            AND (a.sum IS DISTINCT FROM logue.sum_of(a) OR NOT logue.is_id(a.invocation)
                OR NOT logue.is_json(a.body));
    RETURN QUERY SELECT o.sid, 'audit', min(o.n), NULL::bytea, 'is missing'
        FROM (SELECT a.pos >> 32 AS sid, a.pos & 4294967295 AS place,
                row_number() OVER (PARTITION BY a.pos >> 32 ORDER BY a.pos) - 1 AS n
            FROM logue.audit a WHERE a.pos BETWEEN low AND high) AS o
        WHERE o.place <> o.n GROUP BY o.sid;

    RETURN QUERY SELECT f.sid, 'field', NULL::bigint, f.name,
            CASE WHEN f.sum IS DISTINCT FROM logue.sum_of(f) THEN other
                WHEN logue.whole(f.value) IS NULL THEN 'its payload is missing or damaged'
                ELSE 'is invalid JSON' END
        FROM logue.field f WHERE (p_sid IS NULL OR f.sid = p_sid)
            AND (f.sum IS DISTINCT FROM logue.sum_of(f)
                OR logue.is_json(logue.whole(f.value)) IS NOT TRUE OR logue.whole(f.value) IS NULL);
    RETURN QUERY SELECT l.sid, 'label', NULL::bigint, l.name,
            CASE WHEN l.sum IS DISTINCT FROM logue.sum_of(l) THEN other ELSE 'is invalid JSON' END
        FROM logue.label l WHERE (p_sid IS NULL OR l.sid = p_sid)
            AND (l.sum IS DISTINCT FROM logue.sum_of(l) OR NOT logue.is_json(l.value));

    IF p_sid IS NULL THEN
        RETURN QUERY SELECT strays.sid, 'session', NULL::bigint, NULL::bytea,
                'its row is missing, ' || count(*) || ' of its records are there'
            FROM (SELECT m.pos >> 32 AS sid FROM logue.message m
                UNION ALL SELECT e.pos >> 32 FROM logue.entry e
                UNION ALL SELECT a.pos >> 32 FROM logue.audit a
                UNION ALL SELECT n.sid FROM logue.note n
                UNION ALL SELECT w.sid FROM logue.suspension w
                UNION ALL SELECT f.sid FROM logue.field f
                UNION ALL SELECT l.sid FROM logue.label l) AS strays
            WHERE NOT EXISTS (SELECT 1 FROM logue.session s WHERE s.sid = strays.sid)
            GROUP BY strays.sid;
    END IF;
END $$;
