-- The resource's own fence: a token older than the last writer's changes no row.
update lab_resource set value = $1::integer, fence = $2::bigint where id = 1 and fence <= $2::bigint
