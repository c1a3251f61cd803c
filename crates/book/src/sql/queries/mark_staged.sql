-- Two lists of the same marks: keys to look rows up by number, and `key generation` to compare. A join instead lets the planner walk the
-- planned rows, perhaps 100,000 of them far ahead. NOT INDEXED leaves the look-up by number alone.
UPDATE jobs NOT INDEXED SET state = 1, ever_staged = 1
WHERE jobs.n IN (SELECT k.n FROM job_keys k WHERE k.key IN (SELECT value FROM json_each(?1)))
  AND jobs.state = 0 AND jobs.key || ' ' || jobs.generation IN (SELECT value FROM json_each(?2))
