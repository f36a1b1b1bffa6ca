select name, sha256 from settle_data.api_file order by name
