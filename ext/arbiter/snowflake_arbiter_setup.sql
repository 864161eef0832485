-- Makes this database the arbiter that lends worker ids to servers (snowflake.lease_conninfo):
--     psql -X -v ON_ERROR_STOP=1 -d DATABASE -f snowflake_arbiter_setup.sql
-- No extension is needed here. A role that leases needs what the role snowflake_keeper has and nothing else:
--     CREATE ROLE shop LOGIN PASSWORD '...' IN ROLE snowflake_keeper;
-- Running it again changes no lease and brings the functions up to date.

BEGIN;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'snowflake_keeper') THEN
        CREATE ROLE snowflake_keeper NOLOGIN;
    END IF;
END $$;

CREATE SCHEMA IF NOT EXISTS snowflake_arbiter;

-- A row for each worker id. Row -1 is the arbiter itself: its holder names the incarnation of this cluster that was
-- called last, until_ms ends the time in which no new lease is granted, and max_ttl_ms limits all leases.
CREATE TABLE IF NOT EXISTS snowflake_arbiter.lease (
    worker smallint PRIMARY KEY CHECK (worker BETWEEN -1 AND 1023),
    holder text,
    name text,
    token bigint NOT NULL DEFAULT 0,
    held boolean NOT NULL DEFAULT false,
    floor_ms bigint NOT NULL DEFAULT 0,
    until_ms bigint NOT NULL DEFAULT 0,
    max_ttl_ms bigint CHECK (max_ttl_ms > 0)
) WITH (fillfactor = 25);
COMMENT ON TABLE snowflake_arbiter.lease IS
'who holds which worker id; times are Unix milliseconds. ids have times from floor_ms on and before until_ms. Read the view leases instead';

-- What identifies this cluster and its history: another one has another number, and a promoted standby another timeline.
CREATE OR REPLACE FUNCTION snowflake_arbiter.incarnation() RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()
$$;

INSERT INTO snowflake_arbiter.lease (worker, name, holder, max_ttl_ms)
VALUES (-1, 'the arbiter', snowflake_arbiter.incarnation(), 30000) ON CONFLICT DO NOTHING;
INSERT INTO snowflake_arbiter.lease (worker) SELECT generate_series(0, 1023) ON CONFLICT DO NOTHING;

CREATE OR REPLACE VIEW snowflake_arbiter.leases AS
SELECT l.worker, l.name AS holder, l.held AND l.until_ms > extract(epoch FROM clock_timestamp()) * 1000 AS held,
       to_timestamp(l.until_ms / 1000.0) AS until,
       EXISTS (SELECT FROM pg_catalog.pg_locks k
               WHERE k.locktype = 'advisory' AND k.classid = 1936617335 AND k.objid = l.worker AND k.objsubid = 2
                 AND k.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())) AS connected
FROM snowflake_arbiter.lease l
WHERE l.worker >= 0 AND l.holder IS NOT NULL
ORDER BY l.worker;
COMMENT ON VIEW snowflake_arbiter.leases IS
'the worker ids that were ever leased: who had them last, whether they are held now, until when, and whether the holder has a session here';

CREATE OR REPLACE FUNCTION snowflake_arbiter.ask(
    kind integer, holder text, name text, token bigint, ttl_ms bigint, now_ms bigint, low integer, high integer,
    worker integer, last_ms bigint,
    OUT outcome integer, OUT granted integer, OUT floor_ms bigint, OUT until_ms bigint, OUT wait_ms bigint,
    OUT quiet_ms bigint, OUT max_ttl_ms bigint, OUT other text, OUT connected boolean, OUT clock_ms bigint,
    OUT incarnation text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- kinds and outcomes
    claim CONSTANT integer := 0;
    renew CONSTANT integer := 1;
    done CONSTANT integer := 0;
    taken CONSTANT integer := 1;
    lost CONSTANT integer := 2;
    quarantine CONSTANT integer := 3;
    ttl_too_long CONSTANT integer := 4;
    own boolean;
    known boolean;
    mine snowflake_arbiter.lease;
    arbiter snowflake_arbiter.lease;
BEGIN
    -- What is answered must outlive a crash, whatever the server's default is.
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;

    -- After a failover the last grants may be forgotten: for as long as one can last, and a tenth more, none is made.
    incarnation := snowflake_arbiter.incarnation();
    clock_ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
    SELECT * INTO STRICT arbiter FROM snowflake_arbiter.lease l WHERE l.worker = -1;
    IF arbiter.holder <> incarnation THEN
        UPDATE snowflake_arbiter.lease l
        SET holder = incarnation,
            until_ms = clock_ms + l.max_ttl_ms + l.max_ttl_ms / 10
        WHERE l.worker = -1 AND l.holder <> incarnation;
        SELECT * INTO STRICT arbiter FROM snowflake_arbiter.lease l WHERE l.worker = -1;
    END IF;

    IF ask.ttl_ms > arbiter.max_ttl_ms THEN
        outcome := ttl_too_long;
        max_ttl_ms := arbiter.max_ttl_ms;
        RETURN;
    END IF;

    IF kind = claim THEN
        IF clock_ms < arbiter.until_ms THEN
            outcome := quarantine;
            quiet_ms := arbiter.until_ms;
            wait_ms := arbiter.until_ms - clock_ms;
            RETURN;
        END IF;
        -- The worker that the holder had last; else the lowest free one whose floor its clock has passed; else the
        -- free one with the lowest floor.
        SELECT * INTO mine FROM snowflake_arbiter.lease l
        WHERE l.worker BETWEEN low AND high AND l.holder = ask.holder ORDER BY l.worker LIMIT 1 FOR UPDATE;
        own := FOUND;
        IF NOT own THEN
            SELECT * INTO mine FROM snowflake_arbiter.lease l
            WHERE l.worker BETWEEN low AND high AND (NOT l.held OR l.until_ms <= clock_ms)
            ORDER BY greatest(l.until_ms, now_ms), l.worker LIMIT 1 FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT * INTO STRICT mine FROM snowflake_arbiter.lease l
                WHERE l.worker BETWEEN low AND high ORDER BY l.until_ms, l.worker LIMIT 1;
                outcome := taken;
                wait_ms := mine.until_ms - clock_ms;
                IF low = high THEN
                    other := mine.name;
                    connected := EXISTS (SELECT FROM snowflake_arbiter.leases s WHERE s.worker = low AND s.connected);
                END IF;
                RETURN;
            END IF;
        ELSIF ask.token <= mine.token THEN -- overtaken by a later claim
            outcome := lost;
            RETURN;
        END IF;
        IF NOT own THEN
            mine.floor_ms := mine.until_ms;
        END IF;
        mine.floor_ms := greatest(mine.floor_ms, arbiter.until_ms);
        mine.until_ms := greatest(mine.until_ms, clock_ms + ask.ttl_ms);
    ELSE
        SELECT * INTO STRICT mine FROM snowflake_arbiter.lease l WHERE l.worker = ask.worker FOR UPDATE;
        known := mine.held AND mine.holder = ask.holder AND mine.token = ask.token;
        IF kind <> renew THEN
            outcome := lost;
            IF known THEN
                outcome := done;
                granted := mine.worker;
                UPDATE snowflake_arbiter.lease l SET held = false, until_ms = least(l.until_ms, greatest(l.floor_ms, last_ms))
                WHERE l.worker = mine.worker;
            END IF;
            PERFORM pg_advisory_unlock_all();
            RETURN;
        END IF;
        IF NOT known AND clock_ms >= arbiter.until_ms THEN
            outcome := lost;
            RETURN;
        END IF;
        mine.until_ms := greatest(mine.until_ms, clock_ms + ask.ttl_ms);
    END IF;

    outcome := done;
    granted := mine.worker;
    floor_ms := mine.floor_ms;
    until_ms := mine.until_ms;
    -- What a failover made unknown is taken from the holder, who has it still; its floor is not known any more.
    UPDATE snowflake_arbiter.lease l
    SET holder = ask.holder, name = ask.name, token = ask.token, held = true, until_ms = mine.until_ms,
        floor_ms = CASE WHEN known IS FALSE THEN mine.until_ms ELSE mine.floor_ms END
    WHERE l.worker = mine.worker;

    -- Shows that the holder has a session here. Nothing rests on it.
    PERFORM pg_advisory_unlock_all();
    PERFORM pg_try_advisory_lock(1936617335, granted);
END $$;
COMMENT ON FUNCTION snowflake_arbiter.ask(integer, text, text, bigint, bigint, bigint, integer, integer, integer, bigint) IS
'claims (kind 0), renews (1) or gives back (2) a worker id, in the name of a server''s lease keeper';

REVOKE ALL ON FUNCTION snowflake_arbiter.ask(integer, text, text, bigint, bigint, bigint, integer, integer, integer, bigint)
    FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_arbiter.incarnation() FROM PUBLIC;
GRANT USAGE ON SCHEMA snowflake_arbiter TO snowflake_keeper;
GRANT EXECUTE ON FUNCTION snowflake_arbiter.ask(integer, text, text, bigint, bigint, bigint, integer, integer, integer, bigint)
    TO snowflake_keeper;

COMMIT;
