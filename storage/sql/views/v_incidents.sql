-- The newest revision of each incident.
SELECT * FROM incidents FINAL
ORDER BY revision DESC
LIMIT 1 BY cluster, id
