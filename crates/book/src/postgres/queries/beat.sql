INSERT INTO beats (id, count, at) VALUES (1, $1, $2) ON CONFLICT (id) DO UPDATE SET count = EXCLUDED.count, at = EXCLUDED.at
