-- While an execution is under way: its mark, its lease, and the sweep of what was lost.
\ir support/check.psql

create function test.begun(of_key text, effect text default 'keyed', of_namespace text default 'default') returns void language plpgsql as $$
begin perform settle.begin_operation(of_key, 'k', owner => 'w1', lease => '1h', effect => effect, namespace => of_namespace); end $$;
create table test.before (state text);
insert into test.before values ('');

-- The mark: durable, its time the first one, its reference the last one given.
select test.begun('A');
select test.same('marked', to_jsonb(settle.mark_sent('A', 1, 'remote:1')), '{"outcome":"marked","current_token":1,"holder":"w1"}'::jsonb);
create table test.sent as select sent_at from settle.operations where key = 'A';
select test.same('again', (settle.mark_sent('A', 1, 'remote:2')).outcome || (settle.mark_sent('A', 1)).outcome, 'markedmarked');
select test.ok('the first time, the last reference', o.sent_at = s.sent_at and o.remote_ref = 'remote:2' and o.status = 'running') from settle.operations o, test.sent s where key = 'A';
select test.begun('A2');
select test.same('without a reference', (settle.mark_sent('A2', 1)).outcome, 'marked');
select test.ok('marked', sent_at is not null and remote_ref is null) from settle.operations where key = 'A2';

-- Renewal: from now, by the database's clock; the owner compared when given.
select test.begun('B');
select test.ok('renewed', (answer).outcome = 'renewed' and (answer).lease_until - clock_timestamp() between interval '1 h 59 min' and interval '2 h' and not (answer).cancel_requested
    and (answer).current_token = 1 and (answer).holder = 'w1') from settle.renew('B', 1, '2h', 'w1') as answer;
select test.ok('shorter, too', (answer).lease_until - clock_timestamp() < interval '6 s') from settle.renew('B', 1, '5s') as answer;
select test.ok('by default 30 s', (answer).lease_until - clock_timestamp() between interval '29 s' and interval '30 s') from settle.renew('B', 1) as answer;
select settle.cancel('B', 'ann', 'r');
select test.ok('it sees that a cancel was asked for', (settle.renew('B', 1)).cancel_requested);
update test.before set state = test.everything();
select test.same('another owner', to_jsonb(settle.renew('B', 1, '1h', 'w2')), '{"outcome":"stale","lease_until":null,"cancel_requested":null,"current_token":1,"holder":"w1"}'::jsonb);
select test.ok('nothing changed', state = test.everything()) from test.before;

-- Lapsed by the database's clock: neither renewed nor marked, taken over or not; its end is still taken.
select test.lapse('B'), test.lapse('A');
update test.before set state = test.everything();
select test.same('lapsed', (settle.renew('B', 1)).outcome || (settle.mark_sent('B', 1)).outcome || (settle.renew('A', 1)).outcome || (settle.mark_sent('A', 1, 'x')).outcome, 'stalestalestalestale');
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.same('its end', (settle.complete('B', 1)).outcome, 'completed');
-- A lease of its whole length, however short: the bound itself is lapsed.
select settle.begin_operation('bound', 'k', lease => '1 ms');
update settle_data.operation set lease_until = 'infinity' where key = 'bound';
select test.same('before', (settle.renew('bound', 1, '1 ms')).outcome, 'renewed');

-- The sweep: without a mark it waits to be taken over; with one it is unknown; an opaque one of which nothing can tell goes to a person.
select settle.declare_kind('asks', '{"effect":"opaque","resolve":{"handler":{"sql":"f"}}}'), settle.sweep();
select test.begun('free'), test.begun('sent'), test.begun('opaque', 'opaque'), test.begun('opaque unsent', 'opaque'), test.begun('live'), settle.begin_operation('resolved', 'asks', lease => '1h');
select settle.mark_sent(of_key, 1), test.lapse(of_key) from unnest(array['sent', 'opaque', 'resolved']) as of_key;
select test.lapse('free'), test.lapse('opaque unsent');
select test.same('swept: four lost, and one of them taken to a person at once', settle.sweep(), 6);
select test.same('statuses', jsonb_object_agg(key, jsonb_build_array(status, review_reason, attempt_count)), '{"free":["pending",null,1],"sent":["unknown",null,1],"opaque":["review","unknown",1],"opaque unsent":["pending",null,1],
    "live":["running",null,1],"resolved":["unknown",null,1]}'::jsonb) from settle.operations where key in ('free', 'sent', 'opaque', 'opaque unsent', 'live', 'resolved');
update test.before set state = test.everything();
select test.same('nothing more', settle.sweep(), 0);
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.same('what needs a person', jsonb_object_agg(key, jsonb_build_array(reason, status)), '{"sent":["unknown","unknown"],"opaque":["unknown","review"]}'::jsonb) from settle.reviews where key in ('free', 'sent', 'opaque', 'resolved');
-- An opaque one met before any sweep is unknown, and in review after it.
select test.begun('met', 'opaque'), settle.mark_sent('met', 1), test.lapse('met');
select test.same('met', (settle.begin_operation('met', 'k', effect => 'opaque')).outcome, 'unknown');
select test.same('swept', settle.sweep(), 1);
select test.same('then', (settle.begin_operation('met', 'k', effect => 'opaque')).outcome, 'frozen');

-- A cancel that was asked for before the loss is a cancel after it, however the loss is met; not of what may have been applied.
select test.begun(of_key), settle.cancel(of_key, 'ann', 'r'), test.lapse(of_key) from unnest(array['c met', 'c swept', 'c decided', 'c undone']) as of_key;
select test.same('met', (settle.begin_operation('c met', 'k', effect => 'keyed', lease => '1h')).failure, '{"code":"CANCELLED","detail":null}'::jsonb);
select test.same('decided', (settle.decide('c decided', 'failed', 'ann', 'r')).outcome || (settle.cancel('c decided', 'ann', 'r')).outcome, 'already_decidedalready_decided');
select test.same('undone', (settle.begin_compensation('c undone', 'ann', 'r')).outcome, 'not_compensable');
select test.same('swept', settle.sweep(), 1);
select test.same('cancelled', jsonb_object_agg(key, jsonb_build_array(status, attempt_count, finished_at is not null, open_since)), '{"c met":["cancelled",1,true,null],"c swept":["cancelled",1,true,null],"c decided":["cancelled",1,true,null],"c undone":["cancelled",1,true,null]}'::jsonb) from settle.operations where key like 'c %';
select test.same('its execution was lost', jsonb_build_array(outcome, error ->> 'code'), '["lost","LEASE_LOST"]'::jsonb) from settle.executions where key = 'c swept';
select test.same('nor ended any more', (settle.complete('c swept', 1)).outcome, 'stale');
select test.begun('c sent'), settle.mark_sent('c sent', 1), settle.cancel('c sent', 'ann', 'r'), test.lapse('c sent'), settle.sweep();
select test.same('sent', test.status('c sent'), 'unknown');

-- A few at a time, the oldest first, of one namespace or of all.
select test.begun('n' || i, 'keyed', case when i > 3 then 'T2' else 'default' end), test.lapse('n' || i, case when i > 3 then 'T2' else 'default' end) from generate_series(1, 6) as i;
select test.same('two', settle.sweep(2), 2);
select test.same('the oldest', array_agg(key order by key), array['n1', 'n2']) from settle.operations where key like 'n_' and status = 'pending';
select test.same('of one namespace', settle.sweep(namespace => 'T2'), 3);
select test.same('of none', settle.sweep(namespace => 'T3'), 0);
select test.same('of all', settle.sweep(), 1);
select test.begun('one', 'opaque'), settle.mark_sent('one', 1), test.lapse('one');
select test.same('no more than asked for', array[settle.sweep(1), settle.sweep(1), settle.sweep(1)], array[1, 1, 0]);
select test.invalid('max_rows ' || coalesce(bad, 'NULL'), format('select settle.sweep(%s)', coalesce(bad, 'null')), 'max_rows', 'is outside 1 to 1000') from unnest(array[null, '0', '-1', '1001']) as bad;
