SELECT count, at FROM beats WHERE id = 1
