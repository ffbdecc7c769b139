name, definition, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', paused_until), coalesce(paused_until > {clock}, false),
       paused_why, paused_by, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', last_slot),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', reference),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', retired_at)
