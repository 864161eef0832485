-- What CREATE EXTENSION makes, as the catalog holds it: the same on every major.
\set VERBOSITY sqlstate
CREATE SCHEMA ids;
CREATE EXTENSION snowflake SCHEMA ids;
SET search_path = ids;

SELECT extrelocatable, extnamespace::regnamespace FROM pg_extension WHERE extname = 'snowflake';

-- every object lies in the schema and has a comment
SELECT i.type, count(*), bool_and(coalesce(i.schema, 'ids') = 'ids') AS in_schema,
       bool_and(obj_description(d.objid, c.relname) > '') AS commented
FROM pg_depend d JOIN pg_class c ON c.oid = d.classid, pg_identify_object(d.classid, d.objid, d.objsubid) i
WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = d.objid AND (t.typrelid <> 0 OR t.typcategory = 'A'))
GROUP BY i.type ORDER BY i.type COLLATE "C";

-- functions, how they may be used, and whether everyone may; a built-in of the same name has the schema shown
SELECT replace(oid::regprocedure::text, 'ids.', '') AS function, provolatile AS v, proisstrict AS strict, proparallel AS p, proleakproof AS leakproof,
       has_function_privilege('public', oid, 'EXECUTE') AS public
FROM pg_proc WHERE pronamespace = 'ids'::regnamespace ORDER BY replace(oid::regprocedure::text, 'ids.', '') COLLATE "C";

-- what dumps carry, and who may read it
SELECT relname, oid = ANY ((SELECT extconfig FROM pg_extension WHERE extname = 'snowflake')::oid[]) AS dumped,
       has_table_privilege('public', oid, 'SELECT') AS read, has_table_privilege('public', oid, 'UPDATE') AS written
FROM pg_class WHERE relnamespace = 'ids'::regnamespace AND relkind IN ('S', 'v') ORDER BY relname COLLATE "C";

-- the type and its casts
SELECT typname, typlen, typbyval = (SELECT typbyval FROM pg_type WHERE typname = 'int8') AS as_bigint, typcategory
FROM pg_type WHERE oid = 'snowflake'::regtype;
SELECT castsource::regtype AS source, casttarget::regtype AS target, castcontext AS context, castmethod AS method
FROM pg_cast WHERE 'snowflake'::regtype IN (castsource, casttarget) ORDER BY castsource, casttarget;

ALTER EXTENSION snowflake SET SCHEMA public;
