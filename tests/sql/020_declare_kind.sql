-- Declaring kinds: every member is checked, every change is a numbered revision, applying twice is nothing.
\ir support/check.psql

create function test.refused(declaration jsonb, field text, why_like text default '%')
returns void language plpgsql as $$
begin
    perform test.invalid(declaration::text, format('select settle.declare_kind(%L, %L)', 'refused', declaration), field, why_like);
end $$;

select test.same('first', to_jsonb(settle.declare_kind('debit', '{"effect":"local"}')),
    '{"outcome":"declared","kind":"debit","revision":1}'::jsonb);
select test.same('again', to_jsonb(settle.declare_kind('debit', '{"effect":"local"}')),
    '{"outcome":"unchanged","kind":"debit","revision":1}'::jsonb);
select test.same('changed', to_jsonb(settle.declare_kind('debit', '{"effect":"local","lease":"10s"}')),
    '{"outcome":"declared","kind":"debit","revision":2}'::jsonb);
select test.same('back', to_jsonb(settle.declare_kind('debit', '{"effect":"local"}')),
    '{"outcome":"declared","kind":"debit","revision":3}'::jsonb);
select test.same('the view shows what is in force', (select jsonb_agg(jsonb_build_array(kind, revision, effect, identity, secret, declaration, declared_by)) from settle.kinds),
    '[["debit",3,"local",null,false,{"effect":"local"},"postgres"]]'::jsonb);
select test.same('old revisions stay', (select count(*)::integer from settle_data.kind_revision), 3);

-- All of it at once, as the contract writes it.
select test.same('a whole declaration', (settle.declare_kind('whole', '{
    "effect": "keyed", "handler": {"http": "https://pay.example/{key}", "key_header": "X-Request-Id", "result_ref": "/id",
        "state": {"pointer": "/status", "applied": ["PAID"]}},
    "identity": ["/account", "/amount"], "resource": "account:{request.account}", "secret": false, "null_is_absent": true,
    "queue": "default", "lease": "30s", "timeout": "30s", "key_window": "24h", "events": ["succeeded", "failed"],
    "retry": {"max_attempts": 5, "deadline": "15m", "base_delay": "200ms", "max_delay": "30s", "in_flight": 8, "budget": 0.2},
    "resolve": {"handler": {"http": "https://pay.example/{key}"}, "settle_window": "2m", "base_delay": "1s", "max_delay": "1m",
        "deadline": "24h", "compare": ["/amount"]},
    "compensation": {"kind": "refund"}, "limits": {"running": 100, "lane_running": 1, "lane_order": "strict"},
    "review": {"approvals": 2, "rerun_failed": true, "hold_lane": true},
    "retention": {"detail": "30d", "key": "forever", "rerun_window": "90d", "redelivery_window": "7d"}}')).outcome, 'declared');
select test.same('kept as it came', declaration #> '{limits,running}', '100'::jsonb) from settle.kinds where kind = 'whole';

select test.refused('null', 'declaration', 'is no object');
select test.refused('[]', 'declaration', 'is no object');
select test.refused('"local"', 'declaration', 'is no object');
select test.invalid('SQL null', $$select settle.declare_kind('k', null)$$, 'declaration', 'is no object');
select test.refused('{}', 'effect', 'is required%');
select test.refused('{"effect":"maybe"}', 'effect', 'is none of local, keyed, opaque');
select test.refused('{"effect":null}', 'effect');
select test.refused('{"effect":1}', 'effect');
select test.refused('{"effect":"local","speed":1}', 'speed', 'is unknown');
select test.refused('{"effect":"local","retry":{"attempts":1}}', 'retry.attempts', 'is unknown');
select test.refused('{"effect":"local","retry.deadline":"1m"}', 'retry\.deadline', 'is unknown');
select test.refused('{"effect":"local","handler.sql":"f"}', 'handler\.sql', 'is unknown');
select test.refused('{"effect":"local","retry":1}', 'retry', 'is no table');
select test.refused('{"effect":"local","retry":[]}', 'retry', 'is no table');
select test.refused('{"effect":"local","secret":"yes"}', 'secret', 'is not true or false');
select test.refused('{"effect":"local","secret":null}', 'secret');
select test.refused('{"effect":"local","null_is_absent":1}', 'null_is_absent');
select test.refused('{"effect":"local","identity":[]}', 'identity');
select test.refused('{"effect":"local","identity":"/a"}', 'identity');
select test.refused('{"effect":"local","identity":["a"]}', 'identity');
select test.refused('{"effect":"local","identity":[""]}', 'identity');
select test.refused('{"effect":"local","identity":["/a~2"]}', 'identity');
select test.refused('{"effect":"local","identity":["/a~"]}', 'identity');
select test.refused('{"effect":"local","identity":["/a",1]}', 'identity');
select test.refused('{"effect":"local","identity":[["/a"]]}', 'identity');
select test.refused('{"effect":"local","events":["done"]}', 'events');
select test.refused('{"effect":"local","events":"failed"}', 'events');
select test.refused('{"effect":"local","events":[1]}', 'events');
select test.refused('{"effect":"local","queue":""}', 'queue', 'is empty');
select test.refused('{"effect":"local","queue":1}', 'queue');
select test.refused(jsonb_build_object('effect', 'local', 'queue', repeat('q', 64)), 'queue', '%the limit is 63');
select test.refused('{"effect":"local","compensation":{"kind":" undo"}}', 'compensation.kind');
select test.refused('{"effect":"local","retry":{"max_attempts":0}}', 'retry.max_attempts', 'is no whole number from 1 to 1000000');
select test.refused('{"effect":"local","retry":{"max_attempts":1.5}}', 'retry.max_attempts');
-- 2.0 would be read as no integer by all that ends or takes over an operation of the kind
select test.refused('{"effect":"local","retry":{"max_attempts":2.0}}', 'retry.max_attempts', 'is no whole number from 1 to 1000000');
select test.refused('{"effect":"local","retry":{"max_attempts":"5"}}', 'retry.max_attempts');
select test.refused('{"effect":"local","retry":{"max_attempts":1e30}}', 'retry.max_attempts');
select test.refused('{"effect":"local","retry":{"budget":-0.1}}', 'retry.budget', 'is no number from 0 to 100');
select test.refused('{"effect":"local","retry":{"budget":100.1}}', 'retry.budget');
select test.refused('{"effect":"local","review":{"approvals":3}}', 'review.approvals');
select test.refused('{"effect":"local","limits":{"lane_order":"fifo"}}', 'limits.lane_order');

-- Durations: a whole number and a unit, 1 ms to 10 years.
select test.refused(jsonb_build_object('effect', 'local', 'lease', duration), 'lease')
from unnest(array['"0s"', '"0ms"', '"-1s"', '"1"', '1', '30', '""', '"s"', '"1.5s"', '"1 s"', '" 1s"', '"1S"', '"1w"', '"1y"', '"forever"', 'null', 'true',
    '["1s"]', '"3651d"', '"315360000001ms"', '"99999999999999999999s"', '"1m30s"', '"1s "', '"1s\n"']::jsonb[]) as duration;
select test.same('a duration: ' || duration, ((settle.declare_kind('timed', jsonb_build_object('effect', 'local', 'lease', duration))).outcome), 'declared')
from unnest(array['1ms', '1s', '90m', '24h', '7d', '3650d', '315360000000ms']) as duration;
select test.same('exact', extract(epoch from settle_data.parse_duration('x', '"1ms"')), 0.001);
select test.same('the longest', extract(epoch from settle_data.parse_duration('x', '"3650d"')), 315360000.0);

-- Handlers.
select test.refused('{"effect":"local","handler":{}}', 'handler', '%exactly one%');
select test.refused('{"effect":"local","handler":{"sql":"f","native":true}}', 'handler', '%exactly one%');
select test.refused('{"effect":"local","handler":"f"}', 'handler');
select test.refused('{"effect":"local","handler":{"sql":""}}', 'handler.sql');
select test.refused('{"effect":"local","handler":{"sql":7}}', 'handler.sql');
select test.refused('{"effect":"local","handler":{"command":[]}}', 'handler.command');
select test.refused('{"effect":"keyed","handler":{"command":["a",1]}}', 'handler.command');
select test.refused('{"effect":"local","handler":{"http":"https://x.example"}}', 'effect', 'is local, but%');
select test.refused('{"effect":"local","handler":{"command":["./pay"]}}', 'effect', 'is local, but%');
select test.refused('{"effect":"keyed","handler":{"http":"https://x.example"}}', 'key_window', 'is required%');
select test.same('for ever, in writing', (settle.declare_kind('forever', '{"effect":"keyed","handler":{"http":"https://x.example"},"key_window":"forever"}')).outcome, 'declared');
select test.same('or with a resolver', (settle.declare_kind('resolver', '{"effect":"keyed","handler":{"http":"https://x.example"},"resolve":{"handler":{"sql":"f"}}}')).outcome, 'declared');
select test.refused(jsonb_build_object('effect', 'local', 'handler', jsonb_build_object('sql', name)), 'handler.sql', 'is no name of a function%')
from unnest(array['f(text)', 'a.b.c', 'a..b', '.f', 'f.', '1f', 'f; drop table x', 'f g', '"f', 'a-b', 'select f']) as name;
select test.same('a function: ' || name, (settle.declare_kind('named', jsonb_build_object('effect', 'local', 'handler', jsonb_build_object('sql', name)))).outcome, 'declared')
from unnest(array['f', 'bank.debit', '"Bank"."De bit"', 'überweisung', '_f$1', '"a""b".c']) as name;

-- Retention: a key outlives all that may repeat it.
select test.raises('too short', $$select settle.declare_kind('short', '{"effect":"local","retention":{"key":"30d"}}')$$, 'ST009', 'RETENTION_TOO_SHORT: retention.key is 30d, but something may repeat a key for 97d 15m (%');
select test.raises('just too short', $$select settle.declare_kind('short', '{"effect":"local","retention":{"key":"97d"}}')$$, 'ST009');
select test.same('long enough', (settle.declare_kind('kept', '{"effect":"local","retention":{"key":"98d"}}')).outcome, 'declared');
select test.same('or less to outlive', (settle.declare_kind('kept', '{"effect":"local","retention":{"key":"3d","rerun_window":"1d","redelivery_window":"1d"}}')).outcome, 'declared');

-- Names.
select test.invalid('null', $$select settle.declare_kind(null, '{"effect":"local"}')$$, 'kind', 'is required');
select test.invalid('empty', $$select settle.declare_kind('', '{"effect":"local"}')$$, 'kind', 'is empty');
select test.invalid('64 bytes', $$select settle.declare_kind(repeat('k', 64), '{"effect":"local"}')$$, 'kind', 'is 64 bytes long; the limit is 63');
select test.invalid('64 bytes in 32 letters', $$select settle.declare_kind(repeat('é', 32), '{"effect":"local"}')$$, 'kind', 'is 64 bytes long; the limit is 63');
select test.invalid('a control character', $$select settle.declare_kind(E'a\tb', '{"effect":"local"}')$$, 'kind', 'holds a control character');
select test.same('63', (settle.declare_kind(repeat('k', 63), '{"effect":"local"}')).outcome, 'declared');
select test.same('nothing refused has been kept', (select count(*) from settle.kinds where kind in ('refused', 'short')), 0::bigint);

-- What decides about a repeat cannot change while an operation of the kind is unfinished; all else can.
select settle.declare_kind('busy', '{"effect":"keyed","identity":["/a"]}');
select settle.begin_operation('B1', 'busy', '{"a":1}', lease => '1h');
select test.invalid('effect', $$select settle.declare_kind('busy', '{"effect":"local","identity":["/a"]}')$$, 'effect', 'cannot change while%');
select test.invalid('identity', $$select settle.declare_kind('busy', '{"effect":"keyed","identity":["/b"]}')$$, 'identity', 'cannot change while%');
select test.invalid('no identity', $$select settle.declare_kind('busy', '{"effect":"keyed"}')$$, 'identity', 'cannot change while%');
select test.invalid('null_is_absent', $$select settle.declare_kind('busy', '{"effect":"keyed","identity":["/a"],"null_is_absent":true}')$$, 'identity', 'cannot change while%');
select test.invalid('secret', $$select settle.declare_kind('busy', '{"effect":"keyed","identity":["/a"],"secret":true}')$$, 'secret', 'cannot change while%');
select test.same('the lease may', (settle.declare_kind('busy', '{"effect":"keyed","identity":["/a"],"lease":"5s"}')).revision, 2);
select settle.complete('B1', 1);
select test.same('then all may', (settle.declare_kind('busy', '{"effect":"keyed","identity":["/b"],"secret":true}')).revision, 3);
-- The finished one is compared as it began, for ever.
select test.same('same by the old identity', (settle.begin_operation('B1', 'busy', '{"a":1,"b":5}')).outcome, 'replayed');
select test.same('another by the old identity', (settle.begin_operation('B1', 'busy', '{"a":2,"b":5}')).outcome, 'conflict');
select test.same('a new one by the new', (settle.begin_operation('B2', 'busy', '{"a":1,"b":5}', lease => '1h')).outcome, 'started');
select test.same('a new one by the new', (settle.begin_operation('B2', 'busy', '{"a":9,"b":5.0}')).outcome, 'in_progress');
select test.same('and its request is not kept', (select request from settle.operations where key = 'B2'), null::jsonb);
select test.same('nothing of it anywhere', (select count(*) from settle_data.operation o where o.key = 'B2' and to_jsonb(o)::text like '%"b"%'), 0::bigint);

-- A counter each for thirty-one kinds, one that the rest share.
do $$ begin for i in 1 .. 40 loop perform settle.declare_kind('many' || i, '{"effect":"local"}'); end loop; end $$;
select test.same('counters', (select array_agg(n order by n) from (select count(distinct kind) as n from settle_data.kind_revision where counter > 0 group by counter) as c),
    array_fill(1::bigint, array[31]));
