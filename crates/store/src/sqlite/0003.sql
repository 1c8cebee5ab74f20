-- The hash of the work to which an entry's key is bound.

ALTER TABLE entry ADD COLUMN digest TEXT;
