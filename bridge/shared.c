/*
 * What all sessions of a server share: a slot for each worker, and counters.
 *
 * About 12 KB, attached at the first use, whether or not the library was preloaded. Preloading reserves the room;
 * without it the room comes from the slack that a server keeps for all extensions (100 kB).
 */
#include "bridge.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

/* The name carries the version of the layout: a server never runs two layouts under one name. */
#define SHARED_NAME "snowflake 1"
#define SLOTS_IN_A_CACHE_LINE 8

SfShared   *sf_shared = NULL;

#if PG_VERSION_NUM >= 150000
static shmem_request_hook_type next_request_hook = NULL;

static void
request_room(void)
{
	if (next_request_hook)
		next_request_hook();
	RequestAddinShmemSpace(sizeof(SfShared));
}
#endif

/* Reserves the room when the library is preloaded. */
void
sf_request_shared_memory(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
#if PG_VERSION_NUM >= 150000
	next_request_hook = shmem_request_hook;
	shmem_request_hook = request_room;
#else
	RequestAddinShmemSpace(sizeof(SfShared));
#endif
}

static void
initialize(SfShared *shared)
{
	SfCounters *c = &shared->counters;

	pg_atomic_init_u64(&c->sequence_waits, 0);
	pg_atomic_init_u64(&c->clock_waits, 0);
	pg_atomic_init_u64(&c->clock_refusals, 0);
	pg_atomic_init_u64(&c->leases_taken, 0);
	pg_atomic_init_u64(&c->leases_lost, 0);
	pg_atomic_init_u64(&shared->step_from_ms, 0);
	pg_atomic_init_u64(&shared->step_to_ms, 0);
	if (!pg_strong_random(&shared->uptime, sizeof(shared->uptime)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	for (int i = 0; i < SF_WORKERS; i++)
	{
		pg_atomic_init_u32(&shared->since[i], 0);
		pg_atomic_init_u64(&shared->slots[i], 0);
	}
}

/* Attaches the server's shared state, which whoever comes first makes. */
void
sf_attach_shared_memory_slowly(void)
{
	MemoryContext context = CurrentMemoryContext;
	SfShared   *shared = NULL;
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	PG_TRY();
	{
		shared = ShmemInitStruct(SHARED_NAME, sizeof(SfShared), &found);
		if (!found)
			initialize(shared);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		ereport(ERROR,
				(errcode(error->sqlerrcode),
				 errmsg("snowflake could not attach its shared memory"),
				 errdetail("%zu bytes are needed: %s.", sizeof(SfShared), error->message),
				 errhint("Restart the server, with snowflake in shared_preload_libraries if it is out of room.")));
	}
	PG_END_TRY();
	LWLockRelease(AddinShmemInitLock);
	sf_shared = shared;
}

/* The slot of a worker. Neighbouring workers lie on different cache lines, so that they do not slow each other. */
pg_atomic_uint64 *
sf_slot(int worker)
{
	const int	lines = SF_WORKERS / SLOTS_IN_A_CACHE_LINE;

	return &sf_shared->slots[worker % lines * SLOTS_IN_A_CACHE_LINE + worker / lines];
}
