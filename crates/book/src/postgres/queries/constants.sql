SELECT name, value FROM constants ORDER BY name
