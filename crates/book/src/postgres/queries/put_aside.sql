-- Claimed in nobody's name: for the length of a soft claim these rows stand in front of no others.
UPDATE jobs SET staging_by = '\x00000000000000000000000000000000'::bytea WHERE id = ANY ($1::bytea[]) AND state = 0
