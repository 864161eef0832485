/*
 * The SQL face of snowflake: one short function for each SQL function. Each takes its arguments, asks Go or the
 * rooms in bridge/, and returns what they say; none decides anything about ids.
 */
#include "bridge/bridge.h"

#include <sys/random.h>
#include <unistd.h>

#include "access/htup_details.h"
#include "access/xlog.h"
#include "commands/dbcommands.h"	/* get_database_name() until 18; then it is in utils/lsyscache.h */
#include "funcapi.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* Milliseconds from 1970 to 2000, where timestamptz begins to count. */
#define UNIX_TO_PG_MS ((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * INT64CONST(1000))

#if PG_VERSION_NUM >= 180000
PG_MODULE_MAGIC_EXT(.name = "snowflake", .version = SF_VERSION);
#else
PG_MODULE_MAGIC;
#endif

extern PGDLLEXPORT void _PG_init(void);

/* Defines the settings and, when preloaded, reserves shared memory. Starts nothing. */
void
_PG_init(void)
{
	sf_define_settings();
	sf_request_shared_memory();
}

PG_FUNCTION_INFO_V1(snowflake_next);
PG_FUNCTION_INFO_V1(snowflake_next_count);
PG_FUNCTION_INFO_V1(snowflake_release);
PG_FUNCTION_INFO_V1(snowflake_reset_mark);
PG_FUNCTION_INFO_V1(snowflake_status);
PG_FUNCTION_INFO_V1(snowflake_stats);
PG_FUNCTION_INFO_V1(snowflake_worker_times);
PG_FUNCTION_INFO_V1(snowflake_parse);
PG_FUNCTION_INFO_V1(snowflake_timestamp);
PG_FUNCTION_INFO_V1(snowflake_worker_id);
PG_FUNCTION_INFO_V1(snowflake_sequence);
PG_FUNCTION_INFO_V1(snowflake_compose);
PG_FUNCTION_INFO_V1(snowflake_min_id);
PG_FUNCTION_INFO_V1(snowflake_max_id);
PG_FUNCTION_INFO_V1(snowflake_parse_as);
PG_FUNCTION_INFO_V1(snowflake_encode);
PG_FUNCTION_INFO_V1(snowflake_decode);
PG_FUNCTION_INFO_V1(snowflake_fingerprint);
PG_FUNCTION_INFO_V1(snowflake_uuidv7);
PG_FUNCTION_INFO_V1(snowflake_uuidv7_shifted);
PG_FUNCTION_INFO_V1(snowflake_uuidv7_timestamp);
PG_FUNCTION_INFO_V1(snowflake_uuidv7_parse);
PG_FUNCTION_INFO_V1(snowflake_uuidv7_min);
PG_FUNCTION_INFO_V1(snowflake_uuidv7_max);
PG_FUNCTION_INFO_V1(snowflake_sequential_uuid);
PG_FUNCTION_INFO_V1(snowflake_sequential_uuid_timestamp);
PG_FUNCTION_INFO_V1(snowflake_uuid_to_sqlserver);
PG_FUNCTION_INFO_V1(snowflake_uuid_from_sqlserver);

/* snowflake_next() → bigint: one id. */
Datum
snowflake_next(PG_FUNCTION_ARGS)
{
	SfRun		run;

	sf_generate(fcinfo->flinfo->fn_oid, 1, &run);
	PG_RETURN_INT64(run.first);
}

/* snowflake_next(count integer) → setof bigint: hands out runs of consecutive ids until count are reached. */
Datum
snowflake_next_count(PG_FUNCTION_ARGS)
{
	FuncCallContext *context;
	SfRun	   *run;

	if (SRF_IS_FIRSTCALL())
	{
		int32		count = PG_GETARG_INT32(0);

		if (count < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("count must not be negative"),
					 errdetail("%d ids were asked for.", count)));
		context = SRF_FIRSTCALL_INIT();
		context->max_calls = count;
		context->user_fctx = MemoryContextAllocZero(context->multi_call_memory_ctx, sizeof(SfRun));
	}
	context = SRF_PERCALL_SETUP();
	if (context->call_cntr >= context->max_calls)
		SRF_RETURN_DONE(context);
	run = context->user_fctx;
	if (run->count == 0)
		sf_generate(fcinfo->flinfo->fn_oid, context->max_calls - context->call_cntr, run);
	run->count--;
	SRF_RETURN_NEXT(context, Int64GetDatum(run->first++));
}

/* snowflake_release() → boolean: gives this session's lease back, false when it has none. */
Datum
snowflake_release(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(sf_leave_worker());
}

/* Unix milliseconds as timestamptz. */
static TimestampTz
from_unix_ms(int64 unix_ms)
{
	return (unix_ms - UNIX_TO_PG_MS) * 1000;
}

/* A row of the function's result type; the type is looked up once for each place in a query that calls it. */
static Datum
make_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	type = fcinfo->flinfo->fn_extra;

	if (type == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		if (get_call_result_type(fcinfo, NULL, &type) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "the function must return a row");
		fcinfo->flinfo->fn_extra = type = BlessTupleDesc(type);
		MemoryContextSwitchTo(old);
	}
	return HeapTupleGetDatum(heap_form_tuple(type, values, nulls));
}

/* snowflake_reset_mark(at) → timestamptz: lowers the durable mark, returns the old one, leaves a line in the log. */
Datum
snowflake_reset_mark(PG_FUNCTION_ARGS)
{
	TimestampTz at = PG_GETARG_TIMESTAMPTZ(0);
	int64		at_ms,
				old_ms;

	PreventCommandIfReadOnly("snowflake_reset_mark()");
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to lower the durable mark")));
	at_ms = TIMESTAMP_NOT_FINITE(at) ? -1 : at / 1000 + UNIX_TO_PG_MS;
	old_ms = sf_lower_mark(fcinfo->flinfo->fn_oid, at_ms);
	ereport(LOG,
			(errmsg("the durable mark of database \"%s\" was lowered from %s to %s",
					get_database_name(MyDatabaseId), sf_format_ms(old_ms), sf_format_ms(at_ms))));
	PG_RETURN_TIMESTAMPTZ(from_unix_ms(old_ms));
}

/* The time of a worker's last id since the server started; false when it made none. */
static bool
last_id_at(int worker, Datum *at)
{
	int64		ts;

	if (sfSlotTime(sf_slot(worker), &ts) != SF_ISSUED)
		return false;
	*at = TimestampTzGetDatum(ts);
	return true;
}

/* Nanoseconds by which the clock is behind what this session's next id must be later than. */
static int64
clock_behind_ns(int worker, bool marked, int64 mark_ms)
{
	int64		behind_ns = 0;

	if (worker >= 0)
		behind_ns = sf_slot_ahead_ns(sf_slot(worker));
	if (marked && !sf_mark_is_settled())
		behind_ns = Max(behind_ns, mark_ms * NS_PER_MS - sf_now_ns());
	return behind_ns;
}

/* snowflake_status(): what this session's next id depends on; takes no lease and makes no id. */
Datum
snowflake_status(PG_FUNCTION_ARGS)
{
	Datum		values[9];
	bool		nulls[9] = {false};
	const char *source;
	int			worker = sf_current_worker(&source);
	char	   *lease_state = sf_lease_state();
	int64		mark_ms,
				last_time,
				behind_ns;
	bool		marked;

	sf_start_go();
	sf_attach_shared_memory();
	marked = sf_read_mark(fcinfo->flinfo->fn_oid, &mark_ms);
	behind_ns = clock_behind_ns(worker, marked, mark_ms);
	sf_check(sfLastTime(sf_epoch_ms, &last_time));

	values[0] = Int32GetDatum(worker);
	nulls[0] = worker < 0;
	values[1] = CStringGetTextDatum(source);
	values[2] = TimestampTzGetDatum(from_unix_ms(sf_epoch_ms));
	nulls[3] = worker < 0 || !last_id_at(worker, &values[3]);
	values[4] = TimestampTzGetDatum(from_unix_ms(mark_ms));
	nulls[4] = !marked;
	nulls[5] = behind_ns <= 0;
	if (!nulls[5])
	{
		Interval   *behind = palloc0(sizeof(Interval));

		behind->time = behind_ns / 1000;
		values[5] = IntervalPGetDatum(behind);
	}
	values[6] = TimestampTzGetDatum(last_time);
	values[7] = CStringGetTextDatum(SF_VERSION);
	nulls[8] = lease_state == NULL;
	if (!nulls[8])
		values[8] = CStringGetTextDatum(lease_state);
	PG_RETURN_DATUM(make_row(fcinfo, values, nulls));
}

/* snowflake_stats(): the server's counters. */
Datum
snowflake_stats(PG_FUNCTION_ARGS)
{
	Datum		values[5];
	bool		nulls[5] = {false};
	SfCounters *counters;

	sf_attach_shared_memory();
	counters = &sf_shared->counters;
	values[0] = Int64GetDatum(pg_atomic_read_u64(&counters->sequence_waits));
	values[1] = Int64GetDatum(pg_atomic_read_u64(&counters->clock_waits));
	values[2] = Int64GetDatum(pg_atomic_read_u64(&counters->clock_refusals));
	values[3] = Int64GetDatum(pg_atomic_read_u64(&counters->leases_taken));
	values[4] = Int64GetDatum(pg_atomic_read_u64(&counters->leases_lost));
	PG_RETURN_DATUM(make_row(fcinfo, values, nulls));
}

/* snowflake_worker_times(worker_id) → (leased_at, last_id_at), NULL for what has not happened since the start. */
Datum
snowflake_worker_times(PG_FUNCTION_ARGS)
{
	int			worker = PG_GETARG_INT32(0);
	Datum		values[2];
	bool		nulls[2] = {true, true};
	uint32		since;

	sf_start_go();
	sf_attach_shared_memory();
	if (worker < 0 || worker >= SF_WORKERS)
		sf_raise(SF_WORKER_OUT_OF_RANGE);
	since = pg_atomic_read_u32(&sf_shared->since[worker]);
	values[0] = TimestampTzGetDatum(from_unix_ms(since * INT64CONST(1000)));
	nulls[0] = since == 0;
	nulls[1] = !last_id_at(worker, &values[1]);
	PG_RETURN_DATUM(make_row(fcinfo, values, nulls));
}

/* Argument n, if the function was declared with it, or else the epoch in force, as timestamptz. */
static int64
epoch_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_NARGS() > n ? PG_GETARG_TIMESTAMPTZ(n) : from_unix_ms(sf_epoch_ms);
}

/* Takes an id apart with an epoch given as timestamptz. */
static SfParts
parse(int64 id, int64 epoch)
{
	SfParts		parts;

	int			code;

	sf_start_go();
	code = sfParse(id, epoch, &parts);
	if (unlikely(code != SF_ISSUED))
		sf_raise_id(code, id);
	return parts;
}

/* snowflake_parse(id [, epoch]) → (created_at, worker_id, sequence). */
Datum
snowflake_parse(PG_FUNCTION_ARGS)
{
	SfParts		parts = parse(PG_GETARG_INT64(0), epoch_argument(fcinfo, 1));
	Datum		values[3] = {
		TimestampTzGetDatum(parts.created), Int32GetDatum(parts.worker), Int32GetDatum(parts.sequence)
	};
	bool		nulls[3] = {false, false, false};

	PG_RETURN_DATUM(make_row(fcinfo, values, nulls));
}

/* snowflake_timestamp(id [, epoch]) → timestamptz. */
Datum
snowflake_timestamp(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(parse(PG_GETARG_INT64(0), epoch_argument(fcinfo, 1)).created);
}

/* snowflake_worker_id(id) → integer; needs no epoch. */
Datum
snowflake_worker_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(parse(PG_GETARG_INT64(0), 0).worker);
}

/* snowflake_sequence(id) → integer; needs no epoch. */
Datum
snowflake_sequence(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(parse(PG_GETARG_INT64(0), 0).sequence);
}

/* snowflake_compose(created_at, worker_id, sequence [, epoch]) → bigint. */
Datum
snowflake_compose(PG_FUNCTION_ARGS)
{
	SfParts		parts = {PG_GETARG_TIMESTAMPTZ(0), PG_GETARG_INT32(1), PG_GETARG_INT32(2)};
	int64		epoch = epoch_argument(fcinfo, 3);
	int64		id;
	int			code;

	sf_start_go();
	code = sfCompose(parts.created, epoch, parts.worker, parts.sequence, &id);
	if (unlikely(code != SF_ISSUED))
		sf_raise_parts(code, &parts, epoch);
	PG_RETURN_INT64(id);
}

/* The smallest or largest id that can carry the millisecond of the first argument. */
static int64
id_bound(FunctionCallInfo fcinfo, bool upper)
{
	int64		lowest,
				highest;

	sf_start_go();
	sf_check(sfBounds(PG_GETARG_TIMESTAMPTZ(0), epoch_argument(fcinfo, 1), &lowest, &highest));
	return upper ? highest : lowest;
}

/* snowflake_min_id(ts [, epoch]) → bigint. */
Datum
snowflake_min_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(id_bound(fcinfo, false));
}

/* snowflake_max_id(ts [, epoch]) → bigint. */
Datum
snowflake_max_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(id_bound(fcinfo, true));
}

/* snowflake_parse_as(layout, id) → (created_at, node, sequence): an id of another system. */
Datum
snowflake_parse_as(PG_FUNCTION_ARGS)
{
	text	   *layout = PG_GETARG_TEXT_PP(0);
	int64		id = PG_GETARG_INT64(1);
	SfForeignParts parts;
	Datum		values[3];
	bool		nulls[3] = {false, false, false};
	int			code;

	sf_start_go();
	code = sfParseAs(VARDATA_ANY(layout), VARSIZE_ANY_EXHDR(layout), id, &parts);
	if (code == SF_UNKNOWN_LAYOUT)
		sf_raise_unknown_name("layout", text_to_cstring(layout), false);
	if (code != SF_ISSUED)
		sf_raise_id(code, id);
	values[0] = TimestampTzGetDatum(parts.created);
	values[1] = Int64GetDatum(parts.node);
	values[2] = Int64GetDatum(parts.sequence);
	PG_RETURN_DATUM(make_row(fcinfo, values, nulls));
}

/* snowflake_encode(id) → text: 13 characters that sort as the id does. */
Datum
snowflake_encode(PG_FUNCTION_ARGS)
{
	char		encoded[13];
	int			code;

	sf_start_go();
	code = sfEncode(PG_GETARG_INT64(0), encoded);
	if (code != SF_ISSUED)
		sf_raise_id(code, PG_GETARG_INT64(0));
	PG_RETURN_TEXT_P(cstring_to_text_with_len(encoded, sizeof(encoded)));
}

/* snowflake_decode(text) → bigint: the inverse of snowflake_encode. */
Datum
snowflake_decode(PG_FUNCTION_ARGS)
{
	text	   *encoded = PG_GETARG_TEXT_PP(0);
	int64		id;
	int			code;

	sf_start_go();
	code = sfDecode(VARDATA_ANY(encoded), VARSIZE_ANY_EXHDR(encoded), &id);
	if (code != SF_ISSUED)
		sf_raise_text(code, text_to_cstring(encoded));
	PG_RETURN_INT64(id);
}

/* snowflake_fingerprint(salt) → integer: a worker id derived from what tells this server from others. */
Datum
snowflake_fingerprint(PG_FUNCTION_ARGS)
{
	char		host[256] = "";
	char	   *identity;
	int32		worker;

	sf_start_go();
	gethostname(host, sizeof(host) - 1);
	identity = psprintf(UINT64_FORMAT "/%s/%d/%s", GetSystemIdentifier(), host, PostPortNumber,
						text_to_cstring(PG_GETARG_TEXT_PP(0)));
	sf_check(sfFingerprint(identity, strlen(identity), &worker));
	PG_RETURN_INT32(worker);
}

/* Whether a call must be repeated because the random source wanted a new key from the kernel first; it has it now. */
static bool
seeded(int code)
{
	unsigned char seed[32];

	if (likely(code != SF_SEED_FIRST))
		return false;
	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not read random bytes from the kernel: %m")));
	sf_check(sfSeed(sf_now_ns(), seed));
	explicit_bzero(seed, sizeof(seed));
	return true;
}

/* uuidv7() → uuid, of this moment. */
Datum
snowflake_uuidv7(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));
	int			code;

	sf_start_go();
	do
		code = sfUUID7Now(sf_now_ns(), uuid);
	while (seeded(code));
	sf_check(code);
	PG_RETURN_UUID_P(uuid);
}

/* uuidv7(shift interval) → uuid, of this moment moved by an interval; errors as PostgreSQL 18.6 words them. */
Datum
snowflake_uuidv7_shifted(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));
	int64		time_ns;
	TimestampTz shifted;
	int			code;

	sf_start_go();
	do
		code = sfUUID7Time(sf_now_ns(), &time_ns);
	while (seeded(code));
	sf_check(code);
	shifted = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
													  TimestampTzGetDatum(time_ns / 1000 - UNIX_TO_PG_MS * 1000),
													  PG_GETARG_DATUM(0)));
	if (TIMESTAMP_NOT_FINITE(shifted))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("interval out of range for UUID version 7")));
	sf_check(sfUUID7(shifted, time_ns % 1000, uuid));
	PG_RETURN_UUID_P(uuid);
}

/* uuidv7_timestamp(uuid) → timestamptz, NULL unless it is a version 7 UUID. */
Datum
snowflake_uuidv7_timestamp(PG_FUNCTION_ARGS)
{
	int64		ts;

	sf_start_go();
	if (sfUUID7Timestamp(PG_GETARG_UUID_P(0), &ts) != SF_ISSUED)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(ts);
}

/* uuidv7_parse(uuid) → (created_at, rand_a, rand_b), NULLs unless it is a version 7 UUID. */
Datum
snowflake_uuidv7_parse(PG_FUNCTION_ARGS)
{
	SfUUID7Parts parts = {0};
	Datum		values[3];
	bool		nulls[3];

	sf_start_go();
	nulls[0] = nulls[1] = nulls[2] = sfUUID7Parse(PG_GETARG_UUID_P(0), &parts) != SF_ISSUED;
	values[0] = TimestampTzGetDatum(parts.created);
	values[1] = Int32GetDatum(parts.rand_a);
	values[2] = Int64GetDatum(parts.rand_b);
	PG_RETURN_DATUM(make_row(fcinfo, values, nulls));
}

/* The smallest or largest version 7 UUID of the millisecond of the argument. */
static Datum
uuidv7_bound(FunctionCallInfo fcinfo, bool highest)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

	sf_start_go();
	sf_check(sfUUID7Bound(PG_GETARG_TIMESTAMPTZ(0), highest, uuid));
	PG_RETURN_UUID_P(uuid);
}

/* uuidv7_min(ts) → uuid. */
Datum
snowflake_uuidv7_min(PG_FUNCTION_ARGS)
{
	return uuidv7_bound(fcinfo, false);
}

/* uuidv7_max(ts) → uuid. */
Datum
snowflake_uuidv7_max(PG_FUNCTION_ARGS)
{
	return uuidv7_bound(fcinfo, true);
}

/* sequential_uuid(ordering) → uuid: an ordered GUID of this moment. */
Datum
snowflake_sequential_uuid(PG_FUNCTION_ARGS)
{
	text	   *ordering = PG_GETARG_TEXT_PP(0);
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));
	int			code;

	sf_start_go();
	do
		code = sfSequentialUUID(sf_now_ns(), VARDATA_ANY(ordering), VARSIZE_ANY_EXHDR(ordering), uuid);
	while (seeded(code));
	if (code == SF_UNKNOWN_ORDERING)
		sf_raise_unknown_name("ordering", text_to_cstring(ordering), true);
	sf_check(code);
	PG_RETURN_UUID_P(uuid);
}

/* sequential_uuid_timestamp(uuid, ordering) → timestamptz, NULL when it is no ordered GUID of that ordering. */
Datum
snowflake_sequential_uuid_timestamp(PG_FUNCTION_ARGS)
{
	text	   *ordering = PG_GETARG_TEXT_PP(1);
	int64		ts;
	int			code;

	sf_start_go();
	code = sfSequentialUUIDTime(PG_GETARG_UUID_P(0), VARDATA_ANY(ordering), VARSIZE_ANY_EXHDR(ordering), &ts);
	if (code == SF_UNKNOWN_ORDERING)
		sf_raise_unknown_name("ordering", text_to_cstring(ordering), true);
	if (code != SF_ISSUED)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(ts);
}

static Datum
move_bytes(FunctionCallInfo fcinfo, bool back)
{
	pg_uuid_t  *moved = palloc(sizeof(pg_uuid_t));

	sf_start_go();
	sf_check(sfSQLServer(PG_GETARG_UUID_P(0), back, moved));
	PG_RETURN_UUID_P(moved);
}

/* uuid_to_sqlserver(uuid) → uuid: moves the bytes so that PostgreSQL's order becomes SQL Server's. */
Datum
snowflake_uuid_to_sqlserver(PG_FUNCTION_ARGS)
{
	return move_bytes(fcinfo, false);
}

/* uuid_from_sqlserver(uuid) → uuid: the inverse. */
Datum
snowflake_uuid_from_sqlserver(PG_FUNCTION_ARGS)
{
	return move_bytes(fcinfo, true);
}
