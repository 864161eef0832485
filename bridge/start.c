/*
 * Starting Go in a backend.
 *
 * A Go archive starts its runtime, with five threads and its own signal handlers, as soon as it is loaded. Here
 * that entry was taken out of .init_array at build time (see Makefile), and this room calls it at the first call
 * that needs Go: never in the postmaster, never in a process that only loads the library. Around the start it
 * keeps what belongs to Postgres: all signals are blocked, so that Go's threads inherit a mask under which no
 * signal of Postgres can reach them; the dispositions that Go changed for asynchronous signals are put back; and
 * Go adopts a signal stack that is large and guarded.
 */
#include "bridge.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "miscadmin.h"

#define THREAD_STACK_BYTES (128 * 1024)
#define SIGNAL_STACK_BYTES (64 * 1024)
#define GO_ADDRESS_SPACE_BYTES ((size_t) 1 << 30)
#define MAIN_STACK_BYTES ((rlim_t) 8 << 20)

/* Go's entry for archives, _rt0_<arch>_linux_lib: it returns at once while the runtime starts on a new thread. */
extern void SF_GO_ENTRY(int argc, char **argv) __attribute__((visibility("hidden")));

bool		sf_go_runs = false;
static bool forked = false;

/*
 * Every pthread_attr_init of this library, Go's included, comes here (ld --wrap): threads get small stacks, so
 * that a backend commits megabytes and not 8 MB a thread, and Go reads the size it really has from the attributes.
 */
extern int	__real_pthread_attr_init(pthread_attr_t *attr);
extern int	__wrap_pthread_attr_init(pthread_attr_t *attr);

int
__wrap_pthread_attr_init(pthread_attr_t *attr)
{
	int			rc = __real_pthread_attr_init(attr);

	return rc != 0 ? rc : pthread_attr_setstacksize(attr, THREAD_STACK_BYTES);
}

/*
 * Go asks glibc where the stack of the first thread lies (ld --wrap). glibc would read all of /proc/self/maps, a third
 * of a millisecond in a process with as many libraries as a backend; the end of the stack and its limit say enough. Go
 * believes bounds only while its caller's stack pointer lies within.
 */
extern void *__libc_stack_end;
extern int	__real_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr);
extern int	__wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr);

int
__wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	uintptr_t	end = TYPEALIGN(sysconf(_SC_PAGESIZE), (uintptr_t) __libc_stack_end);
	struct rlimit limit;

	if (syscall(SYS_gettid) != getpid() || getrlimit(RLIMIT_STACK, &limit) != 0)
		return __real_pthread_getattr_np(thread, attr);
	limit.rlim_cur = Min(limit.rlim_cur, MAIN_STACK_BYTES);
	return pthread_attr_setstack(attr, (void *) (end - limit.rlim_cur), limit.rlim_cur);
}

/* A fork of a process with Go in it has no Go threads: its calls would hang, so they are refused. */
static void
mark_forked(void)
{
	sf_go_runs = false;
	forked = true;
}

static void *
do_nothing(void *arg)
{
	return arg;
}

/* Go aborts the process when a thread or its address space is denied, so both are tried first. */
static void
check_resources(void)
{
	pthread_attr_t attr;
	pthread_t	thread;
	void	   *space;
	int			rc;

	space = mmap(NULL, GO_ADDRESS_SPACE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not start the Go runtime of snowflake"),
				 errdetail("1 GB of address space is needed and was denied: %m."),
				 errhint("Raise the server's limit on address space (ulimit -v, LimitAS).")));
	munmap(space, GO_ADDRESS_SPACE_BYTES);

	pthread_attr_init(&attr);
	rc = pthread_create(&thread, &attr, do_nothing, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0)
	{
		errno = rc;
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start the Go runtime of snowflake"),
				 errdetail("A thread could not be created: %m."),
				 errhint("Raise the server's limit on tasks (ulimit -u, TasksMax).")));
	}
	pthread_join(thread, NULL);
}

/* Installs a signal stack with a guard page below it, unless a large one is there; Go adopts it. */
static void
install_signal_stack(void)
{
	long		page = sysconf(_SC_PAGESIZE);
	stack_t		stack;
	char	   *memory;

	if (sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE) && stack.ss_size >= SIGNAL_STACK_BYTES)
		return;
	memory = mmap(NULL, SIGNAL_STACK_BYTES + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(&stack, 0, sizeof(stack));
	stack.ss_sp = memory + page;
	stack.ss_size = SIGNAL_STACK_BYTES;
	if (memory == MAP_FAILED || mprotect(memory + page, SIGNAL_STACK_BYTES, PROT_READ | PROT_WRITE) != 0 ||
		sigaltstack(&stack, NULL) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not start the Go runtime of snowflake"),
				 errdetail("The signal stack could not be installed: %m.")));
}

/* The signals that Go must handle itself, because they come from its own code: they stay as Go set them. */
static bool
is_synchronous(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE;
}

/* Puts back the dispositions that Go changed; handlers of Postgres run on the signal stack from now on. */
static void
restore_dispositions(const struct sigaction *before)
{
	for (int sig = 1; sig < NSIG; sig++)
	{
		struct sigaction action = before[sig];

		if (is_synchronous(sig) || sig == SIGKILL || sig == SIGSTOP || action.sa_handler == SIG_ERR)
			continue;
		if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
			action.sa_flags |= SA_ONSTACK;
		sigaction(sig, &action, NULL);
	}
}

/*
 * Starts Go, once for each process. The arguments are Go's whole world: a name, then the runtime's settings where
 * it looks for its environment (two processors, since there is no preemption; a collector that seldom has
 * work), then an empty auxiliary vector, so that it reads /proc/self/auxv.
 */
void
sf_start_go_slowly(void)
{
	static char *argv[] = {
		"snowflake", NULL,
		"GOMAXPROCS=2", "GOGC=100", "GOMEMLIMIT=64MiB", "GOTRACEBACK=single", NULL,
		NULL, NULL
	};
	struct sigaction before[NSIG];
	sigset_t	all,
				mask;

	if (!IsUnderPostmaster && IsPostmasterEnvironment)
		elog(ERROR, "snowflake makes no ids in the postmaster");
	if (forked)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake cannot be used in a forked copy of a session"),
				 errhint("Connect a session of its own.")));
	check_resources();
	install_signal_stack();
	for (int sig = 1; sig < NSIG; sig++)
		if (sigaction(sig, NULL, &before[sig]) != 0)
			before[sig].sa_handler = SIG_ERR;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	SF_GO_ENTRY(1, argv);
	(void) sfReady();
	restore_dispositions(before);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);

	pthread_atfork(NULL, NULL, mark_forked);
	sf_go_runs = true;
}
