-- Lets one lease lapse by moving its own deadline, back to its beginning; nobody's clock is touched. Run as the tables'
-- owner.
update settle_data.lease set lease_until = granted_at
where namespace = $1 and resource = $2 and token = $3::bigint
