-- Ids, UUIDs and GUIDs taken apart and put together: values that stay what they are.
\set VERBOSITY sqlstate
SET search_path = ids;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET snowflake.epoch = '2026-01-01T00:00:00Z'; -- the default, whatever this server says

SELECT * FROM snowflake_parse(120843629957758976);
SELECT * FROM snowflake_parse(0);
SELECT * FROM snowflake_parse(9223372036854775807);
SELECT * FROM snowflake_parse(1541815603606036480, '2010-11-04T01:42:54.657Z');
SELECT snowflake_timestamp(120843629957758976), snowflake_timestamp(120843629957758976, '2024-01-01Z') AS since_2024;
SELECT snowflake_worker_id(4194303), snowflake_sequence(4194303);
SELECT snowflake_compose('2026-11-30T11:09:26.548Z', 4, 0), snowflake_compose('2016-04-30T11:18:25.796Z', 32, 7, '2015-01-01Z');
SELECT snowflake_parse(-1);
SELECT snowflake_worker_id(-1);
SELECT snowflake_compose('2026-11-30Z', 1024, 0);
SELECT snowflake_compose('2026-11-30Z', 0, 4096);
SELECT snowflake_compose('2025-12-31Z', 0, 0);
SELECT snowflake_parse(NULL) IS NULL AS parse, snowflake_compose(NULL, 4, 0) IS NULL AS compose;

-- bounds; saturated outside of what an id can carry
SELECT ts, snowflake_min_id(ts), snowflake_max_id(ts)
FROM unnest('{-infinity,2025-12-31,2026-01-01,2026-12-01 00:00:00.0009,2095-09-07 15:47:35.551,2095-09-08,infinity}'::timestamptz[]) ts;
SELECT snowflake_min_id('2016-04-30Z', '2015-01-01Z'), snowflake_max_id('2016-04-30Z', '2015-01-01Z');
SELECT snowflake_between(120843629957758976, '2026-11-30 11:09Z', '2026-11-30 11:10Z') AS inside,
       snowflake_between(120843629957758976, '2026-11-30 11:09Z', '2026-11-30 11:09:26.548Z') AS excluded,
       snowflake_between(120843629957758976, '2024-11-29 11:09Z', '2024-11-29 11:10Z', '2024-01-01Z') AS since_2024;

-- other systems
SELECT layout, id, p.* FROM (VALUES ('twitter', 1541815603606036480), ('discord', 175928847299117063),
    ('instagram', 11637205501278089), ('mastodon', 108737023911121969), ('sonyflake', 126985290920230913),
    ('pgedge', 170505378935607296)) v (layout, id), snowflake_parse_as(layout, id) p;
SELECT snowflake_parse_as('unknown', 1);

-- text
SELECT id, snowflake_encode(id), snowflake_decode(snowflake_encode(id)) = id AS same
FROM unnest('{0,1,31,32,120843629957758976,9223372036854775807}'::bigint[]) id;
SELECT snowflake_decode('06ml591501000') AS lower_case, snowflake_decode('06ML591501000===') AS padded;
SELECT snowflake_encode(-1);
SELECT snowflake_decode('06ML59150100W');
SELECT snowflake_decode('short');
SELECT snowflake_decode('VVVVVVVVVVVVU');

-- UUIDs of version 7
SELECT uuidv7_timestamp(u), p.* FROM unnest('{017f22e2-79b0-7cc3-98c4-dc0c0c07398f,
    019535d9-3df7-79fb-b466-fa907fa17f9e,550e8400-e29b-41d4-a716-446655440000}'::uuid[]) u, uuidv7_parse(u) p;
SELECT uuidv7_min('2026-12-01Z'), uuidv7_max('2026-12-01Z');
SELECT uuidv7_min('infinity');
SELECT uuidv7_min('1969-12-31Z');
SELECT ids.uuidv7('-1000 years');

-- ordered GUIDs
SELECT sequential_uuid_timestamp('08da7241-170b-8c8e-8fd0-d1d2d3d4d5d6'),
       sequential_uuid_timestamp('550e8400-e29b-41d4-a716-446655440000') IS NULL AS random;
SELECT sequential_uuid('sideways');
SELECT uuid_to_sqlserver('00112233-4455-6677-8899-aabbccddeeff'),
       uuid_from_sqlserver(uuid_to_sqlserver('00112233-4455-6677-8899-aabbccddeeff'));
