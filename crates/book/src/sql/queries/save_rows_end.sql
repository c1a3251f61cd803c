) AS v WHERE jobs.n = v.column1
