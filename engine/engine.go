// Package main is the Go side of the bridge: the few functions that C may call. It translates between C's types
// and gen's and decides nothing itself.
//
// Every function recovers from panics and answers SF_PANIC instead; none calls into Postgres, keeps a pointer that
// C passed, or starts a goroutine. What must be set in the runtime (collector, threads, preemption) is set
// where the runtime is started, in bridge/start.c, and by the Makefile's -ldflags.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../bridge
#include "abi.h"
*/
import "C"

import (
	"sync/atomic"
	"unsafe"

	"pgsnowflake/gen"
)

func main() {} // a C archive needs one; it never runs

// The structs of abi.h are read and written in place as gen's, so their shapes must agree: each of these lines
// is a division by zero, found by the compiler, if they do not.
const (
	_ = 1 / (1 - (unsafe.Sizeof(gen.Request{}) ^ unsafe.Sizeof(C.SfRequest{})))
	_ = 1 / (1 - (unsafe.Offsetof(gen.Request{}.Floor) ^ unsafe.Offsetof(C.SfRequest{}.floor)))
	_ = 1 / (1 - (unsafe.Offsetof(gen.Request{}.Count) ^ unsafe.Offsetof(C.SfRequest{}.count)))
	_ = 1 / (1 - (unsafe.Sizeof(gen.Run{}) ^ unsafe.Sizeof(C.SfRun{})))
	_ = 1 / (1 - (unsafe.Offsetof(gen.Run{}.Count) ^ unsafe.Offsetof(C.SfRun{}.count)))
	_ = 1 / (1 - (unsafe.Offsetof(gen.Run{}.Code) ^ unsafe.Offsetof(C.SfRun{}.code)))
)

// pgEpochUs is 2000-01-01T00:00:00Z, where PostgreSQL's timestamptz begins to count, in Unix microseconds.
const pgEpochUs = 946684800000000

// toUnix turns a timestamptz into Unix microseconds. The infinities keep their meaning; the 30 years at the end of
// timestamptz that Unix microseconds cannot hold become infinity.
func toUnix(ts C.int64_t) int64 {
	us := int64(ts)
	switch {
	case us == -1<<63:
		return us
	case us > 1<<63-1-pgEpochUs:
		return 1<<63 - 1
	}
	return us + pgEpochUs
}

// fromUnix is the inverse of toUnix for the times that gen gives back.
func fromUnix(us int64) C.int64_t { return C.int64_t(us - pgEpochUs) }

// panicText is what the last recovered panic said.
var panicText string

// recovered turns a panic into SF_PANIC; every exported function defers it.
func recovered(code *C.int32_t) {
	if r := recover(); r != nil {
		*code = C.SF_PANIC
		switch v := r.(type) {
		case error:
			panicText = v.Error()
		case string:
			panicText = v
		default:
			panicText = "panic without a text"
		}
	}
}

// sfReady is the first call into Go: when it returns, the runtime is up.
//
//export sfReady
func sfReady() (code C.int32_t) {
	defer recovered(&code)
	return C.SF_ISSUED
}

// sfPanicText copies the text of the last panic into a buffer of size bytes, zero-terminated.
//
//export sfPanicText
func sfPanicText(buffer *C.char, size C.int32_t) {
	to := unsafe.Slice((*byte)(unsafe.Pointer(buffer)), int(size))
	to[copy(to[:size-1], panicText)] = 0
}

// sfNext issues the next ids from a worker's slot (gen.Next).
//
//export sfNext
func sfNext(slot unsafe.Pointer, request *C.SfRequest, run *C.SfRun) (code C.int32_t) {
	defer recovered(&code)
	answer := (*gen.Run)(unsafe.Pointer(run))
	*answer = gen.Next((*atomic.Uint64)(slot), (*gen.Request)(unsafe.Pointer(request)))
	return C.int32_t(answer.Code)
}

// sfSlotAhead says by how many nanoseconds a slot stands ahead of the clock (gen.SlotAhead).
//
//export sfSlotAhead
func sfSlotAhead(slot unsafe.Pointer, nowNs C.int64_t, ahead *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	*ahead = C.int64_t(gen.SlotAhead((*atomic.Uint64)(slot).Load(), int64(nowNs)))
	return C.SF_ISSUED
}

// sfAfterWorkerChange turns a session's last slot value into its floor under another worker.
//
//export sfAfterWorkerChange
func sfAfterWorkerChange(last C.uint64_t, floor *C.uint64_t) (code C.int32_t) {
	defer recovered(&code)
	*floor = C.uint64_t(gen.AfterWorkerChange(uint64(last)))
	return C.SF_ISSUED
}

// sfSettle says whether a database may make ids above the mark that an earlier uptime left (gen.Settle).
//
//export sfSettle
func sfSettle(nowNs, markMs, toleranceNs C.int64_t, run *C.SfRun) (code C.int32_t) {
	defer recovered(&code)
	*(*gen.Run)(unsafe.Pointer(run)) = gen.Settle(int64(nowNs), int64(markMs), int64(toleranceNs))
	return C.SF_ISSUED
}

// sfRaise raises count slots to the mark (gen.Raise).
//
//export sfRaise
func sfRaise(slots unsafe.Pointer, count C.int32_t, markMs C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	gen.Raise(unsafe.Slice((*atomic.Uint64)(slots), int(count)), int64(markMs))
	return C.SF_ISSUED
}

// sfNextMark says how the durable mark moves (gen.NextMark).
//
//export sfNextMark
func sfNextMark(nowNs C.int64_t, wantedMs, markMs *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	wanted, mark := gen.NextMark(int64(nowNs))
	*wantedMs, *markMs = C.int64_t(wanted), C.int64_t(mark)
	return C.SF_ISSUED
}

// sfSlotTime is the time of the last id in a slot as timestamptz (gen.SlotTimeUs); SF_TIME_OUT_OF_RANGE when the slot
// was never used.
//
//export sfSlotTime
func sfSlotTime(slot unsafe.Pointer, ts *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	us := gen.SlotTimeUs((*atomic.Uint64)(slot).Load())
	if us == 0 {
		return C.SF_TIME_OUT_OF_RANGE
	}
	*ts = fromUnix(us)
	return C.SF_ISSUED
}

// sfLastTime is the last time that ids with this epoch can carry, as timestamptz (gen.LastTimeUs).
//
//export sfLastTime
func sfLastTime(epochMs C.int64_t, ts *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	*ts = fromUnix(gen.LastTimeUs(int64(epochMs)))
	return C.SF_ISSUED
}

// sfParse takes an id apart with an epoch given as timestamptz (gen.Parse).
//
//export sfParse
func sfParse(id C.int64_t, epoch C.int64_t, parts *C.SfParts) (code C.int32_t) {
	defer recovered(&code)
	p, c := gen.Parse(int64(id), toUnix(epoch))
	*parts = C.SfParts{created: fromUnix(p.CreatedUs), worker: C.int32_t(p.Worker), sequence: C.int32_t(p.Sequence)}
	return C.int32_t(c)
}

// uuid7 is this process's generator of UUIDv7, and its random source for all UUIDs.
var uuid7 gen.UUID7

// sfSeed keys this process's random source with 32 bytes from the kernel, after the answer SF_SEED_FIRST.
//
//export sfSeed
func sfSeed(nowNs C.int64_t, seed unsafe.Pointer) (code C.int32_t) {
	defer recovered(&code)
	uuid7.Seed((*[32]byte)(seed), int64(nowNs))
	return C.SF_ISSUED
}

// sfUUID7Time advances this process's UUIDv7 time to the clock (Unix nanoseconds) and gives it back.
//
//export sfUUID7Time
func sfUUID7Time(nowNs C.int64_t, timeNs *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	ns, c := uuid7.Next(int64(nowNs))
	*timeNs = C.int64_t(ns)
	return C.int32_t(c)
}

// sfUUID7Now makes the UUID of this moment (Unix nanoseconds).
//
//export sfUUID7Now
func sfUUID7Now(nowNs C.int64_t, uuid unsafe.Pointer) (code C.int32_t) {
	defer recovered(&code)
	ns, c := uuid7.Next(int64(nowNs))
	if c == gen.Issued {
		*(*[16]byte)(uuid), c = uuid7.UUID(ns/1000, ns%1000)
	}
	return C.int32_t(c)
}

// sfUUID7 composes the UUID of a timestamptz and the nanoseconds beyond it.
//
//export sfUUID7
func sfUUID7(ts C.int64_t, extraNs C.int64_t, uuid unsafe.Pointer) (code C.int32_t) {
	defer recovered(&code)
	u, c := uuid7.UUID(toUnix(ts), int64(extraNs))
	*(*[16]byte)(uuid) = u
	return C.int32_t(c)
}

// sfUUID7Timestamp reads the time of a version 7 UUID; SF_TIME_OUT_OF_RANGE for any other.
//
//export sfUUID7Timestamp
func sfUUID7Timestamp(uuid unsafe.Pointer, ts *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	us, ok := gen.UUID7Time((*[16]byte)(uuid))
	if !ok {
		return C.SF_TIME_OUT_OF_RANGE
	}
	*ts = fromUnix(us)
	return C.SF_ISSUED
}

// bytesAt is the Go view of size bytes that C owns for the time of the call.
func bytesAt(data unsafe.Pointer, size C.int32_t) []byte {
	return unsafe.Slice((*byte)(data), int(size))
}

// nameAt is a name passed as bytes, not copied.
func nameAt(data unsafe.Pointer, size C.int32_t) string {
	return unsafe.String((*byte)(data), int(size))
}

// sfCompose puts an id together from timestamptz, worker and sequence (gen.Compose).
//
//export sfCompose
func sfCompose(created, epoch C.int64_t, worker, sequence C.int32_t, id *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	composed, c := gen.Compose(toUnix(created), toUnix(epoch), int32(worker), int32(sequence))
	*id = C.int64_t(composed)
	return C.int32_t(c)
}

// sfBounds gives the smallest and the largest id that can carry the millisecond of a timestamptz (gen.MinID, gen.MaxID).
//
//export sfBounds
func sfBounds(ts, epoch C.int64_t, lowest, highest *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	us, epochUs := toUnix(ts), toUnix(epoch)
	*lowest, *highest = C.int64_t(gen.MinID(us, epochUs)), C.int64_t(gen.MaxID(us, epochUs))
	return C.int32_t(gen.CheckEpoch(epochUs))
}

// sfParseAs takes an id of another system apart (gen.ParseAs).
//
//export sfParseAs
func sfParseAs(layout unsafe.Pointer, size C.int32_t, id C.int64_t, parts *C.SfForeignParts) (code C.int32_t) {
	defer recovered(&code)
	created, node, sequence, c := gen.ParseAs(nameAt(layout, size), int64(id))
	*parts = C.SfForeignParts{created: fromUnix(created), node: C.int64_t(node), sequence: C.int64_t(sequence)}
	return C.int32_t(c)
}

// sfKnownNames copies the names of the known layouts, or of the known orderings, separated by commas, into a buffer
// of size bytes, zero-terminated.
//
//export sfKnownNames
func sfKnownNames(ofOrderings C.int32_t, buffer *C.char, size C.int32_t) (code C.int32_t) {
	defer recovered(&code)
	names := gen.Layouts()
	if ofOrderings != 0 {
		names = gen.Orderings()
	}
	text := names[0]
	for _, name := range names[1:] {
		text += ", " + name
	}
	to := bytesAt(unsafe.Pointer(buffer), size)
	to[copy(to[:size-1], text)] = 0
	return C.SF_ISSUED
}

// sfEncode writes the 13 characters of an id's text form (gen.Encode).
//
//export sfEncode
func sfEncode(id C.int64_t, text unsafe.Pointer) (code C.int32_t) {
	defer recovered(&code)
	encoded, c := gen.Encode(int64(id))
	copy(bytesAt(text, gen.TextLength), encoded[:])
	return C.int32_t(c)
}

// sfDecode reads an id's text form (gen.Decode).
//
//export sfDecode
func sfDecode(text unsafe.Pointer, size C.int32_t, id *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	decoded, c := gen.Decode(bytesAt(text, size))
	*id = C.int64_t(decoded)
	return C.int32_t(c)
}

// sfFingerprint derives a worker id from a text that identifies the server (gen.Fingerprint).
//
//export sfFingerprint
func sfFingerprint(identity unsafe.Pointer, size C.int32_t, worker *C.int32_t) (code C.int32_t) {
	defer recovered(&code)
	*worker = C.int32_t(gen.Fingerprint(bytesAt(identity, size)))
	return C.SF_ISSUED
}

// sfUUID7Parse takes a version 7 UUID apart; SF_TIME_OUT_OF_RANGE for any other.
//
//export sfUUID7Parse
func sfUUID7Parse(uuid unsafe.Pointer, parts *C.SfUUID7Parts) (code C.int32_t) {
	defer recovered(&code)
	us, a, b, ok := gen.UUID7Parse(*(*[16]byte)(uuid))
	if !ok {
		return C.SF_TIME_OUT_OF_RANGE
	}
	*parts = C.SfUUID7Parts{created: fromUnix(us), rand_a: C.int32_t(a), rand_b: C.int64_t(b)}
	return C.SF_ISSUED
}

// sfUUID7Bound gives the smallest (highest 0) or largest version 7 UUID of the millisecond of a timestamptz.
//
//export sfUUID7Bound
func sfUUID7Bound(ts C.int64_t, highest C.int32_t, uuid unsafe.Pointer) (code C.int32_t) {
	defer recovered(&code)
	bound := gen.UUID7Min
	if highest != 0 {
		bound = gen.UUID7Max
	}
	u, c := bound(toUnix(ts))
	*(*[16]byte)(uuid) = u
	return C.int32_t(c)
}

// sequential is this process's state of ordered GUIDs.
var sequential gen.SequentialState

// sfSequentialUUID makes the next ordered GUID at the clock (Unix nanoseconds).
//
//export sfSequentialUUID
func sfSequentialUUID(nowNs C.int64_t, ordering unsafe.Pointer, size C.int32_t, uuid unsafe.Pointer) (code C.int32_t) {
	defer recovered(&code)
	order, c := gen.ParseOrdering(nameAt(ordering, size))
	if c != gen.Issued {
		return C.int32_t(c)
	}
	if c = uuid7.Ready(int64(nowNs)); c == gen.Issued {
		*(*[16]byte)(uuid) = gen.SequentialUUID(&sequential, order, gen.TicksAt(int64(nowNs)), uuid7.Random())
	}
	return C.int32_t(c)
}

// sfSequentialUUIDTime reads the time of an ordered GUID; SF_TIME_OUT_OF_RANGE when it is none of that ordering.
//
//export sfSequentialUUIDTime
func sfSequentialUUIDTime(uuid, ordering unsafe.Pointer, size C.int32_t, ts *C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	order, c := gen.ParseOrdering(nameAt(ordering, size))
	if c != gen.Issued {
		return C.int32_t(c)
	}
	us, ok := gen.SequentialUUIDTime(*(*[16]byte)(uuid), order)
	if !ok {
		return C.SF_TIME_OUT_OF_RANGE
	}
	*ts = fromUnix(us)
	return C.SF_ISSUED
}

// sfSQLServer moves the bytes of a UUID into SQL Server's order (back 0) or out of it.
//
//export sfSQLServer
func sfSQLServer(from unsafe.Pointer, back C.int32_t, to unsafe.Pointer) (code C.int32_t) {
	defer recovered(&code)
	move := gen.UUIDToSQLServer
	if back != 0 {
		move = gen.UUIDFromSQLServer
	}
	*(*[16]byte)(to) = move(*(*[16]byte)(from))
	return C.SF_ISSUED
}
