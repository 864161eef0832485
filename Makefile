# snowflake: PGXS builds bridge.c and bridge/, go builds the archive of engine/, and the two become one library.

EXTENSION = ext/snowflake
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" ext/snowflake.control)
PG_CONFIG ?= pg_config
GO ?= go

# What the build needs: each missing piece stops it with the package that brings it.
ifneq ($(filter-out demo demo-stop test bench,$(or $(MAKECMDGOALS),all)),)
PG_MAJOR := $(shell $(PG_CONFIG) --version 2>/dev/null | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
ifeq ($(PG_MAJOR),)
$(error $(PG_CONFIG) was not found: install postgresql-server-dev-15 (or that of your major), or set PG_CONFIG)
endif
# These build nothing, so they ask for no headers and compilers.
ifneq ($(filter-out clean uninstall installcheck,$(or $(MAKECMDGOALS),all)),)
ifeq ($(wildcard $(shell $(PG_CONFIG) --includedir-server)/postgres.h),)
$(error The server headers are missing: install postgresql-server-dev-$(PG_MAJOR))
endif
ifeq ($(shell command -v $(GO)),)
$(error Go was not found: install golang-go if your system has 1.26 or later, else the one from go.dev, or set GO to its path)
endif
ifeq ($(shell command -v gcc),)
$(error The C compiler was not found: install gcc)
endif
ifeq ($(shell command -v objcopy),)
$(error objcopy was not found: install binutils)
endif
endif

GOARCH := $(shell $(GO) env GOARCH 2>/dev/null)
MODULE_big = snowflake
BRIDGE = bridge.o bridge/start.o bridge/settings.o bridge/shared.o bridge/worker.o bridge/lease.o bridge/mark.o bridge/generate.o \
	bridge/errors.o
KEEPER = bridge/keeper.o bridge/lease.o bridge/start.o bridge/shared.o
OBJS = $(BRIDGE)
DATA = $(wildcard ext/sql/*.sql) ext/arbiter/snowflake_arbiter_setup.sql
EXTRA_CLEAN = build snowflake_keeper.so bridge/keeper.o
REGRESS = extension decode generate
REGRESS_OPTS = --inputdir=test

# Go's entry is called by bridge/start.c, not by the loader, and two things that Go asks of the C library are answered
# there; only what Postgres looks up is exported.
GO_ENTRY = _rt0_$(GOARCH)_linux_lib
PG_CPPFLAGS = -Ibridge -Ibuild -D_GNU_SOURCE -DSF_GO_ENTRY=$(GO_ENTRY) -DSF_VERSION='"$(EXTVERSION)"'
PG_CFLAGS = -Wall -Werror
GO_LINK = -pthread -Wl,--wrap=pthread_attr_init -Wl,--wrap=pthread_getattr_np -Wl,--version-script=bridge/exports.map
SHLIB_LINK = build/engine.a $(GO_LINK)

# No bitcode: code inlined by the JIT could not find the library's hidden symbols.
override with_llvm = no

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# Objects are of one server: another PG_CONFIG makes them anew.
BUILT_FOR = build/for-$(subst /,_,$(shell $(PG_CONFIG) --includedir-server))
$(BUILT_FOR):
	mkdir -p build && rm -f build/for-* && touch $@

# The lease keeper is a library of its own, with an archive of its own.
all: snowflake_keeper.so
snowflake_keeper.so: $(KEEPER) build/keeper.a
	$(CC) $(CFLAGS) $(KEEPER) $(LDFLAGS) $(LDFLAGS_SL) -shared -o $@ build/keeper.a $(GO_LINK)

install: install-keeper
install-keeper: snowflake_keeper.so
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) snowflake_keeper.so '$(DESTDIR)$(pkglibdir)/'
uninstall: uninstall-keeper
uninstall-keeper:
	rm -f '$(DESTDIR)$(pkglibdir)/snowflake_keeper.so'
.PHONY: install-keeper uninstall-keeper

bridge/keeper.o: build/keeper.a
$(BRIDGE) $(KEEPER) snowflake.so: $(BUILT_FOR) build/engine.a bridge/bridge.h bridge/abi.h ext/snowflake.control
endif

# Two constants of Go's runtime cost every session what it need not pay, so they are changed in copies of their files. The
# index of the heap, 32 MB of which two pages are used and all is charged where memory is not overcommitted, is split, as
# the runtime itself has it on Windows. And there is no collection by the clock, for which idle sessions would wake up every
# minute. A Go that words them otherwise keeps its own.
RUNTIME := $(shell $(GO) env GOROOT 2>/dev/null)/src/runtime
build/_runtime/overlay.json: Makefile $(RUNTIME)/malloc.go $(RUNTIME)/proc.go
	mkdir -p build/_runtime
	sed 's/^\tarenaL1Bits = 6 \* .*/\tarenaL1Bits = 8 * _64bit/' $(RUNTIME)/malloc.go > build/_runtime/malloc.go
	sed 's/^var forcegcperiod int64 = .*/var forcegcperiod int64 = 1 << 62/' $(RUNTIME)/proc.go > build/_runtime/proc.go
	for f in malloc.go proc.go; do \
		! cmp -s $(RUNTIME)/$$f build/_runtime/$$f || echo "warning: a constant of Go's runtime was not found in $$f"; \
	done
	printf '{"Replace": {"%s/malloc.go": "%s/malloc.go", "%s/proc.go": "%s/proc.go"}}\n' \
		'$(RUNTIME)' '$(CURDIR)/build/_runtime' '$(RUNTIME)' '$(CURDIR)/build/_runtime' > $@

# The archives without their own start: asynchronous preemption off (it would take SIGURG from Postgres 14 and later), no
# room for a profile of the heap, and no files of the cgroup kept open, since the number of processors is set. Names are
# looked up in Go: the C library's way does not fit into small stacks.
define build_archive
	mkdir -p build
	CGO_ENABLED=1 $(GO) build -buildmode=c-archive -buildvcs=false -trimpath -overlay build/_runtime/overlay.json -tags netgo,osusergo \
		-ldflags=-X=runtime.godebugDefault=asyncpreemptoff=1,memprofilerate=0,containermaxprocs=0 -o $@ $(1)
	objcopy --globalize-symbol=$(GO_ENTRY) --remove-section=.init_array --remove-section=.rela.init_array $@
endef

build/engine.a: $(wildcard engine/*.go gen/*.go) bridge/abi.h go.mod build/_runtime/overlay.json
	$(call build_archive,./engine)

build/keeper.a: $(wildcard keeper/*.go keeper/*/*.go gen/*.go) bridge/abi.h go.mod build/_runtime/overlay.json
	$(call build_archive,./keeper/process)

# For the tests: the library with one fault each (test/variants/*.patch), to show that the tests would see it; and the
# install script of an earlier version (test/variants/*.sql), to update from.
VARIANTS := $(patsubst test/variants/%.patch,%,$(wildcard test/variants/*.patch))

.PHONY: variants install-variants
variants: $(VARIANTS:%=build/variants/%/snowflake.so)

build/variants/%/snowflake.so: build/engine.a test/variants/%.patch $(wildcard *.c bridge/*.c bridge/*.h engine/*.go gen/*.go)
	rm -rf build/variants/$* && mkdir -p build/variants/$*
	mkdir build/variants/$*/build
	cp -rp Makefile bridge.c bridge engine gen ext go.mod build/variants/$*
	cp -rp build/engine.* build/_runtime build/variants/$*/build
	rm -f build/variants/$*/*.o build/variants/$*/*/*.o
	patch -s -d build/variants/$* -p1 < test/variants/$*.patch
	$(MAKE) -s -C build/variants/$* snowflake.so PG_CONFIG=$(PG_CONFIG)

install-variants: variants
	for v in $(VARIANTS); do \
		mkdir -p '$(DESTDIR)$(pkglibdir)'/snowflake-variants/$$v && \
		cp build/variants/$$v/snowflake.so '$(DESTDIR)$(pkglibdir)'/snowflake-variants/$$v/ || exit 1; \
	done
	cp test/variants/*.sql '$(DESTDIR)$(datadir)/extension/'

# The commands of the README. They install what is missing, the server's headers included, before they build.
.PHONY: demo demo-stop test bench
demo:
	@tools/demo.sh
demo-stop:
	@tools/demo.sh stop
test:
	@PG=$(PG) tools/test.sh
bench:
	@tools/bench.sh $(BENCHFLAGS)

# By hand: make torture MINUTES=10 SEED=1 (make test runs a minute of it).
.PHONY: torture
torture: install install-variants
	SNOWFLAKE_TORTURE_MINUTES=$(or $(MINUTES),1) SNOWFLAKE_TORTURE_SEED=$(SEED) \
		$(GO) test -count=1 -v -timeout 0 -run 'TestTorture$$' ./test/torture
