-- Sets a label of a session unless it has one of the name, which is then returned and stays.
CREATE FUNCTION logue.set_label_once(p_id bytea, p_name bytea, p_value text, p_now bigint,
    OUT status text, OUT earlier text)
LANGUAGE plpgsql AS $$
DECLARE
    s logue.session := logue.made(p_id, p_now);
    l logue.label;
BEGIN
    status := 'ok';
    IF s.sum IS DISTINCT FROM logue.sum_of(s) THEN
        status := 'its row';
        RETURN;
    END IF;
    SELECT o.* INTO l FROM logue.label o WHERE o.sid = s.sid AND o.name = p_name;
    IF NOT FOUND THEN
        s := logue.put_label(s, p_name, p_value);
        s.updated_at := greatest(s.updated_at, p_now);
        PERFORM logue.put(s);
    ELSIF l.sum IS DISTINCT FROM logue.sum_of(l) THEN
        status := 'a label';
    ELSE
        earlier := l.value;
    END IF;
END $$;
