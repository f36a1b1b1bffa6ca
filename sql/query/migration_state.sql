select to_regclass('settle_data.migration') is not null as present
