/* Install script of the first version, as far as it went before it had a name: what a test updates from. */

\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

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
