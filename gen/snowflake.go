// Package gen makes and takes apart ids: 64-bit snowflake ids, UUID version 7 and ordered GUIDs.
//
// Everything that decides anything about an id (a bit, an order, a wait, a limit, a text form) is here, in pure
// Go without cgo, and is tested without a database. Time is always an argument, never read; nothing here blocks,
// panics or, on the path of an id, allocates. What a caller must do next is a Code, not an error value, because
// the callers are C functions that turn it into a wait or an SQL error.
package gen

import "sync/atomic"

// The layout of a snowflake id, from bit 63 down: one zero bit, 41 bits of milliseconds since the epoch,
// 10 bits of worker id, 12 bits of sequence.
const (
	timeBits     = 41
	workerBits   = 10
	sequenceBits = 12

	MaxMillis   = 1<<timeBits - 1     // the last millisecond after the epoch that an id can carry
	MaxWorker   = 1<<workerBits - 1   // the largest worker id, 1023
	MaxSequence = 1<<sequenceBits - 1 // the largest sequence number within a millisecond, 4095

	timeShift   = workerBits + sequenceBits
	workerShift = sequenceBits
)

// DefaultEpochMs is the epoch in force when none is set, 2026-01-01T00:00:00Z in Unix milliseconds.
const DefaultEpochMs = 1767225600000

// StepMs is how far, in milliseconds, the durable mark is moved ahead of the clock at a time; after a restart
// with a healthy clock the mark stands ahead by at most this much.
const StepMs = 1000

// NoLimit as a Request's LimitMs lets ids carry any time.
const NoLimit = 1<<63 - 1

const (
	nsPerMs = 1_000_000
	usPerMs = 1_000
)

// Code says what became of a request. The bridge holds the same numbers in bridge/engine.h.
type Code int32

// Codes of the generator come first, those of the decoders from 16 on.
const (
	Issued           Code = iota // done
	SequenceUsedUp               // all 4096 ids of this millisecond are used: ask again in DelayNs
	ClockWait                    // the clock is behind by no more than the tolerance: ask again in DelayNs
	ClockBack                    // the clock is behind by more than the tolerance, by DelayNs
	TimeUsedUp                   // the clock is past the last millisecond of the layout
	BeforeEpoch                  // the clock is before the epoch
	WorkerOutOfRange             // the worker id is not in 0..1023
	ReserveFirst                 // the id would carry a time at or past the limit: move the durable mark first
	SeedFirst                    // the random source wants fresh bytes from the kernel before it goes on

	Negative           Code = iota + 7 // a negative number is not a snowflake id
	TimeOutOfRange                     // the time cannot be carried by this kind of id
	SequenceOutOfRange                 // the sequence is not in 0..4095
	UnknownLayout                      // no layout has this name
	BadText                            // the text is not the text form of an id
	TextOutOfRange                     // the text is well formed but stands for a number that is no id
	UnknownOrdering                    // no ordering has this name
	NotRepresentable                   // PostgreSQL's timestamptz cannot hold the time
)

// Request asks the generator for ids of one worker.
type Request struct {
	NowNs       int64  // the clock, Unix nanoseconds
	EpochMs     int64  // the epoch, Unix milliseconds
	ToleranceNs int64  // a clock that is behind by no more than this is waited for
	LimitMs     int64  // ids must carry a time before this one, Unix milliseconds; NoLimit for none
	Floor       uint64 // ids must stand above this slot value (the session's last id), 0 for none
	Worker      int32  // 0..1023
	Count       int32  // how many ids are wanted, at least 1
}

// Run is the answer to a Request: Count consecutive ids from First on, all of one millisecond, when Code is
// Issued; else how long to wait or how far behind the clock is.
type Run struct {
	First   int64  // the first id
	Last    uint64 // the slot value of the last id, for the next request's Floor
	DelayNs int64  // nanoseconds until the clock reaches the time it must reach
	Count   int32  // how many ids, 1..4096, never more than were asked for
	Code    Code
}

// Next issues the next ids of a worker from its slot, the worker's one word of shared state: the Unix
// milliseconds and the sequence of its last id, milliseconds<<12 | sequence. The slot moves forward only, by
// compare-and-swap, so any number of processes may share it: what one call issues no other call ever does, and
// ids of one slot rise strictly in the order of the swaps. An id carries the time of its request, never one
// ahead of the clock. The epoch enters only when the id is composed, so callers with different epochs may share
// a slot. Next neither blocks nor allocates.
func Next(slot *atomic.Uint64, r *Request) Run {
	nowMs := floorDiv(r.NowNs, nsPerMs)
	switch millis := nowMs - r.EpochMs; {
	case r.Worker < 0 || r.Worker > MaxWorker:
		return Run{Code: WorkerOutOfRange}
	case millis < 0 || nowMs < 0:
		return Run{Code: BeforeEpoch}
	case millis > MaxMillis:
		return Run{Code: TimeUsedUp}
	case nowMs >= r.LimitMs:
		return Run{Code: ReserveFirst}
	}
	for {
		current := slot.Load()
		last := max(current, r.Floor)
		next := uint64(nowMs) << sequenceBits
		if last >= next {
			if last>>sequenceBits > uint64(nowMs) {
				return behindBy(SlotAhead(last, r.NowNs), r.ToleranceNs)
			}
			if last&MaxSequence == MaxSequence {
				return Run{Code: SequenceUsedUp, DelayNs: (nowMs+1)*nsPerMs - r.NowNs}
			}
			next = last + 1
		}
		count := min(max(r.Count, 1), int32(MaxSequence-next&MaxSequence)+1)
		end := next + uint64(count) - 1
		if slot.CompareAndSwap(current, end) {
			return Run{
				First: (nowMs-r.EpochMs)<<timeShift | int64(r.Worker)<<workerShift | int64(next&MaxSequence),
				Last:  end,
				Count: count,
			}
		}
	}
}

// behindBy decides between waiting and refusing when the clock must still advance by ns nanoseconds.
func behindBy(ns, toleranceNs int64) Run {
	if ns <= toleranceNs {
		return Run{Code: ClockWait, DelayNs: ns}
	}
	return Run{Code: ClockBack, DelayNs: ns}
}

// farNs stands for any longer time: 146 years, far beyond what anyone waits for.
const farNs = (1<<63 - 1) / 2

// nsUntil is how many nanoseconds after nowNs the millisecond ms (Unix) begins, at most farNs, 0 when it has begun.
// Marks and slots may hold milliseconds that int64 nanoseconds, which end in 2262, do not.
func nsUntil(ms, nowNs int64) int64 {
	nowMs := floorDiv(nowNs, nsPerMs)
	switch behindMs := uint64(ms) - uint64(nowMs); {
	case ms <= nowMs:
		return 0
	case behindMs > farNs/nsPerMs:
		return farNs
	default:
		return int64(behindMs)*nsPerMs - (nowNs - nowMs*nsPerMs)
	}
}

// Settle says whether a database whose durable mark, left by an earlier uptime or another server, stands at
// markMs (Unix milliseconds) may make ids at nowNs: Issued, or ClockWait while the clock is behind the mark by no
// more than its step and the tolerance, or ClockBack.
func Settle(nowNs, markMs, toleranceNs int64) Run {
	ns := nsUntil(markMs, nowNs)
	if ns == 0 {
		return Run{Code: Issued}
	}
	return behindBy(ns, toleranceNs+StepMs*nsPerMs)
}

// NextMark says how the durable mark moves at nowNs: unless it stands beyond wantedMs it goes to markMs (both Unix
// milliseconds). It is moved when half a step of it is left, so that ids stay half a step behind what was
// written and a standby that lags by less misses nothing.
func NextMark(nowNs int64) (wantedMs, markMs int64) {
	nowMs := floorDiv(nowNs, nsPerMs)
	return nowMs + StepMs/2, nowMs + StepMs
}

// maxSlotMs is the last millisecond that a slot can hold.
const maxSlotMs = 1<<(64-sequenceBits) - 1

// Raise moves every slot that stands lower up to just below markMs (Unix milliseconds), so that no worker issues
// an id before that time. Slots never move down. The last time that a slot can hold is in the year 144683.
func Raise(slots []atomic.Uint64, markMs int64) {
	if markMs <= 0 {
		return
	}
	floor := uint64(min(markMs, maxSlotMs))<<sequenceBits - 1
	for i := range slots {
		for current := slots[i].Load(); current < floor; current = slots[i].Load() {
			slots[i].CompareAndSwap(current, floor)
		}
	}
}

// AfterWorkerChange turns the slot value of a session's last id into the Floor under which ids of another worker
// rise too: they start in a later millisecond.
func AfterWorkerChange(last uint64) uint64 { return last | MaxSequence }

// SlotAhead tells by how many nanoseconds a slot stands ahead of the clock, 0 when it does not, and at most 146
// years.
func SlotAhead(slot uint64, nowNs int64) int64 { return nsUntil(int64(slot>>sequenceBits), nowNs) }

// SlotTimeUs is the time of the last id that a slot records, Unix microseconds; 0 for a slot never used.
func SlotTimeUs(slot uint64) int64 { return int64(slot>>sequenceBits) * usPerMs }

// LastTimeUs is the last millisecond that ids with this epoch can carry, Unix microseconds.
func LastTimeUs(epochMs int64) int64 { return (epochMs + MaxMillis) * usPerMs }

// Parts are what an id carries.
type Parts struct {
	CreatedUs int64 // Unix microseconds, a whole number of milliseconds after the epoch
	Worker    int32 // 0..1023
	Sequence  int32 // 0..4095
}

// Parse takes an id apart. The epoch is given in Unix microseconds. Code is Negative for an id below 0 and
// NotRepresentable when the time is outside PostgreSQL's timestamptz.
func Parse(id, epochUs int64) (Parts, Code) {
	if id < 0 {
		return Parts{}, Negative
	}
	if !finite(epochUs) {
		return Parts{}, NotRepresentable
	}
	sinceEpoch := id >> timeShift * usPerMs
	if sinceEpoch > 1<<63-2-max(epochUs, 0) {
		return Parts{}, NotRepresentable
	}
	return Parts{CreatedUs: epochUs + sinceEpoch, Worker: WorkerOf(id), Sequence: SequenceOf(id)}, Issued
}

// CheckEpoch answers NotRepresentable for an epoch (Unix microseconds) that is no point in time.
func CheckEpoch(epochUs int64) Code {
	if !finite(epochUs) {
		return NotRepresentable
	}
	return Issued
}

// WorkerOf is the worker id in an id that is not negative, 0..1023.
func WorkerOf(id int64) int32 { return int32(id >> workerShift & MaxWorker) }

// SequenceOf is the sequence in an id that is not negative, 0..4095.
func SequenceOf(id int64) int32 { return int32(id & MaxSequence) }

// Compose puts an id together, the inverse of Parse: times in Unix microseconds, createdUs floored to whole
// milliseconds after the epoch. Code names the part that is out of range: NotRepresentable for an epoch that is
// not a time, TimeOutOfRange, WorkerOutOfRange or SequenceOutOfRange.
func Compose(createdUs, epochUs int64, worker, sequence int32) (int64, Code) {
	millis, ok := millisSince(createdUs, epochUs)
	switch {
	case !finite(epochUs):
		return 0, NotRepresentable
	case !ok || millis > MaxMillis: // infinity is past it
		return 0, TimeOutOfRange
	case worker < 0 || worker > MaxWorker:
		return 0, WorkerOutOfRange
	case sequence < 0 || sequence > MaxSequence:
		return 0, SequenceOutOfRange
	}
	return int64(millis)<<timeShift | int64(worker)<<workerShift | int64(sequence), Issued
}

// minTimestampUs is the first microsecond of PostgreSQL's timestamptz, 4714-11-24 BC, in Unix microseconds. What
// lies below stands for -infinity. Its end, in the year 294276, lies beyond int64 Unix microseconds: the engine
// saturates there, so the largest int64 stands for that time as well as for infinity.
const minTimestampUs = -210866803200000000

// finite tells a time from the infinities.
func finite(us int64) bool { return us >= minTimestampUs && us < 1<<63-1 }

// floorDiv divides rounding down, for times before 1970.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
