package gen

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const testEpochUs = DefaultEpochMs * 1000

func TestBounds(t *testing.T) {
	const last = math.MaxInt64
	lastMs := unixUs(t, "2095-09-07T15:47:35.551Z")
	for _, c := range []struct {
		name     string
		us       int64
		epochUs  int64
		min, max int64
	}{
		{"the epoch", testEpochUs, testEpochUs, 0, 1<<22 - 1},
		{"within its millisecond", testEpochUs + 999, testEpochUs, 0, 1<<22 - 1},
		{"one millisecond on", testEpochUs + 1000, testEpochUs, 1 << 22, 2<<22 - 1},
		{"one microsecond before", testEpochUs - 1, testEpochUs, 0, -1},
		{"one millisecond before", testEpochUs - 1000, testEpochUs, 0, -1},
		{"before 1970", -1, testEpochUs, 0, -1},
		{"-infinity", math.MinInt64, testEpochUs, 0, -1},
		{"first timestamptz", minTimestampUs, testEpochUs, 0, -1},
		{"last millisecond", lastMs, testEpochUs, 1<<63 - 1<<22, last},
		{"end of the last millisecond", lastMs + 999, testEpochUs, 1<<63 - 1<<22, last},
		{"one past it", lastMs + 1000, testEpochUs, last, last},
		{"infinity", math.MaxInt64, testEpochUs, last, last},
		{"far past", math.MaxInt64 - 1, testEpochUs, last, last},

		// The difference of these needs 64 bits.
		{"all of time", math.MaxInt64 - 1, minTimestampUs, last, last},
		{"infinity from the first timestamptz", math.MaxInt64, minTimestampUs, last, last},
		{"first timestamptz to a late epoch", minTimestampUs, math.MaxInt64 - 1, 0, -1},
		{"first timestamptz as epoch", minTimestampUs + 1999, minTimestampUs, 1 << 22, 2<<22 - 1},
		{"-infinity from -infinity", math.MinInt64, math.MinInt64, 0, -1},
		{"infinity from infinity", math.MaxInt64, math.MaxInt64, last, last},
		{"a time from infinity", testEpochUs, math.MaxInt64, 0, -1},
		{"the largest difference", math.MaxInt64 - 1, math.MinInt64, last, last},
		{"a time from -infinity", testEpochUs, math.MinInt64, last, last},

		{"negative times, floored", -1, -1_000_000, 999 << 22, 1000<<22 - 1},
		{"an epoch within a millisecond counts from there", 1999, 1001, 0, 1<<22 - 1},
		{"an epoch within a millisecond, next", 2001, 1001, 1 << 22, 2<<22 - 1},
	} {
		if got := MinID(c.us, c.epochUs); got != c.min {
			t.Errorf("%s: MinID %d, want %d", c.name, got, c.min)
		}
		if got := MaxID(c.us, c.epochUs); got != c.max {
			t.Errorf("%s: MaxID %d, want %d", c.name, got, c.max)
		}
	}
}

// ClickHouse/ClickHouse#42966: microseconds taken for milliseconds gave a time in 1992.
func TestMinIDOfMicroseconds(t *testing.T) {
	id := MinID(unixUs(t, "2026-09-24T13:40:06.308513Z"), testEpochUs)
	parts, code := Parse(id, testEpochUs)
	if code != Issued || parts != (Parts{CreatedUs: unixUs(t, "2026-09-24T13:40:06.308Z")}) {
		t.Errorf("got %+v code %d", parts, code)
	}
}

// sapphiredev/utilities#521: the epoch decides. The published time's bounds hold the published id under Twitter's
// epoch, and under no other.
func TestBoundsHoldPublishedIDs(t *testing.T) {
	for _, v := range publishedIDs {
		epochUs := map[string]int64{"discord": 1420070400000000, "twitter": 1288834974657000, "pgedge": 1672531200000000}[v.layout]
		if epochUs == 0 {
			continue
		}
		us := unixUs(t, v.created)
		if v.id < MinID(us, epochUs) || v.id > MaxID(us, epochUs) {
			t.Errorf("%s %d is not within %d..%d", v.layout, v.id, MinID(us, epochUs), MaxID(us, epochUs))
		}
		if v.id <= MaxID(us, epochUs+1000) && v.id >= MinID(us, epochUs+1000) {
			t.Errorf("%s %d is within the bounds of another epoch", v.layout, v.id)
		}
	}
}

// checkBounds compares with arithmetic that cannot overflow, and with Parse.
func checkBounds(t *testing.T, us, epochUs int64) {
	low, high := MinID(us, epochUs), MaxID(us, epochUs)
	millis := new(big.Int).Sub(big.NewInt(us), big.NewInt(epochUs))
	millis.Div(millis, big.NewInt(1000)) // rounds down
	switch {
	case us == math.MinInt64 || us != math.MaxInt64 && millis.Sign() < 0:
		if low != 0 || high != -1 {
			t.Fatalf("%d from %d: got %d..%d, want 0..-1", us, epochUs, low, high)
		}
	case us == math.MaxInt64 || millis.Cmp(big.NewInt(1<<41-1)) > 0:
		if low != math.MaxInt64 || high != math.MaxInt64 {
			t.Fatalf("%d from %d: got %d..%d, want the largest int64", us, epochUs, low, high)
		}
	default:
		if want := millis.Int64() << 22; low != want || high != want+1<<22-1 {
			t.Fatalf("%d from %d: got %d..%d, want %d and %d", us, epochUs, low, high, want, want+1<<22-1)
		}
		for _, id := range []int64{low, high} {
			if parts, code := Parse(id, epochUs); code == Issued && (parts.CreatedUs > us || parts.CreatedUs < us-999) {
				t.Fatalf("%d from %d: bound %d carries %d", us, epochUs, id, parts.CreatedUs)
			}
		}
		if low > 0 && MaxID(us-1000, epochUs) != low-1 {
			t.Fatalf("%d from %d: a gap below %d", us, epochUs, low)
		}
	}
}

func TestBoundsRandom(t *testing.T) {
	for range 100_000 {
		us, epochUs := int64(rand.Uint64())>>rand.IntN(64), int64(rand.Uint64())>>rand.IntN(64)
		checkBounds(t, us, epochUs)
		checkBounds(t, epochUs+rand.Int64N(1<<41*1000+5000)-2000, epochUs)
		checkBounds(t, testEpochUs+rand.Int64N(1<<41*1000), testEpochUs)
	}
}

func TestBoundsEnclose(t *testing.T) {
	for range 100_000 {
		id := rand.Int64()
		parts, _ := Parse(id, testEpochUs)
		for _, us := range []int64{parts.CreatedUs, parts.CreatedUs + 999} {
			if low, high := MinID(us, testEpochUs), MaxID(us, testEpochUs); id < low || id > high {
				t.Fatalf("%d is not within %d..%d", id, low, high)
			}
		}
		if high := MaxID(parts.CreatedUs-1, testEpochUs); id <= high {
			t.Fatalf("%d is within the millisecond before, up to %d", id, high)
		}
		if low := MinID(parts.CreatedUs+1000, testEpochUs); id >= low && low != math.MaxInt64 {
			t.Fatalf("%d is within the millisecond after, from %d", id, low)
		}
	}
}

func FuzzBounds(f *testing.F) {
	for _, us := range []int64{0, -1, testEpochUs, testEpochUs - 1, math.MaxInt64, math.MinInt64, minTimestampUs} {
		for _, epochUs := range []int64{testEpochUs, 0, minTimestampUs, math.MaxInt64, math.MinInt64} {
			f.Add(us, epochUs)
		}
	}
	f.Fuzz(checkBounds)
}
