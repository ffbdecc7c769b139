CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000
