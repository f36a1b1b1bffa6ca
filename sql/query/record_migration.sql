insert into settle_data.migration (number, name, sha256) values ($1::integer, $2::text, $3::text)
