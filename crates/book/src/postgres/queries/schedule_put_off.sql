UPDATE schedules SET next_scan = $4, trouble = $5, scan_until = 0 WHERE tenant = $1 AND name = $2 AND revision = $3 AND phase < 2
