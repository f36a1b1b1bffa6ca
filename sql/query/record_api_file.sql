insert into settle_data.api_file (name, sha256) values ($1::text, $2::text)
on conflict (name) do update set sha256 = excluded.sha256, applied_at = clock_timestamp()
