-- The number of a session's rows in each table, and the sum of their checksums modulo 2^32. Temporary
-- triggers of each connection keep them, so that a row which another program removes is noticed.

ALTER TABLE session ADD COLUMN message_rows INT DEFAULT 0;
ALTER TABLE session ADD COLUMN message_sum INT DEFAULT 0;
ALTER TABLE session ADD COLUMN entry_rows INT DEFAULT 0;
ALTER TABLE session ADD COLUMN entry_sum INT DEFAULT 0;
ALTER TABLE session ADD COLUMN work_rows INT DEFAULT 0;
ALTER TABLE session ADD COLUMN work_sum INT DEFAULT 0;
ALTER TABLE session ADD COLUMN note_rows INT DEFAULT 0;
ALTER TABLE session ADD COLUMN note_sum INT DEFAULT 0;
ALTER TABLE session ADD COLUMN suspension_rows INT DEFAULT 0;
ALTER TABLE session ADD COLUMN suspension_sum INT DEFAULT 0;
ALTER TABLE session ADD COLUMN audit_rows INT DEFAULT 0;
ALTER TABLE session ADD COLUMN audit_sum INT DEFAULT 0;
ALTER TABLE session ADD COLUMN field_rows INT DEFAULT 0;
ALTER TABLE session ADD COLUMN field_sum INT DEFAULT 0;
ALTER TABLE session ADD COLUMN label_rows INT DEFAULT 0;
ALTER TABLE session ADD COLUMN label_sum INT DEFAULT 0;

UPDATE session SET (message_rows, message_sum) =
    (SELECT count(*), ifnull(sum(message.sum), 0) & 0xffffffff FROM message
     WHERE message.pos BETWEEN session.sid << 32 AND session.sid << 32 | 0xffffffff);
UPDATE session SET (entry_rows, entry_sum) =
    (SELECT count(*), ifnull(sum(entry.sum), 0) & 0xffffffff FROM entry
     WHERE entry.pos BETWEEN session.sid << 32 AND session.sid << 32 | 0xffffffff);
UPDATE session SET (work_rows, work_sum) =
    (SELECT count(*), ifnull(sum(work.sum), 0) & 0xffffffff FROM work
     WHERE work.pos BETWEEN session.sid << 32 AND session.sid << 32 | 0xffffffff);
UPDATE session SET (note_rows, note_sum) =
    (SELECT count(*), ifnull(sum(note.sum), 0) & 0xffffffff FROM note
     WHERE note.sid = session.sid);
UPDATE session SET (suspension_rows, suspension_sum) =
    (SELECT count(*), ifnull(sum(suspension.sum), 0) & 0xffffffff FROM suspension
     WHERE suspension.sid = session.sid);
UPDATE session SET (audit_rows, audit_sum) =
    (SELECT count(*), ifnull(sum(audit.sum), 0) & 0xffffffff FROM audit
     WHERE audit.pos BETWEEN session.sid << 32 AND session.sid << 32 | 0xffffffff);
UPDATE session SET (field_rows, field_sum) =
    (SELECT count(*), ifnull(sum(field.sum), 0) & 0xffffffff FROM field
     WHERE field.sid = session.sid);
UPDATE session SET (label_rows, label_sum) =
    (SELECT count(*), ifnull(sum(label.sum), 0) & 0xffffffff FROM label
     WHERE label.sid = session.sid);
