SELECT current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean, current_setting('synchronous_commit'),
  current_setting('synchronous_standby_names')
