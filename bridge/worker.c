/*
 * Whose ids a session makes: the worker fixed by snowflake.worker_id, or one that it leases.
 *
 * A lease is a session-level advisory lock in a key space of its own that spans all databases (database 0, class
 * 7; SQL's own advisory locks have classes 1 and 2). DISCARD ALL and pg_advisory_unlock_all() drop it without a
 * word, so each use asks the lock table whether it is still held. The lease keeps sessions apart for speed and
 * order; that no id repeats rests on the slots alone.
 *
 * Where worker ids come from another server, all sessions make ids as the worker that the lease keeper has published, and
 * look at that lease for each id: before, whether it is valid, and after, whether it still is the one that is published.
 */
#include "bridge.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/lock.h"

#define LEASE_KEY 0x736e6f77		/* "snow" */
#define LEASE_CLASS 7

static int	leased = -1;			/* the worker leased last, whether or not still held */
static LOCALLOCK *lease = NULL; /* the lock table's entry for the lease taken last */
static int	shown = -1;				/* the worker that sf_show_worker() showed last */
static SfGrant grant;			/* the lease from another server, as this session saw it last */
static uint64 grant_number = PG_UINT64_MAX;

static LOCKTAG
lease_tag(int worker)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, InvalidOid, LEASE_KEY, worker, LEASE_CLASS);
	return tag;
}

/* Takes the lock if it is free, and keeps its entry. */
static bool
acquire(int worker)
{
	LOCKTAG		tag = lease_tag(worker);

#if PG_VERSION_NUM >= 180000
	return LockAcquireExtended(&tag, ExclusiveLock, true, true, true, &lease, false) != LOCKACQUIRE_NOT_AVAIL;
#else
	return LockAcquireExtended(&tag, ExclusiveLock, true, true, true, &lease) != LOCKACQUIRE_NOT_AVAIL;
#endif
}

/*
 * Whether the entry kept says that the lock is held, for a tenth of what it costs to look for it. Only a yes counts. The
 * entry may have been removed since: its memory stays with the lock table for as long as the process lives, to be used
 * for another lock, and has no owner until then. So it is in PostgreSQL 13 to 18 (RemoveLocalLock and dynahash.c).
 */
static inline bool
entry_holds(int worker, LOCKMODE mode)
{
#if PG_VERSION_NUM < 190000
	if (lease == NULL || lease->numLockOwners == 0 || lease->nLocks == 0 || lease->tag.mode != mode)
		return false;
	return lease->tag.lock.locktag_type == LOCKTAG_ADVISORY && lease->tag.lock.locktag_field1 == InvalidOid &&
		lease->tag.lock.locktag_field2 == LEASE_KEY && lease->tag.lock.locktag_field3 == worker &&
		lease->tag.lock.locktag_field4 == LEASE_CLASS;
#else
	return false;
#endif
}

/* Whether the lock is held, by looking for it. */
static pg_noinline bool
table_holds(int worker, LOCKMODE mode)
{
	LOCKTAG		tag = lease_tag(worker);

#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(&tag, mode, false);
#else
	return LockHeldByMe(&tag, mode);
#endif
}

static inline bool
holds(int worker, LOCKMODE mode)
{
	return likely(entry_holds(worker, mode)) || table_holds(worker, mode);
}

static bool
let_go(int worker, LOCKMODE mode)
{
	LOCKTAG		tag = lease_tag(worker);

	return worker >= 0 && holds(worker, mode) && LockRelease(&tag, mode, true);
}

/* Gives the lease back; false when none was held. */
bool
sf_leave_worker(void)
{
	int			worker = leased;

	leased = -1;
	return let_go(worker, ExclusiveLock);
}

/* Looks at what the lease keeper has published; false when that is no valid lease. */
static bool
look_at_grant(void)
{
	if (unlikely(sf_lease == NULL))
		sf_attach_lease();
	if (unlikely(pg_atomic_read_u64(&sf_lease->published) != grant_number))
		grant_number = sf_read_grant(&grant);
	return grant.worker >= 0 && sf_boot_ns() < grant.valid_ns;
}

/* Whether the lease that the last id was made under is still the one that is published: only then it may be used. */
bool
sf_lease_stands(void)
{
	pg_memory_barrier();		/* the slot was moved before the lease is looked at */
	return pg_atomic_read_u64(&sf_lease->published) == grant_number;
}

/* The time before which ids lie that are made under the lease, Unix milliseconds; an error when the clock has passed it. */
int64
sf_leased_until_ms(int64 now_ns)
{
	if (now_ns / NS_PER_MS >= grant.until_ms)
		sf_raise_no_lease(psprintf("they are leased for ids before %s, and the clock reads %s", sf_format_ms(grant.until_ms),
								   sf_format_ms(now_ns / NS_PER_MS)));
	return grant.until_ms;
}

/* Why the lease that was looked at cannot be used. */
static const char *
no_grant_reason(void)
{
	if (grant.worker < 0)
		return grant.reason;
	return psprintf("the lease of worker %d has ended, and the lease keeper has not renewed it%s%s", grant.worker,
					grant.reason[0] ? "; " : "", grant.reason);
}

/* The worker leased from another server; an error when there is none, or not the one that is fixed. */
int
sf_settle_grant(void)
{
	if (unlikely(!look_at_grant()))
		sf_raise_no_lease(no_grant_reason());
	if (unlikely(sf_worker_id >= 0 && sf_worker_id != grant.worker))
		sf_raise_no_lease(psprintf("snowflake.worker_id is %d here, and the lease of this server is of worker %d", sf_worker_id,
								   grant.worker));
	if (unlikely(leased >= 0))
		sf_leave_worker();
	return grant.worker;
}

/* What snowflake_status() says of the lease from another server; NULL where worker ids come from this one. */
char *
sf_lease_state(void)
{
	if (!sf_has_arbiter())
		return NULL;
	if (!look_at_grant())
		return pstrdup(no_grant_reason());
	return psprintf("worker %d for ids before %s%s%s", grant.worker, sf_format_ms(grant.until_ms), grant.reason[0] ? "; " : "",
					grant.reason);
}

/*
 * Lets others see which worker this session uses that is fixed or leased from another server, by a shared lock on it:
 * snowflake_workers shows it, and nobody leases it meanwhile. Ids do not depend on it, so it is no error when somebody
 * leases the worker already.
 */
void
sf_show_worker(void)
{
	int			worker = sf_has_arbiter() ? grant.worker : sf_worker_id;
	LOCKTAG		tag = lease_tag(worker);

	if (shown != worker)
		let_go(shown, ShareLock);
	shown = worker;
	if (shown >= 0 && !holds(shown, ShareLock))
		(void) LockAcquire(&tag, ShareLock, true, true);
}

/* The worker of this session's next id as far as it is settled, else -1, and where it comes from. */
int
sf_current_worker(const char **source)
{
	if (sf_has_arbiter())
	{
		bool		valid = look_at_grant();

		*source = valid ? "lease" : "none";
		return valid ? grant.worker : -1;
	}
	if (sf_worker_id >= 0)
	{
		*source = "setting";
		return sf_worker_id;
	}
	if (leased >= 0 && holds(leased, ExclusiveLock))
	{
		*source = "lease";
		return leased;
	}
	*source = "none";
	return -1;
}

/* Whether the slot of a worker stands further ahead of the clock than would be waited for. */
static bool
stands_ahead(int worker)
{
	return sf_slot_ahead_ns(sf_slot(worker)) > sf_tolerance_ns();
}

/* Leases the lowest free worker of the range whose slot is not ahead of the clock; an error when there is none. */
static pg_noinline int
take_lease(void)
{
	int			ahead = 0;

	for (int worker = sf_range_low; worker <= sf_range_high; worker++)
	{
		if (stands_ahead(worker))
			ahead++;
		else if (acquire(worker))
		{
			pg_atomic_fetch_add_u64(&sf_shared->counters.leases_taken, 1);
			pg_atomic_write_u32(&sf_shared->since[worker], sf_now_ns() / NS_PER_SECOND);
			return worker;
		}
	}
	sf_raise_no_worker(ahead);
}

/*
 * Ensures that this session may make ids as the worker it returns: the one that is set, the one it still leases,
 * or a new lease. A parallel worker would share its leader's lock, so it is refused.
 */
int
sf_settle_worker(void)
{
	if (sf_worker_id >= 0)
	{
		if (unlikely(leased >= 0))
			sf_leave_worker();
		return sf_worker_id;
	}
	if (unlikely(IsParallelWorker()))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot make snowflake ids in a parallel worker"),
				 errhint("Leave the functions marked PARALLEL UNSAFE, as they were created.")));
	if (likely(leased >= sf_range_low && leased <= sf_range_high))
	{
		if (likely(holds(leased, ExclusiveLock)))
			return leased;
		pg_atomic_fetch_add_u64(&sf_shared->counters.leases_lost, 1);
	}
	else if (leased >= 0)
		sf_leave_worker();
	leased = -1;
	return leased = take_lease();
}
