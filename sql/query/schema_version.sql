select settle.schema_version() as version
