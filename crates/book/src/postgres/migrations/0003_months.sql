-- Partitions by month of the id's time, made ahead of time; what came earlier into the rest is moved into its month.

-- The lowest id of a moment: a UUIDv7 begins with 48 bits of ms. Shorter than an id, so it sorts before every id of that ms.
CREATE FUNCTION id_from(moment timestamp) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT decode(lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0'), 'hex')
$$;

-- Makes the month of `at_ms` and `ahead` more, where they are missing; answers the ms at which the last of them ends.
CREATE FUNCTION make_months(at_ms bigint, ahead integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  -- 1 beside the table's own number: whoever else makes months.
  months CONSTANT integer := 1;
  this   CONSTANT timestamp := date_trunc('month', to_timestamp(at_ms / 1000.0) AT TIME ZONE 'UTC');
  month  timestamp;
  parent text;
  child  text;
  low    bytea;
  high   bytea;
BEGIN
  PERFORM pg_advisory_xact_lock('jobs'::regclass::oid::integer, months);
  FOR n IN 0..ahead LOOP
    month := this + make_interval(months => n);
    low := id_from(month);
    high := id_from(month + interval '1 month');
    FOREACH parent IN ARRAY ARRAY['jobs', 'job_letters', 'job_history'] LOOP
      child := parent || to_char(month, '_YYYY_MM');
      CONTINUE WHEN to_regclass(child) IS NOT NULL;
      -- Readers wait for some ms, once a month: attaching looks into the rest, and nothing may come in between. Behind somebody's long
      -- query everybody would wait as long as we do: so rather give up, and try again in an hour.
      PERFORM set_config('lock_timeout', '1s', true);
      EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_rest');
      -- Rows are written again when staged and when they end: room on their page spares the page after.
      EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (fillfactor = 80)', child, parent);
      EXECUTE format('WITH moved AS (DELETE FROM %I WHERE id >= %L AND id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
        parent || '_rest', low, high, child);
      EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, low, high);
    END LOOP;
  END LOOP;
  RETURN (extract(epoch FROM this + make_interval(months => ahead + 1)) * 1000)::bigint;
END
$$;

SELECT make_months((extract(epoch FROM now()) * 1000)::bigint, 2);
