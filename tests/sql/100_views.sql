-- What people and tools read: every view, every column, with the rights of one who may only look.
\ir support/check.psql

select settle.declare_kind('pay', '{"effect":"keyed","identity":["/a"],"compensation":{"kind":"refund"}}'), settle.declare_kind('card', '{"effect":"local","secret":true}'), settle.declare_kind('refund', '{"effect":"keyed"}');
select settle.begin_operation('done', 'pay', '{"a":1,"b":2}', owner => 'w1', lease => '1h'), settle.complete('done', 1, 'ref', '{"r":1}'), settle.begin_compensation('done', 'ann', 'r', owner => 'w2', lease => '1h');
select settle.begin_operation('running', 'pay', owner => 'w1', lease => '1h'), settle.mark_sent('running', 1, 'remote'), settle.cancel('running', 'ann', 'why');
select settle.begin_operation('waiting', 'pay', owner => 'w1', lease => '1h'), settle.fail('waiting', 1, 'transient', 'TIMEOUT', 'no answer', retry_after => '1h');
select settle.begin_operation('review', 'pay', owner => 'w1', lease => '1h'), settle.fail('review', 1, 'defect', 'D', 'd');
select settle.begin_operation('unknown', 'pay', owner => 'w1', lease => '1h'), settle.fail('unknown', 1, 'unknown', 'U', 'u');
select settle.begin_operation('no', 'card', '{"pin":1}', owner => 'w1', lease => '1h'), settle.refuse('no', 1, 'NO', '{"d":null}');
select settle.begin_compensation('undone', 'ann', 'too late');
select settle.begin_operation('done', 'pay', '{"a":1}', namespace => 'T2', lease => '1h');
select settle.acquire_lease('r', 'w1', '1h'), settle.acquire_lease('r2', 'w1', '1h'), settle.release_lease('r2', 'w1', 1), settle.acquire_lease('r3', 'w1', '1h'), test.lapse_resource('r3');

set role settle_viewer;
-- The fields of `show --json`, as columns; they may grow at their end.
create function pg_temp.columns(of_view text) returns text language sql as $$
    select string_agg(attname, ' ' order by attnum) from pg_attribute where attrelid = of_view::regclass and attnum > 0 and not attisdropped
$$;
select test.ok('operations: ' || pg_temp.columns('settle.operations'), pg_temp.columns('settle.operations') like 'namespace key kind status request digest result_ref result failure attempt_count next_attempt_at created_at finished_at lease compensates compensated_by last_error%');
select test.ok('executions: ' || pg_temp.columns('settle.executions'), pg_temp.columns('settle.executions') like 'namespace key execution_id token trigger worker outcome error remote_ref sent_at repeats operator reason revision started_at finished_at%');
select test.ok('reviews', pg_temp.columns('settle.reviews') like 'namespace key kind reason since%' and pg_temp.columns('settle.reviews') like '% approvals%' and pg_temp.columns('settle.reviews') like '% last_error%');
select test.ok('backlog', pg_temp.columns('settle.backlog') like '%next_attempt_at%' and pg_temp.columns('settle.backlog') like '% last_error%');

select test.same(key, to_jsonb(o) - array['created_at', 'finished_at', 'next_attempt_at', 'lease_until', 'sent_at', 'open_since', 'digest', 'lease'], wanted)
from settle.operations o join (values
    ('done', '{"namespace":"default","key":"done","kind":"pay","status":"succeeded","request":{"a":1,"b":2},"result_ref":"ref","result":{"r":1},"failure":null,"attempt_count":1,"compensates":null,"compensated_by":"done~undo",
        "last_error":null,"effect":"keyed","token":1,"lease_owner":null,"remote_ref":null,"review_reason":null,"cancel_requested":false,"revision":1,"operator":null,"reason":null}'::jsonb),
    ('running', '{"namespace":"default","key":"running","kind":"pay","status":"running","request":{},"result_ref":null,"result":null,"failure":null,"attempt_count":1,"compensates":null,"compensated_by":null,
        "last_error":null,"effect":"keyed","token":1,"lease_owner":"w1","remote_ref":"remote","review_reason":null,"cancel_requested":true,"revision":1,"operator":null,"reason":null}'),
    ('waiting', '{"namespace":"default","key":"waiting","kind":"pay","status":"pending","request":{},"result_ref":null,"result":null,"failure":null,"attempt_count":1,"compensates":null,"compensated_by":null,
        "last_error":{"class":"transient","code":"TIMEOUT","message":"no answer"},"effect":"keyed","token":1,"lease_owner":null,"remote_ref":null,"review_reason":null,"cancel_requested":false,"revision":1,"operator":null,"reason":null}'),
    ('no', '{"namespace":"default","key":"no","kind":"card","status":"failed","request":null,"result_ref":null,"result":null,"failure":{"code":"NO","detail":{"d":null}},"attempt_count":1,"compensates":null,"compensated_by":null,
        "last_error":{"class":"refused","code":"NO","message":null},"effect":"local","token":1,"lease_owner":null,"remote_ref":null,"review_reason":null,"cancel_requested":false,"revision":1,"operator":null,"reason":null}'),
    ('undone', '{"namespace":"default","key":"undone","kind":null,"status":"cancelled","request":null,"result_ref":null,"result":null,"failure":{"code":"UNDONE_FIRST","detail":null},"attempt_count":0,"compensates":null,"compensated_by":null,
        "last_error":null,"effect":null,"token":null,"lease_owner":null,"remote_ref":null,"review_reason":null,"cancel_requested":false,"revision":0,"operator":"ann","reason":"too late"}')) as w (of_key, wanted) on of_key = key
where namespace = 'default';
select test.ok('lease', lease = jsonb_build_object('owner', 'w1', 'token', 1, 'until', lease_until) and lease_until > clock_timestamp() and sent_at is not null) from settle.operations where key = 'running';
select test.ok('next attempt', next_attempt_at > clock_timestamp() and lease is null and open_since is not null) from settle.operations where key = 'waiting';
select test.ok('digests', bool_and(digest like '1:%' and length(digest) = 66) filter (where kind is not null) and bool_and(digest is null) filter (where kind is null)) from settle.operations;
select test.same('final or not', count(*), 0::bigint) from settle.operations where (status in ('succeeded', 'failed', 'cancelled')) <> (finished_at is not null) or (status in ('succeeded', 'failed', 'cancelled')) = (open_since is not null);
select test.same('executions', jsonb_object_agg(execution_id, jsonb_build_array(token, trigger, worker, outcome, error, remote_ref, repeats, operator)), '{
    "done#1":[1,"call","w1","succeeded",null,null,{"count":0,"last_sqlstate":null},null], "done~undo#1":[1,"call","w2",null,null,null,{"count":0,"last_sqlstate":null},"ann"],
    "running#1":[1,"call","w1",null,null,"remote",{"count":0,"last_sqlstate":null},null],
    "waiting#1":[1,"call","w1","failed",{"class":"transient","code":"TIMEOUT","message":"no answer"},null,{"count":0,"last_sqlstate":null},null],
    "review#1":[1,"call","w1","failed",{"class":"defect","code":"D","message":"d"},null,{"count":0,"last_sqlstate":null},null],
    "unknown#1":[1,"call","w1","unknown",{"class":"unknown","code":"U","message":"u"},null,{"count":0,"last_sqlstate":null},null],
    "no#1":[1,"call","w1","refused",{"class":"refused","code":"NO","message":null},null,{"count":0,"last_sqlstate":null},null]}'::jsonb) from settle.executions where namespace = 'default';
select test.same('reviews', jsonb_agg(jsonb_build_array(namespace, key, kind, reason, status, approvals, last_error ->> 'code', since is not null) order by key), '[["default","review","pay","defect","review",0,"D",true],["default","unknown","pay","unknown","unknown",0,"U",true]]'::jsonb) from settle.reviews;
select test.same('backlog', jsonb_agg(jsonb_build_array(namespace, key, status, lease_owner, review_reason, last_error ->> 'code') order by namespace, key), replace('[["T2","done","running","<me>",null,null],["default","done~undo","running","w2",null,null],
    ["default","review","review",null,"defect","D"],["default","running","running","w1",null,null],["default","unknown","unknown",null,null,"U"],["default","waiting","pending",null,null,"TIMEOUT"]]', '<me>', session_user)::jsonb) from settle.backlog;
select test.same('leases', jsonb_agg(jsonb_build_array(namespace, resource, token, holder, state, granted_at is not null) order by resource), '[["default","r",1,"w1","live",true],["default","r2",1,"w1","released",true],["default","r3",1,"w1","lapsed",true]]'::jsonb) from settle.leases;
select test.same('decisions', jsonb_agg(jsonb_build_array(key, number, act, operator, reason, from_status, to_status)), '[["running",1,"cancel requested","ann","why","running","running"]]'::jsonb) from settle.decisions;
select test.same('kinds', jsonb_agg(jsonb_build_array(kind, revision, effect, identity, secret) order by kind), '[["card",1,"local",null,true],["pay",1,"keyed",["/a"],false],["refund",1,"keyed",null,false]]'::jsonb) from settle.kinds;
select test.ok('a kind''s key is nowhere to be read', pg_temp.columns('settle.kinds') not like '%pad%' and not exists (select from settle.kinds k where to_jsonb(k)::text like '%pad%'));
select test.same('metrics', jsonb_object_agg(name || labels::text, value) filter (where name <> 'settle_unfinished_oldest_seconds'), '{"settle_duplicates_total{\"kind\": \"\", \"trigger\": \"call\"}":0,"settle_duplicates_total{\"kind\": \"pay\", \"trigger\": \"call\"}":0,
    "settle_duplicates_total{\"kind\": \"card\", \"trigger\": \"call\"}":0,"settle_duplicates_total{\"kind\": \"refund\", \"trigger\": \"call\"}":0,"settle_unknown{}":1,"settle_reviews_open{\"reason\": \"defect\"}":1}'::jsonb) from settle.metrics;
select test.ok('oldest of every unfinished status', array_agg(labels ->> 'status' order by labels ->> 'status') = array['pending', 'review', 'running', 'unknown'] and min(value) >= 0 and max(value) < 600) from settle.metrics where name = 'settle_unfinished_oldest_seconds';
select test.ok('the schema''s version', settle.schema_version() >= 3);
reset role;
