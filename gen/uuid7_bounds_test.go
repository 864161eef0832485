package gen

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// uuidBytes reads the text form of a UUID.
func uuidBytes(t testing.TB, text string) (u [16]byte) {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != 16 {
		t.Fatalf("%q is not a UUID", text)
	}
	return [16]byte(raw)
}

// uuidText writes it.
func uuidText(u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Published UUIDs; created is empty where no version 7 is to be seen.
var publishedUUIDs = []struct {
	uuid, created string
	randA         int32
	randB         int64
	source        string
}{
	{"017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "2022-02-22T19:22:22.000Z", 0xcc3, 0x18c4dc0c0c07398f, "RFC 9562 A.6"},
	{"c232ab00-9414-11ec-b3c8-9f6bdeced846", "", 0, 0, "RFC 9562 A.1, version 1"},
	{"11111111-1111-5111-8111-111111111111", "", 0, 0, "PostgreSQL regression tests, version 5"},
	{"11111111-1111-1111-1111-111111111111", "", 0, 0, "PostgreSQL regression tests, not the RFC's variant"},
	{"019535d9-3df7-79fb-b466-fa907fa17f9e", "2025-02-24T02:46:24.503Z", 2555, 3775980836120264606, "PostgreSQL 18 documentation"},
	{"018570bb-4a7d-7000-8000-000000000000", "2023-01-02T04:26:40.637Z", 0, 0, "pg_uuidv7 tests"},
	{"018570bb-4a7d-7c7e-8df4-6d47afd8c8fc", "2023-01-02T04:26:40.637Z", 3198, 1005548771470788860, "pg_uuidv7 README"},
	{"018bbaec-db78-7d42-ab07-9b8055faa6cc", "2023-11-10T20:29:26.776Z", 3394, 3100617843968485068, "pg_tle example"},
	{"019913f5-30e0-7000-8000-000000000000", "2025-09-04T09:01:00.000Z", 0, 0, "Tiger documentation"},
	{"019913ce-f124-7835-96c7-a2df691caa98", "2025-09-04T08:19:13.316Z", 2101, 1641459669624728216, "Tiger documentation"},
	{"0194244f-d800-7000-8000-000000000000", "2025-01-02T00:00:00.000Z", 0, 0, "timescale/timescaledb#8505"},
	{"019d50a3-b800-7000-8000-000000000000", "2026-04-03T00:00:00.000Z", 0, 0, "PPM#87"},
	{"019d50a3-b800-7000-0000-000000000000", "", 0, 0, "PPM#87, wrong variant"},
	{"e4ea52a0-bda1-7121-8f1f-3d9bb3d9a76e", "9945-11-25T06:22:26.209Z", 0x121, 0x0f1f3d9bb3d9a76e, "pgsql-hackers, uuidv7('-1000 years') of PostgreSQL before 18.6"},
	{"0186cb65-25d7-81da-815c-7e25a6bfe7db", "", 0, 0, "pgx_ulid tests, version 8"},
	{"550e8400-e29b-41d4-a716-446655440000", "", 0, 0, "RFC 4122, version 4; gofrs/uuid#195, timescale/timescaledb PR#8497"},
	{"67e55044-10b1-426f-9247-bb680e5fe0c8", "", 0, 0, "version 4, year 5589 in pg_uuidv7"},
	{"00000000-0000-0000-0000-000000000000", "", 0, 0, "nil; gofrs/uuid#195"},
	{"ffffffff-ffff-ffff-ffff-ffffffffffff", "", 0, 0, "RFC 9562 5.10, max"},
	{"ffffffff-ffff-7fff-bfff-ffffffffffff", "10889-08-02T05:31:50.655Z", 4095, 4611686018427387903, "largest version 7; gofrs/uuid#195 (it said 2121)"},
	{"00000000-0000-7000-8000-000000000000", "1970-01-01T00:00:00Z", 0, 0, "smallest version 7"},
	{"00000000-0000-7000-c000-000000000000", "", 0, 0, "Microsoft's variant"},
}

// largestUUID7Us is the last millisecond of 48 bits, in the year 10889.
const largestUUID7Us = (1<<48 - 1) * 1000

func TestUUID7ParsePublished(t *testing.T) {
	for _, v := range publishedUUIDs {
		u := uuidBytes(t, v.uuid)
		us, randA, randB, ok := UUID7Parse(u)
		if time, okTime := UUID7Time(&u); time != us || okTime != ok {
			t.Errorf("%s (%s): UUID7Time reads %d %v, UUID7Parse %d %v", v.uuid, v.source, time, okTime, us, ok)
		}
		if v.created == "" {
			if ok || us != 0 || randA != 0 || randB != 0 {
				t.Errorf("%s (%s): got %d %d %d %v, want nothing", v.uuid, v.source, us, randA, randB, ok)
			}
			continue
		}
		want := unixUs(t, v.created)
		if !ok || us != want || randA != v.randA || randB != v.randB {
			t.Errorf("%s (%s): got %d %d %d %v, want %d %d %d", v.uuid, v.source, us, randA, randB, ok, want, v.randA, v.randB)
		}
	}
}

func TestUUID7ParseWantsVersionAndVariant(t *testing.T) {
	for version := range 16 {
		for variant := range 16 {
			u := uuidBytes(t, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
			u[6] = byte(version)<<4 | u[6]&15
			u[8] = byte(variant)<<4 | u[8]&15
			_, _, _, ok := UUID7Parse(u)
			if want := version == 7 && variant >= 8 && variant <= 11; ok != want {
				t.Errorf("%s: ok %v", uuidText(u), ok)
			}
		}
	}
}

func TestUUID7Bounds(t *testing.T) {
	for _, c := range []struct {
		us       int64
		min, max string
		source   string
	}{
		{0, "00000000-0000-7000-8000-000000000000", "00000000-0000-7fff-bfff-ffffffffffff", "1970"},
		{999, "00000000-0000-7000-8000-000000000000", "00000000-0000-7fff-bfff-ffffffffffff", "its first millisecond"},
		{1000, "00000000-0001-7000-8000-000000000000", "00000000-0001-7fff-bfff-ffffffffffff", "its second"},
		{unixUs(t, "2023-01-02T04:26:40.637Z"), "018570bb-4a7d-7000-8000-000000000000", "018570bb-4a7d-7fff-bfff-ffffffffffff", "pg_uuidv7 tests"},
		{unixUs(t, "2025-09-04T09:01:00Z"), "019913f5-30e0-7000-8000-000000000000", "019913f5-30e0-7fff-bfff-ffffffffffff", "Tiger documentation"},
		{unixUs(t, "2025-01-02T00:00:00Z"), "0194244f-d800-7000-8000-000000000000", "0194244f-d800-7fff-bfff-ffffffffffff", "timescale/timescaledb#8505"},
		{unixUs(t, "2026-04-03T00:00:00Z"), "019d50a3-b800-7000-8000-000000000000", "019d50a3-b800-7fff-bfff-ffffffffffff", "PPM#87 (its bound had variant 0)"},
		{unixUs(t, "2026-01-01T00:00:00.123456Z"), "019b76da-a87b-7000-8000-000000000000", "019b76da-a87b-7fff-bfff-ffffffffffff", "vectordotdev/vrl#1955"},
		// aws/pg_tle PR#242: .814624 was rounded to the next millisecond, 018bd546-3fef.
		{0x018bd5463fee*1000 + 624, "018bd546-3fee-7000-8000-000000000000", "018bd546-3fee-7fff-bfff-ffffffffffff", "aws/pg_tle PR#242"},
		{largestUUID7Us, "ffffffff-ffff-7000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff", "the last millisecond"},
		{largestUUID7Us + 999, "ffffffff-ffff-7000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff", "its end"},
	} {
		if u, code := UUID7Min(c.us); code != Issued || uuidText(u) != c.min {
			t.Errorf("%s: UUID7Min(%d) %s code %d, want %s", c.source, c.us, uuidText(u), code, c.min)
		}
		if u, code := UUID7Max(c.us); code != Issued || uuidText(u) != c.max {
			t.Errorf("%s: UUID7Max(%d) %s code %d, want %s", c.source, c.us, uuidText(u), code, c.max)
		}
	}
}

func TestUUID7BoundsOutOfRange(t *testing.T) {
	for _, us := range []int64{-1, -999, -1000, minTimestampUs, math.MinInt64, largestUUID7Us + 1000, math.MaxInt64 - 1, math.MaxInt64} {
		if u, code := UUID7Min(us); code != TimeOutOfRange || u != [16]byte{} {
			t.Errorf("UUID7Min(%d): %s code %d, want TimeOutOfRange", us, uuidText(u), code)
		}
		if u, code := UUID7Max(us); code != TimeOutOfRange || u != [16]byte{} {
			t.Errorf("UUID7Max(%d): %s code %d, want TimeOutOfRange", us, uuidText(u), code)
		}
	}
}

// checkUUID7 holds that a UUID is between the bounds of its own time and put together again by its parts.
func checkUUID7(t *testing.T, u [16]byte) {
	us, randA, randB, ok := UUID7Parse(u)
	if want := u[6]>>4 == 7 && u[8]&0xc0 == 0x80; ok != want {
		t.Fatalf("%s: ok %v", uuidText(u), ok)
	}
	if !ok {
		if us != 0 || randA != 0 || randB != 0 {
			t.Fatalf("%s: not ok, but %d %d %d", uuidText(u), us, randA, randB)
		}
		return
	}
	if us < 0 || us > largestUUID7Us || us%1000 != 0 || randA < 0 || randA > 4095 || randB < 0 || randB>>62 != 0 {
		t.Fatalf("%s: %d %d %d", uuidText(u), us, randA, randB)
	}
	low, code := UUID7Min(us)
	high, code2 := UUID7Max(us + 999)
	if code != Issued || code2 != Issued || bytes.Compare(low[:], u[:]) > 0 || bytes.Compare(u[:], high[:]) > 0 {
		t.Fatalf("%s is not within %s..%s", uuidText(u), uuidText(low), uuidText(high))
	}
	if again := uuid7(uint64(us/1000), uint64(randA), uint64(randB)); again != u {
		t.Fatalf("%s: parts make %s", uuidText(u), uuidText(again))
	}
	if us > 0 {
		before, _ := UUID7Max(us - 1)
		if bytes.Compare(before[:], low[:]) >= 0 {
			t.Fatalf("%s: the bounds of the millisecond before reach %s", uuidText(low), uuidText(before))
		}
	}
}

func TestUUID7ParseRandom(t *testing.T) {
	for range 100_000 {
		var u [16]byte
		for i := range u {
			u[i] = byte(rand.Uint32())
		}
		checkUUID7(t, u)
		u[6], u[8] = 0x70|u[6]&15, 0x80|u[8]&0x3f
		checkUUID7(t, u)
	}
}

func TestUUID7ParseDoesNotAllocate(t *testing.T) {
	u := uuidBytes(t, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
	if n := testing.AllocsPerRun(100, func() { UUID7Parse(u); UUID7Min(largestUUID7Us); UUID7Max(0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzUUID7Parse(f *testing.F) {
	for _, v := range publishedUUIDs {
		u := uuidBytes(f, v.uuid)
		f.Add(u[:])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var u [16]byte
		copy(u[:], raw)
		checkUUID7(t, u)
	})
}
