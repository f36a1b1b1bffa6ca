-- Every function against every status: what is answered, what the status is then, and that nothing at all changes where
-- nothing may.
\ir support/check.psql

select settle.declare_kind('m', '{"effect":"keyed"}'), settle.declare_kind('again', '{"effect":"keyed","review":{"rerun_failed":true}}');

-- Brings an operation of this name into a state; leaves the token of the execution that got it there.
create function test.bring(of_key text, state text) returns bigint language plpgsql as $$
begin
    case state
    when 'pending' then
        perform settle.begin_operation(of_key, 'm', '{"a":1}', owner => 'w', lease => '1h'), settle.fail(of_key, 1, 'transient', 'T', 't', retry_after => '1h');
    when 'due' then
        perform test.bring(of_key, 'pending'), test.make_due(of_key);
    when 'swept' then
        perform test.bring(of_key, 'lapsed'), settle.sweep();
    when 'running' then
        perform settle.begin_operation(of_key, 'm', '{"a":1}', owner => 'w', lease => '1h');
    when 'lapsed' then
        perform test.bring(of_key, 'running'), test.lapse(of_key);
    when 'sent' then
        perform test.bring(of_key, 'running'), settle.mark_sent(of_key, 1, 'remote:1');
    when 'sent and lapsed' then
        perform test.bring(of_key, 'sent'), test.lapse(of_key);
    when 'succeeded' then
        perform test.bring(of_key, 'running'), settle.complete(of_key, 1, 'ref', '{"r":1}');
    when 'failed' then
        perform test.bring(of_key, 'running'), settle.refuse(of_key, 1, 'NO', '{"d":1}');
    when 'cancelled' then
        perform test.bring(of_key, 'pending'), settle.cancel(of_key, 'ann', 'r');
    when 'undone first' then
        perform settle.begin_compensation(of_key, 'ann', 'r');
    when 'unknown' then
        perform test.bring(of_key, 'running'), settle.fail(of_key, 1, 'unknown', 'U', 'u');
    when 'review' then
        perform test.bring(of_key, 'running'), settle.fail(of_key, 1, 'defect', 'D', 'd');
    end case;
    return 1;
end $$;

-- The calls, by name; `%s` is the key.
create table test.call (name text primary key, statement text);
insert into test.call values
    ('begin', $$settle.begin_operation(%L, 'm', '{"a":1}', lease => '1h')$$),
    ('begin other', $$settle.begin_operation(%L, 'm', '{"a":2}', lease => '1h')$$),
    ('begin other kind', $$settle.begin_operation(%L, 'again', '{"a":1}', lease => '1h')$$),
    ('complete', $$settle.complete(%L, 1, 'ref', '{"r":1}')$$),
    ('complete otherwise', $$settle.complete(%L, 1, 'other')$$),
    ('complete stale', $$settle.complete(%L, 7, 'ref', '{"r":1}')$$),
    ('refuse', $$settle.refuse(%L, 1, 'NO', '{"d":1}')$$),
    ('refuse stale', $$settle.refuse(%L, 7, 'NO', '{"d":1}')$$),
    ('fail', $$settle.fail(%L, 1, 'transient', 'T', 't')$$),
    ('fail defect', $$settle.fail(%L, 1, 'defect', 'D', 'd')$$),
    ('fail unknown', $$settle.fail(%L, 1, 'transient', 'T', 't', may_have_applied => true)$$),
    ('fail stale', $$settle.fail(%L, 7, 'transient', 'T', 't')$$),
    ('mark', $$settle.mark_sent(%L, 1, 'remote:2')$$),
    ('mark stale', $$settle.mark_sent(%L, 7)$$),
    ('renew', $$settle.renew(%L, 1, '2h', 'w')$$),
    ('renew of another owner', $$settle.renew(%L, 1, '2h', 'v')$$),
    ('renew stale', $$settle.renew(%L, 7, '2h')$$),
    ('rerun', $$settle.rerun(%L, 'ann', 'r')$$),
    ('begin_rerun', $$settle.begin_rerun(%L, 'm', '{"a":1}', 'ann', 'r', lease => '1h')$$),
    ('begin_rerun other', $$settle.begin_rerun(%L, 'm', '{"a":2}', 'ann', 'r', lease => '1h')$$),
    ('decide succeeded', $$settle.decide(%L, 'succeeded', 'ann', 'r', 'ref')$$),
    ('decide failed', $$settle.decide(%L, 'failed', 'ann', 'r')$$),
    ('decide cancelled', $$settle.decide(%L, 'cancelled', 'ann', 'r')$$),
    ('decide rerun', $$settle.decide(%L, 'rerun', 'ann', 'r')$$),
    ('decide compensate', $$settle.decide(%L, 'compensate', 'ann', 'r')$$),
    ('cancel', $$settle.cancel(%L, 'ann', 'r')$$),
    ('compensation', $$settle.begin_compensation(%L, 'ann', 'r', lease => '1h')$$);

-- What each answers in each state, and the status then; `=` after it where nothing may have changed.
create table test.matrix (state text, calls text);
insert into test.matrix values
('pending', 'begin: in_progress pending = | begin other: conflict pending = | begin other kind: conflict pending = | complete: stale pending = | complete otherwise: stale pending = |
    complete stale: stale pending = | refuse: stale pending = | refuse stale: stale pending = | fail: stale pending = | fail defect: stale pending = | fail unknown: stale pending = | fail stale: stale pending = |
    mark: stale pending = | mark stale: stale pending = | renew: stale pending = | renew of another owner: stale pending = | renew stale: stale pending = | rerun: refused pending = |
    begin_rerun: in_progress pending + | begin_rerun other: conflict pending + | decide succeeded: refused pending = | decide failed: refused pending = | decide cancelled: refused pending = |
    decide rerun: refused pending = | decide compensate: refused pending = | cancel: done cancelled + | compensation: not_compensable pending ='),
('due', 'begin: started running + | begin other: conflict pending = | begin other kind: conflict pending = | complete: stale pending = | refuse: stale pending = | fail: stale pending = | mark: stale pending = | renew: stale pending = |
    rerun: refused pending = | begin_rerun: started running + | begin_rerun other: conflict pending + | cancel: done cancelled + | compensation: not_compensable pending ='),
('swept', 'begin: started running + | begin other: conflict pending = | complete: completed succeeded + | complete otherwise: completed succeeded + | complete stale: stale pending = | refuse: refused failed + | refuse stale: stale pending = |
    fail: retry pending + | fail defect: review review + | fail unknown: unknown unknown + | fail stale: stale pending = | mark: stale pending = | renew: stale pending = | rerun: refused pending = |
    begin_rerun: started running + | decide succeeded: refused pending = | cancel: done cancelled + | compensation: not_compensable pending ='),
('running', 'begin: in_progress running = | begin other: conflict running = | begin other kind: conflict running = | complete: completed succeeded + | complete otherwise: completed succeeded + | complete stale: stale running = |
    refuse: refused failed + | refuse stale: stale running = | fail: retry pending + | fail defect: review review + | fail unknown: unknown unknown + | fail stale: stale running = | mark: marked running + | mark stale: stale running = |
    renew: renewed running + | renew of another owner: stale running = | renew stale: stale running = | rerun: refused running = | begin_rerun: in_progress running + | begin_rerun other: conflict running + |
    decide succeeded: refused running = | decide failed: refused running = | decide cancelled: refused running = | decide rerun: refused running = | decide compensate: refused running = | cancel: requested running + |
    compensation: not_compensable running ='),
('lapsed', 'begin: started running + | begin other: conflict running = | begin other kind: conflict running = | complete: completed succeeded + | complete stale: stale running = | refuse: refused failed + | fail: retry pending + |
    fail defect: review review + | fail unknown: unknown unknown + | fail stale: stale running = | mark: stale running = | mark stale: stale running = | renew: stale running = | renew of another owner: stale running = |
    renew stale: stale running = | rerun: refused pending + | begin_rerun: started running + | begin_rerun other: conflict running + | decide succeeded: refused pending + | cancel: done cancelled + | compensation: not_compensable pending +'),
('sent', 'begin: in_progress running = | begin other: conflict running = | complete: completed succeeded + | refuse: refused failed + | fail: retry pending + | fail unknown: unknown unknown + | mark: marked running + |
    renew: renewed running + | cancel: requested running + | compensation: not_compensable running ='),
('sent and lapsed', 'begin: unknown unknown + | begin other: conflict running = | complete: completed succeeded + | complete stale: stale running = | refuse: refused failed + | fail: retry pending + | fail unknown: unknown unknown + |
    mark: stale running = | renew: stale running = | rerun: refused unknown + | begin_rerun: unknown unknown + | begin_rerun other: conflict running + | decide succeeded: done succeeded + | decide failed: done failed + |
    decide cancelled: done cancelled + | decide rerun: done pending + | decide compensate: refused unknown + | cancel: refused unknown + | compensation: unknown unknown +'),
('succeeded', 'begin: replayed succeeded = | begin other: conflict succeeded = | begin other kind: conflict succeeded = | complete: completed succeeded = | complete otherwise: stale succeeded = | complete stale: stale succeeded = |
    refuse: stale succeeded = | refuse stale: stale succeeded = | fail: stale succeeded = | fail defect: stale succeeded = | fail unknown: stale succeeded = | fail stale: stale succeeded = | mark: stale succeeded = | mark stale: stale succeeded = |
    renew: stale succeeded = | renew of another owner: stale succeeded = | renew stale: stale succeeded = | rerun: refused succeeded + | begin_rerun: replayed succeeded + | begin_rerun other: conflict succeeded + |
    decide succeeded: already_decided succeeded = | decide failed: already_decided succeeded = | decide cancelled: already_decided succeeded = | decide rerun: already_decided succeeded = | decide compensate: already_decided succeeded = |
    cancel: already_decided succeeded = | compensation: started succeeded +'),
('failed', 'begin: replayed failed = | begin other: conflict failed = | begin other kind: conflict failed = | complete: stale failed = | complete otherwise: stale failed = | complete stale: stale failed = | refuse: refused failed = |
    refuse stale: stale failed = | fail: stale failed = | mark: stale failed = | renew: stale failed = | rerun: refused failed + | begin_rerun: started running + | begin_rerun other: conflict failed + |
    decide succeeded: already_decided failed = | decide rerun: already_decided failed = | cancel: already_decided failed = | compensation: not_compensable failed ='),
('cancelled', 'begin: replayed cancelled = | begin other: conflict cancelled = | begin other kind: conflict cancelled = | complete: stale cancelled = | refuse: stale cancelled = | fail: stale cancelled = | mark: stale cancelled = |
    renew: stale cancelled = | rerun: refused cancelled + | begin_rerun: replayed cancelled + | begin_rerun other: conflict cancelled + | decide succeeded: already_decided cancelled = | cancel: already_decided cancelled = |
    compensation: not_compensable cancelled ='),
('undone first', 'begin: replayed cancelled = | begin other: replayed cancelled = | begin other kind: replayed cancelled = | complete: stale cancelled = | refuse: stale cancelled = | fail: stale cancelled = | mark: stale cancelled = |
    renew: stale cancelled = | rerun: refused cancelled + | begin_rerun: replayed cancelled + | begin_rerun other: replayed cancelled + | decide succeeded: already_decided cancelled = | decide rerun: already_decided cancelled = |
    cancel: already_decided cancelled = | compensation: not_applied cancelled ='),
('unknown', 'begin: unknown unknown = | begin other: conflict unknown = | begin other kind: conflict unknown = | complete: completed succeeded + | complete otherwise: completed succeeded + | complete stale: stale unknown = |
    refuse: refused failed + | refuse stale: stale unknown = | fail: stale unknown = | fail defect: stale unknown = | fail unknown: stale unknown = | mark: stale unknown = | renew: stale unknown = | rerun: refused unknown = |
    begin_rerun: unknown unknown + | begin_rerun other: conflict unknown + | decide succeeded: done succeeded + | decide failed: done failed + | decide cancelled: done cancelled + | decide rerun: done pending + |
    decide compensate: refused unknown = | cancel: refused unknown = | compensation: unknown unknown ='),
('review', 'begin: frozen review = | begin other: conflict review = | begin other kind: conflict review = | complete: stale review = | complete otherwise: stale review = | refuse: stale review = | fail: stale review = | mark: stale review = |
    renew: stale review = | rerun: done pending + | begin_rerun: started running + | begin_rerun other: conflict review + | decide succeeded: done succeeded + | decide failed: done failed + | decide cancelled: done cancelled + |
    decide rerun: done pending + | decide compensate: refused review = | cancel: done cancelled + | compensation: not_compensable review =');

create function test.try(state text, which text, outcome text, status_then text, changed boolean) returns void language plpgsql as $$
declare
    of_key text := state || '/' || which;
    before text;
    got jsonb;
    current_state jsonb;
begin
    perform test.bring(of_key, state);
    before := test.everything();
    execute 'select to_jsonb(' || format((select statement from test.call where name = which), of_key) || ')' into got;
    perform test.same(of_key || ': outcome', got ->> 'outcome', outcome);
    perform test.same(of_key || ': status then', test.status(of_key), status_then);
    perform test.same(of_key || ': something changed', before <> test.everything(), changed);
    select to_jsonb(o) into current_state from settle_data.operation o where o.key = of_key;
    if outcome = 'stale' then
        -- a loser is told whose turn it is, and nothing else
        perform test.same(of_key || ': current token', got -> 'current_token', current_state -> 'token');
        perform test.same(of_key || ': holder', got -> 'holder', current_state -> 'owner');
    elsif outcome = 'replayed' then
        perform test.same(of_key || ': the stored answer', jsonb_build_array(got -> 'status', got -> 'result_ref', got -> 'result',
                got #> '{failure,code}', got #> '{failure,detail}'),
            jsonb_build_array(current_state -> 'status', current_state -> 'result_ref', current_state -> 'result',
                nullif(current_state -> 'failure_code', 'null'),
                case when current_state -> 'failure_code' <> 'null' then current_state -> 'failure_detail' end));
        perform test.same(of_key || ': and no token', got -> 'token', 'null'::jsonb);
    elsif outcome = 'started' and which <> 'compensation' then
        perform test.same(of_key || ': a token higher than before', (got ->> 'token')::bigint, (current_state ->> 'token')::bigint);
        perform test.ok(of_key || ': and not 1', (got ->> 'token')::bigint > 1);
    elsif outcome in ('conflict', 'in_progress', 'frozen', 'unknown') then
        perform test.ok(of_key || ': no token, no answer', got -> 'token' is not distinct from case when got ? 'token' then 'null'::jsonb end
            and coalesce(got ->> 'result_ref', got ->> 'result') is null);
    end if;
end $$;

select test.try(state, name_of[1], (regexp_split_to_array(name_of[2], ' '))[1], (regexp_split_to_array(name_of[2], ' '))[2], (regexp_split_to_array(name_of[2], ' '))[3] = '+')
from test.matrix, regexp_split_to_table(calls, '\s*\|\s*') as one, regexp_split_to_array(btrim(one, E' \n'), ': ') as name_of;
-- Every status was met, and every call in the states where it can matter.
select test.same('states', count(*), 13::bigint) from test.matrix;

-- The caller's own transaction: begun without a lease.
begin;
select settle.begin_operation('own', 'm', '{"a":1}');
select test.same('begin', (settle.begin_operation('own', 'm', '{"a":1}')).outcome, 'in_progress');
select test.same('other', (settle.begin_operation('own', 'm', '{"a":2}')).outcome, 'conflict');
select test.invalid('mark', $$select settle.mark_sent('own', 1)$$, 'token', '%begun without a lease%');
select test.invalid('renew', $$select settle.renew('own', 1)$$, 'token', '%begun without a lease%');
select test.same('stale', (settle.renew('own', 2)).outcome || (settle.mark_sent('own', 2)).outcome || (settle.complete('own', 2)).outcome, 'stalestalestale');
select test.same('rerun', (settle.rerun('own', 'ann', 'r')).outcome, 'refused');
select settle.sweep(1000);
select test.same('not swept', test.status('own'), 'running');
select test.same('compensation', (settle.begin_compensation('own', 'ann', 'r')).outcome, 'not_compensable');
select test.same('retry', (settle.fail('own', 1, 'transient', 'T', 't')).outcome, 'retry');
commit;
select test.same('which stays', status, 'pending') from settle.operations where key = 'own';

-- Nothing there at all.
select test.raises('complete', $$select settle.complete('none', 1)$$, 'ST006', 'NOT_FOUND: no operation none in namespace default');
select test.raises('refuse', $$select settle.refuse('none', 1, 'NO')$$, 'ST006', 'NOT_FOUND%');
select test.raises('fail', $$select settle.fail('none', 1, 'transient', 'T', 't')$$, 'ST006', 'NOT_FOUND%');
select test.raises('mark_sent', $$select settle.mark_sent('none', 1)$$, 'ST006', 'NOT_FOUND%');
select test.raises('renew', $$select settle.renew('none', 1)$$, 'ST006', 'NOT_FOUND%');
select test.raises('rerun', $$select settle.rerun('none', 'ann', 'r')$$, 'ST006', 'NOT_FOUND%');
select test.raises('cancel', $$select settle.cancel('none', 'ann', 'r')$$, 'ST006', 'NOT_FOUND%');
select test.raises('decide', $$select settle.decide('none', 'failed', 'ann', 'r')$$, 'ST006', 'NOT_FOUND%');
select test.raises('in that namespace', $$select settle.complete('own', 1, namespace => 'T2')$$, 'ST006', 'NOT_FOUND: no operation own in namespace T2');
