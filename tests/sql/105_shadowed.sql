-- What somebody made in a schema of the reader's search_path under the names of PostgreSQL's own is never called: who
-- looks or repeats may have more rights than who made it.
\ir support/check.psql

create function public.called(text) returns text language plpgsql as $$ begin raise 'called as %: %', current_user, $1; end $$;
create function public.jsonb_build_object(text, text, text, jsonb) returns jsonb language sql as $$ select to_jsonb(public.called('4')) $$;
create function public.jsonb_build_object(text, text, text, text, text, text) returns jsonb language sql as $$ select to_jsonb(public.called('6')) $$;
create function public.jsonb_build_object(text, jsonb) returns jsonb language sql as $$ select to_jsonb(public.called('2')) $$;
create function public.joined(text, smallint) returns text language sql as $$ select public.called('||') $$;
create operator public.|| (leftarg = text, rightarg = smallint, function = public.joined);

select settle.declare_kind('shadowed', '{"effect": "local"}');
begin;
select settle.begin_operation('shadowed:1', 'shadowed', '{}'), settle.complete('shadowed:1', 1, null, '{}');
select settle.begin_operation('shadowed:2', 'shadowed', '{}'), settle.refuse('shadowed:2', 1, 'NO', '"a detail"');
commit;
select test.same('a repeat', (settle.begin_operation('shadowed:1', 'shadowed', '{}')).outcome, 'replayed');
select test.same('a repeat of a failure', (settle.begin_operation('shadowed:2', 'shadowed', '{}')).failure,
    '{"code": "NO", "detail": "a detail"}');
select test.same('its failure', (select failure ->> 'code' from settle.operations where key = 'shadowed:2'), 'NO');
select test.same('its error', (select last_error ->> 'class' from settle.operations where key = 'shadowed:2'), 'refused');
select test.same('its execution''s', (select error ->> 'class' from settle.executions where key = 'shadowed:2'), 'refused');
select test.ok('a detail', (select settle_data.execution_error('c', 'c', 'm', '{}') = '{"class": "c", "code": "c", "message": "m", "detail": {}}'));
select count(*) from settle.metrics, settle.reviews, settle.backlog, settle.kinds, settle.leases, settle.decisions;
