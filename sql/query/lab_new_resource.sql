insert into lab_resource (id, value, fence) values (1, $1::integer, $2::bigint)
