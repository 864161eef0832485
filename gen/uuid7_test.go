package gen

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// u7Seed is the seed of the published ChaCha8 stream: C2SP's chacha8rand and Go's tests of it.
var u7Seed = [32]byte([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ123456"))

// u7Ns is 2026-01-01T00:00:00.123456789Z.
const u7Ns = 1_767_225_600_123_456_789

// u7 is a process with its kernel: it brings a new seed whenever one is asked for.
type u7 struct {
	UUID7
	seeds int
}

func (g *u7) seedFor(n int) *[32]byte {
	seed := u7Seed
	seed[0] += byte(n)
	seed[1] += byte(n >> 8)
	return &seed
}

// time is Next, seeded as often as it wants.
func (g *u7) time(t testing.TB, nowNs int64) int64 {
	t.Helper()
	ns, code := g.Next(nowNs)
	if code == SeedFirst {
		g.Seed(g.seedFor(g.seeds), nowNs)
		g.seeds++
		ns, code = g.Next(nowNs)
	}
	if code != Issued {
		t.Fatalf("at %d: code %d right after a seed", nowNs, code)
	}
	return ns
}

// make is uuidv7() at a time.
func (g *u7) make(t testing.TB, nowNs int64) [16]byte {
	t.Helper()
	ns := g.time(t, nowNs)
	u, code := g.UUID(ns/1000, ns%1000)
	if code != Issued {
		t.Fatalf("at %d: code %d", nowNs, code)
	}
	return u
}

// u7Postgres is uuidv7() of PostgreSQL 18.6 as its uuid.c tells it, step by step and byte by byte, for Linux.
type u7Postgres struct{ previousNs int64 }

func (p *u7Postgres) realTimeNsAscending(nowNs int64) int64 {
	const minimalStepNs = 1_000_000/(1<<12) + 1 // SUBMS_MINIMAL_STEP_NS
	ns := nowNs
	if p.previousNs+minimalStepNs >= ns {
		ns = p.previousNs + minimalStepNs
	}
	p.previousNs = ns
	return ns
}

func (p *u7Postgres) generate(unixTsMs uint64, subMsNs uint32, strongRandom func([]byte)) (data [16]byte) {
	for i := range 6 {
		data[i] = byte(unixTsMs >> (40 - 8*i))
	}
	increasedClockPrecision := uint64(subMsNs) * (1 << 12) / 1_000_000
	data[6] = byte(increasedClockPrecision >> 8)
	data[7] = byte(increasedClockPrecision)
	strongRandom(data[8:])
	data[6] = data[6]&0x0f | 7<<4
	data[8] = data[8]&0x3f | 0x80
	return data
}

func TestUUID7BitExactWithPostgreSQL(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var g u7
	var p u7Postgres
	var source *rand.ChaCha8
	seeds := 0
	nowNs := int64(u7Ns)
	for i := range 100_000 {
		switch i % 5000 / 1000 { // a thousand each of these clocks
		case 0:
			nowNs += random.Int64N(200) // too fast
		case 1:
			nowNs += random.Int64N(100_000)
		case 2: // frozen
		case 3:
			nowNs += random.Int64N(1_900_000_000) // asks for seeds
		case 4:
			if random.IntN(100) == 0 {
				nowNs -= random.Int64N(5_000_000_000)
			}
		}
		ns := g.time(t, nowNs)
		if g.seeds > seeds {
			source = rand.NewChaCha8(*g.seedFor(seeds))
			seeds = g.seeds
		}
		wantNs := p.realTimeNsAscending(nowNs)
		if ns != wantNs {
			t.Fatalf("call %d at %d: time %d, want %d", i, nowNs, ns, wantNs)
		}
		us := ns / 1000
		if i%3 == 0 { // uuidv7(shift): whole microseconds move, nanoseconds stay
			us += random.Int64N(2e15) - 1e15
		}
		got, code := g.UUID(us, ns%1000)
		want := p.generate(uint64(us/1000), uint32(us%1000*1000+ns%1000), func(to []byte) {
			binary.BigEndian.PutUint64(to, source.Uint64())
		})
		if code != Issued || got != want {
			t.Fatalf("call %d at %d: got %s code %d, want %s", i, nowNs, uuidText(got), code, uuidText(want))
		}
	}
	if seeds < 1000 {
		t.Errorf("only %d seeds", seeds)
	}
}

// The stream is the published one, the rest was worked out by hand.
func TestUUID7KnownAnswer(t *testing.T) {
	var g u7
	for i, want := range []string{"019b76da-a87b-774f-b773-b6063d4616a5", "019b76da-a87b-7750-9160-af22a66abc3c"} {
		if u := g.make(t, u7Ns); uuidText(u) != want {
			t.Errorf("UUID %d is %s, want %s", i, uuidText(u), want)
		}
	}
}

// vectordotdev/vrl#1955: the time was rounded, so ids came from a millisecond to come.
func TestUUID7TimeIsFloored(t *testing.T) {
	var g u7
	if u := uuidText(g.make(t, u7Ns)); !strings.HasPrefix(u, "019b76da-a87b-7") {
		t.Errorf("2026-01-01T00:00:00.123456789Z gave %s", u)
	}
	// aws/pg_tle PR#242: .814624 gave 018bd546-3fef, which is .815.
	us := unixUs(t, "2023-11-15T23:17:12.814624Z")
	u, code := g.UUID(us, 0)
	if code != Issued || !strings.HasPrefix(uuidText(u), "018bd546-3fee-7") {
		t.Errorf("aws/pg_tle PR#242: %s code %d", uuidText(u), code)
	}
	if back, ok := UUID7Time(&u); !ok || back != us-624 {
		t.Errorf("aws/pg_tle PR#242: %s carries %d", uuidText(u), back)
	}
	// timescale/timescaledb#8875: a microsecond too low. In rand_a each microsecond is its own, rounded down.
	for us := range int64(1000) {
		for _, extraNs := range []int64{0, 1, 500, 999} {
			u, _ := g.UUID(u7Ns/1_000_000*1000+us, extraNs)
			randA := int64(binary.BigEndian.Uint16(u[6:8]) & 4095)
			if ns := us*1000 + extraNs; randA*1_000_000 > ns*4096 || (randA+1)*1_000_000 <= ns*4096 {
				t.Fatalf("%d ns give rand_a %d", ns, randA)
			}
		}
	}
}

// u7Rises makes 100,000 UUIDs with a clock and holds that they rise, with the right marks and no time before the
// clock's.
func u7Rises(t *testing.T, g *u7, clock func(i int) int64) {
	t.Helper()
	var last [16]byte
	for i := range 100_000 {
		nowNs := clock(i)
		u := g.make(t, nowNs)
		if bytes.Compare(u[:], last[:]) <= 0 {
			t.Fatalf("call %d at %d: %s after %s", i, nowNs, uuidText(u), uuidText(last))
		}
		if u[6]>>4 != 7 || u[8]>>6 != 2 {
			t.Fatalf("call %d: %s has not version 7 and the RFC's variant", i, uuidText(u))
		}
		if us, ok := UUID7Time(&u); !ok || us < nowNs/1_000_000*1000 {
			t.Fatalf("call %d at %d: %s carries %d", i, nowNs, uuidText(u), us)
		}
		last = u
	}
}

// fboulnois/pg_uuidv7#10, gofrs/uuid#254: the order broke when a counter of 12 bits wrapped, or at once.
func TestUUID7Rises(t *testing.T) {
	for name, clock := range map[string]func(i int) int64{
		"a moving clock":      func(i int) int64 { return u7Ns + 1000*int64(i) },
		"a slowly moving one": func(i int) int64 { return u7Ns + 100*int64(i) },
		"a frozen clock":      func(i int) int64 { return u7Ns },
		"a clock set back":    func(i int) int64 { return u7Ns + 1000*int64(i) - int64(i/10_000)*3600e9 },
		"a clock that jumps":  func(i int) int64 { return u7Ns + 1000*int64(i) + int64(i%2)*100e6 },
		"a coarse clock":      func(i int) int64 { return (u7Ns + 300*int64(i)) / 4_000_000 * 4_000_000 },
		"a clock before 1970": func(i int) int64 { return -5e9 + 1000*int64(i) },
	} {
		t.Run(name, func(t *testing.T) { u7Rises(t, new(u7), clock) })
	}
}

// A clock that runs faster than ids are made is followed to the nanosecond.
func TestUUID7FollowsTheClock(t *testing.T) {
	var g u7
	for i := range int64(10_000) {
		if now := u7Ns + i*uuid7StepNs; g.time(t, now) != now {
			t.Fatalf("call %d: the time is not the clock's", i)
		}
	}
	now := int64(u7Ns + 10_000*uuid7StepNs)
	if got := g.time(t, now-1); got != now {
		t.Errorf("a clock a nanosecond short of the least step: %d, want %d", got, now)
	}
}

// python/cpython#138862: after the counter had overflowed once, every call added a millisecond.
func TestUUID7FrozenClockAddsOneMillisecondOnce(t *testing.T) {
	const ms = int64(u7Ns / 1_000_000)
	var g u7
	for i := range int64(4082 + 1000) { // 4082 steps of 245 ns begin within a millisecond
		u := g.make(t, ms*1_000_000)
		want := ms
		if i >= 4082 {
			want++
		}
		if us, _ := UUID7Time(&u); us != want*1000 {
			t.Fatalf("call %d: %s carries %d ms, want %d", i, uuidText(u), us/1000, want)
		}
	}
}

// u7Dump is all that a generator remembers.
func u7Dump(t *testing.T, g *UUID7) string {
	t.Helper()
	var stream []byte
	if g.source != nil {
		var err error
		if stream, err = g.source.MarshalBinary(); err != nil {
			t.Fatal(err)
		}
	}
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], uint64(g.previousNs))
	binary.BigEndian.PutUint64(numbers[8:], uint64(g.seededNs))
	return string(numbers[:]) + string(stream)
}

func TestUUID7SeedFirst(t *testing.T) {
	refuses := func(name string, g *UUID7, nowNs int64) {
		t.Helper()
		before := u7Dump(t, g)
		for range 3 {
			if ns, code := g.Next(nowNs); ns != 0 || code != SeedFirst {
				t.Errorf("%s: got %d code %d, want SeedFirst", name, ns, code)
			}
		}
		if u7Dump(t, g) != before {
			t.Errorf("%s: refused, but something changed", name)
		}
	}
	gives := func(name string, g *UUID7, nowNs, want int64) {
		t.Helper()
		if ns, code := g.Next(nowNs); ns != want || code != Issued {
			t.Errorf("%s: got %d code %d, want %d", name, ns, code, want)
		}
	}
	for _, nowNs := range []int64{0, 1, 999_999_999, 1e9, u7Ns, -1, math.MinInt64, math.MaxInt64} {
		refuses("first use", new(UUID7), nowNs)
	}
	var g UUID7
	g.Seed(&u7Seed, u7Ns)
	gives("just seeded", &g, u7Ns, u7Ns)
	gives("just under a second old", &g, u7Ns+999_999_999, u7Ns+999_999_999)
	refuses("a second old", &g, u7Ns+1e9)
	refuses("an hour old", &g, u7Ns+3600e9)
	refuses("the clock a nanosecond before the seed", &g, u7Ns-1)
	refuses("the clock an hour before the seed", &g, u7Ns-3600e9)
	g.Seed(&u7Seed, u7Ns-3600e9)
	gives("seeded after the clock went back", &g, u7Ns-3600e9, u7Ns+999_999_999+uuid7StepNs)
	refuses("and forth again", &g, u7Ns)
	g.Seed(&u7Seed, u7Ns+5e9)
	gives("seeded anew", &g, u7Ns+5e9, u7Ns+5e9)
}

// Entropy serves other makers of ids too, which ask it themselves.
func TestEntropyReady(t *testing.T) {
	var e Entropy
	if code := e.Ready(0); code != SeedFirst {
		t.Errorf("never seeded: code %d", code)
	}
	e.Seed(&u7Seed, u7Ns)
	for ageNs, want := range map[int64]Code{0: Issued, 1: Issued, 999_999_999: Issued, 1e9: SeedFirst, 1e18: SeedFirst,
		-1: SeedFirst, -1e18: SeedFirst, math.MinInt64: SeedFirst} {
		if code := e.Ready(u7Ns + ageNs); code != want {
			t.Errorf("seeded %d ns ago: code %d, want %d", ageNs, code, want)
		}
	}
}

// A seed begins the stream anew: nothing of the one before is left, and two seeds never give the same.
func TestUUID7Streams(t *testing.T) {
	stream := func(g *UUID7) (words [100]uint64) {
		for i := range words {
			words[i] = g.Random()
		}
		return words
	}
	other := u7Seed
	other[31] ^= 1 // one bit
	var a, b, c UUID7
	a.Seed(&u7Seed, u7Ns)
	b.Seed(&other, u7Ns)
	fromA, fromB := stream(&a), stream(&b)
	for i := range fromA {
		if fromA[i] == fromB[i] {
			t.Errorf("word %d is the same for two seeds", i)
		}
	}
	for i, word := range []uint64{0xb773b6063d4616a5, 0x1160af22a66abc3c, 0x8c2599d9418d287c, 0x7ee07e037edc5cd6} {
		if fromA[i] != word {
			t.Errorf("word %d is %x, %x is published", i, fromA[i], word)
		}
	}
	c.Seed(&u7Seed, u7Ns)
	c.Random()
	c.Seed(&other, u7Ns)
	if stream(&c) != fromB {
		t.Error("something of the first seed was left")
	}
	a.Seed(&u7Seed, u7Ns)
	if stream(&a) != fromA {
		t.Error("the same seed gave another stream")
	}
}

// All 62 bits are random and no other is.
func TestUUID7RandomBits(t *testing.T) {
	var g u7
	var ones, zeros uint64
	for range 1000 {
		u := g.make(t, u7Ns)
		ones |= binary.BigEndian.Uint64(u[8:])
		zeros |= ^binary.BigEndian.Uint64(u[8:])
	}
	if ones != 1<<63|1<<62-1 || zeros != 1<<62|(1<<62-1) {
		t.Errorf("bits that were ever set %x, ever clear %x", ones, zeros)
	}
}

func TestUUID7OutOfRange(t *testing.T) {
	var g UUID7
	g.Seed(&u7Seed, 0)
	const last = (1<<48-1)*1000 + 999
	for _, c := range []struct {
		us, extraNs int64
		prefix      string // none when out of range
	}{
		{0, 0, "00000000-0000-7000-"},
		{0, 999, "00000000-0000-7004-"},
		{999, 999, "00000000-0000-7fff-"},
		{1000, 0, "00000000-0001-7000-"},
		{last - 999, 0, "ffffffff-ffff-7000-"},
		{last, 999, "ffffffff-ffff-7fff-"},
		{last + 1, 0, ""},
		{last + 1e9, 0, ""},
		{math.MaxInt64 - 1, 999, ""},
		{math.MaxInt64, 0, ""},
		{-1, 0, ""},
		{-1, 999, ""},
		{-1000, 0, ""},
		{minTimestampUs, 0, ""},
		{math.MinInt64, 0, ""},
	} {
		u, code := g.UUID(c.us, c.extraNs)
		if c.prefix == "" {
			if code != TimeOutOfRange || u != [16]byte{} {
				t.Errorf("%d: got %s code %d, want TimeOutOfRange", c.us, uuidText(u), code)
			}
			continue
		}
		if code != Issued || !strings.HasPrefix(uuidText(u), c.prefix) {
			t.Errorf("%d and %d ns: got %s code %d, want %s...", c.us, c.extraNs, uuidText(u), code, c.prefix)
		}
	}
}

// As PostgreSQL's regression test of uuidv7(shift): the years it allows never decrease.
func TestUUID7YearsNeverDecrease(t *testing.T) {
	var g u7
	g.time(t, u7Ns)
	var last [16]byte
	for year := 1970; year <= 10888; year++ {
		us := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		u, code := g.UUID(us, 0)
		if code != Issued || bytes.Compare(u[:], last[:]) <= 0 {
			t.Fatalf("year %d: %s code %d after %s", year, uuidText(u), code, uuidText(last))
		}
		if got, ok := UUID7Time(&u); !ok || got != us {
			t.Fatalf("year %d: %s carries %d, want %d", year, uuidText(u), got, us)
		}
		last = u
	}
}

func TestUUID7TimeWantsVersionAndVariant(t *testing.T) {
	for version := range 16 {
		for variant := range 16 {
			u := uuidBytes(t, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
			u[6], u[8] = byte(version)<<4|u[6]&15, byte(variant)<<4|u[8]&15
			us, ok := UUID7Time(&u)
			if want := version == 7 && variant >= 8 && variant < 12; ok != want || !ok && us != 0 {
				t.Errorf("%s: %d %v", uuidText(u), us, ok)
			}
		}
	}
}

func FuzzUUID7(f *testing.F) {
	for _, us := range []int64{0, -1, u7Ns / 1000, (1<<48 - 1) * 1000, (1 << 48) * 1000, math.MaxInt64, math.MinInt64} {
		f.Add(us, uint16(0))
		f.Add(us, uint16(999))
	}
	var g UUID7
	g.Seed(&u7Seed, 0)
	f.Fuzz(func(t *testing.T, us int64, extra uint16) {
		extraNs := int64(extra % 1000)
		u, code := g.UUID(us, extraNs)
		if inRange := us >= 0 && us < 1<<48*1000; inRange != (code == Issued) {
			t.Fatalf("%d: code %d", us, code)
		} else if !inRange {
			return
		}
		if got, ok := UUID7Time(&u); !ok || got != us/1000*1000 {
			t.Fatalf("%d: %s carries %d %v", us, uuidText(u), got, ok)
		}
	})
}

func TestUUID7DoesNotAllocate(t *testing.T) {
	var g UUID7
	nowNs := int64(u7Ns)
	g.Seed(&u7Seed, nowNs)
	if n := testing.AllocsPerRun(10_000, func() {
		nowNs += 50_000 // half a second in all
		ns, code := g.Next(nowNs)
		u, code2 := g.UUID(ns/1000, ns%1000)
		if _, ok := UUID7Time(&u); code != Issued || code2 != Issued || !ok {
			t.Fatal("not issued")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a UUID", n)
	}
	if n := testing.AllocsPerRun(100, func() { nowNs += 1e9; g.Next(nowNs); g.Seed(&u7Seed, nowNs) }); n != 0 {
		t.Errorf("%v allocations for a new seed", n)
	}
}

var u7Sink [16]byte

func BenchmarkUUID7(b *testing.B) {
	var g u7
	nowNs := int64(u7Ns)
	for b.Loop() {
		ns, code := g.Next(nowNs)
		if code == SeedFirst {
			g.Seed(&u7Seed, nowNs)
			continue
		}
		u7Sink, _ = g.UUID(ns/1000, ns%1000)
		nowNs += uuid7StepNs
	}
}
