-- Locked in the order of keys, as everywhere; looked at again once they are.
WITH marked AS (
  SELECT j.id, m.generation
  FROM unnest($1::text[], $2::integer[]) AS m (key, generation) JOIN job_keys k ON k.key = m.key JOIN jobs j ON j.id = k.job
  WHERE j.state = 0 AND j.generation = m.generation
  ORDER BY k.key FOR UPDATE OF j
)
UPDATE jobs SET state = 1, ever_staged = true
FROM marked WHERE jobs.id = marked.id AND jobs.state = 0 AND jobs.generation = marked.generation
