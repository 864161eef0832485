/*
 * Whose ids a session makes: the worker fixed by snowflake.worker_id, or one that it leases.
 *
 * A lease is a session-level advisory lock in a key space of its own that spans all databases (database 0, class
 * 7; SQL's own advisory locks have classes 1 and 2). DISCARD ALL and pg_advisory_unlock_all() drop it without a
 * word, so each use asks the lock table whether it is still held. The lease keeps sessions apart for speed and
 * order; that no id repeats rests on the slots alone.
 */
#include "bridge.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/lock.h"

#define LEASE_KEY 0x736e6f77		/* "snow" */
#define LEASE_CLASS 7

static int	leased = -1;			/* the worker leased last, whether or not still held */
static int	shown = -1;				/* the fixed worker that sf_show_worker() showed last */
static LOCALLOCK *lease = NULL; /* the lock table's entry for the lease taken last */

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
entry_holds(const LOCKTAG *tag, LOCKMODE mode)
{
#if PG_VERSION_NUM < 190000
	return lease != NULL && lease->numLockOwners > 0 && lease->nLocks > 0 && lease->tag.mode == mode &&
		memcmp(&lease->tag.lock, tag, sizeof(LOCKTAG)) == 0;
#else
	return false;
#endif
}

static bool
holds(int worker, LOCKMODE mode)
{
	LOCKTAG		tag = lease_tag(worker);

	if (likely(entry_holds(&tag, mode)))
		return true;
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(&tag, mode, false);
#else
	return LockHeldByMe(&tag, mode);
#endif
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

/*
 * Lets others see which fixed worker this session uses, by a shared lock on it: snowflake_workers shows it, and
 * nobody leases it meanwhile. Ids do not depend on it, so it is no error when somebody leases the worker already.
 */
void
sf_show_worker(void)
{
	LOCKTAG		tag = lease_tag(sf_worker_id);

	if (shown != sf_worker_id)
		let_go(shown, ShareLock);
	shown = sf_worker_id;
	if (shown >= 0 && !holds(shown, ShareLock))
		(void) LockAcquire(&tag, ShareLock, true, true);
}

/* The worker of this session's next id as far as it is settled, else -1, and where it comes from. */
int
sf_current_worker(const char **source)
{
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
static int
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
			pg_atomic_write_u32(&sf_shared->since[worker], sf_now_ns() / INT64CONST(1000000000));
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
