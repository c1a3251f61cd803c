UPDATE schedules SET next_scan = ?4, trouble = ?5 WHERE tenant = ?1 AND name = ?2 AND revision = ?3 AND phase < 2
