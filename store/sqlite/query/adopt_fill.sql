-- Give the rows of one range of keys their due time.
UPDATE {table}
SET {set}
WHERE {which}
  AND {after}  -- if after
  AND {upto}  -- if upto
