name, definition, (extract(epoch FROM paused_until) * 1000000)::bigint, coalesce(paused_until > {clock}, false),
       paused_why, paused_by, (extract(epoch FROM last_slot) * 1000000)::bigint,
       (extract(epoch FROM reference) * 1000000)::bigint,
       (extract(epoch FROM retired_at) * 1000000)::bigint
