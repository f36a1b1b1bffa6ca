set local role settle_owner
