package gen

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// snowMs is the moment at which most tests begin, 2026-09-21T13:33:20.123Z, and snowWorker who makes their ids.
const (
	snowMs     = 1_790_000_000_123
	snowWorker = 378

	snowEpochUs   = DefaultEpochMs * usPerMs
	snowTolerance = 100 * nsPerMs
)

// snowAt asks for one id at a time in Unix milliseconds.
func snowAt(ms int64) Request {
	return Request{NowNs: ms * nsPerMs, EpochMs: DefaultEpochMs, ToleranceNs: snowTolerance, LimitMs: NoLimit,
		Worker: snowWorker, Count: 1}
}

// snowID builds an id by arithmetic of its own.
func snowID(ms, epochMs int64, worker int32, sequence int64) int64 {
	return (ms-epochMs)*4194304 + int64(worker)*4096 + sequence
}

// snowIssues holds that Next gives count ids from first on, which the slot then records.
func snowIssues(t *testing.T, slot *atomic.Uint64, r Request, first int64, count int32) Run {
	t.Helper()
	run := Next(slot, &r)
	if run.Code != Issued || run.First != first || run.Count != count || run.DelayNs != 0 {
		t.Fatalf("got %+v, want %d ids from %d on", run, count, first)
	}
	if last := uint64(r.NowNs/nsPerMs)*4096 + uint64(first%4096) + uint64(count) - 1; run.Last != last || slot.Load() != last {
		t.Fatalf("last %d, slot %d, want %d", run.Last, slot.Load(), last)
	}
	return run
}

// snowRefuses holds that Next answers a code and a delay, nothing else, and leaves the slot as it was.
func snowRefuses(t *testing.T, slot *atomic.Uint64, r Request, code Code, delayNs int64) {
	t.Helper()
	before := slot.Load()
	if run := Next(slot, &r); run != (Run{Code: code, DelayNs: delayNs}) {
		t.Fatalf("got %+v, want code %d and a delay of %d", run, code, delayNs)
	}
	if slot.Load() != before {
		t.Fatalf("refused, but the slot went from %d to %d", before, slot.Load())
	}
}

// The numbers are part of the interface: bridge/abi.h holds the same.
func TestCodeNumbers(t *testing.T) {
	codes := []Code{Issued, SequenceUsedUp, ClockWait, ClockBack, TimeUsedUp, BeforeEpoch, WorkerOutOfRange,
		ReserveFirst, SeedFirst, Negative, TimeOutOfRange, SequenceOutOfRange, UnknownLayout, BadText, TextOutOfRange,
		UnknownOrdering, NotRepresentable}
	want := []Code{0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19, 20, 21, 22, 23}
	if !slices.Equal(codes, want) {
		t.Errorf("got %v, want %v", codes, want)
	}
}

func TestNextFirstID(t *testing.T) {
	for _, worker := range []int32{0, 1, 512, 1023} {
		var slot atomic.Uint64
		r := snowAt(snowMs)
		r.NowNs += 999_999 // of the same millisecond
		r.Worker = worker
		snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, worker, 0), 1)
	}
}

func TestNext10000InSequence(t *testing.T) {
	var slot atomic.Uint64
	r := snowAt(snowMs)
	last, waits := int64(-1), 0
	for i := int64(0); i < 10_000; {
		run := Next(&slot, &r)
		if run.Code == SequenceUsedUp {
			r.NowNs += run.DelayNs
			waits++
			continue
		}
		if want := snowID(snowMs+i/4096, DefaultEpochMs, snowWorker, i%4096); run.Code != Issued || run.First != want || run.First <= last {
			t.Fatalf("id %d: got %+v, want %d", i, run, want)
		}
		last = run.First
		i++
	}
	if waits != 2 {
		t.Errorf("waited %d times", waits)
	}
}

func TestNextAfterClockMovesOn(t *testing.T) {
	var slot atomic.Uint64
	last := int64(-1)
	r := snowAt(snowMs)
	for _, stepMs := range []int64{0, 0, 1, 0, 2, 1000, 3_600_000, 0, 86_400_000 * 365} {
		r.NowNs += stepMs * nsPerMs
		run := Next(&slot, &r)
		if run.Code != Issued || run.First <= last || run.First>>22+DefaultEpochMs != r.NowNs/nsPerMs {
			t.Fatalf("after %d ms: got %+v, last %d", stepMs, run, last)
		}
		last = run.First
	}
}

// bwmarrin/snowflake#44, apache/shardingsphere#10732, #31901: ids made slowly all have sequence 0. So says the format;
// what must not happen is that something else creeps in.
func TestEveryMillisecondStartsAtSequence0(t *testing.T) {
	var slot atomic.Uint64
	for i := range int64(1000) {
		if run := snowIssues(t, &slot, snowAt(snowMs+2*i), snowID(snowMs+2*i, DefaultEpochMs, snowWorker, 0), 1); SequenceOf(run.First) != 0 {
			t.Fatalf("call %d has sequence %d", i, SequenceOf(run.First))
		}
	}
}

// snowRace lets goroutines take ids at once, each from the slot and with the request that they are given, by a clock
// that they share and move on when a sequence is used up. It returns the ids of each. Any answer but an id or a wait
// is an error. around, if any, is called with each attempt to make.
func snowRace(t *testing.T, goroutines, ids int, of func(g int) (*atomic.Uint64, Request), around func(g int, try func() Run)) [][]int64 {
	t.Helper()
	var clock atomic.Int64
	clock.Store(snowMs * nsPerMs)
	made := make([][]int64, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			slot, r := of(g)
			try := func() Run {
				r.NowNs = clock.Load()
				run := Next(slot, &r)
				switch run.Code {
				case Issued:
					for i := range int64(run.Count) {
						made[g] = append(made[g], run.First+i)
					}
				case SequenceUsedUp:
					clock.CompareAndSwap(r.NowNs, r.NowNs+run.DelayNs)
				case ClockWait: // another goroutine must have moved the clock on since this one read it
					if clock.Load() == r.NowNs {
						t.Errorf("goroutine %d: %+v, but no clock stands ahead", g, run)
					}
				default:
					t.Errorf("goroutine %d: %+v", g, run)
				}
				return run
			}
			for len(made[g]) < ids && !t.Failed() {
				if around != nil {
					around(g, try)
				} else {
					try()
				}
			}
		})
	}
	group.Wait()
	return made
}

// snowDistinct holds that ids rise within each list and that none is in two.
func snowDistinct(t *testing.T, lists [][]int64) {
	t.Helper()
	var all []int64
	for g, list := range lists {
		for i := 1; i < len(list); i++ {
			if list[i] <= list[i-1] {
				t.Fatalf("list %d: %d after %d", g, list[i], list[i-1])
			}
		}
		all = append(all, list...)
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			t.Fatalf("%d was issued twice", all[i])
		}
	}
}

// yitter/IdGenerator#72, kra8/laravel-snowflake#37: one worker in many places at once repeated ids.
func TestNext8GoroutinesOnOneSlot(t *testing.T) {
	var slot atomic.Uint64
	snowDistinct(t, snowRace(t, 8, 50_000, func(int) (*atomic.Uint64, Request) { return &slot, snowAt(snowMs) }, nil))
}

func TestNext8GoroutinesTakeBatches(t *testing.T) {
	var slot atomic.Uint64
	snowDistinct(t, snowRace(t, 8, 50_000, func(g int) (*atomic.Uint64, Request) {
		r := snowAt(snowMs)
		r.Count = int32(1 + 3*g)
		return &slot, r
	}, nil))
}

func TestNext8GoroutinesOnSlotsOfTheirOwn(t *testing.T) {
	slots := make([]atomic.Uint64, 8)
	made := snowRace(t, 8, 10_000, func(g int) (*atomic.Uint64, Request) {
		r := snowAt(snowMs)
		r.Worker = int32(g)
		return &slots[g], r
	}, nil)
	snowDistinct(t, made)
	for g, list := range made {
		for _, id := range list {
			if WorkerOf(id) != int32(g) {
				t.Fatalf("%d is of worker %d, want %d", id, WorkerOf(id), g)
			}
		}
	}
}

// Two goroutines for each of four workers.
func TestNext8GoroutinesOn4Slots(t *testing.T) {
	slots := make([]atomic.Uint64, 4)
	snowDistinct(t, snowRace(t, 8, 20_000, func(g int) (*atomic.Uint64, Request) {
		r := snowAt(snowMs)
		r.Worker = int32(g / 2)
		return &slots[g/2], r
	}, nil))
}

// An id that was there before a call began is below what the call issues, whoever made it.
func TestNextOneWorkerRisesOverGoroutines(t *testing.T) {
	var slot atomic.Uint64
	var highest atomic.Int64
	snowRace(t, 8, 20_000, func(int) (*atomic.Uint64, Request) { return &slot, snowAt(snowMs) }, func(g int, try func() Run) {
		before := highest.Load()
		run := try()
		if run.Code != Issued {
			return
		}
		if run.First <= before {
			t.Errorf("goroutine %d was given %d after %d", g, run.First, before)
		}
		snowRaiseTo(&highest, run.First)
	})
}

// snowRaiseTo makes a number at least as large as another.
func snowRaiseTo(number *atomic.Int64, least int64) {
	for now := number.Load(); now < least && !number.CompareAndSwap(now, least); now = number.Load() {
	}
}

// twitter-archive/snowflake#6: the sequence was reset before the clock was found to have gone back.
func TestClock_100_100_99_100(t *testing.T) {
	const base = snowMs - 100
	for _, c := range []struct {
		toleranceMs int64
		code        Code
	}{{0, ClockBack}, {100, ClockWait}} {
		var slot atomic.Uint64
		for i, step := range []struct{ ms, sequence int64 }{{100, 0}, {100, 1}, {99, -1}, {100, 2}} {
			r := snowAt(base + step.ms)
			r.ToleranceNs = c.toleranceMs * nsPerMs
			if step.sequence < 0 {
				snowRefuses(t, &slot, r, c.code, nsPerMs)
				continue
			}
			run := snowIssues(t, &slot, r, snowID(base+step.ms, DefaultEpochMs, snowWorker, step.sequence), 1)
			if run.First&MaxSequence != step.sequence {
				t.Fatalf("step %d: sequence %d", i, run.First&MaxSequence)
			}
		}
	}
}

// chinabugotech/hutool#1206, beyondfengyu/SnowFlake#9: steps of 0 or -100 ms repeated ids, or waited forever.
func TestClockJumps100msBackAndForth(t *testing.T) {
	for name, back := range map[string]func(call int) bool{
		"alternating": func(call int) bool { return call%2 == 1 },
		"random":      func(int) bool { return rand.IntN(2) == 1 },
	} {
		t.Run(name, func(t *testing.T) { snowJumps(t, back) })
	}
}

// snowJumps makes 100,000 calls with a clock that stands 100 ms back for some, and waits as told.
func snowJumps(t *testing.T, back func(call int) bool) {
	var slot atomic.Uint64
	ns := int64(snowMs)*nsPerMs + 345_678
	last, issued, waited := int64(-1), 0, 0
	for call := range 100_000 {
		r := snowAt(0)
		r.NowNs = ns
		if back(call) {
			r.NowNs -= 100 * nsPerMs
		}
		lastNs := int64(slot.Load()>>12) * nsPerMs
		run := Next(&slot, &r)
		if run.Code == ClockWait {
			waited++
			if run.DelayNs != lastNs-r.NowNs || run.DelayNs <= 0 || run.DelayNs > 100*nsPerMs {
				t.Fatalf("call %d waits for %d ns, want %d", call, run.DelayNs, lastNs-r.NowNs)
			}
			r.NowNs += run.DelayNs
			run = Next(&slot, &r)
		}
		if run.Code == SequenceUsedUp {
			ns = r.NowNs + run.DelayNs
			continue
		}
		if run.Code != Issued || run.First <= last {
			t.Fatalf("call %d: got %+v after %d", call, run, last)
		}
		last = run.First
		issued++
	}
	if issued < 99_000 || waited < 40_000 {
		t.Errorf("only %d issued, %d waited for", issued, waited)
	}
}

// The leap second and the hour of a wrongly set zone, the other half of chinabugotech/hutool#1206.
func TestClockBackBySecondOrHour(t *testing.T) {
	for _, backNs := range []int64{1e9, 3600e9} {
		var slot atomic.Uint64
		r := snowAt(snowMs)
		r.NowNs += 345_678
		snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, 0), 1)
		r.NowNs -= backNs
		for range 100 {
			snowRefuses(t, &slot, r, ClockBack, backNs-345_678)
		}
		r.NowNs += backNs - 345_678
		snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, 1), 1)
	}
}

func TestClockToleranceIsExact(t *testing.T) {
	for _, toleranceNs := range []int64{0, 1, nsPerMs, 5_000_001, 100 * nsPerMs, 60_000 * nsPerMs} {
		var slot atomic.Uint64
		slot.Store(snowMs * 4096)
		r := snowAt(0)
		r.ToleranceNs = toleranceNs
		r.NowNs = snowMs*nsPerMs - toleranceNs - 1
		snowRefuses(t, &slot, r, ClockBack, toleranceNs+1)
		r.NowNs++
		if toleranceNs == 0 {
			snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, 1), 1)
			continue
		}
		snowRefuses(t, &slot, r, ClockWait, toleranceNs)
	}
}

func TestSequenceUsedUp(t *testing.T) {
	var slot atomic.Uint64
	r := snowAt(snowMs)
	r.NowNs += 345_678
	for i := range int64(4096) {
		snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, i), 1)
	}
	// The clock stands still: every call comes back, none waits within.
	for range 1000 {
		snowRefuses(t, &slot, r, SequenceUsedUp, 1_000_000-345_678)
	}
	r.NowNs += 1_000_000 - 345_678 - 1
	snowRefuses(t, &slot, r, SequenceUsedUp, 1)
	r.NowNs++
	snowIssues(t, &slot, r, snowID(snowMs+1, DefaultEpochMs, snowWorker, 0), 1)
}

// Meituan-Dianping/Leaf#106, baidu/uid-generator#100: when the bits of time ran out ids became negative.
func TestTimeUsedUp(t *testing.T) {
	last := unixUs(t, "2095-09-07T15:47:35.551Z") / 1000
	var slot atomic.Uint64
	r := snowAt(last)
	r.Worker, r.Count = 1023, 4096
	run := snowIssues(t, &slot, r, math.MaxInt64-4095, 4096)
	if run.First+int64(run.Count)-1 != math.MaxInt64 {
		t.Errorf("the last id is %d", run.First+int64(run.Count)-1)
	}
	slot.Store(0)
	r.NowNs, r.Count = last*nsPerMs+999_999, 1
	snowIssues(t, &slot, r, math.MaxInt64-4095, 1)
	for _, nowNs := range []int64{(last + 1) * nsPerMs, (last + 2) * nsPerMs, unixUs(t, "2096-01-01T00:00:00Z") * 1000, math.MaxInt64} {
		r.NowNs = nowNs
		snowRefuses(t, &slot, r, TimeUsedUp, 0)
	}
	if LastTimeUs(DefaultEpochMs) != last*1000 {
		t.Errorf("LastTimeUs says %d", LastTimeUs(DefaultEpochMs))
	}
}

func TestBeforeEpoch(t *testing.T) {
	var slot atomic.Uint64
	r := snowAt(DefaultEpochMs)
	for _, nowNs := range []int64{r.NowNs - 1, r.NowNs - nsPerMs, 0, 1} {
		early := r
		early.NowNs = nowNs
		snowRefuses(t, &slot, early, BeforeEpoch, 0)
	}
	snowIssues(t, &slot, r, snowWorker*4096, 1)
}

func TestBefore1970(t *testing.T) {
	epochMs := unixUs(t, "1960-01-01T00:00:00Z") / 1000
	for _, epoch := range []int64{DefaultEpochMs, 0, epochMs} {
		var slot atomic.Uint64
		for _, nowNs := range []int64{-1, -nsPerMs, -nsPerMs - 1, -1e18, math.MinInt64} {
			r := snowAt(0)
			r.NowNs, r.EpochMs = nowNs, epoch
			snowRefuses(t, &slot, r, BeforeEpoch, 0)
		}
	}
	// From 1970 on an epoch before it is as good as any.
	var slot atomic.Uint64
	r := snowAt(1)
	r.EpochMs = epochMs
	snowIssues(t, &slot, r, snowID(1, epochMs, snowWorker, 0), 1)
}

// An epoch of 1970 and a clock of 1970: the slot that was never used is that very millisecond's.
func TestFirstMillisecondOf1970(t *testing.T) {
	var slot atomic.Uint64
	r := snowAt(0)
	r.EpochMs = 0
	run := Next(&slot, &r)
	if run.Code != Issued || run.First < snowWorker*4096 || run.First > snowWorker*4096+1 {
		t.Errorf("got %+v", run)
	}
	if again := Next(&slot, &r); again.Code != Issued || again.First <= run.First {
		t.Errorf("got %+v after %+v", again, run)
	}
}

// baidu/uid-generator PR#52: worker 462146 in too few bits moved the time.
func TestWorkerOutOfRange(t *testing.T) {
	for _, worker := range []int32{-1, 1024, 1025, -2, 462146, math.MinInt32, math.MaxInt32} {
		var slot atomic.Uint64
		r := snowAt(snowMs)
		r.Worker = worker
		snowRefuses(t, &slot, r, WorkerOutOfRange, 0)
	}
}

func TestLimit(t *testing.T) {
	if NoLimit != math.MaxInt64 {
		t.Errorf("NoLimit is %d", NoLimit)
	}
	for _, c := range []struct {
		limitMs int64
		issued  bool
	}{
		{NoLimit, true}, {snowMs + 1000, true}, {snowMs + 1, true},
		{snowMs, false}, {snowMs - 1, false}, {0, false}, {-1, false}, {math.MinInt64, false},
	} {
		for _, extraNs := range []int64{0, 999_999} {
			var slot atomic.Uint64
			r := snowAt(snowMs)
			r.NowNs += extraNs
			r.LimitMs = c.limitMs
			if c.issued {
				snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, 0), 1)
			} else {
				snowRefuses(t, &slot, r, ReserveFirst, 0)
			}
		}
	}
}

func TestFloor(t *testing.T) {
	const at = snowMs * 4096
	for _, c := range []struct {
		name        string
		slot, floor uint64
		code        Code
		sequence    int64 // of the id
		delayNs     int64
	}{
		{"none", 0, 0, Issued, 0, 0},
		{"of an earlier millisecond", 0, at - 1, Issued, 0, 0},
		{"of an earlier millisecond, below the slot", at + 7, at - 1, Issued, 8, 0},
		{"of this millisecond", 0, at, Issued, 1, 0},
		{"of this millisecond, above the slot", at + 7, at + 41, Issued, 42, 0},
		{"of this millisecond, at the slot", at + 7, at + 7, Issued, 8, 0},
		{"of this millisecond, below the slot", at + 41, at + 7, Issued, 42, 0},
		{"one before the end of this millisecond", 0, at + 4094, Issued, 4095, 0},
		{"at the end of this millisecond", 0, at + 4095, SequenceUsedUp, 0, 1_000_000 - 345_678},
		{"ahead of the clock by a millisecond", 0, at + 4096, ClockWait, 0, 1_000_000 - 345_678},
		{"ahead of the clock within the tolerance", 0, at + 100*4096 + 4095, ClockWait, 0, 100_000_000 - 345_678},
		{"ahead of the clock over the tolerance", 0, at + 101*4096, ClockBack, 0, 101_000_000 - 345_678},
		{"ahead of the clock and the slot further", at + 90*4096, at + 50*4096, ClockWait, 0, 90_000_000 - 345_678},
		{"ahead of the clock, further than the slot", at + 50*4096, at + 101*4096, ClockBack, 0, 101_000_000 - 345_678},
	} {
		t.Run(c.name, func(t *testing.T) {
			var slot atomic.Uint64
			slot.Store(c.slot)
			r := snowAt(snowMs)
			r.NowNs += 345_678
			r.Floor = c.floor
			if c.code != Issued {
				snowRefuses(t, &slot, r, c.code, c.delayNs)
				return
			}
			if run := snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, c.sequence), 1); run.Last <= c.floor || run.Last <= c.slot {
				t.Errorf("%d is not above the floor %d and the slot %d", run.Last, c.floor, c.slot)
			}
		})
	}
}

func TestBatchSizes(t *testing.T) {
	for _, c := range []struct {
		used, want, got int32 // how many were used before, are asked for, are given
	}{
		{0, 1, 1}, {0, 0, 1}, {0, -1, 1}, {0, math.MinInt32, 1}, {0, 2, 2}, {0, 4095, 4095}, {0, 4096, 4096}, {0, 4097, 4096},
		{0, math.MaxInt32, 4096}, {1, 4096, 4095}, {1, 4095, 4095}, {4090, 10, 6}, {4095, 10, 1}, {4095, 1, 1}, {4094, 2, 2},
	} {
		t.Run(fmt.Sprintf("%d of which %d used", c.want, c.used), func(t *testing.T) {
			var slot atomic.Uint64
			r := snowAt(snowMs)
			if c.used > 0 {
				r.Count = c.used
				snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, 0), c.used)
			}
			r.Count = c.want
			snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, int64(c.used)), c.got)
		})
	}
}

// 4096 ids of a millisecond in all, however they are asked for, every one once.
func TestBatchesFillAMillisecond(t *testing.T) {
	for range 200 {
		var slot atomic.Uint64
		r := snowAt(snowMs)
		for next := int32(0); next < 4096; {
			r.Count = rand.Int32N(1 << rand.IntN(13))
			give := min(max(r.Count, 1), 4096-next)
			snowIssues(t, &slot, r, snowID(snowMs, DefaultEpochMs, snowWorker, int64(next)), give)
			next += give
		}
		snowRefuses(t, &slot, r, SequenceUsedUp, nsPerMs)
	}
}

// Databases with different epochs share the slot of a worker: none makes another wait longer than the clock does.
func TestTwoEpochsOnOneSlot(t *testing.T) {
	var slot atomic.Uint64
	epochs := []int64{1288834974657, DefaultEpochMs}
	last := []int64{-1, -1}
	for i := range int64(10_000) {
		ms := snowMs + i/1000
		r := snowAt(ms)
		r.EpochMs = epochs[i%2]
		run := snowIssues(t, &slot, r, snowID(ms, r.EpochMs, snowWorker, i%1000), 1)
		if run.First <= last[i%2] {
			t.Fatalf("%d after %d", run.First, last[i%2])
		}
		last[i%2] = run.First
		if parts, _ := Parse(run.First, r.EpochMs*1000); parts.CreatedUs != ms*1000 {
			t.Fatalf("%d carries %d, want %d", run.First, parts.CreatedUs, ms*1000)
		}
	}
}

// What keeps ids of one epoch apart is the slot alone: another epoch may come to the same numbers, at another time.
func TestEpochsAreKeptApartByTheSlotOnly(t *testing.T) {
	var slot atomic.Uint64
	const apartMs = 1000
	a, b := snowAt(snowMs), snowAt(snowMs+apartMs)
	b.EpochMs += apartMs
	first, second := Next(&slot, &a), Next(&slot, &b)
	if first.Code != Issued || second.Code != Issued || first.First != second.First || first.Last == second.Last {
		t.Errorf("got %+v and %+v", first, second)
	}
	b.EpochMs = a.EpochMs
	if third := Next(&slot, &b); third.Code != Issued || third.First <= first.First {
		t.Errorf("got %+v after %+v", third, first)
	}
}

// snowPair is a slot's content in the open.
type snowPair struct{ ms, sequence int64 }

func (a snowPair) below(b snowPair) bool {
	return a.ms < b.ms || a.ms == b.ms && a.sequence < b.sequence
}

func snowUnpack(slot uint64) snowPair { return snowPair{int64(slot / 4096), int64(slot % 4096)} }

// snowExpect says what Next must answer, told in its own words.
func snowExpect(top snowPair, floor uint64, r Request) Run {
	nowMs := r.NowNs / 1e6
	if f := snowUnpack(floor); top.below(f) {
		top = f
	}
	start := snowPair{nowMs, 0}
	if !top.below(start) {
		start = snowPair{top.ms, top.sequence + 1}
	}
	gapNs := top.ms*1e6 - r.NowNs
	switch {
	case nowMs >= r.LimitMs:
		return Run{Code: ReserveFirst}
	case top.ms > nowMs && gapNs <= r.ToleranceNs:
		return Run{Code: ClockWait, DelayNs: gapNs}
	case top.ms > nowMs:
		return Run{Code: ClockBack, DelayNs: gapNs}
	case start.sequence == 4096:
		return Run{Code: SequenceUsedUp, DelayNs: (nowMs+1)*1e6 - r.NowNs}
	}
	count := min(max(r.Count, 1), int32(4096-start.sequence))
	return Run{
		First: snowID(start.ms, r.EpochMs, r.Worker, start.sequence),
		Last:  uint64(start.ms*4096 + start.sequence + int64(count) - 1),
		Count: count,
	}
}

type snowSession struct {
	worker, lastWorker int32
	last               uint64
	lastID             int64
}

// snowModel plays a server: sessions that change workers, a clock that is stepped, a durable mark, crashes. It holds
// every answer against snowExpect, and every id against all that were made before.
type snowModel struct {
	*rand.Rand
	fail     func(format string, arguments ...any)
	trueNs   int64 // rises
	offsetNs int64 // of the clock from it
	slots    []atomic.Uint64
	tops     []snowPair // what the slots must hold
	highest  []int64    // the last id of each worker, over crashes
	sessions []snowSession
	markMs   int64 // durable
	limitMs  int64 // what it lets pass
	settled  bool
	made     map[int64]bool
	codes    map[Code]int
	crashes  int
}

const snowModelWorkers = 4

func (m *snowModel) nowNs() int64 { return m.trueNs + m.offsetNs }

func (m *snowModel) moveClock() {
	switch m.IntN(100) {
	default:
		m.trueNs += m.Int64N(40_000)
	case 0, 1, 2, 3:
		m.trueNs += m.Int64N(3_000_000)
	case 4:
		m.trueNs += m.Int64N(2_000_000_000)
	case 5:
		m.offsetNs = -m.Int64N(150_000_000)
	case 6:
		m.offsetNs = m.Int64N(50_000_000)
	case 7, 8:
		m.offsetNs = 0
	case 9:
		if m.IntN(8) == 0 {
			m.offsetNs = []int64{-1_000_000_000, -3_600_000_000_000, 500_000_000}[m.IntN(3)]
		}
	}
}

func (m *snowModel) raise() {
	markMs := m.nowNs()/1e6 + m.Int64N(120) - 100
	if m.IntN(4) == 0 {
		markMs = -m.Int64N(1000)
	}
	m.raiseTo(markMs)
}

func (m *snowModel) raiseTo(markMs int64) {
	Raise(m.slots, markMs)
	for w := range m.tops {
		if m.tops[w].ms < markMs {
			m.tops[w] = snowPair{markMs - 1, 4095}
		}
	}
}

// crash loses all that is not durable.
func (m *snowModel) crash() {
	m.crashes++
	m.settled = false
	m.limitMs = 0
	for w := range m.slots {
		m.slots[w].Store(0)
		m.tops[w] = snowPair{}
	}
	for s := range m.sessions {
		m.sessions[s] = snowSession{worker: m.Int32N(snowModelWorkers), lastWorker: -1, lastID: -1}
	}
}

// settle asks whether ids may be made after a crash, as the first session does.
func (m *snowModel) settle() {
	want := Run{}
	if gapNs := m.markMs*1e6 - m.nowNs(); gapNs > snowTolerance+1e9 {
		want = Run{Code: ClockBack, DelayNs: gapNs}
	} else if gapNs > 0 {
		want = Run{Code: ClockWait, DelayNs: gapNs}
	}
	got := Settle(m.nowNs(), m.markMs, snowTolerance)
	if got != want {
		m.fail("at %d with mark %d Settle says %+v, want %+v", m.nowNs(), m.markMs, got, want)
	}
	if got.Code == Issued {
		m.raiseTo(m.markMs)
		m.settled = true
	}
}

func (m *snowModel) next(s *snowSession) {
	r := Request{NowNs: m.nowNs(), EpochMs: DefaultEpochMs, ToleranceNs: snowTolerance, LimitMs: m.limitMs, Floor: s.last,
		Worker: s.worker, Count: m.Int32N(4)}
	if m.IntN(50) == 0 {
		r.Count = m.Int32N(5000)
	}
	if s.lastWorker >= 0 && s.lastWorker != s.worker {
		r.Floor = AfterWorkerChange(s.last)
	}
	slot := &m.slots[s.worker]
	want := snowExpect(m.tops[s.worker], r.Floor, r)
	got := Next(slot, &r)
	m.codes[got.Code]++
	if got != want {
		m.fail("%+v at slot %+v: got %+v, want %+v", r, m.tops[s.worker], got, want)
	}
	switch got.Code {
	case Issued:
		m.tops[s.worker] = snowUnpack(got.Last)
		for id := got.First; id < got.First+int64(got.Count); id++ {
			switch {
			case m.made[id]:
				m.fail("%d was made before", id)
			case id <= s.lastID:
				m.fail("%d after %d in one session", id, s.lastID)
			case id <= m.highest[s.worker]:
				m.fail("%d after %d of one worker", id, m.highest[s.worker])
			case id/4194304+DefaultEpochMs != r.NowNs/1e6 || id/4096%1024 != int64(s.worker):
				m.fail("%d made at %d by worker %d", id, r.NowNs, s.worker)
			case id/4194304+DefaultEpochMs >= m.markMs-StepMs/2:
				m.fail("%d is not half a step before the mark %d", id, m.markMs)
			}
			m.made[id], s.lastID, m.highest[s.worker] = true, id, id
		}
		s.last, s.lastWorker = got.Last, s.worker
	case ReserveFirst:
		wantedMs, markMs := NextMark(r.NowNs)
		if m.markMs <= wantedMs {
			m.markMs = markMs
		}
		m.limitMs = m.markMs - (markMs - wantedMs)
		if m.limitMs <= r.NowNs/1e6 {
			m.fail("the mark %d does not let %d pass", m.markMs, r.NowNs)
		}
	default: // a delay is neither too long nor too short
		var probe atomic.Uint64
		for _, at := range []struct {
			ns     int64
			issued bool
		}{{got.DelayNs - 1, false}, {got.DelayNs, true}} {
			probe.Store(slot.Load())
			later := r
			later.NowNs += at.ns
			later.LimitMs = NoLimit
			if run := Next(&probe, &later); (run.Code == Issued) != at.issued && !(at.issued && run.Code == SequenceUsedUp) {
				m.fail("%+v, and %d ns later %+v", got, at.ns, run)
			}
		}
	}
	if have := snowUnpack(slot.Load()); have != m.tops[s.worker] {
		m.fail("the slot of worker %d holds %+v, want %+v", s.worker, have, m.tops[s.worker])
	}
}

func (m *snowModel) step() {
	m.moveClock()
	if !m.settled {
		m.settle()
		return
	}
	s := &m.sessions[m.IntN(len(m.sessions))]
	switch m.IntN(1000) {
	default:
		m.next(s)
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9:
		m.raise()
	case 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29:
		s.worker = m.Int32N(snowModelWorkers)
	case 30: // a new session, which knows nothing of the one before
		*s = snowSession{worker: m.Int32N(snowModelWorkers), lastWorker: -1, lastID: -1}
	case 31, 32:
		m.crash()
	}
}

var snowSeed = flag.Uint64("snowseed", 0, "seed of TestNextAgainstModel, as a failure printed it")

func TestNextAgainstModel(t *testing.T) {
	seeds := []uint64{1, 2, rand.Uint64()}
	if *snowSeed != 0 {
		seeds = []uint64{*snowSeed}
	}
	for _, seed := range seeds {
		m := snowModel{
			Rand:    rand.New(rand.NewPCG(seed, 0)),
			trueNs:  snowMs * nsPerMs,
			slots:   make([]atomic.Uint64, snowModelWorkers),
			tops:    make([]snowPair, snowModelWorkers),
			highest: make([]int64, snowModelWorkers),
			made:    map[int64]bool{},
			codes:   map[Code]int{},
		}
		step := 0
		m.fail = func(format string, arguments ...any) {
			t.Helper()
			t.Fatalf("seed %d, step %d (run it with -snowseed=%d): %s", seed, step, seed, fmt.Sprintf(format, arguments...))
		}
		m.sessions = make([]snowSession, 6)
		m.crash()
		for ; step < 25_000; step++ {
			m.step()
		}
		for _, code := range []Code{Issued, SequenceUsedUp, ClockWait, ClockBack, ReserveFirst} {
			if m.codes[code] < 10 {
				t.Errorf("seed %d met code %d %d times only", seed, code, m.codes[code])
			}
		}
		if m.crashes < 10 || len(m.made) < 10_000 {
			t.Errorf("seed %d: %d crashes, %d ids", seed, m.crashes, len(m.made))
		}
	}
}

func TestSettle(t *testing.T) {
	const tolerance, step = 100 * nsPerMs, 1000 * nsPerMs
	at := int64(snowMs * nsPerMs) // where the mark stands
	for _, c := range []struct {
		name          string
		nowNs, markMs int64
		want          Run
	}{
		{"no mark", at, 0, Run{}},
		{"at the mark", at, snowMs, Run{}},
		{"within its millisecond", at + 999_999, snowMs, Run{}},
		{"long past it", at + 1e18, snowMs, Run{}},
		{"one ns before", at - 1, snowMs, Run{Code: ClockWait, DelayNs: 1}},
		{"a step before", at - step, snowMs, Run{Code: ClockWait, DelayNs: step}},
		{"a step and the tolerance", at - step - tolerance, snowMs, Run{Code: ClockWait, DelayNs: step + tolerance}},
		{"one ns more", at - step - tolerance - 1, snowMs, Run{Code: ClockBack, DelayNs: step + tolerance + 1}},
		{"an hour", at - 3600e9, snowMs, Run{Code: ClockBack, DelayNs: 3600e9}},
		{"an hour and within a millisecond", at - 3600e9 + 345_678, snowMs, Run{Code: ClockBack, DelayNs: 3600e9 - 345_678}},
		{"before 1970", -345_678, 1, Run{Code: ClockWait, DelayNs: 1_345_678}},
		{"the first mark", math.MinInt64, math.MinInt64, Run{Code: Issued}},
		{"a mark before all time", at, math.MinInt64, Run{Code: Issued}},
		{"a mark of 1960", at, -315619200000, Run{Code: Issued}},
		{"both before 1970, behind", -2_000_500_000, -1000, Run{Code: ClockWait, DelayNs: 1_000_500_000}},
		{"both before 1970, past", -999_500_000, -1000, Run{Code: Issued}},
		{"a mark of the year 144683", at, 1<<52 - 1, Run{Code: ClockBack, DelayNs: farNs}},
		{"a mark of the end of int64 ns", at, math.MaxInt64 / nsPerMs, Run{Code: ClockBack, DelayNs: farNs}},
		{"the last mark", at, math.MaxInt64, Run{Code: ClockBack, DelayNs: farNs}},
		{"the last mark before 1970", -1, math.MaxInt64, Run{Code: ClockBack, DelayNs: farNs}},
		{"all of time", math.MinInt64, math.MaxInt64, Run{Code: ClockBack, DelayNs: farNs}},
	} {
		if got := Settle(c.nowNs, c.markMs, tolerance); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := Settle(at-step, snowMs, 0); got != (Run{Code: ClockWait, DelayNs: step}) {
		t.Errorf("a healthy restart must not need tolerance: %+v", got)
	}
	if got := Settle(at-step-1, snowMs, 0); got != (Run{Code: ClockBack, DelayNs: step + 1}) {
		t.Errorf("without tolerance: %+v", got)
	}
}

func TestNextMark(t *testing.T) {
	for _, c := range []struct{ nowNs, wantedMs, markMs int64 }{
		{snowMs * nsPerMs, snowMs + 500, snowMs + 1000},
		{snowMs*nsPerMs + 999_999, snowMs + 500, snowMs + 1000},
		{0, 500, 1000},
		{-1, 499, 999},
		{-nsPerMs, 499, 999},
		{-nsPerMs - 1, 498, 998},
	} {
		if wantedMs, markMs := NextMark(c.nowNs); wantedMs != c.wantedMs || markMs != c.markMs {
			t.Errorf("%d: got %d %d, want %d %d", c.nowNs, wantedMs, markMs, c.wantedMs, c.markMs)
		}
	}
}

// A mark that is moved when NextMark wants it stays half a step to a step ahead of all ids, and lets every moment
// pass; a restart right after waits a step at most.
func TestNextMarkStaysAhead(t *testing.T) {
	var slot atomic.Uint64
	moves := 0
	markMs := int64(0)
	r := snowAt(snowMs)
	for range 100_000 {
		wantedMs, nextMs := NextMark(r.NowNs)
		if markMs <= wantedMs {
			markMs = nextMs
			moves++
		}
		r.LimitMs = markMs - (nextMs - wantedMs)
		if run := Next(&slot, &r); run.Code != Issued {
			t.Fatalf("%+v with mark %d", run, markMs)
		}
		if ahead := markMs - r.NowNs/nsPerMs; ahead <= StepMs/2 || ahead > StepMs {
			t.Fatalf("the mark is ahead by %d ms", ahead)
		}
		if run := Settle(r.NowNs, markMs, 0); run.Code != ClockWait || run.DelayNs > StepMs*nsPerMs {
			t.Fatalf("a restart now: %+v", run)
		}
		r.NowNs += rand.Int64N(2_000_000)
	}
	if moves < 190 || moves > 210 { // 100 s in all
		t.Errorf("the mark was moved %d times", moves)
	}
}

func TestRaise(t *testing.T) {
	const at = snowMs * 4096
	for _, c := range []struct {
		name   string
		before uint64
		markMs int64
		after  uint64
	}{
		{"never used", 0, snowMs, at - 1},
		{"far below", 4096, snowMs, at - 1},
		{"just below", at - 2, snowMs, at - 1},
		{"there", at - 1, snowMs, at - 1},
		{"just above", at, snowMs, at},
		{"above", at + 17, snowMs, at + 17},
		{"far above", at * 2, snowMs, at * 2},
		{"the first millisecond", 0, 1, 4095},
		{"no mark", 0, 0, 0},
		{"no mark, used", at, 0, at},
		{"before 1970", at, -1, at},
		{"before 1970, never used", 0, -1, 0},
		{"before all time", 5, math.MinInt64, 5},
		{"the last that fits", at, 1<<52 - 1, (1<<52-1)*4096 - 1},
		{"the first that does not", at, 1 << 52, (1<<52-1)*4096 - 1},
		{"past what fits", at, 1<<52 + snowMs, (1<<52-1)*4096 - 1},
		{"past what fits twice over", at, 1<<53 + 1, (1<<52-1)*4096 - 1},
		{"after all time", at, math.MaxInt64, (1<<52-1)*4096 - 1},
		{"after all time, above", math.MaxUint64, math.MaxInt64, math.MaxUint64},
	} {
		slots := make([]atomic.Uint64, 3)
		slots[0].Store(c.before)
		slots[1].Store(at + 5)
		slots[2].Store(c.before)
		Raise(slots, c.markMs)
		if slots[0].Load() != c.after || slots[2].Load() != c.after || slots[1].Load() < at+5 {
			t.Errorf("%s: slots %d %d %d, want %d", c.name, slots[0].Load(), slots[1].Load(), slots[2].Load(), c.after)
		}
	}
	Raise(nil, snowMs)
}

func TestRaisedWorkerBeginsAtTheMark(t *testing.T) {
	slots := make([]atomic.Uint64, 1)
	Raise(slots, snowMs)
	r := snowAt(snowMs - 1)
	snowRefuses(t, &slots[0], r, SequenceUsedUp, nsPerMs)
	r.NowNs -= nsPerMs
	snowRefuses(t, &slots[0], r, ClockWait, nsPerMs)
	snowIssues(t, &slots[0], snowAt(snowMs), snowID(snowMs, DefaultEpochMs, snowWorker, 0), 1)
}

// Raise while ids are made: what it says holds for every call that begins after it, and no slot moves down, so no id
// is made twice. The marks are set just ahead of the makers, whose clocks follow the slot, to meet them midway.
func TestRaiseWhileIDsAreMade(t *testing.T) {
	slots := make([]atomic.Uint64, 1)
	slot := &slots[0]
	var raisedMs atomic.Int64
	var stop atomic.Bool
	var raisers, group sync.WaitGroup
	for range 3 {
		raisers.Go(func() {
			for i := int64(1); !stop.Load(); i = i%50 + 1 {
				ms := int64(slot.Load()>>12) + i
				Raise(slots, ms)
				if now := slot.Load(); now < uint64(ms)*4096-1 {
					t.Errorf("the slot stands at %d after it was raised to %d ms", now, ms)
					return
				}
				snowRaiseTo(&raisedMs, ms)
			}
		})
	}
	made := make([][]int64, 2)
	for g := range made {
		group.Go(func() {
			r := snowAt(snowMs)
			for len(made[g]) < 500_000 && !t.Failed() {
				from := raisedMs.Load()
				run := Next(slot, &r)
				if run.Code != Issued {
					r.NowNs += run.DelayNs
					continue
				}
				if now := slot.Load(); now < run.Last {
					t.Errorf("the slot moved down from %d to %d", run.Last, now)
				}
				if ms := run.First>>22 + DefaultEpochMs; ms < from {
					t.Errorf("an id of %d after the slot was raised to %d", ms, from)
				}
				made[g] = append(made[g], run.First)
				r.NowNs += nsPerMs / 3
			}
		})
	}
	group.Wait()
	stop.Store(true)
	raisers.Wait()
	snowDistinct(t, made)
}

func TestSlotAhead(t *testing.T) {
	const at = snowMs * nsPerMs
	for _, c := range []struct {
		slot uint64
		now  int64
		want int64
	}{
		{0, at, 0},
		{0, 0, 0},
		{0, -5, 5},
		{snowMs * 4096, at, 0},
		{snowMs*4096 + 4095, at, 0},
		{snowMs*4096 + 4095, at + 1, 0},
		{snowMs*4096 + 4095, at + 1e18, 0},
		{snowMs*4096 + 4095, at - 1, 1},
		{snowMs * 4096, at - 100_345_678, 100_345_678},
		{snowMs * 4096, at - 3600e9, 3600e9},
		{(snowMs - 1) * 4096, at - nsPerMs, 0},
		{math.MaxUint64, at, farNs}, // the largest slot is later than nanoseconds can tell
		{math.MaxUint64, math.MinInt64, farNs},
		{math.MaxUint64, math.MaxInt64, farNs},
		{math.MaxInt64 / nsPerMs * 4096, -1e18, farNs},
		{snowMs * 4096, math.MinInt64, farNs},
	} {
		if got := SlotAhead(c.slot, c.now); got != c.want {
			t.Errorf("slot %d at %d: %d, want %d", c.slot, c.now, got, c.want)
		}
	}
}

func TestFarNs(t *testing.T) {
	const yearNs = 31_556_952 * 1_000_000_000
	if farNs/yearNs != 146 {
		t.Errorf("%d years are documented as 146", farNs/yearNs)
	}
	const most = farNs / nsPerMs // the last millisecond that is told exactly
	for ms, want := range map[int64]int64{most - 1: most*nsPerMs - nsPerMs, most: most * nsPerMs, most + 1: farNs} {
		if got := SlotAhead(uint64(snowMs+ms)*4096, snowMs*nsPerMs); got != want {
			t.Errorf("%d ms ahead: %d ns, want %d", ms, got, want)
		}
	}
}

// A slot or floor beyond what nanoseconds reach refuses like any other that is far ahead.
func TestClockBackFromFarSlots(t *testing.T) {
	for _, ms := range []uint64{snowMs + farNs/nsPerMs + 1, math.MaxInt64 / nsPerMs, math.MaxInt64/nsPerMs + 1, 1 << 50, 1<<52 - 1} {
		var slot atomic.Uint64
		slot.Store(ms * 4096)
		snowRefuses(t, &slot, snowAt(snowMs), ClockBack, farNs)
		slot.Store(0)
		r := snowAt(snowMs)
		r.Floor = ms*4096 + 4095
		snowRefuses(t, &slot, r, ClockBack, farNs)
	}
}

func TestSlotTimeUs(t *testing.T) {
	for slot, want := range map[uint64]int64{
		0: 0, 4095: 0, 4096: 1000, snowMs * 4096: snowMs * 1000, snowMs*4096 + 4095: snowMs * 1000,
		math.MaxUint64: (1<<52 - 1) * 1000,
	} {
		if got := SlotTimeUs(slot); got != want {
			t.Errorf("slot %d: %d, want %d", slot, got, want)
		}
	}
}

func TestLastTimeUs(t *testing.T) {
	for epoch, want := range map[string]string{
		"2026-01-01T00:00:00Z":     "2095-09-07T15:47:35.551Z",
		"1970-01-01T00:00:00Z":     "2039-09-07T15:47:35.551Z",
		"2010-11-04T01:42:54.657Z": "2080-07-10T17:30:30.208Z",
		"2023-01-01T00:00:00Z":     "2092-09-06T15:47:35.551Z",
		"0001-01-01T00:00:00Z":     "0070-09-07T15:47:35.551Z",
	} {
		if got := LastTimeUs(unixUs(t, epoch) / 1000); got != unixUs(t, want) {
			t.Errorf("%s: %d, want %s", epoch, got, want)
		}
	}
}

// A session that moves to another worker and back goes on rising, within one millisecond too.
func TestAfterWorkerChange(t *testing.T) {
	for _, last := range []uint64{snowMs * 4096, snowMs*4096 + 17, snowMs*4096 + 4095} {
		if got := AfterWorkerChange(last); got != snowMs*4096+4095 {
			t.Errorf("%d: %d", last, got)
		}
	}
	slots := make([]atomic.Uint64, 2)
	r := snowAt(snowMs)
	var last Run
	for i, worker := range []int32{1023, 0, 1023, 0, 1023} {
		r.Worker = worker
		slot := &slots[i%2]
		if i > 0 {
			r.Floor = AfterWorkerChange(last.Last)
			snowRefuses(t, slot, r, SequenceUsedUp, nsPerMs)
			r.NowNs += nsPerMs
		}
		first := last.First
		last = snowIssues(t, slot, r, snowID(snowMs+int64(i), DefaultEpochMs, worker, 0), 1)
		if last.First <= first {
			t.Fatalf("%d after %d", last.First, first)
		}
	}
}

// apache/shardingsphere PR#38932: the epoch was midnight of a local zone. It is midnight UTC.
func TestParse0IsTheEpoch(t *testing.T) {
	if DefaultEpochMs*1000 != unixUs(t, "2026-01-01T00:00:00Z") {
		t.Errorf("the epoch is %d", DefaultEpochMs)
	}
	if parts, code := Parse(0, snowEpochUs); code != Issued || parts != (Parts{CreatedUs: unixUs(t, "2026-01-01T00:00:00Z")}) {
		t.Errorf("got %+v code %d", parts, code)
	}
}

func TestCheckEpoch(t *testing.T) {
	for epochUs, want := range map[int64]Code{
		snowEpochUs: Issued, 0: Issued, -1: Issued, minTimestampUs: Issued, math.MaxInt64 - 1: Issued,
		minTimestampUs - 1: NotRepresentable, math.MinInt64: NotRepresentable, math.MaxInt64: NotRepresentable,
	} {
		if got := CheckEpoch(epochUs); got != want {
			t.Errorf("%d: code %d, want %d", epochUs, got, want)
		}
	}
	if minTimestampUs != unixUs(t, "2000-01-01T00:00:00Z")-211813488000000000 { // MIN_TIMESTAMP of PostgreSQL
		t.Errorf("timestamptz does not begin at %d", minTimestampUs)
	}
}

// sapphiredev/utilities#521: a wrong epoch shows a wrong time, and that time only.
func TestParseWithAnotherEpoch(t *testing.T) {
	const id = 1593572310593806338
	for epoch, created := range map[int64]string{
		snowEpochUs:          "2038-01-15T10:07:25.987Z",
		1288834974657 * 1000: "2022-11-18T11:50:20.644Z",
	} {
		want := Parts{CreatedUs: unixUs(t, created), Worker: 378, Sequence: 2}
		if parts, code := Parse(id, epoch); code != Issued || parts != want {
			t.Errorf("epoch %d: got %+v code %d, want %+v", epoch, parts, code, want)
		}
	}
}

// bwmarrin/snowflake#42: a number that is no id was taken for one.
func TestParseNegative(t *testing.T) {
	for _, id := range []int64{-1, -4096, -4194304, math.MinInt64, math.MinInt64 + 1} {
		for _, epochUs := range []int64{snowEpochUs, 0, minTimestampUs, math.MinInt64, math.MaxInt64} {
			if parts, code := Parse(id, epochUs); code != Negative || parts != (Parts{}) {
				t.Errorf("%d from %d: got %+v code %d", id, epochUs, parts, code)
			}
		}
	}
	want := Parts{CreatedUs: unixUs(t, "2095-09-07T15:47:35.551Z"), Worker: 1023, Sequence: 4095}
	if parts, code := Parse(math.MaxInt64, snowEpochUs); code != Issued || parts != want {
		t.Errorf("the largest: got %+v code %d, want %+v", parts, code, want)
	}
}

func TestParseAtTheEndsOfTimestamptz(t *testing.T) {
	const layoutUs = MaxMillis * 1000
	const last = math.MaxInt64 - 1 // the last time; the number after it is infinity
	for _, c := range []struct {
		name        string
		id, epochUs int64
		created     int64
		code        Code
	}{
		{"the first epoch", 0, minTimestampUs, minTimestampUs, Issued},
		{"the last id of the first epoch", math.MaxInt64, minTimestampUs, minTimestampUs + layoutUs, Issued},
		{"before the first epoch", 0, minTimestampUs - 1, 0, NotRepresentable},
		{"-infinity", 0, math.MinInt64, 0, NotRepresentable},
		{"-infinity and the last id", math.MaxInt64, math.MinInt64, 0, NotRepresentable},
		{"the last epoch", 0, last, last, Issued},
		{"the last epoch, worker and sequence", 4194303, last, last, Issued},
		{"the last epoch and a millisecond", 4194304, last, 0, NotRepresentable},
		{"the last epoch, the last id", math.MaxInt64, last, 0, NotRepresentable},
		{"infinity", 0, math.MaxInt64, 0, NotRepresentable},
		{"the last id that can be told", math.MaxInt64, last - layoutUs, last, Issued},
		{"the first that cannot", math.MaxInt64, last - layoutUs + 1, 0, NotRepresentable},
		{"before 1970", 4194304, -1_000_000, -999_000, Issued},
		{"over 1970", 2000 * 4194304, -1_000_000, 1_000_000, Issued},
		{"within a millisecond", 4194304, 123, 1123, Issued},
	} {
		want := Parts{CreatedUs: c.created}
		if c.code == Issued {
			want.Worker, want.Sequence = WorkerOf(c.id), SequenceOf(c.id)
		}
		if parts, code := Parse(c.id, c.epochUs); code != c.code || parts != want {
			t.Errorf("%s: got %+v code %d, want %+v code %d", c.name, parts, code, want, c.code)
		}
	}
}

func TestCompose(t *testing.T) {
	const epoch, layoutUs, last = snowEpochUs, MaxMillis * 1000, math.MaxInt64 - 1
	for _, c := range []struct {
		name             string
		us, epochUs      int64
		worker, sequence int32
		id               int64
		code             Code
	}{
		{"the first id", epoch, epoch, 0, 0, 0, Issued},
		{"the last id", epoch + layoutUs, epoch, 1023, 4095, math.MaxInt64, Issued},
		{"time is floored", epoch + 1999, epoch, 0, 0, 4194304, Issued},
		{"the last microsecond", epoch + layoutUs + 999, epoch, 1023, 4095, math.MaxInt64, Issued},
		{"one past it", epoch + layoutUs + 1000, epoch, 0, 0, 0, TimeOutOfRange},
		{"one before the epoch", epoch - 1, epoch, 0, 0, 0, TimeOutOfRange},
		{"a day before the epoch", epoch - 86400e6, epoch, 0, 0, 0, TimeOutOfRange},
		{"infinity", math.MaxInt64, epoch, 0, 0, 0, TimeOutOfRange},
		{"-infinity", math.MinInt64, epoch, 0, 0, 0, TimeOutOfRange},
		{"worker -1", epoch, epoch, -1, 0, 0, WorkerOutOfRange},
		{"worker 1024", epoch, epoch, 1024, 0, 0, WorkerOutOfRange},
		{"the least worker", epoch, epoch, math.MinInt32, 0, 0, WorkerOutOfRange},
		{"the largest worker", epoch, epoch, math.MaxInt32, 0, 0, WorkerOutOfRange},
		{"sequence -1", epoch, epoch, 0, -1, 0, SequenceOutOfRange},
		{"sequence 4096", epoch, epoch, 0, 4096, 0, SequenceOutOfRange},
		{"the least sequence", epoch, epoch, 0, math.MinInt32, 0, SequenceOutOfRange},
		{"the largest sequence", epoch, epoch, 0, math.MaxInt32, 0, SequenceOutOfRange},
		{"epoch infinity", epoch, math.MaxInt64, 0, 0, 0, NotRepresentable},
		{"epoch -infinity", epoch, math.MinInt64, 0, 0, 0, NotRepresentable},
		{"epoch before timestamptz", epoch, minTimestampUs - 1, 0, 0, 0, NotRepresentable},
		{"both infinity", math.MaxInt64, math.MaxInt64, 0, 0, 0, NotRepresentable},
		{"infinity from the last epoch", math.MaxInt64, last, 0, 0, 0, TimeOutOfRange},
		{"-infinity from the first epoch", math.MinInt64, minTimestampUs, 0, 0, 0, TimeOutOfRange},
		{"the first epoch", minTimestampUs, minTimestampUs, 1, 2, 4098, Issued},
		{"the first epoch's last id", minTimestampUs + layoutUs, minTimestampUs, 1023, 4095, math.MaxInt64, Issued},
		{"the last epoch", last, last, 1, 2, 4098, Issued},
		{"the epoch with the last time", last, last - layoutUs, 1023, 4095, math.MaxInt64, Issued},
		{"before 1970", -999_001, -1_000_000, 0, 0, 0, Issued},
		{"before 1970, a millisecond", -999_000, -1_000_000, 0, 0, 4194304, Issued},

		// Their difference is more than an int64 holds.
		{"all of time", last, minTimestampUs, 0, 0, 0, TimeOutOfRange},
		{"all of time backwards", minTimestampUs, last, 0, 0, 0, TimeOutOfRange},
	} {
		if id, code := Compose(c.us, c.epochUs, c.worker, c.sequence); code != c.code || id != c.id {
			t.Errorf("%s: got %d code %d, want %d code %d", c.name, id, code, c.id, c.code)
		}
	}
}

// snowCheckParse holds Parse against arithmetic that cannot overflow, and against Compose.
func snowCheckParse(t *testing.T, id, epochUs int64) {
	parts, code := Parse(id, epochUs)
	created := new(big.Int).Div(big.NewInt(id), big.NewInt(4194304)) // rounds down
	created.Mul(created, big.NewInt(1000)).Add(created, big.NewInt(epochUs))
	switch {
	case id < 0:
		if code != Negative || parts != (Parts{}) {
			t.Fatalf("%d from %d: got %+v code %d, want Negative", id, epochUs, parts, code)
		}
		return
	case epochUs < minTimestampUs || epochUs == math.MaxInt64 || created.Cmp(big.NewInt(math.MaxInt64-1)) > 0:
		if code != NotRepresentable || parts != (Parts{}) {
			t.Fatalf("%d from %d: got %+v code %d, want NotRepresentable", id, epochUs, parts, code)
		}
		return
	}
	want := Parts{CreatedUs: created.Int64(), Worker: int32(id / 4096 % 1024), Sequence: int32(id % 4096)}
	if code != Issued || parts != want {
		t.Fatalf("%d from %d: got %+v code %d, want %+v", id, epochUs, parts, code, want)
	}
	if again, code := Compose(parts.CreatedUs, epochUs, parts.Worker, parts.Sequence); code != Issued || again != id {
		t.Fatalf("%d from %d: parts %+v make %d code %d", id, epochUs, parts, again, code)
	}
}

// snowCheckCompose does so for Compose.
func snowCheckCompose(t *testing.T, us, epochUs int64, worker, sequence int32) {
	id, code := Compose(us, epochUs, worker, sequence)
	millis := new(big.Int).Sub(big.NewInt(us), big.NewInt(epochUs))
	millis.Div(millis, big.NewInt(1000)) // rounds down
	want := Issued
	switch {
	case epochUs < minTimestampUs || epochUs == math.MaxInt64:
		want = NotRepresentable
	case us < minTimestampUs || us == math.MaxInt64 || millis.Sign() < 0 || millis.Cmp(big.NewInt(1<<41-1)) > 0:
		want = TimeOutOfRange
	case worker < 0 || worker >= 1024:
		want = WorkerOutOfRange
	case sequence < 0 || sequence >= 4096:
		want = SequenceOutOfRange
	}
	if code != want || code != Issued && id != 0 || id < 0 {
		t.Fatalf("%d from %d, %d, %d: got %d code %d, want code %d", us, epochUs, worker, sequence, id, code, want)
	}
	if code != Issued {
		return
	}
	if id != snowID(millis.Int64(), 0, worker, int64(sequence)) {
		t.Fatalf("%d from %d, %d, %d: got %d", us, epochUs, worker, sequence, id)
	}
	parts, code := Parse(id, epochUs)
	if code != Issued || parts.Worker != worker || parts.Sequence != sequence || parts.CreatedUs > us || parts.CreatedUs < us-999 {
		t.Fatalf("%d from %d: %d has parts %+v code %d", us, epochUs, id, parts, code)
	}
}

func TestParseAndComposeRandom(t *testing.T) {
	for range 50_000 {
		wide := func() int64 { return int64(rand.Uint64()) >> rand.IntN(64) }
		snowCheckParse(t, rand.Int64(), snowEpochUs)
		snowCheckParse(t, wide(), wide())
		snowCheckCompose(t, wide(), wide(), int32(wide()), int32(wide()))
		snowCheckCompose(t, snowEpochUs+rand.Int64N(1<<41*1000+5000)-2000, snowEpochUs, rand.Int32N(1030)-3, rand.Int32N(4100)-2)
	}
}

func snowFuzzTimes() []int64 {
	return []int64{0, -1, 999, 1000, snowEpochUs, snowEpochUs - 1, snowEpochUs + 999, snowEpochUs + MaxMillis*1000,
		snowEpochUs + MaxMillis*1000 + 1000, minTimestampUs, minTimestampUs - 1, math.MinInt64, math.MaxInt64, math.MaxInt64 - 1,
		math.MaxInt64 - 1 - MaxMillis*1000, math.MaxInt64 - MaxMillis*1000}
}

func FuzzParse(f *testing.F) {
	for _, v := range vectorIDs {
		f.Add(v.id, unixUs(f, v.epoch))
	}
	for _, id := range []int64{0, 1, -1, 4095, 4096, 4194303, 4194304, math.MaxInt64, math.MinInt64} {
		for _, epochUs := range snowFuzzTimes() {
			f.Add(id, epochUs)
		}
	}
	f.Fuzz(snowCheckParse)
}

func FuzzCompose(f *testing.F) {
	for _, v := range vectorIDs {
		f.Add(unixUs(f, v.created), unixUs(f, v.epoch), v.worker, v.sequence)
	}
	for _, us := range snowFuzzTimes() {
		for _, epochUs := range snowFuzzTimes() {
			f.Add(us, epochUs, int32(1023), int32(4095))
		}
	}
	for _, outside := range []int32{-1, 1024, 4096, math.MinInt32, math.MaxInt32} {
		f.Add(int64(snowEpochUs), int64(snowEpochUs), outside, int32(0))
		f.Add(int64(snowEpochUs), int64(snowEpochUs), int32(0), outside)
	}
	f.Fuzz(snowCheckCompose)
}

func TestSnowflakesDoNotAllocate(t *testing.T) {
	slots := make([]atomic.Uint64, 1)
	r := snowAt(snowMs)
	for name, call := range map[string]func(){
		"Next":         func() { r.NowNs += 1000; Next(&slots[0], &r) },
		"Next refused": func() { refused := snowAt(snowMs - 1000); Next(&slots[0], &refused) },
		"Parse":        func() { Parse(1593572310593806338, snowEpochUs) },
		"Compose":      func() { Compose(snowEpochUs+1000, snowEpochUs, 1, 2) },
		"the marks": func() {
			Settle(r.NowNs, snowMs, 0)
			NextMark(r.NowNs)
			Raise(slots, snowMs)
			SlotAhead(slots[0].Load(), r.NowNs)
		},
	} {
		if n := testing.AllocsPerRun(1000, call); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The clock of these moves so that no id ever waits: a 4096th of a millisecond, rounded up, for each.
func BenchmarkNext(b *testing.B) {
	var slot atomic.Uint64
	r := snowAt(snowMs)
	for b.Loop() {
		if Next(&slot, &r).Code != Issued {
			b.Fatal("not issued")
		}
		r.NowNs += uuid7StepNs
	}
}

func BenchmarkNextBatchOf1000(b *testing.B) {
	var slot atomic.Uint64
	r := snowAt(snowMs)
	r.Count = 1000
	ids := 0
	for b.Loop() {
		run := Next(&slot, &r)
		if run.Code != Issued {
			b.Fatal("not issued")
		}
		ids += int(run.Count)
		r.NowNs += int64(run.Count) * uuid7StepNs
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(ids), "ns/id")
}

var snowSink Parts

func BenchmarkParse(b *testing.B) {
	id := int64(1593572310593806338)
	for b.Loop() {
		snowSink, _ = Parse(id, snowEpochUs)
		id++
	}
}

func BenchmarkCompose(b *testing.B) {
	us := int64(snowMs * 1000)
	for b.Loop() {
		if _, code := Compose(us, snowEpochUs, 378, 2); code != Issued {
			b.Fatal("not issued")
		}
		us++
	}
}
