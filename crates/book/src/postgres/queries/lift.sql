DELETE FROM holds WHERE kind = $1 AND name = $2 AND by = $3
