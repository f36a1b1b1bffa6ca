select number, name, sha256 from settle_data.migration order by number
