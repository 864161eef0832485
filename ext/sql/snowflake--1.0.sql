/* Install script of snowflake 1.0. What each object promises stands in its COMMENT and in the README. */

\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

-- What the database remembers for good. Sequences, because they are crash-safe, replicated and never rolled back.
-- Only the extension writes them; the mark and the epoch travel with dumps.

CREATE SEQUENCE @extschema@.snowflake_mark MINVALUE 0 START 0;
COMMENT ON SEQUENCE @extschema@.snowflake_mark IS
'durable mark: no id of this database carries a time at or past it (Unix milliseconds); see snowflake_reset_mark()';

CREATE SEQUENCE @extschema@.snowflake_epoch MINVALUE -9223372036854775808 START 0;
COMMENT ON SEQUENCE @extschema@.snowflake_epoch IS
'the epoch that the ids of this database count from (Unix milliseconds), recorded with the first id';

CREATE SEQUENCE @extschema@.snowflake_uptime MINVALUE -9223372036854775808 START 0;
COMMENT ON SEQUENCE @extschema@.snowflake_uptime IS
'the server start (a random number) since which the durable mark has been taken into account';

SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_mark'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_epoch'::pg_catalog.regclass, '');

-- Snowflake ids

CREATE FUNCTION @extschema@.snowflake_next() RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_next';
COMMENT ON FUNCTION @extschema@.snowflake_next() IS
'the next snowflake id: unique on this server, rising for each worker and in each session; usable as a column DEFAULT';

CREATE FUNCTION @extschema@.snowflake_next(count integer) RETURNS SETOF bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_next_count';
COMMENT ON FUNCTION @extschema@.snowflake_next(integer) IS
'count snowflake ids in ascending order from one call';

CREATE FUNCTION @extschema@.snowflake_release() RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_release';
COMMENT ON FUNCTION @extschema@.snowflake_release() IS
'gives back the worker id that this session leases; false when it leases none';

CREATE FUNCTION @extschema@.snowflake_reset_mark(at timestamptz) RETURNS timestamptz
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_reset_mark';
COMMENT ON FUNCTION @extschema@.snowflake_reset_mark(timestamptz) IS
'lowers this database''s durable mark after a clock that ran ahead, and returns the old one; superuser only: read the README first';
REVOKE ALL ON FUNCTION @extschema@.snowflake_reset_mark(timestamptz) FROM PUBLIC;

-- Watching

CREATE FUNCTION @extschema@.snowflake_status(OUT worker_id integer, OUT worker_source text, OUT epoch timestamptz,
    OUT last_id_at timestamptz, OUT reserved_until timestamptz, OUT clock_behind interval, OUT exhausted_at timestamptz,
    OUT version text)
LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'snowflake_status';
COMMENT ON FUNCTION @extschema@.snowflake_status() IS
'one row: this session''s worker id and where it comes from, the epoch, the worker''s last id, the durable mark, how far the clock is behind, when the time bits end, the library''s version';

CREATE FUNCTION @extschema@.snowflake_stats(OUT sequence_waits bigint, OUT clock_waits bigint, OUT clock_refusals bigint,
    OUT leases_taken bigint, OUT leases_lost bigint)
LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_stats';
COMMENT ON FUNCTION @extschema@.snowflake_stats() IS
'counters of the whole server since its start: waits for the next millisecond, waits for the clock, refusals because of the clock, leases taken, leases lost';

CREATE FUNCTION @extschema@.snowflake_worker_times(worker_id integer, OUT leased_at timestamptz, OUT last_id_at timestamptz)
LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_worker_times';
COMMENT ON FUNCTION @extschema@.snowflake_worker_times(integer) IS
'when a worker id was leased last and when it made its last id, since the server started; for the view snowflake_workers';

CREATE VIEW @extschema@.snowflake_workers AS
SELECT l.objid::pg_catalog.int4 AS worker_id, l.pid, a.datname AS database, a.usename AS "user",
       a.application_name AS application,
       CASE l.mode WHEN 'ExclusiveLock' THEN t.leased_at ELSE a.backend_start END AS since, t.last_id_at
FROM pg_catalog.pg_locks l
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) l.pid
CROSS JOIN LATERAL @extschema@.snowflake_worker_times(l.objid::pg_catalog.int4) t
WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.database OPERATOR(pg_catalog.=) 0
  AND l.classid OPERATOR(pg_catalog.=) 1936617335 AND l.objsubid OPERATOR(pg_catalog.=) 7 AND l.granted;
COMMENT ON VIEW @extschema@.snowflake_workers IS
'the worker ids in use on this server: a row for each session that leases one or makes ids with a fixed one';
GRANT SELECT ON @extschema@.snowflake_workers TO PUBLIC;

-- Taking ids apart

CREATE FUNCTION @extschema@.snowflake_parse(id bigint, OUT created_at timestamptz, OUT worker_id integer, OUT sequence integer)
LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_parse';
COMMENT ON FUNCTION @extschema@.snowflake_parse(bigint) IS
'the time, worker id and sequence in a snowflake id, with the epoch in force';

CREATE FUNCTION @extschema@.snowflake_parse(id bigint, epoch timestamptz, OUT created_at timestamptz, OUT worker_id integer, OUT sequence integer)
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_parse';
COMMENT ON FUNCTION @extschema@.snowflake_parse(bigint, timestamptz) IS
'the time, worker id and sequence in a snowflake id, with the given epoch';

CREATE FUNCTION @extschema@.snowflake_timestamp(id bigint) RETURNS timestamptz
LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp';
COMMENT ON FUNCTION @extschema@.snowflake_timestamp(bigint) IS
'the time in a snowflake id, with the epoch in force';

CREATE FUNCTION @extschema@.snowflake_timestamp(id bigint, epoch timestamptz) RETURNS timestamptz
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp';
COMMENT ON FUNCTION @extschema@.snowflake_timestamp(bigint, timestamptz) IS
'the time in a snowflake id, with the given epoch';

CREATE FUNCTION @extschema@.snowflake_worker_id(id bigint) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_worker_id';
COMMENT ON FUNCTION @extschema@.snowflake_worker_id(bigint) IS
'the worker id in a snowflake id, 0 to 1023';

CREATE FUNCTION @extschema@.snowflake_sequence(id bigint) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_sequence';
COMMENT ON FUNCTION @extschema@.snowflake_sequence(bigint) IS
'the sequence in a snowflake id, 0 to 4095';

-- UUID version 7

CREATE FUNCTION @extschema@.uuidv7() RETURNS uuid
LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_uuidv7';
COMMENT ON FUNCTION @extschema@.uuidv7() IS
'a UUID version 7 of this moment, rising in each session';

CREATE FUNCTION @extschema@.uuidv7(shift interval) RETURNS uuid
LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_uuidv7_shifted';
COMMENT ON FUNCTION @extschema@.uuidv7(interval) IS
'a UUID version 7 of this moment moved by an interval';

CREATE FUNCTION @extschema@.uuidv7_timestamp(id uuid) RETURNS timestamptz
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'snowflake_uuidv7_timestamp';
COMMENT ON FUNCTION @extschema@.uuidv7_timestamp(uuid) IS
'the time in a UUID version 7, to the millisecond; NULL for any other UUID';
