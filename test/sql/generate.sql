-- Ids, UUIDs and GUIDs that are made, by what can be said of them without printing one.
\set VERBOSITY sqlstate
SET search_path = public, ids;

CREATE TABLE orders (
    id bigint PRIMARY KEY DEFAULT snowflake_next(),
    u uuid UNIQUE DEFAULT ids.uuidv7(),
    g uuid UNIQUE DEFAULT sequential_uuid(),
    n integer
);
INSERT INTO orders (n) SELECT generate_series(1, 1000);
INSERT INTO orders (id, n) SELECT id, 1000 + row_number() OVER () FROM snowflake_next(1000) AS id;

SELECT count(*), count(DISTINCT id) AS ids, count(DISTINCT u) AS uuids, count(DISTINCT g) AS guids FROM orders;
SELECT count(*) AS not_rising FROM (
    SELECT id <= lag(id) OVER w OR u <= lag(u) OVER w OR g <= lag(g) OVER w AS wrong FROM orders WINDOW w AS (ORDER BY n)
) x WHERE wrong;
SELECT count(*) AS of_another_time FROM orders
WHERE abs(extract(epoch FROM clock_timestamp() - snowflake_timestamp(id))) > 600
OR abs(extract(epoch FROM clock_timestamp() - uuidv7_timestamp(u))) > 600
OR abs(extract(epoch FROM clock_timestamp() - sequential_uuid_timestamp(g))) > 600;
SELECT count(*) AS cannot_be_composed FROM orders, snowflake_parse(id) p
WHERE snowflake_compose(p.created_at, p.worker_id, p.sequence) <> id;
SELECT count(*) AS found_by_time FROM orders
WHERE snowflake_between(id, clock_timestamp() - interval '1 hour', clock_timestamp() + interval '1 hour');

SELECT count(*) FROM snowflake_next(0);
SELECT count(*) FROM snowflake_next(NULL);
SELECT snowflake_next(-1);
BEGIN READ ONLY;
SELECT snowflake_next();
ROLLBACK;
BEGIN READ ONLY;
SELECT count(ids.uuidv7()) FROM generate_series(1, 10);
COMMIT;

-- the mark stands ahead of all that was made, and the session is in the view
SELECT worker_source IN ('lease', 'setting') AS worker, last_id_at <= clock_timestamp() AS not_ahead,
       reserved_until > last_id_at AS reserved, clock_behind, version = extversion AS version
FROM snowflake_status(), pg_extension WHERE extname = 'snowflake';
SELECT count(*) FROM snowflake_workers WHERE pid = pg_backend_pid();
SELECT snowflake_release() = (worker_source = 'lease') AS released FROM snowflake_status();
SELECT snowflake_fingerprint('a') BETWEEN 0 AND 1023 AS in_range, snowflake_fingerprint('a') = snowflake_fingerprint('a') AS same;
SELECT snowflake_reset_mark('infinity');

-- the type: a bigint, but text in JSON
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_next(), what text);
INSERT INTO events (what) VALUES ('opened');
INSERT INTO events VALUES (120843629957758976, 'closed'), ('120843629957758977', 'closed again');
SELECT * FROM events WHERE id <= 120843629957758977 ORDER BY id;
SELECT row_to_json(events) FROM events WHERE id = 120843629957758976;
SELECT pg_typeof(id), pg_typeof(id + 1), snowflake_worker_id(id) FROM events WHERE what = 'closed';
SELECT count(*) FROM orders JOIN events USING (id);
INSERT INTO events VALUES ('x');
INSERT INTO events VALUES (9223372036854775808);

-- nothing remains
DROP TABLE orders, events;
DROP EXTENSION snowflake;
SELECT count(*) FROM pg_proc WHERE pronamespace = 'ids'::regnamespace;
DROP SCHEMA ids;
