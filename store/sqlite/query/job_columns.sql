name, definition, paused_until, coalesce(paused_until > {clock}, 0),
       paused_why, paused_by, last_slot, reference, retired_at
