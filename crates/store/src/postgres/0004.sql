-- The log of events. A row is a batch, which was appended in one step.

CREATE SEQUENCE logue.log_generation;

CREATE TABLE logue.log (
    num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    generation bigint NOT NULL,
    -- The timeline of the server at the last append. Numbers may have been lost before a later one.
    timeline bigint NOT NULL,
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
    entries bigint[] NOT NULL,
    texts text[] NOT NULL,
    PRIMARY KEY (log, last)
);

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
