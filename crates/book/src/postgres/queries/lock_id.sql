SELECT j.id FROM jobs j WHERE j.id = $1 FOR UPDATE OF j
