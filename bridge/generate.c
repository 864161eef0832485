/*
 * Making ids: asks the generator, and does what it answers.
 *
 * The generator decides (gen.Next); this room supplies the clock and the slot, sleeps, moves to another worker, or
 * raises the error. Sleeping is on the process latch and holds no lock, so that cancel, timeouts and shutdown work
 * meanwhile.
 */
#include "bridge.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#if PG_VERSION_NUM >= 140000
#include "utils/wait_event.h"
#endif

#define MS_PER_SECOND 1000

static uint64 last_slot_value = 0;	/* of this session's last id */
static int	last_worker = -1;		/* who made it */

/*
 * By how many nanoseconds a slot stands ahead of the clock; not more than 0 when it does not. The clock counts as it
 * reads after the slot was looked at.
 */
int64
sf_slot_ahead_ns(void *slot)
{
	int64		now_ns = sf_now_ns();
	int64		ahead_ns;

	sf_check(sfSlotAhead(slot, now_ns, &ahead_ns));
	return ahead_ns - (sf_now_ns() - now_ns);
}

/*
 * Sleeps for about ns nanoseconds; any interrupt ends it. Whole milliseconds are slept on the latch. What is left of one
 * is too short for its timer and is slept through: a signal cuts that short as well.
 */
static void
wait_ns(int64 ns)
{
	if (ns < NS_PER_MS)
		pg_usleep(ns / 1000 + 1);
	else
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(ns / NS_PER_MS, 60 * 1000), PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	CHECK_FOR_INTERRUPTS();
}

/* Sleeps for a clock that is behind, and counts it. */
void
sf_wait_for_clock(int64 ns)
{
	pg_atomic_fetch_add_u64(&sf_shared->counters.clock_waits, 1);
	wait_ns(ns);
}

/*
 * Whether the clock is behind what the generator met. It is not when another session moved the slot after this one
 * had read the clock, however long it then waited for its processor.
 */
static bool
is_behind(const SfRun *run, const SfRequest *request)
{
	return sf_now_ns() < request->now_ns + run->delay_ns;
}

/*
 * Leaves one line in the log for each step back of the clock. Others that meet the same step, at a later reading and
 * with last ids up to a second apart, say nothing.
 */
static void
report_step(const SfRequest *request, int64 behind_ns)
{
	uint64		now_ms = request->now_ns / NS_PER_MS;
	uint64		last_ms = (request->now_ns + behind_ns) / NS_PER_MS;

	if (now_ms >= pg_atomic_read_u64(&sf_shared->step_to_ms) &&
		last_ms <= pg_atomic_read_u64(&sf_shared->step_from_ms) + MS_PER_SECOND)
		return;
	pg_atomic_write_u64(&sf_shared->step_to_ms, now_ms);
	pg_atomic_write_u64(&sf_shared->step_from_ms, last_ms);
	ereport(LOG,
			(errmsg("the clock moved backwards by " INT64_FORMAT " ms", (behind_ns + NS_PER_MS - 1) / NS_PER_MS),
			 errdetail("It reads %s; worker %d made its last id at %s.", sf_format_ms(now_ms), request->worker,
					   sf_format_ms(last_ms))));
}

/* Acts on an answer that is not an id: returns when it is time to ask again, else raises the error. */
static pg_noinline void
act(const SfRun *run, const SfRequest *request, Oid function)
{
	SfCounters *counters = &sf_shared->counters;

	switch (run->code)
	{
		case SF_RESERVE_FIRST:
			sf_reserve(function);
			sf_show_worker();
			return;
		case SF_SEQUENCE_USED_UP:
			pg_atomic_fetch_add_u64(&counters->sequence_waits, 1);
			wait_ns(run->delay_ns);
			return;
		case SF_CLOCK_WAIT:
		case SF_CLOCK_BACK:
			CHECK_FOR_INTERRUPTS();
			if (!is_behind(run, request))
				return;
			report_step(request, run->delay_ns);
			if (run->code == SF_CLOCK_WAIT)
			{
				sf_wait_for_clock(run->delay_ns);
				return;
			}
			if (sf_leave_worker())
				return;
			pg_atomic_fetch_add_u64(&counters->clock_refusals, 1);
			sf_raise_clock_back(request->worker, request->now_ns, run->delay_ns);
			break;
		case SF_TIME_USED_UP:
		case SF_BEFORE_EPOCH:
			sf_raise_time_range(run->code, request->now_ns);
			break;
		default:
			sf_raise(run->code);
	}
}

/* Ensures that this session may make ids at all, as nextval() does, and has what it needs for it. */
static void
prepare(void)
{
	PreventCommandIfReadOnly("snowflake_next()");
	PreventCommandIfParallelMode("snowflake_next()");
	sf_check_settings();
	sf_start_go();
	sf_attach_shared_memory();
}

/*
 * The value above which the first id of another worker stands, so that the session's ids go on rising. Where the
 * session's last id is further ahead of the clock than would be waited for, its order is given up with a warning:
 * a clock that ran ahead must not stop the session.
 */
static pg_noinline uint64
floor_of_new_worker(const SfRequest *request)
{
	int64		ahead_ns = sf_slot_ahead_ns(&last_slot_value);
	uint64		floor;

	if (ahead_ns <= request->tolerance_ns)
	{
		sf_check(sfAfterWorkerChange(last_slot_value, &floor));
		return floor;
	}
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("ids made in this session before the clock moved backwards sort after those made from now on"),
			 errdetail("The clock is " INT64_FORMAT " ms behind the last of them; worker %d, which has made none ahead of the clock, goes on.",
					   ahead_ns / NS_PER_MS, request->worker)));
	last_worker = -1;
	return last_slot_value = 0;
}

/*
 * Makes up to count ids, at least one: run says the first and how many follow it without a gap. function is the
 * SQL function that was called.
 */
void
sf_generate(Oid function, int count, SfRun *run)
{
	bool		has_arbiter;

	prepare();
	has_arbiter = sf_has_arbiter();
	for (;;)
	{
		SfRequest	request;
		int			code;

		request.worker = unlikely(has_arbiter) ? sf_settle_grant() : sf_settle_worker();
		request.now_ns = sf_now_ns();
		request.epoch_ms = sf_epoch_ms;
		request.tolerance_ns = sf_tolerance_ns();
		request.limit_ms = sf_reserved_ms();
		if (unlikely(has_arbiter))
			request.limit_ms = Min(request.limit_ms, sf_leased_until_ms(request.now_ns));
		request.floor = last_slot_value;
		request.count = count;
		if (unlikely(request.worker != last_worker) && last_worker >= 0)
			request.floor = floor_of_new_worker(&request);
		code = sfNext(sf_slot(request.worker), &request, run);
		if (likely(code == SF_ISSUED))
		{
			if (unlikely(has_arbiter) && !sf_lease_stands())
				continue;
			last_slot_value = run->last;
			last_worker = request.worker;
			return;
		}
		if (code == SF_PANIC)
			sf_raise(code);
		act(run, &request, function);
	}
}
