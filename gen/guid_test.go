package gen

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// toByteArray is .NET's Guid.ToByteArray() of a GUID's text form, by the description of Guid's fields: an int, two
// shorts, all little-endian, and eight bytes.
func toByteArray(u [16]byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, binary.BigEndian.Uint32(u[0:4]))
	out = binary.LittleEndian.AppendUint16(out, binary.BigEndian.Uint16(u[4:6]))
	out = binary.LittleEndian.AppendUint16(out, binary.BigEndian.Uint16(u[6:8]))
	return append(out, u[8:]...)
}

// compareSQLServer is SQL Server's order of uniqueidentifiers as .NET's SqlGuid has it: over ToByteArray(), in the
// order 10-15, 8, 9, 6, 7, 4, 5, 0-3.
func compareSQLServer(a, b [16]byte) int {
	x, y := toByteArray(a), toByteArray(b)
	for _, i := range []int{10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3} {
		if c := cmp.Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return 0
}

// compareAs is the order that each ordering promises.
var compareAs = map[Ordering]func(a, b [16]byte) int{
	OrderString: func(a, b [16]byte) int { return strings.Compare(uuidText(a), uuidText(b)) },
	OrderBinary: func(a, b [16]byte) int { return bytes.Compare(toByteArray(a), toByteArray(b)) },
	OrderEnd:    compareSQLServer,
}

var allOrderings = []Ordering{OrderString, OrderBinary, OrderEnd}

// How are GUIDs compared in SQL Server 2005?, Microsoft's SQL programmability blog: its own example.
func TestSQLServerOrderOfTheBlog(t *testing.T) {
	a := uuidBytes(t, "55666BEE-B3A0-4BF5-81A7-86FF976E763F")
	b := uuidBytes(t, "8DD5BCA5-6ABE-4F73-B4B7-393AE6BBB849")
	if compareSQLServer(a, b) <= 0 {
		t.Error("this test's SQL Server order is wrong")
	}
	// Both ways to say it are one: bytes of the text form 10-15, 8-9, 7, 6, 5, 4, 3, 2, 1, 0.
	for range 10_000 {
		a, b := randomUUID(), randomUUID()
		if rand.IntN(2) == 0 { // few differences, so that late bytes decide
			b = a
			b[rand.IntN(16)]++
			b[rand.IntN(16)]--
		}
		want := 0
		for _, i := range []int{10, 11, 12, 13, 14, 15, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0} {
			if want = cmp.Compare(a[i], b[i]); want != 0 {
				break
			}
		}
		if compareSQLServer(a, b) != want {
			t.Fatalf("%s and %s", uuidText(a), uuidText(b))
		}
	}
}

func randomUUID() (u [16]byte) {
	binary.BigEndian.PutUint64(u[:8], rand.Uint64())
	binary.BigEndian.PutUint64(u[8:], rand.Uint64())
	return u
}

func TestParseOrdering(t *testing.T) {
	if got := Orderings(); !slices.Equal(got, []string{"string", "binary", "end"}) {
		t.Errorf("Orderings: %q", got)
	}
	for i, name := range Orderings() {
		if ordering, code := ParseOrdering(name); code != Issued || ordering != allOrderings[i] {
			t.Errorf("%s: %d code %d", name, ordering, code)
		}
	}
	for _, name := range []string{"", "String", "END", "end ", " end", "sqlserver", "strin", "strings"} {
		if _, code := ParseOrdering(name); code != UnknownOrdering {
			t.Errorf("%q: code %d, want UnknownOrdering", name, code)
		}
	}
	Orderings()[0] = "changed"
	if Orderings()[0] != "string" {
		t.Error("the caller's copy is the package's")
	}
}

func TestTicksAt(t *testing.T) {
	for _, c := range []struct{ ns, ticks int64 }{
		{0, 621355968000000000},
		{99, 621355968000000000},
		{100, 621355968000000001},
		{-1, 621355967999999999},
		{1659195311143550399, 637947921111435503},
		{math.MaxInt64, 621355968000000000 + math.MaxInt64/100},
		{math.MinInt64, 621355968000000000 + math.MinInt64/100 - 1},
	} {
		if got := TicksAt(c.ns); got != c.ticks {
			t.Errorf("TicksAt(%d): %d, want %d", c.ns, got, c.ticks)
		}
	}
}

// Each nibble in its place: the ticks are T0..T7 = 01 23 45 67 89 ab cd ef, the random bits end in d0..d6.
func TestSequentialUUIDLayout(t *testing.T) {
	const ticks, random = 0x0123456789abcdef, 0x5a_d0d1d2d3d4d5d6
	for _, c := range []struct {
		ordering Ordering
		want     string
	}{
		{OrderString, "01234567-89ab-8cde-8fd0-d1d2d3d4d5d6"},
		{OrderBinary, "67452301-ab89-de8c-8fd0-d1d2d3d4d5d6"},
		{OrderEnd, "d1d2d3d4-d5d6-8df0-8cde-0123456789ab"}, // R48 = d1..d6, then the halves of d0
	} {
		var state SequentialState
		if got := uuidText(SequentialUUID(&state, c.ordering, ticks, random)); got != c.want {
			t.Errorf("%s: %s, want %s", Orderings()[c.ordering], got, c.want)
		}
	}
}

// The example of the .NET article on ordered GUIDs that these layouts come from: 08da7241-170b-c8ef-… holds 8 bytes
// of ticks and no marks yet. The article prints them as 637947921111435500; the bytes are ...503, which a double
// rounds to what is printed. Marked they read as here.
func TestSequentialUUIDArticleExample(t *testing.T) {
	const ticks = 0x08da7241170bc8ef
	if ticks != 637947921111435503 || int64(float64(ticks)) == ticks || int64(float64(ticks))/100 != ticks/100 {
		t.Error("the article's number is not the rounded one")
	}
	created := unixUs(t, "2022-07-30T15:35:11.143550Z")
	for _, c := range []struct {
		ordering     Ordering
		ticks        int64
		prefix, tail string
		old          string // the same written as version 4
	}{
		{OrderString, ticks, "08da7241-170b-8c8e-8f", "", "08da7241-170b-4c8e-8f00-000000000000"},
		{OrderString, 637947921111435500, "08da7241-170b-8c8e-8c", "", "08da7241-170b-4c8e-8c00-000000000000"},
		{OrderBinary, ticks, "4172da08-0b17-8e8c-8f", "", "4172da08-0b17-8e4c-8f00-000000000000"},
		{OrderEnd, ticks, "", "-80f0-8c8e-08da7241170b", "00000000-0000-40f0-8c8e-08da7241170b"},
	} {
		var state SequentialState
		u := SequentialUUID(&state, c.ordering, c.ticks, 0)
		if text := uuidText(u); !strings.HasPrefix(text, c.prefix) || !strings.HasSuffix(text, c.tail) {
			t.Errorf("%s: %s", Orderings()[c.ordering], text)
		}
		for _, u := range [][16]byte{u, uuidBytes(t, c.old)} {
			if us, ok := SequentialUUIDTime(u, c.ordering); !ok || us != created {
				t.Errorf("%s %s: %s %v", Orderings()[c.ordering], uuidText(u), time.UnixMicro(us).UTC(), ok)
			}
		}
	}
	if us, ok := SequentialUUIDTime(uuidBytes(t, "08da7241-170b-c8ef-a094-0123456789ab"), OrderString); ok || us != 0 {
		t.Errorf("unmarked: %d %v", us, ok)
	}
}

// Where the marks of `binary` stand: .NET's bytes are exactly the string form, version 8 and RFC variant; in the
// text form only the variant is where readers look.
func TestSequentialUUIDBinaryIsStringInNet(t *testing.T) {
	seen := map[byte]bool{}
	for i := range 100_000 {
		ticks, random := 637947921111435503+int64(i)*17, rand.Uint64()
		var a, b SequentialState
		u, s := SequentialUUID(&a, OrderBinary, ticks, random), SequentialUUID(&b, OrderString, ticks, random)
		if !bytes.Equal(toByteArray(u), s[:]) {
			t.Fatalf("ToByteArray(%s) = %x, want %x", uuidText(u), toByteArray(u), s)
		}
		if u[8]>>4 != 8 || u[7]>>4 != 8 {
			t.Fatalf("%s: marks", uuidText(u))
		}
		seen[u[6]>>4] = true
	}
	if len(seen) != 16 {
		t.Errorf("byte 6 of the text form shows %d versions, documented are all 16", len(seen))
	}
}

func TestSequentialUUIDMarks(t *testing.T) {
	for range 10_000 {
		for _, ordering := range []Ordering{OrderString, OrderEnd} {
			var state SequentialState
			u := SequentialUUID(&state, ordering, rand.Int64(), rand.Uint64())
			if u[6]>>4 != 8 || u[8]>>4 != 8 {
				t.Fatalf("%s %s: version and variant", Orderings()[ordering], uuidText(u))
			}
		}
	}
}

// All the random bits that the layout has room for reach the GUID, and none disturbs another part.
func TestSequentialUUIDRandomBits(t *testing.T) {
	for ordering, bits := range map[Ordering]int{OrderString: 56, OrderBinary: 56, OrderEnd: 56} {
		const ticks = 0x0123456789abcdef
		var a, b SequentialState
		zero, ones := SequentialUUID(&a, ordering, ticks, 0), SequentialUUID(&b, ordering, ticks, math.MaxUint64)
		count := 0
		for i := range zero {
			for d := zero[i] ^ ones[i]; d != 0; d &= d - 1 {
				count++
			}
		}
		if count != bits {
			t.Errorf("%s: %d random bits, want %d", Orderings()[ordering], count, bits)
		}
		for range 1000 {
			var c SequentialState
			u := SequentialUUID(&c, ordering, ticks, rand.Uint64())
			for i := range u {
				if (u[i]^zero[i])&^(zero[i]^ones[i]) != 0 {
					t.Fatalf("%s %s: random bits disturb byte %d", Orderings()[ordering], uuidText(u), i)
				}
			}
		}
	}
}

// Creation order is the database's order, over every kind of clock: mareek/UUIDNext#2 for SQL Server (version 7 is
// disordered there), phatboyg/NewId PR#18 for bursts (512 in one tick and one millisecond; order broke past 256).
func TestSequentialUUIDOrder(t *testing.T) {
	const start = 637947921111435503
	clocks := map[string]func(i int) int64{
		"10 to 90 ticks on":  func(i int) int64 { return start + int64(i)*50 + rand.Int64N(40) },
		"frozen in one tick": func(int) int64 { return start },
		"in one millisecond": func(i int) int64 { return start/10000*10000 + int64(i)%512 },
		"set back":           func(i int) int64 { return start - int64(i)*1_000_000 },
		"jitter":             func(i int) int64 { return start + rand.Int64N(1000) },
		"forward and back":   func(i int) int64 { return start + int64(i%2)*36_000_000_000 },
		"before the year 1":  func(i int) int64 { return -1 - int64(i) },
		"far ahead":          func(i int) int64 { return math.MaxInt64 - 20_000 + int64(i) },
		"at the end":         func(int) int64 { return math.MaxInt64 },
	}
	for _, ordering := range allOrderings {
		for name, clock := range clocks {
			for _, n := range []int{512, 10_000} {
				var state SequentialState
				made := make([][16]byte, n)
				for i := range made {
					made[i] = SequentialUUID(&state, ordering, clock(i), rand.Uint64())
				}
				sorted := slices.Clone(made)
				slices.SortFunc(sorted, compareAs[ordering])
				if !slices.Equal(made, sorted) {
					t.Errorf("%s, clock %s, %d: database order is not creation order", Orderings()[ordering], name, n)
				}
				for i := 1; i < n; i++ {
					if compareAs[ordering](made[i-1], made[i]) >= 0 {
						t.Fatalf("%s, clock %s: %s then %s", Orderings()[ordering], name, uuidText(made[i-1]), uuidText(made[i]))
					}
				}
			}
		}
	}
}

// One state serves all orderings, each of them still rising.
func TestSequentialUUIDMixedOrderings(t *testing.T) {
	var state SequentialState
	last := map[Ordering][16]byte{}
	for range 10_000 {
		ordering := allOrderings[rand.IntN(3)]
		u := SequentialUUID(&state, ordering, 637947921111435503, rand.Uint64())
		if before, ok := last[ordering]; ok && compareAs[ordering](before, u) >= 0 {
			t.Fatalf("%s: %s then %s", Orderings()[ordering], uuidText(before), uuidText(u))
		}
		last[ordering] = u
	}
}

// Running ahead of the clock is by one tick a GUID, and ends when the clock has caught up.
func TestSequentialUUIDDrift(t *testing.T) {
	const start = 637947921111435500
	var state SequentialState
	at := func(u [16]byte) int64 {
		us, ok := SequentialUUIDTime(u, OrderString)
		if !ok {
			t.Fatalf("%s has no time", uuidText(u))
		}
		return us
	}
	first := at(SequentialUUID(&state, OrderString, start, 0))
	if want := unixUs(t, "2022-07-30T15:35:11.143550Z"); first != want {
		t.Fatalf("the first is at %d, want %d", first, want)
	}
	var u [16]byte
	for range 999 {
		u = SequentialUUID(&state, OrderString, start, 0)
	}
	if ahead := at(u) - first; ahead != 99 {
		t.Errorf("a thousand at once run ahead by %d us, want 99", ahead)
	}
	u = SequentialUUID(&state, OrderString, start+1000, 0)
	if ahead := at(u) - first; ahead != 100 {
		t.Errorf("after 100 us the GUID is at %d us", ahead)
	}
}

func TestSequentialUUIDTimeRange(t *testing.T) {
	for _, ordering := range allOrderings {
		for _, c := range []struct {
			ticks int64
			us    int64
		}{
			{math.MinInt64, -62135596800000000},
			{-1, -62135596800000000},
			{0, -62135596800000000}, // 0001-01-01
			{9, -62135596800000000},
			{10, -62135596799999999},
			{621355968000000000, 0},
			{621355967999999999, -1},
			{lastNetTicks, 253402300799999999}, // 9999-12-31T23:59:59.999999Z
			{math.MaxInt64, math.MaxInt64/10 - 62135596800000000},
		} {
			var state SequentialState
			u := SequentialUUID(&state, ordering, c.ticks, rand.Uint64())
			if us, ok := SequentialUUIDTime(u, ordering); !ok || us != c.us || !finite(us) {
				t.Errorf("%s ticks %d: %d %v, want %d", Orderings()[ordering], c.ticks, us, ok, c.us)
			}
		}
	}

	// All 64 bits of ticks: version 8 reads them, version 4 only up to what .NET's DateTime can hold.
	for _, c := range []struct {
		uuid string
		us   int64
		ok   bool
	}{
		{"ffffffff-ffff-8fff-8f00-000000000000", math.MaxUint64/10 - 62135596800000000, true},
		{"ffffffff-ffff-4fff-8f00-000000000000", 0, false},
		{"2bca2875-f437-43ff-8f00-000000000000", 253402300799999999, true}, // DateTime.MaxValue.Ticks
		{"2bca2875-f437-4400-8000-000000000000", 0, false},                 // one tick later
	} {
		us, ok := SequentialUUIDTime(uuidBytes(t, c.uuid), OrderString)
		if ok != c.ok || us != c.us || ok && !finite(us) {
			t.Errorf("%s: %d %v, want %d %v", c.uuid, us, ok, c.us, c.ok)
		}
	}
}

func TestSequentialUUIDTimeWantsMarks(t *testing.T) {
	samples := map[Ordering]string{
		OrderString: "08da7241-170b-8c8e-8fd0-d1d2d3d4d5d6",
		OrderBinary: "4172da08-0b17-8e8c-8fd0-d1d2d3d4d5d6",
		OrderEnd:    "d1d2d3d4-d5d6-80f0-8c8e-08da7241170b",
	}
	versionByte := map[Ordering]int{OrderString: 6, OrderBinary: 7, OrderEnd: 6}
	for ordering, text := range samples {
		for version := range 16 {
			for variant := range 16 {
				u := uuidBytes(t, text)
				u[versionByte[ordering]] = byte(version)<<4 | u[versionByte[ordering]]&15
				u[8] = byte(variant)<<4 | u[8]&15
				us, ok := SequentialUUIDTime(u, ordering)
				if want := (version == 8 || version == 4) && variant == 8; ok != want || ok != (us != 0) {
					t.Errorf("%s %s: %d %v", Orderings()[ordering], uuidText(u), us, ok)
				}
			}
		}
	}
	for low := range 16 { // the lower half of byte 6 was zero in the `end` of older makers, and is random in ours
		for version, want := range map[byte]bool{4: low == 0, 8: true} {
			u := uuidBytes(t, samples[OrderEnd])
			u[6] = version<<4 | byte(low)
			if _, ok := SequentialUUIDTime(u, OrderEnd); ok != want {
				t.Errorf("%s: %v", uuidText(u), ok)
			}
		}
	}
	for _, v := range publishedUUIDs { // none of these is an ordered GUID
		if strings.HasPrefix(v.source, "pgx_ulid") {
			continue // of version 8 with a variant of 8: a layout of somebody else's cannot be told from ours
		}
		if _, ok := SequentialUUIDTime(uuidBytes(t, v.uuid), OrderString); ok {
			t.Errorf("%s (%s) passes for an ordered GUID", v.uuid, v.source)
		}
	}
}

// The documented odds that a random version 4 UUID passes, one in 23.
func TestSequentialUUIDTimeOfRandomUUIDs(t *testing.T) {
	const n = 200_000
	random := rand.New(rand.NewPCG(1, 2))
	passed := 0
	for range n {
		var u [16]byte
		binary.BigEndian.PutUint64(u[:8], random.Uint64())
		binary.BigEndian.PutUint64(u[8:], random.Uint64())
		u[6], u[8] = 0x40|u[6]&15, 0x80|u[8]&0x3f
		if _, ok := SequentialUUIDTime(u, OrderString); ok {
			passed++
		}
	}
	if passed < n/26 || passed > n/21 {
		t.Errorf("%d of %d pass", passed, n)
	}
}

// mareek/UUIDNext#2, JasperFx/marten#579: three version 7 UUIDs, made in this order, sort 1, 3, 2 in SQL Server.
func TestUUIDToSQLServerKeepsOrder(t *testing.T) {
	made := [][16]byte{
		uuidBytes(t, "01855978-effc-758f-8fc1-6b755429799c"),
		uuidBytes(t, "01855978-f00f-74c2-a6f0-8e8c5445ec9a"),
		uuidBytes(t, "01855978-f019-7104-bab4-79f068bc8150"),
	}
	sorted := slices.Clone(made)
	slices.SortFunc(sorted, compareSQLServer)
	if sorted[0] != made[0] || sorted[1] != made[2] || sorted[2] != made[1] {
		t.Error("as they are, they should sort 1, 3, 2")
	}
	keys := make([][16]byte, len(made))
	for i, u := range made {
		keys[i] = UUIDToSQLServer(u)
	}
	if !slices.IsSortedFunc(keys, compareSQLServer) {
		t.Error("the keys should sort 1, 2, 3")
	}
	if got := uuidText(keys[0]); got != "9c792954-756b-c18f-758f-01855978effc" {
		t.Errorf("key of the first: %s", got)
	}
}

func checkSQLServer(t *testing.T, a, b [16]byte) {
	x, y := UUIDToSQLServer(a), UUIDToSQLServer(b)
	if compareSQLServer(x, y) != bytes.Compare(a[:], b[:]) {
		t.Fatalf("%s and %s become %s and %s", uuidText(a), uuidText(b), uuidText(x), uuidText(y))
	}
	if UUIDFromSQLServer(x) != a || UUIDToSQLServer(UUIDFromSQLServer(a)) != a {
		t.Fatalf("%s: not its own inverse's inverse", uuidText(a))
	}
}

func TestUUIDToSQLServer(t *testing.T) {
	if got := uuidText(UUIDToSQLServer(uuidBytes(t, "00010203-0405-0607-0809-0a0b0c0d0e0f"))); got != "0f0e0d0c-0b0a-0908-0607-000102030405" {
		t.Errorf("to: %s", got)
	}
	if got := uuidText(UUIDFromSQLServer(uuidBytes(t, "00010203-0405-0607-0809-0a0b0c0d0e0f"))); got != "0a0b0c0d-0e0f-0809-0706-050403020100" {
		t.Errorf("from: %s", got)
	}
	for place := range 16 { // each byte decides in its turn
		var a, b [16]byte
		a[place], b[place] = 1, 2
		for i := place + 1; i < 16; i++ {
			a[i] = 255
		}
		checkSQLServer(t, a, b)
	}
	for range 100_000 {
		checkSQLServer(t, randomUUID(), randomUUID())
	}
}

// phatboyg/NewId PR#24: bytes were swapped on the way (9bfb0100 came back as 9bfb0001). 512 version 7 UUIDs of one
// millisecond go there and back, and are in order there.
func TestUUIDToSQLServerThereAndBack(t *testing.T) {
	var before [16]byte
	for i := range 512 {
		u := uuid7(1659195311143, uint64(i), rand.Uint64())
		key := UUIDToSQLServer(u)
		if UUIDFromSQLServer(key) != u {
			t.Fatalf("%s came back as %s", uuidText(u), uuidText(UUIDFromSQLServer(key)))
		}
		if compareSQLServer(before, key) >= 0 {
			t.Fatalf("%s then %s", uuidText(before), uuidText(key))
		}
		if _, ok := UUID7Time(&key); ok {
			t.Fatalf("%s passes for version 7", uuidText(key))
		}
		before = key
	}
}

func TestGUIDsDoNotAllocate(t *testing.T) {
	var state SequentialState
	u := uuidBytes(t, "4172da08-0b17-8e8c-8fd0-d1d2d3d4d5d6")
	if n := testing.AllocsPerRun(100, func() {
		for _, ordering := range allOrderings {
			SequentialUUID(&state, ordering, 637947921111435503, 1)
			SequentialUUIDTime(u, ordering)
		}
		ParseOrdering("end")
		UUIDFromSQLServer(UUIDToSQLServer(u))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzSequentialUUIDTime(f *testing.F) {
	for _, text := range []string{
		"08da7241-170b-8c8e-8fd0-d1d2d3d4d5d6", "08da7241-170b-4c8e-8fd0-d1d2d3d4d5d6", "4172da08-0b17-8e8c-8fd0-d1d2d3d4d5d6",
		"d1d2d3d4-d5d6-80f0-8c8e-08da7241170b", "ffffffff-ffff-8fff-8f00-000000000000", "2bca2875-f437-4400-8000-000000000000",
		"550e8400-e29b-41d4-a716-446655440000", "00000000-0000-0000-0000-000000000000",
	} {
		u := uuidBytes(f, text)
		for ordering := range 5 {
			f.Add(u[:], ordering-1)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		var u [16]byte
		copy(u[:], raw)
		ordering := Ordering(n)
		us, ok := SequentialUUIDTime(u, ordering)
		if !ok {
			if us != 0 {
				t.Fatalf("%s: not ok, but %d", uuidText(u), us)
			}
			return
		}
		if !finite(us) || us < -62135596800000000 {
			t.Fatalf("%s: %d", uuidText(u), us)
		}
		// A GUID of ours of that microsecond reads the same.
		ticks := (us + 62135596800000000) * 10
		if ticks < 0 { // past what the clock's int64 can say
			return
		}
		var state SequentialState
		again, ok := SequentialUUIDTime(SequentialUUID(&state, ordering, ticks, 0), ordering)
		if !ok || again != us {
			t.Fatalf("%s: %d, again %d %v", uuidText(u), us, again, ok)
		}
	})
}

func FuzzUUIDToSQLServer(f *testing.F) {
	f.Add(make([]byte, 16), []byte("\x01\x85\x59\x78\xef\xfc\x75\x8f\x8f\xc1\x6b\x75\x54\x29\x79\x9c"))
	f.Add([]byte("\x9b\xfb\x01\x00"), []byte("\x9b\xfb\x00\x01"))
	f.Fuzz(func(t *testing.T, rawA, rawB []byte) {
		var a, b [16]byte
		copy(a[:], rawA)
		copy(b[:], rawB)
		checkSQLServer(t, a, b)
	})
}
