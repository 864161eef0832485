/*
 * The lease of another server's worker id, in shared memory: written by the lease keeper, read by sessions.
 *
 * Two libraries have this room: the keeper's process publishes, the sessions' look. What is published lies in one of
 * two places, and a counter says in which; so a reader never waits, and sees by the counter when it must look again.
 */
#include "bridge.h"

#include <time.h>

#include "storage/lwlock.h"
#include "storage/shmem.h"

#define LEASE_NAME "snowflake lease 1"

SfLease    *sf_lease = NULL;

/* The monotonic clock, nanoseconds. It counts while the machine is suspended, too. */
int64
sf_boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * INT64CONST(1000000000) + now.tv_nsec;
}

/* Ensures that sf_lease points at the server's lease, made by whoever comes first. */
void
sf_attach_lease(void)
{
	bool		found;
	SfLease    *lease;

	if (likely(sf_lease != NULL))
		return;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lease = ShmemInitStruct(LEASE_NAME, sizeof(SfLease), &found);
	if (!found)
	{
		memset(lease, 0, sizeof(SfLease));
		pg_atomic_init_u64(&lease->published, 0);
		lease->grants[0].worker = -1;
		strlcpy(lease->grants[0].reason,
				"the lease keeper does not run: snowflake_keeper is not in shared_preload_libraries, or the server has just started",
				SF_REASON_BYTES);
	}
	LWLockRelease(AddinShmemInitLock);
	sf_lease = lease;
}

/* Copies what is published and returns its number. */
uint64
sf_read_grant(SfGrant *grant)
{
	uint64		number;

	do
	{
		number = pg_atomic_read_u64(&sf_lease->published);
		pg_read_barrier();
		memcpy(grant, &sf_lease->grants[number % 2], sizeof(SfGrant));
		pg_read_barrier();
	} while (unlikely(pg_atomic_read_u64(&sf_lease->published) != number));
	return number;
}

/* Publishes a grant. When it returns, an id that was made before is in its slot, or will be found to be outdated. */
void
sf_publish_grant(const SfGrant *grant)
{
	uint64		number = pg_atomic_read_u64(&sf_lease->published) + 1;

	memcpy(&sf_lease->grants[number % 2], grant, sizeof(SfGrant));
	pg_write_barrier();
	pg_atomic_write_u64(&sf_lease->published, number);
	pg_memory_barrier();
}
