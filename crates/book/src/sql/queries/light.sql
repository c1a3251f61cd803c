  NULL, NULL FROM jobs j
