-- What was decided about calls of tools, and by what. Rows are only added, and go with their session;
-- `pos` is as in `message`.

CREATE TABLE audit (
    pos INTEGER PRIMARY KEY,
    invocation ANY NOT NULL,
    body TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
