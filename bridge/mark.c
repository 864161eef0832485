/*
 * What a database remembers for good: the durable mark, the epoch, and which uptime has looked at the mark.
 *
 * Three sequences of the extension hold them, because a sequence is WAL-logged, replicated, carried by dumps
 * (mark and epoch) and never rolled back.
 *
 * No id leaves unless its time lies half a step before a mark that is safe on disk. So whatever a crash, a
 * failover or a restore brings back, the mark stands beyond every id that was ever given out, and the first id
 * of the database in a new uptime waits until the clock has passed it. That first session then raises all
 * slots to the mark and notes the uptime; from there on the slots alone rule.
 */
#include "bridge.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* What a sequence holds, and up to where WAL must be flushed to make that safe. */
typedef struct Durable
{
	bool		set;
	int64		value;
	XLogRecPtr	written;
} Durable;

static Oid	mark_relid = InvalidOid;
static Oid	epoch_relid;
static Oid	uptime_relid;

static int64 reserved_ms = 0;	/* ids of this session carry times before this; 0: look at the mark first */
static int64 verified_epoch_ms; /* the epoch found to be the recorded one, while reserved_ms is not 0 */
static bool settled = false;	/* this uptime has looked at the mark */

/* Forgets what this session knew when its sequences are dropped, altered or reset. */
static void
forget(Datum arg, Oid relid)
{
	if (relid == mark_relid || relid == epoch_relid || relid == uptime_relid || relid == InvalidOid)
	{
		reserved_ms = 0;
		settled = false;
	}
}

static Oid
find_sequence(Oid schema, const char *name)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_SEQUENCE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sequence \"%s\" of extension snowflake is missing", name),
				 errhint("Bring the extension up to the version of its library: ALTER EXTENSION snowflake UPDATE.")));
	return relid;
}

/* Finds the sequences: they lie in the schema of the function that was called. */
static void
find_sequences(Oid function)
{
	static bool registered = false;
	Oid			schema = get_func_namespace(function);

	mark_relid = find_sequence(schema, "snowflake_mark");
	epoch_relid = find_sequence(schema, "snowflake_epoch");
	uptime_relid = find_sequence(schema, "snowflake_uptime");
	if (!registered)
		CacheRegisterRelcacheCallback(forget, (Datum) 0);
	registered = true;
}

/* Reads a sequence's page as it is now, whoever asks. */
static Durable
read_durable(Oid relid)
{
	Relation	relation = relation_open(relid, AccessShareLock);
	Buffer		buffer = ReadBuffer(relation, 0);
	Durable		durable;
	Page		page;
	HeapTupleHeader tuple;
	Form_pg_sequence_data data;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	tuple = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, FirstOffsetNumber));
	data = (Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff);
	durable.set = data->is_called;
	durable.value = data->is_called ? data->last_value : 0;
	durable.written = PageGetLSN(page);
	UnlockReleaseBuffer(buffer);
	relation_close(relation, AccessShareLock);
	return durable;
}

/* Writes a sequence in the name of its owner: the caller needs no right on it. */
static void
write_durable(Oid relid, int64 value)
{
	Relation	relation = relation_open(relid, RowExclusiveLock);
	Oid			owner = relation->rd_rel->relowner;
	Oid			user;
	int			context;

	relation_close(relation, NoLock);
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(owner, context | SECURITY_LOCAL_USERID_CHANGE);
	DirectFunctionCall2(setval_oid, ObjectIdGetDatum(relid), Int64GetDatum(value));
	SetUserIdAndSecContext(user, context);
}

/* One session at a time decides on a sequence. Writers keep a weaker lock to the end of their transactions, which
 * does not conflict with this one; it is taken first, so that no lock is awaited while this one is held. */
static void
lock_durable(Oid relid)
{
	LockRelationOid(relid, RowExclusiveLock);
	LockRelationOid(relid, ShareUpdateExclusiveLock);
}

static void
unlock_durable(Oid relid)
{
	UnlockRelationOid(relid, ShareUpdateExclusiveLock);
}

/* Records the epoch in force with the first id; later it must be the recorded one. */
static void
verify_epoch(void)
{
	Durable		epoch = read_durable(epoch_relid);

	if (!epoch.set)
	{
		lock_durable(epoch_relid);
		epoch = read_durable(epoch_relid);
		if (!epoch.set)
			write_durable(epoch_relid, epoch.value = sf_epoch_ms);
		unlock_durable(epoch_relid);
	}
	if (epoch.value != sf_epoch_ms)
		sf_raise_epoch(epoch.value);
	verified_epoch_ms = epoch.value;
}

/*
 * Before the first id of this database in this uptime: waits until the clock has passed the mark that an earlier
 * uptime, or another server, left; then no slot stays behind it. The mark is read before the note of the uptime, since
 * who moves the mark has written that note first.
 */
static void
settle(void)
{
	while (!settled)
	{
		Durable		mark = read_durable(mark_relid);
		Durable		uptime = read_durable(uptime_relid);
		SfRun		run = {0};
		int64		now_ns = sf_now_ns();

		if (!uptime.set || uptime.value != sf_shared->uptime)
		{
			sf_check(sfSettle(now_ns, mark.value, sf_tolerance_ns(), &run));
			if (run.code == SF_CLOCK_WAIT)
			{
				sf_wait_for_clock(run.delay_ns);
				continue;
			}
			if (run.code == SF_CLOCK_BACK)
				sf_raise_mark_ahead(mark.value, now_ns);
			sf_check(sfRaise(sf_shared->slots, SF_WORKERS, mark.value));
			write_durable(uptime_relid, sf_shared->uptime);
		}
		settled = true;
	}
}

/* Moves the mark ahead of the clock if it is not, makes sure that it is safe, and reserves what lies before it. */
static void
advance(int64 now_ns)
{
	int64		wanted_ms,
				new_ms;
	Durable		mark = read_durable(mark_relid);

	sf_check(sfNextMark(now_ns, &wanted_ms, &new_ms));
	if (mark.value <= wanted_ms)
	{
		lock_durable(mark_relid);
		mark = read_durable(mark_relid);
		if (mark.value <= wanted_ms)
		{
			write_durable(mark_relid, new_ms);
			mark = read_durable(mark_relid);
		}
		unlock_durable(mark_relid);
	}
	XLogFlush(mark.written);
	reserved_ms = mark.value - (new_ms - wanted_ms);
}

/* The time before which ids need not ask for more, Unix milliseconds. */
int64
sf_reserved_ms(void)
{
	return sf_epoch_ms == verified_epoch_ms ? reserved_ms : 0;
}

/* Ensures that ids of this moment lie before the durable mark; function is the SQL function that was called. */
void
sf_reserve(Oid function)
{
	reserved_ms = 0;
	find_sequences(function);
	verify_epoch();
	settle();
	advance(sf_now_ns());
}

/* This database's mark, Unix milliseconds; false when it has made no id yet. */
bool
sf_read_mark(Oid function, int64 *mark_ms)
{
	Durable		mark;

	find_sequences(function);
	mark = read_durable(mark_relid);
	*mark_ms = mark.value;
	return mark.set;
}

/* Whether this uptime has looked at the mark, so that it holds nobody back. */
bool
sf_mark_is_settled(void)
{
	Durable		uptime = read_durable(uptime_relid);

	return uptime.set && uptime.value == sf_shared->uptime;
}

/* Lowers the mark to at_ms and returns the old one, both Unix milliseconds. */
int64
sf_lower_mark(Oid function, int64 at_ms)
{
	Durable		mark;

	find_sequences(function);
	lock_durable(mark_relid);
	mark = read_durable(mark_relid);
	if (!mark.set || at_ms >= mark.value || at_ms < 0)
		sf_raise_mark_not_lowered(mark.set, mark.value, at_ms);
	write_durable(mark_relid, at_ms);
	XLogFlush(read_durable(mark_relid).written);
	unlock_durable(mark_relid);
	CacheInvalidateRelcacheByRelid(mark_relid);
	return mark.value;
}
