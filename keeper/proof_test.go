package keeper_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"pgsnowflake/keeper"
)

// small is a world where a few servers quarrel over too few workers, or just enough.
func small(seed uint64) plan {
	servers := 2 + int(seed%4)
	return plan{
		servers: servers, workers: max(1, servers-2+int(seed/4%4)), ttlMs: []int64{2_000, 30_000}[seed/16%2],
		faults: 1.6, arbiterFaults: 0.4, backSteps: seed%8 == 7, skewMs: 1000, lastNs: 20 * []int64{2_000, 30_000}[seed/16%2] * ms,
	}
}

// seeds is how many worlds are looked at: SNOWFLAKE_SEEDS, or 10,000.
func seeds(t *testing.T) uint64 {
	text := os.Getenv("SNOWFLAKE_SEEDS")
	if text == "" {
		return 10_000
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// search runs worlds of up to n seeds on all processors and returns the first that went wrong, and what all did.
func search(n uint64, of func(seed uint64) plan) (wrong error, ids, grants int64) {
	var next, allIDs, allGrants atomic.Int64
	var found atomic.Pointer[error]
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for found.Load() == nil {
				seed := uint64(next.Add(1) - 1)
				if seed >= n {
					return
				}
				w := newWorld(of(seed), seed)
				if err := w.run(); err != nil {
					err = fmt.Errorf("seed %d: %w", seed, err)
					found.CompareAndSwap(nil, &err)
				}
				allIDs.Add(int64(w.ids))
				allGrants.Add(int64(w.grants))
			}
		})
	}
	wait.Wait()
	if e := found.Load(); e != nil {
		wrong = *e
	}
	return wrong, allIDs.Load(), allGrants.Load()
}

// No two servers may make ids as one worker at the same moment, or with the same times, whatever happens.
func TestNoTwoServersShareAWorker(t *testing.T) {
	n := seeds(t)
	wrong, ids, grants := search(n, small)
	if wrong != nil {
		t.Fatal(wrong)
	}
	t.Logf("%d worlds, %d ids looked at, %d leases granted", n, ids, grants)
	if ids < int64(n) || grants < 5*int64(n) {
		t.Errorf("too little happened in %d worlds: %d ids, %d leases", n, ids, grants)
	}
}

// A thousand servers for hours.
func TestAThousandServers(t *testing.T) {
	wrong, ids, grants := search(2, func(seed uint64) plan {
		return plan{servers: 1000, workers: 1000 + int(seed%2)*24, ttlMs: 30_000, lastNs: 2 * hour, faults: 20, arbiterFaults: 0.05, skewMs: 1000}
	})
	if wrong != nil {
		t.Fatal(wrong)
	}
	t.Logf("%d ids looked at, %d leases granted", ids, grants)
}

// Each guard is needed: without it the simulator finds a violation.
func TestEachGuardIsNeeded(t *testing.T) {
	arbiters := []string{"expiry", "quarantine", "floor after a quarantine", "token", "never shorter"}
	for _, guard := range append(arbiters, keeper.Guards...) {
		t.Run(guard, func(t *testing.T) {
			wrong, _, _ := search(1000, func(seed uint64) plan {
				p := small(seed)
				p.without = guard
				return p
			})
			if wrong == nil {
				t.Fatal("nothing goes wrong without it")
			}
			t.Log(wrong)
		})
	}
}

// When the arbiter's clock is set forward, two servers may have a worker at the same moment. Their ids differ even then,
// unless it fails over at that time.
func TestIDsDifferAlsoWhenTheArbitersClockJumps(t *testing.T) {
	wrong, ids, _ := search(1000, func(seed uint64) plan {
		p := small(seed)
		p.broken, p.onlyIDs = clockSetForward, true
		return p
	})
	if wrong != nil {
		t.Fatal(wrong)
	}
	t.Logf("%d ids looked at", ids)
}

const clockSetForward = "a clock that is not set forward"

// What the arbiter must promise: where it breaks one of these, ids may repeat, and the simulator shows it.
func TestWhatTheArbiterMustPromise(t *testing.T) {
	for _, promise := range []string{"one primary at a time", "a new timeline after a loss", "clocks of primary and standby agree",
		clockSetForward} {
		t.Run(promise, func(t *testing.T) {
			wrong, _, _ := search(1000, func(seed uint64) plan {
				p := small(seed)
				p.broken = promise
				return p
			})
			if wrong == nil {
				t.Fatal("nothing goes wrong without it")
			}
			t.Log(wrong)
		})
	}
}
