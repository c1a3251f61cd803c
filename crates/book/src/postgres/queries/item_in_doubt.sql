SELECT in_doubt FROM items WHERE n = $1
