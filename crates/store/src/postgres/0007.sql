-- Repair: damaged rows are copied to the quarantine, and placeholders take the places that others
-- refer to. What is sound stays.

-- A member of a message, if the message can be read and has it as a text.
CREATE FUNCTION logue.member(body text, name text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF left(body, 1) IN ('u', 'a', 's') THEN
        RETURN CASE name WHEN 'role' THEN
            CASE left(body, 1) WHEN 'u' THEN 'user' WHEN 'a' THEN 'assistant' ELSE 'system' END END;
    END IF;
    RETURN CASE WHEN json_typeof(body::json -> name) = 'string' THEN body::json ->> name END;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

-- The ids of the calls of a message.
CREATE FUNCTION logue.calls(body text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN coalesce((SELECT array_agg(call ->> 'id')
        FROM json_array_elements(body::json -> 'tool_calls') AS call WHERE call ->> 'id' IS NOT NULL), '{}');
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN '{}';
END $$;

CREATE FUNCTION logue.body_at(p_pos bigint) RETURNS text LANGUAGE sql STABLE AS
$$ SELECT logue.whole(m.body) FROM logue.message m WHERE m.pos = p_pos $$;

-- The outcome of a turn of which a record is lost. No retry can help.
CREATE FUNCTION logue.lost(p_diagnostic text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT json_build_object('bucket', 'session_terminating', 'category', 'session_load_failed',
       'diagnostic', p_diagnostic, 'reply', 'A stored record of this turn was damaged.')::text $$;

-- Puts a message that states the loss at a place. The history stays one that a model accepts: calls
-- have results, results have calls, and the first message is not an answer.
CREATE FUNCTION logue.put_placeholder(s logue.session, p_place bigint, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    base bigint := s.sid << 32;
    note text := '(this message was damaged in the store and is in quarantine)';
    own text := logue.body_at(base + p_place);
    role text := logue.member(own, 'role');
    call text := CASE WHEN role = 'tool' THEN logue.member(own, 'tool_call_id') END;
    answered text[] := '{}';
    others text[];
    other text;
    m logue.message;
    e logue.entry;
BEGIN
    FOR place IN p_place + 1..s.seq - 1 LOOP
        other := logue.body_at(base + place);
        EXIT WHEN logue.member(other, 'role') IS DISTINCT FROM 'tool';
        answered := answered || coalesce(logue.member(other, 'tool_call_id'), '');
    END LOOP;
    others := answered;
    IF call IS NULL THEN
        FOR place IN REVERSE p_place - 1..0 LOOP
            other := logue.body_at(base + place);
            IF logue.member(other, 'tool_call_id') IS NOT NULL THEN
                others := others || logue.member(other, 'tool_call_id');
                CONTINUE;
            END IF;
            SELECT id INTO call FROM unnest(logue.calls(other)) WITH ORDINALITY AS made (id, n)
                WHERE NOT id = ANY (others) ORDER BY n LIMIT 1;
            EXIT;
        END LOOP;
    END IF;
    IF role IS NULL OR role NOT IN ('system', 'user', 'assistant') THEN
        role := CASE WHEN p_place = 0 THEN 'user'
            WHEN logue.member(logue.body_at(base + p_place - 1), 'role') = 'assistant'
                AND logue.member(logue.body_at(base + p_place + 1), 'role') = 'assistant' THEN 'user'
            ELSE 'assistant' END;
    END IF;
    m.pos := base + p_place;
    m.body := CASE
        WHEN call IS NOT NULL
            THEN json_build_object('role', 'tool', 'content', note, 'tool_call_id', call)
        WHEN answered = '{}' THEN json_build_object('role', role, 'content', note)
        ELSE json_build_object('role', 'assistant', 'content', note, 'tool_calls', (
            SELECT json_agg(json_build_object('id', id, 'name', 'unknown', 'arguments', '{}'::json,
                'arguments_text', '{}')) FROM unnest(answered) AS id)) END::text;
    m.sum := logue.sum_of(m);
    INSERT INTO logue.message SELECT m.* ON CONFLICT (pos) DO UPDATE SET body = m.body, sum = m.sum;
    -- A turn whose answer is replaced has failed: its sender must not get a placeholder.
    FOR e IN SELECT * FROM logue.entry WHERE pos > base AND pos <= base + s.cursor AND kind = 0
        AND replies_from <= p_place AND replies_to > p_place
    LOOP
        e.kind := 1;
        e.body := logue.lost('the stored answer was damaged and is in quarantine');
        e.at := coalesce(e.at, p_now);
        PERFORM logue.put(e);
    END LOOP;
END $$;

-- Ends a damaged entry as failed, unless it waits for its turn. A running one ends too: without its
-- invocation nothing says which calls it had begun.
CREATE FUNCTION logue.put_failed(s logue.session, p_place bigint, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    base bigint := s.sid << 32;
    e logue.entry;
BEGIN
    SELECT * INTO e FROM logue.entry WHERE pos = base + p_place;
    IF NOT FOUND THEN
        e.pos := base + p_place;
        e.accepted_at := p_now;
        e.resumes := EXISTS (SELECT 1 FROM logue.suspension WHERE sid = s.sid AND entry = p_place);
        e.sum := logue.sum_of(e);
        INSERT INTO logue.entry SELECT e.*;
        -- The journal of no other entry is that of the missing one, which had begun.
        IF p_place = s.cursor + 1 THEN
            SELECT n.invocation INTO e.invocation FROM logue.note n WHERE n.sid = s.sid
                AND NOT EXISTS (SELECT 1 FROM logue.entry o WHERE o.pos BETWEEN base AND base + 4294967295
                    AND o.invocation = n.invocation) LIMIT 1;
        END IF;
    END IF;
    IF NOT logue.is_id(e.key) OR EXISTS (SELECT 1 FROM logue.entry o WHERE o.pos >> 32 = s.sid
        AND substr(o.key, 1, 1024) = substr(e.key, 1, 1024) AND o.key = e.key AND o.pos < e.pos)
    THEN
        e.key := NULL;
    END IF;
    e.digest := CASE WHEN e.key IS NOT NULL AND logue.is_id(e.digest) THEN e.digest END;
    e.accepted_at := greatest(e.accepted_at, 0);
    e.cancel := NULL;
    e.claimed := NULL;
    IF p_place <= s.cursor OR (p_place = s.cursor + 1 AND e.invocation IS NOT NULL) THEN
        e.kind := 1;
        e.replies_from := s.seq;
        e.replies_to := s.seq;
        e.invocation := CASE WHEN logue.is_id(e.invocation) THEN e.invocation END;
        e.invocation := coalesce(e.invocation, 'unknown');
        e.continues := CASE WHEN logue.is_id(e.continues) THEN e.continues END;
        e.work := CASE WHEN logue.is_json(e.work) THEN e.work END;
        e.body := logue.lost('the stored entry was damaged and is in quarantine');
        e.at := p_now;
    ELSE
        e.kind := NULL;
        e.replies_from := NULL;
        e.replies_to := NULL;
        e.invocation := NULL;
        e.continues := NULL;
        e.resumes := false;
        e.work := '{"kind":"quarantined"}';
        e.body := NULL;
        e.at := NULL;
    END IF;
    UPDATE logue.entry SET accepted_at = e.accepted_at, resumes = e.resumes, continues = e.continues
        WHERE pos = e.pos;
    PERFORM logue.put(e);
END $$;

-- Makes every tool of a session ask, because a rule or a trace was lost.
CREATE FUNCTION logue.mark_lost(p_sid bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
BEGIN
    SELECT * INTO s FROM logue.session WHERE sid = p_sid;
    s := logue.put_label(s, 'labels_lost', 'true');
END $$;

-- Sets the numbers of a session from its rows, and its checksum. The rows of a damaged session say
-- what there is; otherwise its row does.
CREATE FUNCTION logue.count_again(p_sid bigint, p_is_damaged boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
    base bigint := p_sid << 32;
BEGIN
    SELECT * INTO s FROM logue.session WHERE sid = p_sid;
    IF p_is_damaged THEN
        SELECT coalesce(max(pos) + 1 - base, 0) INTO s.seq FROM logue.message
            WHERE pos BETWEEN base AND base + 4294967295;
        SELECT coalesce(max(pos) - base, 0), coalesce(max(pos) FILTER (WHERE kind IS NOT NULL) - base, 0)
            INTO s.entries, s.cursor FROM logue.entry WHERE pos BETWEEN base AND base + 4294967295;
        s.has_state := s.has_state OR s.seq > 0;
        s.created_at := greatest(s.created_at, 0);
        s.updated_at := greatest(s.updated_at, 0);
    ELSE
        -- An entry that was running may have ended as failed.
        SELECT greatest(s.cursor, coalesce(max(pos) - base, 0)) INTO s.cursor FROM logue.entry
            WHERE pos BETWEEN base AND base + s.entries AND kind IS NOT NULL;
    END IF;
    SELECT (count(*) << 32) + (coalesce(sum(f.sum), 0) & 4294967295) INTO s.fields
        FROM logue.field f WHERE f.sid = p_sid;
    SELECT (count(*) << 32) + (coalesce(sum(l.sum), 0) & 4294967295) INTO s.labels
        FROM logue.label l WHERE l.sid = p_sid;
    IF logue.is_impossible(s) THEN
        s.owner := NULL;
        s.until := 0;
        UPDATE logue.session SET epoch =
            CASE WHEN epoch BETWEEN 0 AND 9007199254740991 THEN epoch + 1 ELSE 1099511627776 END
            WHERE sid = p_sid;
    END IF;
    UPDATE logue.session SET created_at = s.created_at WHERE sid = p_sid;
    PERFORM logue.put(s);
END $$;

-- Copies a record to the quarantine and puts a placeholder, or removes it. Returns whether it was there.
CREATE FUNCTION logue.set_aside(s logue.session, p_record text, p_place bigint, p_name bytea,
    p_problem text, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    base bigint := s.sid << 32;
    place bigint := base + p_place;
    other text := '{"quarantined":true}';
    content text;
    missing bigint;
    n logue.note;
    a logue.audit;
BEGIN
    content := CASE p_record
        WHEN 'session' THEN (SELECT row_to_json(o)::text FROM logue.session o WHERE o.sid = s.sid)
        WHEN 'message' THEN (SELECT row_to_json(o)::text FROM logue.message o WHERE o.pos = place)
        WHEN 'entry' THEN (SELECT row_to_json(o)::text FROM logue.entry o WHERE o.pos = place)
        WHEN 'audit' THEN (SELECT row_to_json(o)::text FROM logue.audit o WHERE o.pos = place)
        WHEN 'note' THEN (SELECT row_to_json(o)::text FROM logue.note o
            WHERE o.sid = s.sid AND o.invocation = p_name AND o.seq = p_place LIMIT 1)
        WHEN 'suspension' THEN (SELECT json_agg(o)::text FROM logue.suspension o
            WHERE o.sid = s.sid AND o.invocation = p_name)
        WHEN 'field' THEN (SELECT json_agg(o)::text FROM logue.field o
            WHERE o.sid = s.sid AND o.name = p_name)
        WHEN 'label' THEN (SELECT json_agg(o)::text FROM logue.label o
            WHERE o.sid = s.sid AND o.name = p_name) END;
    IF content IS NOT NULL THEN
        INSERT INTO logue.quarantine (session, record, position, reason, content, at)
            VALUES (s.id, p_record, p_place, p_problem, content, p_now);
    END IF;
    IF p_record = 'message' THEN
        IF p_place >= s.seq THEN
            DELETE FROM logue.message WHERE pos = place;
        ELSE
            PERFORM logue.put_placeholder(s, p_place, p_now);
        END IF;
    ELSIF p_record = 'entry' THEN
        IF p_place NOT BETWEEN 1 AND s.entries THEN
            DELETE FROM logue.entry WHERE pos = place;
        ELSE
            PERFORM logue.put_failed(s, p_place, p_now);
        END IF;
        PERFORM logue.mark_lost(s.sid);
    ELSIF p_record = 'note' THEN
        PERFORM logue.mark_lost(s.sid);
        IF content IS NOT NULL AND NOT logue.is_id(p_name) THEN
            DELETE FROM logue.note WHERE sid = s.sid AND invocation = p_name AND seq = p_place;
        ELSE
            -- A turn with such a note fails, because a call that had begun must not run again.
            DELETE FROM logue.note WHERE sid = s.sid AND invocation = p_name AND seq = p_place;
            n.sid := s.sid;
            n.invocation := p_name;
            n.body := other;
            FOR missing IN SELECT i FROM generate_series(0, (SELECT least(greatest(max(o.seq),
                    least(p_place, 100000)), 100000) FROM logue.note o
                    WHERE o.sid = s.sid AND o.invocation = p_name)) i
                WHERE NOT EXISTS (SELECT 1 FROM logue.note o
                    WHERE o.sid = s.sid AND o.invocation = p_name AND o.seq = i)
            LOOP
                n.seq := missing;
                n.sum := logue.sum_of(n);
                INSERT INTO logue.note SELECT n.*;
            END LOOP;
            IF NOT EXISTS (SELECT 1 FROM logue.note o WHERE o.sid = s.sid AND o.invocation = p_name) THEN
                n.seq := 0;
                n.sum := logue.sum_of(n);
                INSERT INTO logue.note SELECT n.*;
            END IF;
        END IF;
    ELSIF p_record = 'audit' THEN
        SELECT * INTO a FROM logue.audit WHERE pos = place;
        a.pos := place;
        a.at := greatest(coalesce(a.at, p_now), 0);
        a.invocation := CASE WHEN logue.is_id(a.invocation) THEN a.invocation ELSE 'unknown' END;
        a.body := other;
        a.sum := logue.sum_of(a);
        INSERT INTO logue.audit SELECT a.* ON CONFLICT (pos)
            DO UPDATE SET at = a.at, invocation = a.invocation, body = a.body, sum = a.sum;
    ELSIF p_record = 'suspension' THEN
        DELETE FROM logue.suspension WHERE sid = s.sid AND invocation = p_name;
    ELSIF p_record = 'field' THEN
        DELETE FROM logue.field WHERE sid = s.sid AND name = p_name;
    ELSIF p_record = 'label' THEN
        DELETE FROM logue.label WHERE sid = s.sid AND name = p_name;
        PERFORM logue.mark_lost(s.sid);
    END IF;
    RETURN content IS NOT NULL;
END $$;

-- Repairs everything. Others wait until it is done.
CREATE FUNCTION logue.repair(p_now bigint,
    OUT is_lost boolean, OUT id bytea, OUT record text, OUT place bigint, OUT name bytea,
    OUT problem text)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
    f record;
    s logue.session;
    touched bigint[];
    broken bigint[];
BEGIN
    LOCK TABLE logue.session IN EXCLUSIVE MODE;
    FOR pass IN 1..4 LOOP
        touched := '{}';
        broken := '{}';
        FOR f IN SELECT * FROM logue.faults(NULL) o ORDER BY o.record = 'session' DESC, o.sid, o.place LOOP
            SELECT * INTO s FROM logue.session o WHERE o.sid = f.sid;
            record := f.record;
            place := f.place;
            name := f.name;
            problem := f.problem;
            IF NOT FOUND THEN
                -- Its rows are kept under a name that no other session has.
                s.sid := f.sid;
                s.id := convert_to('recovered-' || f.sid || '-'
                    || substr(md5(random()::text || p_now), 1, 8), 'UTF8');
                INSERT INTO logue.session (sid, id, epoch, created_at, updated_at, has_state)
                    VALUES (s.sid, s.id, coalesce((SELECT value FROM logue.meta m
                        WHERE m.name = 'epochs'), 0), p_now, p_now, true);
                is_lost := true;
                problem := 'its row is missing; what is left is kept as `'
                    || convert_from(s.id, 'UTF8') || '`';
                id := NULL;
                RETURN NEXT;
                PERFORM logue.count_again(s.sid, true);
                touched := touched || s.sid;
                CONTINUE;
            END IF;
            id := s.id;
            is_lost := NOT logue.set_aside(s, f.record, f.place, f.name, f.problem, p_now);
            IF f.record = 'session' THEN
                PERFORM logue.count_again(s.sid, s.sum IS DISTINCT FROM logue.sum_of(s)
                    OR s.cursor NOT BETWEEN 0 AND s.entries);
                IF f.problem LIKE 'the labels %' THEN
                    PERFORM logue.mark_lost(s.sid);
                END IF;
                problem := f.problem || '; its numbers were counted again';
            END IF;
            RETURN NEXT;
            touched := touched || s.sid;
            PERFORM logue.count_again(s.sid, false);
        END LOOP;
        EXIT WHEN touched = '{}';
    END LOOP;
    PERFORM logue.collect(NULL);
END $$;

-- Moves a record that is invalid for the caller to the quarantine; `false` if there is none.
CREATE FUNCTION logue.quarantine_record(p_id bytea, p_record text, p_place bigint, p_name bytea,
    p_problem text, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    s logue.session;
    base bigint;
    is_there boolean;
BEGIN
    SELECT * INTO s FROM logue.locked(p_id);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    base := s.sid << 32;
    is_there := coalesce(CASE p_record
        WHEN 'message' THEN EXISTS (SELECT 1 FROM logue.message WHERE pos = base + p_place)
        WHEN 'entry' THEN EXISTS (SELECT 1 FROM logue.entry WHERE pos = base + p_place)
        WHEN 'note' THEN EXISTS (SELECT 1 FROM logue.note
            WHERE sid = s.sid AND invocation = p_name AND seq = p_place)
        WHEN 'suspension' THEN EXISTS (SELECT 1 FROM logue.suspension
            WHERE sid = s.sid AND invocation = p_name)
        WHEN 'label' THEN EXISTS (SELECT 1 FROM logue.label WHERE sid = s.sid AND name = p_name)
        WHEN 'field' THEN EXISTS (SELECT 1 FROM logue.field WHERE sid = s.sid AND name = p_name)
        END, false);
    IF is_there THEN
        PERFORM logue.set_aside(s, p_record, p_place, p_name, p_problem, p_now);
        PERFORM logue.count_again(s.sid, false);
    END IF;
    RETURN is_there;
END $$;
