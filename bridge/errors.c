/*
 * The SQL errors: one place for the SQLSTATE, the numbers and the advice of each answer. Nothing here is called
 * from Go: an error is raised after Go has returned.
 */
#include "bridge.h"

#include "commands/dbcommands.h"	/* get_database_name() until 18; then it is in utils/lsyscache.h */
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#define ERRCODE_CLOCK_MOVED_BACKWARDS MAKE_SQLSTATE('S', 'F', '0', '0', '1')
#define ERRCODE_NO_WORKER MAKE_SQLSTATE('S', 'F', '0', '0', '2')
#define ERRCODE_TIME_OUT_OF_RANGE MAKE_SQLSTATE('S', 'F', '0', '0', '3')

/* The answers whose errors carry no numbers. */
static const struct
{
	int			code;
	int			sqlstate;
	const char *message;
	const char *detail;
}			simple_errors[] = {
	{SF_NOT_REPRESENTABLE, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE,
		"timestamp out of range",
	"The epoch, or the time of the id counted from it, is outside the range of timestamp with time zone."},
	{SF_WORKER_OUT_OF_RANGE, ERRCODE_INVALID_PARAMETER_VALUE,
	"worker id out of range", "Worker ids go from 0 to 1023."},
	{SF_TIME_OUT_OF_RANGE, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE,
	"timestamp out of range for UUID version 7", NULL},
};

/* Raises the error of an answer that carries no numbers; a panic in Go comes with its text. */
void
sf_raise(int code)
{
	char		text[256];

	for (int i = 0; i < lengthof(simple_errors); i++)
		if (simple_errors[i].code == code)
			ereport(ERROR,
					(errcode(simple_errors[i].sqlstate),
					 errmsg("%s", simple_errors[i].message),
					 simple_errors[i].detail ? errdetail("%s", simple_errors[i].detail) : 0));
	if (code != SF_PANIC)
		elog(ERROR, "unexpected answer %d of snowflake's generator", code);
	sfPanicText(text, sizeof(text));
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("internal error in snowflake: %s", text),
			 errhint("Please report this; the session can go on.")));
}

/* An id that cannot be what the function takes it for. */
void
sf_raise_id(int code, int64 id)
{
	if (code != SF_NEGATIVE)
		sf_raise(code);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a negative number is not a snowflake id"),
			 errdetail("The number is " INT64_FORMAT ".", id)));
}

/* A text that snowflake_decode() cannot read. */
void
sf_raise_text(int code, const char *text)
{
	if (code != SF_BAD_TEXT && code != SF_TEXT_OUT_OF_RANGE)
		sf_raise(code);
	ereport(ERROR,
			(errcode(code == SF_BAD_TEXT ? ERRCODE_INVALID_TEXT_REPRESENTATION : ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("invalid text form of a snowflake id: \"%s\"", text),
			 code == SF_BAD_TEXT ?
			 errdetail("It has 13 characters of 0-9 and A-V, as snowflake_encode() writes them.") :
			 errdetail("It stands for a negative number. Ids go from 0000000000000 to FVVVVVVVVVVVU.")));
}

/* Parts that make no id. Times are timestamptz. */
void
sf_raise_parts(int code, const SfParts *parts, int64 epoch)
{
	char	   *first = pstrdup(timestamptz_to_str(epoch));

	switch (code)
	{
		case SF_TIME_OUT_OF_RANGE:
			ereport(ERROR,
					(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					 errmsg("created_at is out of range for a snowflake id"),
					 errdetail("%s is not within the 2199023255552 milliseconds that begin with the epoch, %s.",
							   timestamptz_to_str(parts->created), first)));
			break;
		case SF_WORKER_OUT_OF_RANGE:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("worker_id is out of range"),
					 errdetail("%d is not between 0 and 1023.", parts->worker)));
			break;
		case SF_SEQUENCE_OUT_OF_RANGE:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("sequence is out of range"),
					 errdetail("%d is not between 0 and 4095.", parts->sequence)));
			break;
	}
	sf_raise(code);
}

/* A layout or an ordering that does not exist. */
void
sf_raise_unknown_name(const char *what, const char *name, bool ordering)
{
	char		known[256];

	sf_check(sfKnownNames(ordering, known, sizeof(known)));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown %s: \"%s\"", what, name),
			 errhint("Known are: %s.", known)));
}

/* SF001: the clock is behind the last id of a worker by more than the tolerance. */
void
sf_raise_clock_back(int worker, int64 now_ns, int64 behind_ns)
{
	int64		last_ms = (now_ns + behind_ns) / NS_PER_MS;

	ereport(ERROR,
			(errcode(ERRCODE_CLOCK_MOVED_BACKWARDS),
			 errmsg("clock moved backwards"),
			 errdetail("The clock reads %s, " INT64_FORMAT " ms behind the last id of worker %d, made at %s; up to snowflake.clock_tolerance = %d ms are waited for.",
					   sf_format_ms(now_ns / NS_PER_MS), (behind_ns + NS_PER_MS - 1) / NS_PER_MS, worker,
					   sf_format_ms(last_ms), sf_clock_tolerance_ms),
			 errhint("Ids are made again by themselves when the clock has passed that time. If it was the earlier time that was wrong, choose another snowflake.worker_id, or -1 for a lease.")));
}

/* SF003: the clock is before the epoch or past the last millisecond of the layout. */
void
sf_raise_time_range(int code, int64 now_ns)
{
	ereport(ERROR,
			(errcode(ERRCODE_TIME_OUT_OF_RANGE),
			 errmsg("timestamp out of range"),
			 code == SF_BEFORE_EPOCH ?
			 errdetail("The clock reads %s, before snowflake.epoch, %s.",
					   sf_format_ms(now_ns / NS_PER_MS), sf_format_ms(sf_epoch_ms)) :
			 errdetail("The clock reads %s; 41 bits of milliseconds since snowflake.epoch, %s, are used up.",
					   sf_format_ms(now_ns / NS_PER_MS), sf_format_ms(sf_epoch_ms)),
			 errhint("Check the server's clock.")));
}

/* SF002: there is no lease from another server that could be used. */
void
sf_raise_no_lease(const char *reason)
{
	ereport(ERROR,
			(errcode(ERRCODE_NO_WORKER),
			 errmsg("no worker id available"),
			 errdetail("Worker ids come from the server of snowflake.lease_conninfo: %s.", reason),
			 errhint("Ids are made again by themselves when there is a lease; see lease_state in snowflake_status(), and the server's log.")));
}

/* SF002: nothing in the range can be leased; ahead says how many worker ids have a slot ahead of the clock. */
void
sf_raise_no_worker(int ahead)
{
	int			all = sf_range_high - sf_range_low + 1;

	ereport(ERROR,
			(errcode(ERRCODE_NO_WORKER),
			 errmsg("no worker id available"),
			 ahead == 0 ?
			 errdetail("All %d worker ids of snowflake.worker_range, %d-%d, are leased by other sessions.",
					   all, sf_range_low, sf_range_high) :
			 errdetail("Of the %d worker ids of snowflake.worker_range, %d-%d, %d are leased by other sessions and %d have made ids ahead of the clock, which reads %s.",
					   all, sf_range_low, sf_range_high, all - ahead, ahead, sf_format_ms(sf_now_ns() / NS_PER_MS)),
			 ahead == 0 ?
			 errhint("Widen snowflake.worker_range, call snowflake_release() in sessions that need no more ids, or let sessions share one worker with snowflake.worker_id.") :
			 errhint("Widen snowflake.worker_range, or wait: worker ids come back when the clock has passed their last ids (see snowflake_worker_times()).")));
}

/* 55000: the setting differs from the epoch that was recorded with the database's first id. */
void
sf_raise_epoch(int64 recorded_ms)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake.epoch is not the epoch of this database"),
			 errdetail("snowflake.epoch is %s; the ids of this database count from %s.",
					   sf_format_ms(sf_epoch_ms), sf_format_ms(recorded_ms)),
			 errhint("Go back with RESET snowflake.epoch where this session changed it, else with ALTER DATABASE %s SET snowflake.epoch = '%s', and connect anew.",
					 quote_identifier(get_database_name(MyDatabaseId)), sf_format_ms(recorded_ms))));
}

/* SF001: after a start, the clock is behind the durable mark by more than its step and the tolerance. */
void
sf_raise_mark_ahead(int64 mark_ms, int64 now_ns)
{
	ereport(ERROR,
			(errcode(ERRCODE_CLOCK_MOVED_BACKWARDS),
			 errmsg("clock moved backwards"),
			 errdetail("The clock reads %s, " INT64_FORMAT " ms behind the durable mark of this database, %s; ids with times up to the mark may exist.",
					   sf_format_ms(now_ns / NS_PER_MS), mark_ms - now_ns / NS_PER_MS, sf_format_ms(mark_ms)),
			 errhint("Ids are made again by themselves when the clock has passed the mark. If the clock ran ahead when the mark was made and is right now, a superuser can lower it: see snowflake_reset_mark().")));
}

/* 22023: snowflake_reset_mark() only lowers. */
void
sf_raise_mark_not_lowered(bool set, int64 mark_ms, int64 at_ms)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the durable mark can only be lowered"),
			 set ? errdetail("It stands at %s and was to be set to %s.", sf_format_ms(mark_ms), sf_format_ms(at_ms)) :
			 errdetail("This database has made no ids yet."),
			 errhint("Give a time after 1970 and before the mark; snowflake_status() shows it as reserved_until.")));
}
