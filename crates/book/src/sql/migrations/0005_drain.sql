-- What a worker measured of itself: attempts in ten seconds, the best ten of the last hour and the latest ten.

ALTER TABLE workers ADD COLUMN drain_best INTEGER;
ALTER TABLE workers ADD COLUMN drain_latest INTEGER;
