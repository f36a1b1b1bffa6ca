-- Roles belong to the whole cluster, migrations to one database: two databases may be migrated at once, so each role
-- and each membership is made in a block of its own that accepts another's being first.
do $$
begin
    if to_regrole('settle_owner') is null then
        create role settle_owner nologin;
    end if;
exception when duplicate_object or unique_violation then null;
end $$;
do $$
begin
    if to_regrole('settle_viewer') is null then
        create role settle_viewer nologin;
    end if;
exception when duplicate_object or unique_violation then null;
end $$;
do $$
begin
    if to_regrole('settle_app') is null then
        create role settle_app nologin;
    end if;
exception when duplicate_object or unique_violation then null;
end $$;
do $$
begin
    if to_regrole('settle_worker') is null then
        create role settle_worker nologin;
    end if;
exception when duplicate_object or unique_violation then null;
end $$;
do $$
begin
    if to_regrole('settle_handler') is null then
        create role settle_handler nologin;
    end if;
exception when duplicate_object or unique_violation then null;
end $$;
do $$
begin
    if to_regrole('settle_operator') is null then
        create role settle_operator nologin;
    end if;
exception when duplicate_object or unique_violation then null;
end $$;
do $$
begin
    if to_regrole('settle_admin') is null then
        create role settle_admin nologin;
    end if;
exception when duplicate_object or unique_violation then null;
end $$;

-- app, worker and operator may look; an operator may act as an application (exec --rerun); admin may do all of it.
do $$
declare
    missing boolean;
begin
    for attempt in 1 .. 20 loop
        missing := not (pg_has_role('settle_admin', 'settle_operator', 'member')
            and pg_has_role('settle_admin', 'settle_worker', 'member')
            and pg_has_role('settle_operator', 'settle_app', 'member')
            and pg_has_role('settle_worker', 'settle_viewer', 'member')
            and pg_has_role('settle_app', 'settle_viewer', 'member'));
        exit when not missing;
        begin
            grant settle_viewer to settle_app, settle_worker;
            grant settle_app to settle_operator;
            grant settle_operator, settle_worker to settle_admin;
        exception when unique_violation or internal_error then
            -- "tuple concurrently updated": another database's migration is granting the same; look again.
            null;
        end;
    end loop;
    if missing then
        raise exception 'the memberships of the settle roles could not be granted; run migrate again';
    end if;
end $$;

-- Settle's objects belong to a role that nobody logs in as, so that its definer functions have no rights but these.
do $$
begin
    if not pg_has_role(current_user, 'settle_owner', 'member') then
        grant settle_owner to current_user;
    end if;
exception when unique_violation then null;
end $$;

create schema settle authorization settle_owner;
create schema settle_data authorization settle_owner;
set local role settle_owner;

grant usage on schema settle to settle_app, settle_worker, settle_operator, settle_viewer, settle_handler, settle_admin;
comment on schema settle is 'Settle: functions and views; begin with settle.operations';
comment on schema settle_data is 'Settle: tables; only its functions write here';
