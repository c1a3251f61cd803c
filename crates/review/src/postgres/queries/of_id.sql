WHERE i.id = $1
