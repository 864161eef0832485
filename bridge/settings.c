/*
 * What the user sets.
 *
 * The library is often loaded after its settings were given (in postgresql.conf, by ALTER DATABASE, by SET).
 * Postgres then keeps them as placeholders and, if one turns out to be invalid when the library defines it, goes on
 * with the default after a warning. A default worker id that nobody chose is not acceptable here: an invalid
 * placeholder is remembered, and no id is made until it has been corrected.
 */
#include "bridge.h"

#include "miscadmin.h"
#include "utils/datetime.h"
#include "utils/guc.h"

#include <time.h>

#define MS_PER_SECOND INT64CONST(1000)
#define MS_PER_DAY (SECS_PER_DAY * MS_PER_SECOND)
#define MAX_TOLERANCE_MS 60000
#define MIN_LEASE_TTL_MS 1000
#define MAX_LEASE_TTL_MS (3600 * 1000)
#define DEFAULT_EPOCH "2026-01-01T00:00:00Z"

int			sf_worker_id = -1;
int			sf_range_low = 0;
int			sf_range_high = SF_WORKERS - 1;
int64		sf_epoch_ms = 0;
int			sf_clock_tolerance_ms = 100;
const char *sf_lease_conninfo = "";

static char *range_text;
static char *epoch_text;
static char *no_conninfo;		/* always empty, see check_lease_conninfo() */
static int	lease_ttl_ms;			/* the lease keeper reads it by its name */

/* Which setting an invalid placeholder was given for, and what was given; name is NULL when there was none. */
typedef struct Refused
{
	const char *name;
	char	   *value;
} Refused;

enum
{
	SETTING_WORKER_ID, SETTING_WORKER_RANGE, SETTING_EPOCH, SETTING_CLOCK_TOLERANCE, SETTING_LEASE_TTL, SETTINGS
};

static Refused refused[SETTINGS];
static bool any_refused = false;

/* Reads an unsigned number of exactly digits digits and moves the cursor past it. */
static bool
read_digits(const char **cursor, int digits, int *number)
{
	*number = 0;
	for (int i = 0; i < digits; i++, (*cursor)++)
	{
		if (**cursor < '0' || **cursor > '9')
			return false;
		*number = *number * 10 + (**cursor - '0');
	}
	return true;
}

static bool
read_char(const char **cursor, char c)
{
	if (**cursor != c)
		return false;
	(*cursor)++;
	return true;
}

/* Reads "YYYY-MM-DD" into days since 1970. */
static bool
read_date(const char **cursor, int64 *days)
{
	int			y,
				m,
				d,
				y2,
				m2,
				d2;

	if (!read_digits(cursor, 4, &y) || !read_char(cursor, '-') || !read_digits(cursor, 2, &m) ||
		!read_char(cursor, '-') || !read_digits(cursor, 2, &d) || y < 1 || m < 1 || m > 12)
		return false;
	j2date(date2j(y, m, d), &y2, &m2, &d2);
	*days = (int64) date2j(y, m, d) - UNIX_EPOCH_JDATE;
	return y2 == y && m2 == m && d2 == d;	/* no such day */
}

/* Reads "HH:MM[:SS[.fff]]" into milliseconds. */
static bool
read_time(const char **cursor, int64 *ms)
{
	int			hour,
				minute,
				second = 0,
				digit;

	if (!read_digits(cursor, 2, &hour) || !read_char(cursor, ':') || !read_digits(cursor, 2, &minute) ||
		(read_char(cursor, ':') && !read_digits(cursor, 2, &second)) || hour > 23 || minute > 59 || second > 59)
		return false;
	*ms = ((hour * 60 + minute) * 60 + second) * MS_PER_SECOND;
	if (read_char(cursor, '.'))
		for (int scale = 100; scale > 0 && (scale == 100 || (**cursor >= '0' && **cursor <= '9')); scale /= 10)
		{
			if (!read_digits(cursor, 1, &digit))
				return false;
			*ms += digit * scale;
		}
	return true;
}

/* Reads "Z", "+HH", "+HHMM" or "+HH:MM" (or "-") into milliseconds east of UTC; none means UTC. */
static bool
read_zone(const char **cursor, int64 *east_ms)
{
	int			hour,
				minute = 0,
				sign = **cursor == '-' ? -1 : 1;

	*east_ms = 0;
	if (**cursor == '\0' || read_char(cursor, 'Z') || read_char(cursor, 'z'))
		return true;
	if ((!read_char(cursor, '+') && !read_char(cursor, '-')) || !read_digits(cursor, 2, &hour))
		return false;
	if (**cursor != '\0' && ((void) read_char(cursor, ':'), !read_digits(cursor, 2, &minute)))
		return false;
	*east_ms = sign * (hour * 60 + minute) * 60 * MS_PER_SECOND;
	return hour <= 15 && minute <= 59;
}

/*
 * Reads an ISO 8601 date with an optional time of day and zone into Unix milliseconds. Strict, and apart from
 * PostgreSQL's own input, because that depends on DateStyle and TimeZone and this must not.
 */
static bool
read_epoch(const char *text, int64 *unix_ms)
{
	int64		days,
				ms = 0,
				east_ms;

	if (!read_date(&text, &days))
		return false;
	if ((read_char(&text, 'T') || read_char(&text, 't') || read_char(&text, ' ')) && !read_time(&text, &ms))
		return false;
	if (!read_zone(&text, &east_ms) || *text != '\0')
		return false;
	*unix_ms = days * MS_PER_DAY + ms - east_ms;
	return true;
}

/* Formats Unix milliseconds in ISO 8601, UTC, for messages. */
char *
sf_format_ms(int64 unix_ms)
{
	int64		days = unix_ms / MS_PER_DAY;
	int64		ms = unix_ms % MS_PER_DAY;
	int			y,
				m,
				d;

	if (ms < 0)
		days--, ms += MS_PER_DAY;
	if (days < -UNIX_EPOCH_JDATE || days > INT_MAX / 2)
		return pstrdup("a time that no calendar holds");
	j2date(days + UNIX_EPOCH_JDATE, &y, &m, &d);
	return psprintf("%04d-%02d-%02d %02d:%02d:%02d.%03dZ", y, m, d, (int) (ms / 3600000), (int) (ms / 60000 % 60),
					(int) (ms / 1000 % 60), (int) (ms % 1000));
}

/* Reads "low-high", or one number, into a range of worker ids. */
static bool
read_range(const char *text, int *low, int *high)
{
	int			used = 0;

	if (sscanf(text, "%4d%n-%4d%n", low, &used, high, &used) < 2)
		*high = *low;
	return *text >= '0' && *text <= '9' && text[used] == '\0' && strpbrk(text, " +\t\n") == NULL &&
		*low >= 0 && *high >= *low && *high < SF_WORKERS;
}

/* A setting that passes a check after the library was loaded has been corrected. ALTER ... SET only tries it. */
static void
corrected(int setting, GucSource source)
{
	if (source != PGC_S_TEST)
		refused[setting].name = NULL;
}

static bool
check_worker_id(int *value, void **extra, GucSource source)
{
	corrected(SETTING_WORKER_ID, source);
	return true;
}

static bool
check_clock_tolerance(int *value, void **extra, GucSource source)
{
	corrected(SETTING_CLOCK_TOLERANCE, source);
	return true;
}

static bool
check_lease_ttl(int *value, void **extra, GucSource source)
{
	corrected(SETTING_LEASE_TTL, source);
	return true;
}

/*
 * The value itself goes into extra, and what the server takes for the value is empty, always: at a reload it would
 * write one that has changed into its log, the password with it.
 */
static bool
check_lease_conninfo(char **value, void **extra, GucSource source)
{
	size_t		size = strlen(*value) + 1;

#if PG_VERSION_NUM >= 160000
	*extra = guc_malloc(LOG, size);
#else
	*extra = malloc(size);
#endif
	if (*extra == NULL)
		return false;
	memcpy(*extra, *value, size);
	explicit_bzero(*value, size);
	return true;
}

static void
assign_lease_conninfo(const char *value, void *extra)
{
	sf_lease_conninfo = extra;
}

static const char *
show_lease_conninfo(void)
{
	return sf_lease_conninfo;
}

/* For the lease keeper, which is another library. */
const char *
snowflake_lease_conninfo(void)
{
	return sf_lease_conninfo;
}

static bool
check_range(char **value, void **extra, GucSource source)
{
	int			low,
				high;

	if (!read_range(*value, &low, &high))
	{
		GUC_check_errdetail("The range is written as lowest-highest, both from 0 to %d.", SF_WORKERS - 1);
		GUC_check_errhint("For example: snowflake.worker_range = '0-%d'.", SF_WORKERS - 1);
		return false;
	}
	corrected(SETTING_WORKER_RANGE, source);
	return true;
}

static void
assign_range(const char *value, void *extra)
{
	(void) read_range(value, &sf_range_low, &sf_range_high);
}

static bool
check_epoch(char **value, void **extra, GucSource source)
{
	int64		unix_ms;

	if (!read_epoch(*value, &unix_ms))
	{
		GUC_check_errdetail("The epoch is a date in ISO 8601, with an optional time down to milliseconds and an optional zone (UTC if none).");
		GUC_check_errhint("For example: snowflake.epoch = '%s'.", DEFAULT_EPOCH);
		return false;
	}
	if (source != PGC_S_DEFAULT && unix_ms > (int64) time(NULL) * MS_PER_SECOND)
	{
		GUC_check_errdetail("The epoch is in the future.");
		GUC_check_errhint("Ids count milliseconds since the epoch: choose a time that has passed.");
		return false;
	}
	corrected(SETTING_EPOCH, source);
	return true;
}

static void
assign_epoch(const char *value, void *extra)
{
	(void) read_epoch(value, &sf_epoch_ms);
}

/* Remembers a placeholder that this library will refuse when it defines the setting. */
static void
remember(int setting, const char *name, bool valid, const char *value)
{
	if (valid)
		return;
	refused[setting].name = name;
	refused[setting].value = strdup(value);
	any_refused = true;
}

/* The placeholder of a setting, or NULL. An empty one is what ALTER SYSTEM RESET leaves: nothing was given. */
static const char *
placeholder(const char *name)
{
	const char *text = GetConfigOption(name, true, false);

	return text != NULL && *text != '\0' ? text : NULL;
}

static bool
int_is_valid(const char *text, int low, int high, int flags)
{
	int			value;

	return parse_int(text, &value, flags, NULL) && value >= low && value <= high;
}

/* Finds the invalid ones among the settings that were given before the library was loaded. */
static void
remember_invalid_placeholders(void)
{
	const char *text;
	char	   *copy;
	int			low,
				high;
	void	   *extra = NULL;

	if ((text = placeholder("snowflake.worker_id")) != NULL)
		remember(SETTING_WORKER_ID, "snowflake.worker_id", int_is_valid(text, -1, SF_WORKERS - 1, 0), text);
	if ((text = placeholder("snowflake.clock_tolerance")) != NULL)
		remember(SETTING_CLOCK_TOLERANCE, "snowflake.clock_tolerance",
				 int_is_valid(text, 0, MAX_TOLERANCE_MS, GUC_UNIT_MS), text);
	if ((text = placeholder("snowflake.lease_ttl")) != NULL)
		remember(SETTING_LEASE_TTL, "snowflake.lease_ttl",
				 int_is_valid(text, MIN_LEASE_TTL_MS, MAX_LEASE_TTL_MS, GUC_UNIT_MS), text);
	if ((text = placeholder("snowflake.worker_range")) != NULL)
		remember(SETTING_WORKER_RANGE, "snowflake.worker_range", read_range(text, &low, &high), text);
	if ((text = placeholder("snowflake.epoch")) != NULL)
	{
		copy = pstrdup(text);
		remember(SETTING_EPOCH, "snowflake.epoch", check_epoch(&copy, &extra, PGC_S_TEST), text);
	}
}

/* Defines the settings; values given before count. */
void
sf_define_settings(void)
{
	Refused		found[SETTINGS];

	remember_invalid_placeholders();
	memcpy(found, refused, sizeof(refused));
	DefineCustomIntVariable("snowflake.worker_id",
							"Worker id of the snowflake ids made here, 0 to 1023.",
							"-1 leases a free worker id for each session.",
							&sf_worker_id, -1, -1, SF_WORKERS - 1, PGC_SUSET, 0,
							check_worker_id, NULL, NULL);
	DefineCustomStringVariable("snowflake.worker_range",
							   "Worker ids that sessions of this server may lease, as lowest-highest.",
							   NULL,
							   &range_text, "0-1023", PGC_SIGHUP, 0,
							   check_range, assign_range, NULL);
	DefineCustomStringVariable("snowflake.epoch",
							   "The time from which snowflake ids count milliseconds, in ISO 8601.",
							   "Without a zone it is UTC. It must not change once ids exist.",
							   &epoch_text, DEFAULT_EPOCH, PGC_SUSET, 0,
							   check_epoch, assign_epoch, NULL);
	DefineCustomIntVariable("snowflake.clock_tolerance",
							"How far the clock may step back and still be waited for.",
							NULL,
							&sf_clock_tolerance_ms, 100, 0, MAX_TOLERANCE_MS, PGC_SUSET, GUC_UNIT_MS,
							check_clock_tolerance, NULL, NULL);
	DefineCustomStringVariable("snowflake.lease_conninfo",
							   "Connection string of the PostgreSQL that lends worker ids to several servers.",
							   "If empty, worker ids are leased from this server.",
							   &no_conninfo, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
							   check_lease_conninfo, assign_lease_conninfo, show_lease_conninfo);
	DefineCustomIntVariable("snowflake.lease_ttl",
							"How long a lease from another server lasts unless it is renewed.",
							NULL,
							&lease_ttl_ms, 30000, MIN_LEASE_TTL_MS, MAX_LEASE_TTL_MS, PGC_SIGHUP, GUC_UNIT_MS,
							check_lease_ttl, NULL, NULL);
	memcpy(refused, found, sizeof(refused));	/* defaults passed the checks just now */
#if PG_VERSION_NUM >= 150000
	MarkGUCPrefixReserved("snowflake");
#else
	EmitWarningsOnPlaceholders("snowflake");
#endif
}

/* Ensures that no setting is in force only because what was given is invalid. */
void
sf_check_settings(void)
{
	if (likely(!any_refused))
		return;
	any_refused = false;
	for (int i = 0; i < SETTINGS; i++)
		if (refused[i].name != NULL)
		{
			any_refused = true;
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid value for parameter \"%s\": \"%s\"", refused[i].name, refused[i].value),
					 errdetail("It was given before the library was loaded. No ids are made with a default in its place."),
					 errhint("Correct it where it was given (postgresql.conf, ALTER SYSTEM, ALTER DATABASE or ALTER ROLE) and connect anew.")));
		}
}
