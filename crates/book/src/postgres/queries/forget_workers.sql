DELETE FROM workers WHERE beat_at < $1
