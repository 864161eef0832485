/*
 * The lease keeper: a background worker that holds a worker id for the whole server, leased from another PostgreSQL,
 * the arbiter.
 *
 * It is a library of its own, snowflake_keeper, started by shared_preload_libraries, with a Go archive of its own, since
 * that brings a network client. Go decides what to ask the arbiter and asks it, on its own threads; this room supplies
 * clocks and settings, sleeps on the latch, and publishes what Go says. The main library is loaded first, in the
 * postmaster: it defines the settings for all processes, so that nobody but a superuser sees the connection string.
 * Its Go never starts here.
 */
#include "bridge.h"
#include "keeper.h"

#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "postmaster/postmaster.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#if PG_VERSION_NUM >= 140000
#include "utils/wait_event.h"
#endif

#define RESTART_SECONDS 1
#define IDENTITY_BYTES 16
#define MAX_SLEEP_MS 60000
#define GIVE_BACK_MS 1000

#if PG_VERSION_NUM >= 180000
PG_MODULE_MAGIC_EXT(.name = "snowflake_keeper", .version = SF_VERSION);
#else
PG_MODULE_MAGIC;
#endif

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT void snowflake_keeper_main(Datum arg);

extern char **environ;

/* Made once in the postmaster: its children have it, after a crash as well; a copy of the data directory has not. */
static char identity[2 * IDENTITY_BYTES + 1];

static const char *(*lease_conninfo) (void);	/* the setting, in the main library */

static SfGrant published = {.worker = -1};

/* Registers the worker, and loads the main library for all processes. */
void
_PG_init(void)
{
	unsigned char random[IDENTITY_BYTES];
	BackgroundWorker worker = {0};

	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake_keeper must be loaded by shared_preload_libraries")));
	lease_conninfo = (const char *(*) (void)) load_external_function("$libdir/snowflake", "snowflake_lease_conninfo", true, NULL);

	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	for (int i = 0; i < IDENTITY_BYTES; i++)
		snprintf(identity + 2 * i, 3, "%02x", random[i]);

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_SECONDS;
	strlcpy(worker.bgw_library_name, "snowflake_keeper", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "snowflake_keeper_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "snowflake lease keeper", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "snowflake lease keeper", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

static SfClock
read_clock(void)
{
	SfClock		clock = {.boot_ns = sf_boot_ns()};
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	clock.wall_ms = now.tv_sec * INT64CONST(1000) + now.tv_nsec / NS_PER_MS;
	return clock;
}

/* Go reads its environment where this process has none: what libpq's users set for the server is handed over. */
static void
hand_over_environment(void)
{
	for (char **entry = environ; *entry != NULL; entry++)
		if (strncmp(*entry, "PG", 2) == 0 || strncmp(*entry, "HOME=", 5) == 0)
			kpSetenv(*entry);
}

/* How this server is called at the arbiter: "host:port", and its cluster_name if it has one. */
static char *
server_name(void)
{
	char		host[256] = "";
	const char *cluster = GetConfigOption("cluster_name", false, false);

	gethostname(host, sizeof(host) - 1);
	return psprintf("%s:%d%s%s%s", host, PostPortNumber, *cluster ? " (" : "", cluster, *cluster ? ")" : "");
}

/* Tells Go the settings in force. */
static void
configure(void)
{
	SfKeeperSettings settings;
	int			worker = atoi(GetConfigOption("snowflake.worker_id", false, false));
	const char *range = GetConfigOption("snowflake.worker_range", false, false);

	if (sscanf(range, "%d-%d", &settings.low, &settings.high) < 2)
		settings.high = settings.low;
	if (worker >= 0)
		settings.low = settings.high = worker;
	settings.ttl_ms = atoi(GetConfigOption("snowflake.lease_ttl", false, false));
	kpConfigure((char *) lease_conninfo(), &settings, read_clock());
}

/* Leaves one line in the log for each change of what is held, or of why it is not. */
static void
report(const SfGrant *next)
{
	if (next->worker == published.worker && strcmp(next->reason, published.reason) == 0)
		return;
	if (next->worker < 0)
		ereport(LOG,
				(errmsg("snowflake holds no lease of a worker id: %s", next->reason)));
	else if (next->reason[0] != '\0')
		ereport(LOG,
				(errmsg("snowflake could not renew its lease of worker %d: %s", next->worker, next->reason)));
	else
		ereport(LOG,
				(errmsg("snowflake holds a lease of worker %d", next->worker)));
}

/* Publishes what Go says, if it is news. A new worker's slot is raised first above what its former holder could make. */
static void
publish(const SfKeeperStep *step)
{
	SfGrant		next = step->grant;

	report(&next);
	if (memcmp(&next, &published, sizeof(next)) == 0)
		return;
	if (next.worker >= 0)
		kpRaise(sf_slot(next.worker), step->floor_ms);
	if (next.worker != published.worker)
		pg_atomic_fetch_add_u64(next.worker >= 0 ? &sf_shared->counters.leases_taken : &sf_shared->counters.leases_lost, 1);
	sf_publish_grant(&next);
	published = next;
}

/* When the process ends, in whatever way: no more ids, and the arbiter learns the last one's time, if it can be told. */
static void
give_back(int code, Datum arg)
{
	SfGrant		none = {.worker = -1, .reason = "the lease keeper has stopped"};
	int			worker = published.worker;

	published = none;
	sf_publish_grant(&none);
	if (worker >= 0)
		kpGiveBack(sf_slot(worker), GIVE_BACK_MS);
}

/* The process: asks, publishes, sleeps. */
void
snowflake_keeper_main(Datum arg)
{
	int			answers;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	sf_attach_shared_memory();
	sf_attach_lease();
	sf_start_go();
	hand_over_environment();
	answers = kpStart(identity, server_name());
	if (answers < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("the lease keeper could not start")));
	configure();
	before_shmem_exit(give_back, (Datum) 0);
	for (;;)
	{
		SfKeeperStep step;
		char		drained[64];
		int64		sleep_ms;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			configure();
		}
		memset(&step, 0, sizeof(step));
		if (kpStep(read_clock(), &step) != SF_ISSUED)
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("internal error in snowflake's lease keeper: %s", step.grant.reason)));
		publish(&step);
		sleep_ms = (step.wake_ns - sf_boot_ns() + NS_PER_MS - 1) / NS_PER_MS;
		(void) WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, answers,
								 Min(Max(sleep_ms, 1), MAX_SLEEP_MS), PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		(void) !read(answers, drained, sizeof(drained));
	}
}
