UPDATE schedules SET cursor = ?2, open_slot = ?3, open_made = ?4, next_scan = ?5, trouble = NULL WHERE n = ?1
