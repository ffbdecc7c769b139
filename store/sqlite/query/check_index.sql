-- The columns of each index, in order; an expression is "".
SELECT (SELECT json_group_array(coalesce(i.name, ''))
        FROM (SELECT name FROM pragma_index_info(l.name, :schema) ORDER BY seqno) AS i)
FROM pragma_index_list(:name, :schema) AS l
