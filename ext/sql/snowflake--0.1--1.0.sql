/* From 0.1, which made ids without a durable mark. Nothing that it had is made anew, so what depends on it stays. */

\echo Use "ALTER EXTENSION snowflake UPDATE" to load this file. \quit

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
GRANT SELECT ON SEQUENCE @extschema@.snowflake_mark, @extschema@.snowflake_epoch TO PUBLIC; -- pg_dump reads them

-- The ids of 0.1 carry times up to this moment.
SELECT pg_catalog.setval('@extschema@.snowflake_mark',
    (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8 OPERATOR(pg_catalog.+) 1);

CREATE FUNCTION @extschema@.snowflake_reset_mark(at timestamptz) RETURNS timestamptz
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_reset_mark';
COMMENT ON FUNCTION @extschema@.snowflake_reset_mark(timestamptz) IS
'lowers this database''s durable mark after a clock that ran ahead, and returns the old one; superuser only: read the README first';
REVOKE ALL ON FUNCTION @extschema@.snowflake_reset_mark(timestamptz) FROM PUBLIC;

-- Watching

CREATE FUNCTION @extschema@.snowflake_status(OUT worker_id integer, OUT worker_source text, OUT epoch timestamptz,
    OUT last_id_at timestamptz, OUT reserved_until timestamptz, OUT clock_behind interval, OUT exhausted_at timestamptz,
    OUT version text, OUT lease_state text)
LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'snowflake_status';
COMMENT ON FUNCTION @extschema@.snowflake_status() IS
'one row: this session''s worker id and where it comes from, the epoch, the worker''s last id, the durable mark, how far the clock is behind, when the time bits end, the library''s version, and, where worker ids come from another server, what became of the lease';

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

CREATE FUNCTION @extschema@.snowflake_compose(created_at timestamptz, worker_id integer, sequence integer) RETURNS bigint
LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_compose';
COMMENT ON FUNCTION @extschema@.snowflake_compose(timestamptz, integer, integer) IS
'the snowflake id with these parts, with the epoch in force; inverse of snowflake_parse';

CREATE FUNCTION @extschema@.snowflake_compose(created_at timestamptz, worker_id integer, sequence integer, epoch timestamptz) RETURNS bigint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_compose';
COMMENT ON FUNCTION @extschema@.snowflake_compose(timestamptz, integer, integer, timestamptz) IS
'the snowflake id with these parts, with the given epoch; inverse of snowflake_parse';

-- Bounds, for ranges of ids by time

CREATE FUNCTION @extschema@.snowflake_min_id(ts timestamptz) RETURNS bigint
LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id';
COMMENT ON FUNCTION @extschema@.snowflake_min_id(timestamptz) IS
'the smallest id that can carry the millisecond of ts, with the epoch in force';

CREATE FUNCTION @extschema@.snowflake_min_id(ts timestamptz, epoch timestamptz) RETURNS bigint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id';
COMMENT ON FUNCTION @extschema@.snowflake_min_id(timestamptz, timestamptz) IS
'the smallest id that can carry the millisecond of ts, with the given epoch';

CREATE FUNCTION @extschema@.snowflake_max_id(ts timestamptz) RETURNS bigint
LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_max_id';
COMMENT ON FUNCTION @extschema@.snowflake_max_id(timestamptz) IS
'the largest id that can carry the millisecond of ts, with the epoch in force';

CREATE FUNCTION @extschema@.snowflake_max_id(ts timestamptz, epoch timestamptz) RETURNS bigint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_max_id';
COMMENT ON FUNCTION @extschema@.snowflake_max_id(timestamptz, timestamptz) IS
'the largest id that can carry the millisecond of ts, with the given epoch';

CREATE FUNCTION @extschema@.snowflake_between(id bigint, from_ts timestamptz, until_ts timestamptz) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS
$$SELECT $1 OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id($2) AND $1 OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id($3)$$;
COMMENT ON FUNCTION @extschema@.snowflake_between(bigint, timestamptz, timestamptz) IS
'whether an id was made at or after from_ts and before until_ts, with the epoch in force; uses an index on id and prunes partitions';

CREATE FUNCTION @extschema@.snowflake_between(id bigint, from_ts timestamptz, until_ts timestamptz, epoch timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT $1 OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id($2, $4) AND $1 OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id($3, $4)$$;
COMMENT ON FUNCTION @extschema@.snowflake_between(bigint, timestamptz, timestamptz, timestamptz) IS
'whether an id was made at or after from_ts and before until_ts, with the given epoch; uses an index on id and prunes partitions';

-- Ids of other systems, and ids as text

CREATE FUNCTION @extschema@.snowflake_parse_as(layout text, id bigint, OUT created_at timestamptz, OUT node bigint, OUT sequence bigint)
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_parse_as';
COMMENT ON FUNCTION @extschema@.snowflake_parse_as(text, bigint) IS
'the time, node and sequence in an id of twitter, discord, instagram, mastodon, sonyflake or pgedge';

CREATE FUNCTION @extschema@.snowflake_encode(id bigint) RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_encode';
COMMENT ON FUNCTION @extschema@.snowflake_encode(bigint) IS
'an id as 13 characters (base32hex) that sort as the id does under COLLATE "C"';

CREATE FUNCTION @extschema@.snowflake_decode(encoded text) RETURNS bigint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode';
COMMENT ON FUNCTION @extschema@.snowflake_decode(text) IS
'the id that snowflake_encode wrote as text; ignores case';

-- Advice for set-up scripts

CREATE FUNCTION @extschema@.snowflake_fingerprint(salt text DEFAULT '') RETURNS integer
LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_fingerprint';
COMMENT ON FUNCTION @extschema@.snowflake_fingerprint(text) IS
'a worker id, 0 to 1023, derived from this server''s system identifier, host name, port and a salt. Advice, no claim: two of n servers get the same one with odds of about n(n-1)/2 in 1024 (1 in 100 for 5 servers, 1 in 23 for 10), and a copy of the server on the same host name and port always does';

CREATE FUNCTION @extschema@.uuidv7_parse(id uuid, OUT created_at timestamptz, OUT rand_a integer, OUT rand_b bigint)
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_uuidv7_parse';
COMMENT ON FUNCTION @extschema@.uuidv7_parse(uuid) IS
'the time and the two random parts of a UUID version 7; NULLs for any other UUID';

CREATE FUNCTION @extschema@.uuidv7_min(ts timestamptz) RETURNS uuid
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_uuidv7_min';
COMMENT ON FUNCTION @extschema@.uuidv7_min(timestamptz) IS
'the smallest UUID version 7 of the millisecond of ts';

CREATE FUNCTION @extschema@.uuidv7_max(ts timestamptz) RETURNS uuid
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_uuidv7_max';
COMMENT ON FUNCTION @extschema@.uuidv7_max(timestamptz) IS
'the largest UUID version 7 of the millisecond of ts';

-- Ordered GUIDs

CREATE FUNCTION @extschema@.sequential_uuid(ordering text DEFAULT 'string') RETURNS uuid
LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_sequential_uuid';
COMMENT ON FUNCTION @extschema@.sequential_uuid(text) IS
'a GUID of this moment that rises in each session: as text and in PostgreSQL (string), as .NET byte array (binary), or in SQL Server (end)';

CREATE FUNCTION @extschema@.sequential_uuid_timestamp(id uuid, ordering text DEFAULT 'string') RETURNS timestamptz
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_sequential_uuid_timestamp';
COMMENT ON FUNCTION @extschema@.sequential_uuid_timestamp(uuid, text) IS
'the time in an ordered GUID of that ordering; NULL for any other UUID';

CREATE FUNCTION @extschema@.uuid_to_sqlserver(id uuid) RETURNS uuid
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_uuid_to_sqlserver';
COMMENT ON FUNCTION @extschema@.uuid_to_sqlserver(uuid) IS
'a UUID with its bytes moved so that PostgreSQL''s order of the originals is SQL Server''s order of the results';

CREATE FUNCTION @extschema@.uuid_from_sqlserver(id uuid) RETURNS uuid
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_uuid_from_sqlserver';
COMMENT ON FUNCTION @extschema@.uuid_from_sqlserver(uuid) IS
'the inverse of uuid_to_sqlserver';

-- Type snowflake: a bigint in everything but its name, so that JSON carries it as text

CREATE TYPE @extschema@.snowflake;
COMMENT ON TYPE @extschema@.snowflake IS
'a snowflake id: a bigint in storage, order and indexes, text in JSON';

CREATE FUNCTION @extschema@.snowflake_in(cstring) RETURNS @extschema@.snowflake
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8in';
COMMENT ON FUNCTION @extschema@.snowflake_in(cstring) IS 'I/O';

CREATE FUNCTION @extschema@.snowflake_out(@extschema@.snowflake) RETURNS cstring
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8out';
COMMENT ON FUNCTION @extschema@.snowflake_out(@extschema@.snowflake) IS 'I/O';

CREATE FUNCTION @extschema@.snowflake_recv(internal) RETURNS @extschema@.snowflake
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8recv';
COMMENT ON FUNCTION @extschema@.snowflake_recv(internal) IS 'I/O';

CREATE FUNCTION @extschema@.snowflake_send(@extschema@.snowflake) RETURNS bytea
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8send';
COMMENT ON FUNCTION @extschema@.snowflake_send(@extschema@.snowflake) IS 'I/O';

CREATE TYPE @extschema@.snowflake (
    INPUT = @extschema@.snowflake_in, OUTPUT = @extschema@.snowflake_out,
    RECEIVE = @extschema@.snowflake_recv, SEND = @extschema@.snowflake_send,
    LIKE = pg_catalog.int8, CATEGORY = 'N' -- so that USING, UNION, CASE and COALESCE find bigint as the common type
);

CREATE FUNCTION @extschema@.snowflake_from_integer(integer) RETURNS @extschema@.snowflake
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int48';
COMMENT ON FUNCTION @extschema@.snowflake_from_integer(integer) IS 'convert integer to snowflake';

CREATE FUNCTION @extschema@.snowflake_from_smallint(smallint) RETURNS @extschema@.snowflake
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int28';
COMMENT ON FUNCTION @extschema@.snowflake_from_smallint(smallint) IS 'convert smallint to snowflake';

CREATE CAST (@extschema@.snowflake AS bigint) WITHOUT FUNCTION AS IMPLICIT;
COMMENT ON CAST (@extschema@.snowflake AS bigint) IS 'lets a snowflake be used wherever a bigint can';

CREATE CAST (bigint AS @extschema@.snowflake) WITHOUT FUNCTION AS ASSIGNMENT;
COMMENT ON CAST (bigint AS @extschema@.snowflake) IS 'lets a column of type snowflake take a bigint';

CREATE CAST (integer AS @extschema@.snowflake) WITH FUNCTION @extschema@.snowflake_from_integer(integer) AS ASSIGNMENT;
COMMENT ON CAST (integer AS @extschema@.snowflake) IS 'lets a column of type snowflake take an integer';

CREATE CAST (smallint AS @extschema@.snowflake) WITH FUNCTION @extschema@.snowflake_from_smallint(smallint) AS ASSIGNMENT;
COMMENT ON CAST (smallint AS @extschema@.snowflake) IS 'lets a column of type snowflake take a smallint';
