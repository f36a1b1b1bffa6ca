-- The digest: one relation of equality, computed in one place.
\ir support/check.psql

-- The vectors of the contract.
select test.same('the vector', settle.digest('k', '{"amount":100,"currency":"EUR","meta":{"a":1,"b":[2,1]}}'),
    '1:218baf4c9a9138105224625e3c5c03fa848c5da1f60a8e6bec74933a0a94288f');
select test.same('array order differs', settle.digest('k', '{"amount":100,"currency":"EUR","meta":{"a":1,"b":[1,2]}}'),
    '1:fb185df7dbd9237439917651083b5f9727012602f8317047b6a509b9c72f0dd2');
select test.same('the same: ' || spelling, settle.digest('k', spelling::jsonb),
    '1:218baf4c9a9138105224625e3c5c03fa848c5da1f60a8e6bec74933a0a94288f')
from unnest(array[
    '{"meta":{"b":[2,1],"a":1},"currency":"EUR","amount":100}',
    '{ "currency" : "EUR",
       "amount" : 1e2, "meta" : { "a" : 1.0, "b" : [ 2, 1 ] } }',
    '{"amount":100.0,"currency":"\u0045UR","meta":{"a":1,"b":[2,1]}}',
    '{"amount":1E+2,"currency":"E\u0055R","meta":{"a":1,"b":[2,1]}}',
    '{"amount":0.1e3,"\u0063urrency":"EUR","meta":{"a":1,"b":[2.00,10e-1]}}',
    '{"amount":1000e-1,"currency":"EUR","meta":{"a":1,"b":[2,1]}}']) as spelling;
select test.ok('differs: ' || other, settle.digest('k', other::jsonb)
    <> '1:218baf4c9a9138105224625e3c5c03fa848c5da1f60a8e6bec74933a0a94288f')
from unnest(array[
    '{"amount":"100","currency":"EUR","meta":{"a":1,"b":[2,1]}}',
    '{"amount":100,"currency":"EUR","meta":{"a":1,"b":[2,1],"c":null}}',
    '{"amount":100,"currency":"EUR","meta":{"a":1,"b":[2,1]},"x":null}',
    '{"amount":100,"currency":"eur","meta":{"a":1,"b":[2,1]}}',
    '{"amount":100,"currency":"EUR ","meta":{"a":1,"b":[2,1]}}',
    '{"amount":100.0000000000000000000000000000001,"currency":"EUR","meta":{"a":1,"b":[2,1]}}',
    '[{"amount":100,"currency":"EUR","meta":{"a":1,"b":[2,1]}}]']) as other;

-- What is hashed, letter by letter.
select test.same('canonical ' || given, settle_data.canonical(given::jsonb), wanted)
from (values
    ('{}', '{}'), ('[]', '[]'), ('null', 'null'), ('true', 'true'), ('""', '""'), ('[null,false]', '[null,false]'),
    ('{"b":1,"a":{"d":[],"c":{}}}', '{"a":{"c":{},"d":[]},"b":1}'),
    -- numbers: exact, no exponent, no zeros behind
    ('-0', '0'), ('0.0', '0'), ('-0.0e5', '0'), ('0e10', '0'), ('1E+2', '100'), ('1e2', '100'), ('100.0', '100'), ('1e-7', '0.0000001'),
    ('1.50', '1.5'), ('-1.50e1', '-15'), ('120e-1', '12'), ('12e-1', '1.2'),
    ('9007199254740993', '9007199254740993'), ('9007199254740992', '9007199254740992'),
    ('18446744073709551615', '18446744073709551615'), ('1970670598291982290', '1970670598291982290'),
    ('0.1', '0.1'), ('0.10000000000000001', '0.10000000000000001'),
    (repeat('9', 308), repeat('9', 308)), ('1e308', '1' || repeat('0', 308)),
    ('0.' || repeat('0', 398) || '1', '0.' || repeat('0', 398) || '1'),
    -- strings: the fewest escapes
    ('"\u0045UR \u00e9\/"', '"EUR é/"'), ('"\u0001\u001f\u007f"', '"\u0001\u001f' || chr(127) || '"'),
    ('"\b\f\n\r\t\"\\"', '"\b\f\n\r\t\"\\"'), ('"\ud83d\ude00"', '"😀"'), ('"\u2028\u2029"', '"' || chr(8232) || chr(8233) || '"'),
    ('{"\u0022":"\u005c"}', '{"\"":"\\"}'),
    -- no normalisation: NFC and NFD stay two
    ('"\u00e9"', '"é"'), ('"e\u0301"', '"e' || chr(769) || '"')) as vector (given, wanted);

-- Members in the order of their UTF-16 code units: U+10000 (D800 DC00) comes before U+E000 and U+FFFF, after U+D7FF.
select test.same('UTF-16 order', settle_data.canonical(
    '{"\uffff":1,"\ud800\udc00":2,"\ue000":3,"\ud7ff":4,"z":5,"":6,"\udbff\udfff":7,"a\uffff":8,"a\ud800\udc00":9}'),
    '{"":6,"a' || chr(65536) || '":9,"a' || chr(65535) || '":8,"z":5,"' || chr(55295) || '":4,"' || chr(65536) || '":2,"'
    || chr(1114111) || '":7,"' || chr(57344) || '":3,"' || chr(65535) || '":1}');
select test.same('UTF-16 order beside U+D7FF', settle_data.canonical(
    '{"\ud7ff\ud800\udc00":1,"\ud800\udc00":2,"\ud7ff\ud7ff":3,"\ud7ff\ue000":4,"\ud7ff":5}'),
    '{"' || chr(55295) || '":5,"' || chr(55295) || chr(55295) || '":3,"' || chr(55295) || chr(65536) || '":1,"'
    || chr(55295) || chr(57344) || '":4,"' || chr(65536) || '":2}');
select test.same('short before long', settle_data.canonical('{"ab":1,"a":2,"b":3,"B":4,"10":5,"9":6}'),
    '{"10":5,"9":6,"B":4,"a":2,"ab":1,"b":3}');
select test.same('SHA-256 of the canonical text in UTF-8', settle.digest('k', '{"é":"😀"}'),
    '1:' || encode(sha256(convert_to('{"é":"😀"}', 'UTF8')), 'hex'));

-- Doubles would make these one.
select test.ok('2^53+1', settle.digest('k', '{"account":9007199254740993}') <> settle.digest('k', '{"account":9007199254740992}'));
select test.ok('0.1', settle.digest('k', '{"a":0.1}') <> settle.digest('k', '{"a":0.1000000000000000055511151231257827}'));

-- What jsonb keeps and the digest refuses.
select test.invalid('1e400', $$select settle.digest('k', '{"n":1e400}')$$, 'request', '%1e309%');
select test.invalid('1e309', $$select settle.digest('k', '[1e309]')$$, 'request', '%1e309%');
select test.invalid('-1e309', $$select settle.digest('k', '[-1e309]')$$, 'request', '%1e309%');
select test.ok('just below', settle.digest('k', ('[9.' || repeat('9', 90) || 'e308]')::jsonb) is not null);
select test.ok('400 digits', settle.digest('k', ('[' || repeat('9', 200) || '.' || repeat('9', 200) || ']')::jsonb) is not null);
select test.invalid('401 digits', $$select settle.digest('k', ('[' || repeat('9', 200) || '.' || repeat('9', 201) || ']')::jsonb)$$, 'request', '%400 digits');
select test.invalid('401 places', $$select settle.digest('k', '[1e-401]')$$, 'request', '%400 digits');
select test.ok('zeros behind do not count', settle.digest('k', ('[1.' || repeat('0', 500) || ']')::jsonb) = settle.digest('k', '[1]'));
select test.ok('digits in a string are no number', settle.digest('k', to_jsonb(repeat('1', 500))) is not null);
select test.ok('32 deep', settle.digest('k', (repeat('[', 32) || repeat(']', 32))::jsonb) is not null);
select test.invalid('33 deep', $$select settle.digest('k', (repeat('[', 33) || repeat(']', 33))::jsonb)$$, 'request', 'is nested deeper than 32');
select test.invalid('33 deep in objects', $$select settle.digest('k', (repeat('{"a":', 32) || '{}' || repeat('}', 32))::jsonb)$$, 'request', 'is nested deeper than 32');
select test.ok('many brackets, but not deep', settle.digest('k', ('[' || repeat('[],', 100) || '[]]')::jsonb) is not null);
select test.ok('a scalar at level 33', settle.digest('k', (repeat('[', 32) || '1' || repeat(']', 32))::jsonb) is not null);
select test.invalid('1 MiB and more', $$select settle.digest('k', to_jsonb(repeat('a', 1048576)))$$, 'request', '%bytes long; the limit is 1048576');
select test.ok('1 MiB', settle.digest('k', to_jsonb(repeat('a', 1048574))) is not null);
select test.invalid('null', $$select settle.digest('k', null)$$, 'request', 'is null; an empty one is {}');
select test.invalid('no kind', $$select settle.digest(null, '{}')$$, 'kind', 'is required');
select test.invalid('a long kind', $$select settle.digest(repeat('k', 64), '{}')$$, 'kind', '%the limit is 63');

-- null and absent.
select settle.declare_kind('strict', '{"effect":"local"}'), settle.declare_kind('loose', '{"effect":"local","null_is_absent":true}');
select test.ok('null is a value', settle.digest('strict', '{"a":1,"b":null}') <> settle.digest('strict', '{"a":1}'));
select test.ok('null is absent', settle.digest('loose', '{"a":1,"b":null,"c":{"d":null}}') = settle.digest('loose', '{"a":1,"c":{}}'));
select test.ok('in an array null has a place', settle.digest('loose', '{"a":[null,1]}') <> settle.digest('loose', '{"a":[1]}'));

-- Identity: pointers into the request.
select settle.declare_kind('named', '{"effect":"local","identity":["/a","/b/c","/list/1","/x~1y","/t~0u","/","/~01"]}');
create function test.named(request jsonb) returns text language sql as $$ select settle.digest('named', request) $$;
select test.ok('others do not count', test.named('{"a":1,"z":1}') = test.named('{"a":1,"z":2,"y":[]}'));
select test.ok('a member counts', test.named('{"a":1}') <> test.named('{"a":2}'));
select test.ok('a nested one', test.named('{"b":{"c":1,"d":1}}') = test.named('{"b":{"c":1,"d":2}}'));
select test.ok('a nested one counts', test.named('{"b":{"c":1}}') <> test.named('{"b":{"c":2}}'));
select test.ok('an item', test.named('{"list":[0,1]}') = test.named('{"list":[5,1,9]}'));
select test.ok('an item counts', test.named('{"list":[0,1]}') <> test.named('{"list":[0,2]}'));
select test.ok('~1 is /', test.named('{"x/y":1}') <> test.named('{"x/y":2}'));
select test.ok('~1 is not two steps', test.named('{"x":{"y":1}}') = test.named('{"x":{"y":2}}'));
select test.ok('~0 is ~', test.named('{"t~u":1}') <> test.named('{"t~u":2}'));
select test.ok('~01 is ~1, not /', test.named('{"~1":1}') <> test.named('{"~1":2}'));
select test.ok('/ is the member without a name', test.named('{"":1}') <> test.named('{"":2}'));
select test.ok('null is a value, absent is none', test.named('{"a":null}') <> test.named('{}'));
select test.ok('a value moved to another member differs', test.named('{"a":1}') <> test.named('{"x/y":1}'));
select test.ok('numbers by value', test.named('{"a":1e2}') = test.named('{"a":100.00}'));
select test.ok('no object at all is an empty identity', test.named('[]') = test.named('{}'));
select test.same('the identity is an object of pointers', test.named('{"a":1,"x/y":[2]}'),
    '1:' || encode(sha256('{"/a":1,"/x~1y":[2]}'), 'hex'));
select settle.declare_kind('items', '{"effect":"local","identity":["/l/-1","/l/01","/l/+1","/l/-"]}');
select test.ok('RFC 6901: -1, 01, +1 and - are no items', settle.digest('items', '{"l":[1,2]}') = settle.digest('items', '{"l":[3,4]}'));
select test.ok('but names of members', settle.digest('items', '{"l":{"-1":1}}') <> settle.digest('items', '{"l":{"-1":2}}'));

-- A secret kind's digest is keyed, with a key of its own, and stable.
select settle.declare_kind('hidden', '{"effect":"local","secret":true}'), settle.declare_kind('hidden2', '{"effect":"local","secret":true}');
create table test.digest as select settle.digest('hidden', '{"pin":1234}') as first;
select test.ok('keyed', first like '1:%' and length(first) = 66 and first <> settle.digest('k', '{"pin":1234}')
    and first <> settle.digest('hidden2', '{"pin":1234}')) from test.digest;
select test.ok('stable', first = settle.digest('hidden', '{"pin":1.234e3}')) from test.digest;
select test.ok('a value counts', first <> settle.digest('hidden', '{"pin":1235}')) from test.digest;
select settle.declare_kind('hidden', '{"effect":"local","secret":true,"lease":"10s"}');
select test.ok('the same key after another declaration', first = settle.digest('hidden', '{"pin":1234}')) from test.digest;
-- HMAC-SHA-256 as RFC 2104 has it: test case 2 of RFC 4231.
select test.same('HMAC', encode(sha256(settle_data.pad_key('Jefe', 92) || sha256(settle_data.pad_key('Jefe', 54)
    || 'what do ya want for nothing?')), 'hex'), '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843');

-- The digest that is shown of a stored request, and comparing by value, are the same relation.
select settle.begin_operation('D1', 'k', '{"amount":100,"meta":{"b":[2,1],"a":1}}', lease => '30s');
select test.same('shown', (select digest from settle.operations where key = 'D1'), settle.digest('k', '{"meta":{"a":1,"b":[2,1]},"amount":1e2}'));
