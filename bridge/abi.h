/*
 * The border between C and Go: the structs and codes that both sides hold. Only fixed-width types, so that cgo and
 * every server header agree on them. Structs mirror those of gen/ field for field; engine/ checks that they do.
 */
#ifndef SF_ABI_H
#define SF_ABI_H

#include <stdint.h>

/* What became of a call; the numbers of gen.Code. */
enum SfCode
{
	SF_PANIC = -1,				/* Go code panicked; sfPanicText says how */
	SF_ISSUED = 0,
	SF_SEQUENCE_USED_UP,
	SF_CLOCK_WAIT,
	SF_CLOCK_BACK,
	SF_TIME_USED_UP,
	SF_BEFORE_EPOCH,
	SF_WORKER_OUT_OF_RANGE,
	SF_RESERVE_FIRST,
	SF_SEED_FIRST,
	SF_NEGATIVE = 16,
	SF_TIME_OUT_OF_RANGE,
	SF_SEQUENCE_OUT_OF_RANGE,
	SF_UNKNOWN_LAYOUT,
	SF_BAD_TEXT,
	SF_TEXT_OUT_OF_RANGE,
	SF_UNKNOWN_ORDERING,
	SF_NOT_REPRESENTABLE
};

/* gen.Request: what the generator is asked. */
typedef struct SfRequest
{
	int64_t		now_ns;			/* the clock, Unix nanoseconds */
	int64_t		epoch_ms;		/* Unix milliseconds */
	int64_t		tolerance_ns;
	int64_t		limit_ms;		/* ids carry a time before this one */
	uint64_t	floor;			/* ids stand above this slot value */
	int32_t		worker;
	int32_t		count;
} SfRequest;

/* gen.Run: what it answers. */
typedef struct SfRun
{
	int64_t		first;			/* the first of count consecutive ids */
	uint64_t	last;			/* slot value of the last of them */
	int64_t		delay_ns;		/* how long to wait, or how far the clock is behind */
	int32_t		count;
	int32_t		code;
} SfRun;

/* The parts of an id; created is PostgreSQL's timestamptz, microseconds since 2000-01-01. */
typedef struct SfParts
{
	int64_t		created;
	int32_t		worker;
	int32_t		sequence;
} SfParts;

/* The parts of another system's id (snowflake_parse_as). */
typedef struct SfForeignParts
{
	int64_t		created;		/* timestamptz */
	int64_t		node;
	int64_t		sequence;
} SfForeignParts;

/* What sessions see of the lease from another server (lease.c). */
#define SF_REASON_BYTES 256

typedef struct SfGrant
{
	int64_t		valid_ns;		/* until then, by CLOCK_BOOTTIME */
	int64_t		until_ms;		/* ids carry a time before this one, Unix milliseconds */
	int32_t		worker;			/* -1: none */
	char		reason[SF_REASON_BYTES];	/* why there is none, or why it was not renewed */
} SfGrant;

/* A reading of the keeper's clocks. */
typedef struct SfClock
{
	int64_t		boot_ns;		/* CLOCK_BOOTTIME */
	int64_t		wall_ms;		/* Unix milliseconds */
} SfClock;

/* What the keeper's settings ask for. */
typedef struct SfKeeperSettings
{
	int32_t		low;			/* the worker ids that will do */
	int32_t		high;
	int32_t		ttl_ms;
} SfKeeperSettings;

/* What the keeper has to do after a step. */
typedef struct SfKeeperStep
{
	SfGrant		grant;			/* to be published */
	int64_t		floor_ms;		/* ids carry times from this one on */
	int64_t		wake_ns;		/* when to take the next step, CLOCK_BOOTTIME */
} SfKeeperStep;

/* The parts of a version 7 UUID. */
typedef struct SfUUID7Parts
{
	int64_t		created;		/* timestamptz */
	int64_t		rand_b;
	int32_t		rand_a;
} SfUUID7Parts;

#endif
