package gen

// Ordering names the database whose order of GUIDs an ordered GUID follows.
type Ordering int

const (
	OrderString Ordering = iota // "string": rises as text, and as bytes of the text form (PostgreSQL, MySQL)
	OrderBinary                 // "binary": its .NET ToByteArray() bytes rise (Oracle RAW)
	OrderEnd                    // "end": rises in the order of SQL Server's uniqueidentifier
)

var orderings = [...]string{OrderString: "string", OrderBinary: "binary", OrderEnd: "end"}

// Orderings lists the names that ParseOrdering knows.
func Orderings() []string { return append([]string(nil), orderings[:]...) }

// ParseOrdering finds an ordering by its name, in lower case. Code is UnknownOrdering for any other name.
func ParseOrdering(name string) (Ordering, Code) {
	for i := range orderings {
		if orderings[i] == name {
			return Ordering(i), Issued
		}
	}
	return OrderString, UnknownOrdering
}

// Ordered GUIDs count time in .NET's ticks: units of 100 ns since 0001-01-01T00:00:00Z.
const (
	nsPerTick  = 100
	ticksPerUs = 10

	ticksAt1970  = 621_355_968_000_000_000   // DateTime.UnixEpoch.Ticks
	lastNetTicks = 3_155_378_975_999_999_999 // DateTime.MaxValue.Ticks, the end of the year 9999
)

// TicksAt converts a time from Unix nanoseconds to ticks, rounding down.
func TicksAt(ns int64) int64 { return floorDiv(ns, nsPerTick) + ticksAt1970 }

// SequentialState is what a session remembers from one ordered GUID to the next. The zero value is a session that
// has made none. One state serves all orderings.
type SequentialState struct {
	next uint64 // the least ticks that the next GUID may carry
}

// The marks of RFC 9562: version 8 is the custom layout; version 4 is what older makers of the same layouts wrote.
// The variant takes two bits, the layouts fix two more after it.
const (
	guidVersion    = 8
	guidOldVersion = 4
	guidVariant    = 8

	guidMiddle = 1<<12 - 1 // the twelve bits of time beside a mark: T6 and the upper half of T7
)

// SequentialUUID makes the next ordered GUID of a session at the time ticks (100 ns since 0001-01-01T00:00:00Z;
// before that counts as then) from at least 56 random bits, of which the lowest are used. In the order named the
// GUIDs of one state rise strictly: when the clock has not passed the last GUID's tick, by haste or because it was
// set back, the GUID carries the tick after that one and so runs ahead of the clock, as PostgreSQL's uuidv7()
// does. It takes more than ten million GUIDs a second for that to grow while the clock runs. An ordering
// that does not exist is taken for OrderString.
//
// Byte by byte of the text form (T0..T7 are the ticks, most significant byte first, hi and lo halves of a byte, R
// random bits):
//
//	byte    string             end
//	0-5     T0..T5             R
//	6       8, hi(T6)          8, R
//	7       lo(T6), hi(T7)     lo(T7), R
//	8       8, lo(T7)          8, hi(T6)
//	9       R                  lo(T6), hi(T7)
//	10-15   R                  T0..T5
//
// The 8 in byte 6 is the version, the one in byte 8 the variant and two fixed bits. SQL Server compares bytes 10-15
// first, then 8-9, then 7 down to 0, so in end the time comes first too. Older makers of end left the lower half of
// byte 6 at 0.
//
// binary is the GUID whose ToByteArray() is string: .NET stores the first three groups of the text, of 4, 2 and 2
// bytes, with their least significant byte first, so here the bytes of each are reversed.
// The bytes that a program stores (Oracle's RAW) are thus a proper RFC 9562 UUID of version 8, but
// the text form is not: its byte 8, the variant, is in place, the version mark stands in the upper half of byte 7,
// and the upper half of byte 6, where readers of the text look for a version, holds lo(T6), which takes all
// values and changes every 25.6 microseconds. uuid_extract_version() and the like mean nothing there.
func SequentialUUID(state *SequentialState, ordering Ordering, ticks int64, random uint64) [16]byte {
	t := max(uint64(max(ticks, 0)), state.next)
	state.next = t + 1

	if ordering == OrderEnd {
		return fromWords(random<<16|guidVersion<<12|random>>52&15<<8|t&15<<4|random>>48&15,
			guidVariant<<60|t>>4&guidMiddle<<48|t>>16)
	}
	u := fromWords(t>>16<<16|guidVersion<<12|t>>4&guidMiddle, guidVariant<<60|t&15<<56|random&(1<<56-1))
	if ordering == OrderBinary {
		return netBytes(u)
	}
	return u
}

// SequentialUUIDTime reads the time of an ordered GUID of the given ordering: Unix microseconds, from the year 1
// on, rounded down. It reads version 8 and the version 4 that older makers put into the same layouts. Not ok when a
// mark or a bit that the layout fixes is not there, or when a version 4 GUID holds a time past the year 9999, which
// no such maker could write. Nothing else tells an ordered GUID from another one: of the random version 4 UUIDs one in
// 23 passes for OrderString. Every time that 64 bits of ticks can hold, up to the year 58455, is one of
// PostgreSQL's timestamptz. An ordering that does not exist is taken for OrderString.
func SequentialUUIDTime(u [16]byte, ordering Ordering) (createdUs int64, ok bool) {
	if ordering == OrderBinary {
		u = netBytes(u)
	}
	high, low := words(&u)
	version := high >> 12 & 15
	if low>>60 != guidVariant || version != guidVersion && version != guidOldVersion {
		return 0, false
	}
	ticks := high>>16<<16 | high&guidMiddle<<4 | low>>56&15
	if ordering == OrderEnd {
		if version == guidOldVersion && high>>8&15 != 0 {
			return 0, false
		}
		ticks = low<<16 | low>>48&guidMiddle<<4 | high>>4&15
	}
	if version == guidOldVersion && ticks > lastNetTicks {
		return 0, false
	}
	return int64(ticks/ticksPerUs) - ticksAt1970/ticksPerUs, true
}

// netBytes turns the bytes of a GUID's text form into those of .NET's Guid.ToByteArray(), and back.
func netBytes(u [16]byte) [16]byte {
	u[0], u[1], u[2], u[3] = u[3], u[2], u[1], u[0]
	u[4], u[5] = u[5], u[4]
	u[6], u[7] = u[7], u[6]
	return u
}

// sqlServerOrder lists the bytes of the text form in the order in which SQL Server compares uniqueidentifiers, the
// most significant first.
var sqlServerOrder = [16]uint8{10, 11, 12, 13, 14, 15, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0}

// UUIDToSQLServer moves the bytes of a UUID so that the order PostgreSQL gives to UUIDs becomes the order SQL Server
// gives to the results: a version 7 UUID, say, stays clustered by time there. No byte changes its value, but
// version and variant leave their places, so the result is a key and no longer a UUID of its version.
func UUIDToSQLServer(u [16]byte) (key [16]byte) {
	for i, place := range sqlServerOrder {
		key[place&15] = u[i]
	}
	return key
}

// UUIDFromSQLServer is the inverse of UUIDToSQLServer.
func UUIDFromSQLServer(key [16]byte) (u [16]byte) {
	for i, place := range sqlServerOrder {
		u[i] = key[place&15]
	}
	return u
}
