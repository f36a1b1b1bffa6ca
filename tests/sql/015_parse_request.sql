-- Raw text to jsonb: what jsonb would lose without a word is refused, and the refusal names the place.
\ir support/check.psql

select test.same('it gives the jsonb', settle.parse_request('{"b": 1e2, "a": [true, null, "\u0045"]}'),
    '{"a": [true, null, "E"], "b": 100}'::jsonb);
select test.same('any value', settle.parse_request(spelt), spelt::jsonb)
from unnest(array['{}', '[]', 'null', '1', '"x"', ' {} ', '{"a":{"a":1},"b":[{"a":1},{"a":1}]}']) as spelt;

create function test.refused(given text, why_like text)
returns void language plpgsql as $$
begin
    perform test.invalid(left(given, 60), format('select settle.parse_request(%L)', given), 'request', why_like);
end $$;

-- Members there twice, however they are spelt and however deep.
select test.refused('{"amount":1,"amount":2}', 'member /amount is there more than once');
select test.refused('{"amount":1,"amount":1}', 'member /amount is there more than once');
select test.refused('{"a":1,"\u0061":2}', 'member /a is there more than once');
select test.refused('{"a":{"b":1,"c":[0,{"d":1,"d":2}]}}', 'member /a/c/1/d is there more than once');
select test.refused('[{"a":1},{"a":1,"a":{}}]', 'member /1/a is there more than once');
select test.refused('{"":1,"":2}', 'member / is there more than once');
select test.refused('{"x/y":1,"x\/y":2}', 'member /x~1y is there more than once');
select test.refused('{"~":1,"\u007e":2}', 'member /~0 is there more than once');
select test.refused('{"a":{"b":1},"a":{"b":2}}', 'member /a%is there more than once');
select test.same('names in two places are no repeat', settle.parse_request('{"a/b":1,"a":{"b":2}}'), '{"a":{"b":2},"a/b":1}'::jsonb);

-- Characters that are none.
select test.refused('{"n":"a\u0000b"}', 'holds an escape that is no character%\u0000%JSON data%');
select test.refused('{"a\u0000b":1}', 'holds an escape that is no character%\u0000%');
select test.refused('["x","a\u0000"]', 'holds an escape that is no character%\u0000%');
select test.refused('"\ud800"', 'holds an escape that is no character%');
select test.refused('{"n":["\udc00"]}', 'holds an escape that is no character%');
select test.refused('"\ud800\ud800"', 'holds an escape that is no character%');
select test.refused('"\ud800x"', 'holds an escape that is no character%');
select test.same('a pair is one', settle.parse_request('"\ud83d\ude00"'), '"😀"'::jsonb);
select test.same('a backslash before u0000 is none of it', settle.parse_request('"\\u0000"'), '"\\u0000"'::jsonb);

-- Numbers.
select test.refused('{"a":[1,{"n":1e309}]}', 'member /a/1/n is a number of 1e309 or beyond, or of more than 400 digits');
select test.refused('-1e309', 'is a number of 1e309 or beyond%');
select test.refused('[1E400]', 'member /0 is a number of 1e309 or beyond%');
select test.refused('[1e100000]', 'member /0 is a number of 1e309 or beyond%');
select test.refused('[1e99999999999999999999]', 'holds a number of 1e309 or beyond%');
select test.refused('[1e-401]', 'member /0 is a number%of more than 400 digits');
select test.refused('[' || repeat('1', 401) || ']', 'member /0 is a number of 1e309%');
select test.refused('[0.' || repeat('1', 400) || ']', 'member /0 is a number%of more than 400 digits');
select test.refused('[0.' || repeat('0', 399) || '1e0]', 'member /0 is a number%of more than 400 digits');
select test.same('the greatest', settle.parse_request('9e308')::numeric, 9e308);
select test.same('399 places', settle.parse_request('0.' || repeat('1', 399))::numeric, ('0.' || repeat('1', 399))::numeric);
select test.same('zeros behind do not count', settle.parse_request('1.' || repeat('0', 500))::numeric, 1.0);
select test.same('2^53+1', settle.parse_request('{"account":9007199254740993}') ->> 'account', '9007199254740993');
select test.same('2^64-1', settle.parse_request('18446744073709551615')::text, '18446744073709551615');

-- Depth and size.
select test.same('32 deep', settle.parse_request(repeat('[', 32) || repeat(']', 32)), (repeat('[', 32) || repeat(']', 32))::jsonb);
select test.refused(repeat('[', 33) || repeat(']', 33), 'member /0/0/%/0 is nested deeper than 32');
select test.refused(repeat('{"a":', 32) || '[]' || repeat('}', 32), 'member /a/a/%/a is nested deeper than 32');
select test.refused(repeat('[', 100000) || repeat(']', 100000), '%is nested deeper than 32');
select test.refused('"' || repeat('a', 1048575) || '"', 'is 1048577 bytes long; the limit is 1048576');
select test.ok('1 MiB', settle.parse_request('"' || repeat('a', 1048574) || '"') is not null);

-- No JSON: where, and why.
select test.refused('', 'is no JSON: The input string ended unexpectedly.%');
select test.refused(' ', 'is no JSON: The input string ended unexpectedly.%');
select test.refused('{"a":1,}', 'is no JSON: Expected string, but found "}".%JSON data, line 1: {"a":1,}%');
select test.refused(E'{"a":1,\n "b" 2}', 'is no JSON:%JSON data, line 2:%');
select test.refused('{''a'':1}', 'is no JSON:%');
select test.refused('[1] [2]', 'is no JSON:%');
select test.refused('[01]', 'is no JSON:%');
select test.refused('[1.]', 'is no JSON:%');
select test.refused('[+1]', 'is no JSON:%');
select test.refused('[NaN]', 'is no JSON:%');
select test.refused('[Infinity]', 'is no JSON:%');
select test.refused(E'"a\tb"', 'is no JSON: Character with value 0x09 must be escaped.%');
select test.refused('"\x"', 'is no JSON:%');
select test.refused('"\u12"', 'is no JSON:%');
select test.invalid('null', 'select settle.parse_request(null)', 'request', 'is null; an empty one is {}');

-- A long name over many items costs no more than the document weighs.
set statement_timeout = '20s';
select test.same('a long name over many items',
    settle.parse_request('{"' || repeat('A', 50000) || '":[' || repeat('1,', 50000) || '1]}') -> repeat('A', 50000) -> 50000, '1');
select test.refused('{"' || repeat('A', 2000) || '":[' || repeat('1,', 10) || '{"b":1,"c":2,"b":3}]}',
    'member /A%A [settle: cut, sha256 %]/10/b is there more than once');
select test.refused('{"' || repeat('A', 2000) || '":1,"' || repeat('A', 2000) || '":1}', 'member /A%A [settle: cut, sha256 %] is there more than once');
select test.ok('names alike for long are two', settle.parse_request('{"' || repeat('A', 2000) || '":1,"' || repeat('A', 2001) || '":1}') is not null);
reset statement_timeout;
