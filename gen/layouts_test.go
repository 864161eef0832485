package gen

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// unixUs reads a time in RFC 3339 form, UTC, as Unix microseconds. Years may have five digits.
func unixUs(t testing.TB, text string) int64 {
	t.Helper()
	years := 0
	if year, rest, _ := strings.Cut(text, "-"); len(year) == 5 { // RFC 3339 has four; the calendar repeats in 400 years
		years, text = 8000, "2"+year[2:]+"-"+rest
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.AddDate(years, 0, 0).UnixMicro()
}

type partsAs struct{ createdUs, node, sequence int64 }

// idFormula builds an id of a layout from its parts as the system's own description says, written out here apart
// from the table that decodes.
var idFormula = map[string]func(p partsAs) int64{
	"discord": func(p partsAs) int64 {
		worker, process := p.node/32, p.node%32
		return (p.createdUs/1000-1420070400000)*4194304 + worker*131072 + process*4096 + p.sequence
	},
	"instagram": func(p partsAs) int64 { // the multiplication wraps into the sign, as << 23 does in the function
		return (p.createdUs/1000-1314220021721)*8388608 + p.node*1024 + p.sequence
	},
	"mastodon": func(p partsAs) int64 { return p.createdUs/1000*65536 + p.sequence },
	"pgedge": func(p partsAs) int64 {
		return (p.createdUs/1000-1672531200000)*4194304 + p.node*4096 + p.sequence
	},
	"sonyflake": func(p partsAs) int64 {
		return (p.createdUs/1000-1409529600000)/10*16777216 + p.sequence*65536 + p.node
	},
	"twitter": func(p partsAs) int64 {
		centre, worker := p.node/32, p.node%32
		return (p.createdUs/1000-1288834974657)*4194304 + centre*131072 + worker*4096 + p.sequence
	},
}

// Published ids with parts that are published too or recomputed from the published layout.
var publishedIDs = []struct {
	layout   string
	id       int64
	created  string
	node     int64
	sequence int64
	source   string
}{
	{"discord", 175928847299117063, "2016-04-30T11:18:25.796Z", 32, 7, "Discord documentation"},
	{"discord", 266241948824764416, "2017-01-04T16:30:27.136Z", 32, 0, "discord.js documentation"},
	{"discord", 90339695967350784, "2015-09-07T06:57:41.949Z", 3, 0, "npm discord-snowflake"},
	{"discord", 105484726235607040, "2015-10-19T01:58:38.546Z", 11, 0, "twilight-util documentation"},
	{"discord", 937847820382261308, "2022-01-31T23:12:24.749Z", 37, 60, "pcordjs/snowflake"},
	{"discord", 756403198394237027, "2020-09-18T06:36:15.789Z", 32, 99, "npm snowflake-util"},
	{"twitter", 1541815603606036480, "2022-06-28T16:07:40.105Z", 378, 0, "Wikipedia, Snowflake ID"},
	{"twitter", 1382350606417817604, "2021-04-14T15:10:42.059Z", 327, 4, "techconverter.me (its printed time is wrong)"},
	{"twitter", 1529877576591609861, "2022-05-26T17:30:12.667Z", 321, 5, "techconverter.me"},
	{"twitter", 1116766490855473152, "2019-04-12T18:14:14.595Z", 0, 0, "bwmarrin/snowflake tests"},
	{"twitter", 1427970479175499776, "2021-08-18T12:27:47.301Z", 0, 0, "bwmarrin/snowflake tests"},
	{"twitter", 1428076403798048768, "2021-08-18T19:28:41.699Z", 0, 0, "bwmarrin/snowflake tests"},
	{"twitter", 1593572310593806338, "2022-11-18T11:50:20.644Z", 378, 2, "sapphiredev/utilities#521"},
	{"pgedge", 170505378935607296, "2024-04-15T12:07:30.175Z", 1, 0, "pgEdge hibernate.md"},
	{"pgedge", 136169504773242881, "2024-01-11T18:08:59.845Z", 0, 1, "pgEdge documentation (made with the layout before 2023-10-31: node 1 there)"},
	{"instagram", 11637205501278089, "2011-09-09T22:28:04.721Z", 1341, 905, "Instagram engineering blog, worked example"},
	// The created_at printed beside it, 03:48:33.901Z, is the application's; the id has the database's clock.
	{"mastodon", 103270115826048975, "2019-12-08T03:48:33.849Z", 0, 40911, "Mastodon documentation, Status entity"},
}

func TestParseAsPublishedIDs(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range publishedIDs {
		seen[v.layout] = true
		us, node, sequence, code := ParseAs(v.layout, v.id)
		if code != Issued || us != unixUs(t, v.created) || node != v.node || sequence != v.sequence {
			t.Errorf("%s %d (%s): got %s node %d sequence %d code %d, want %s %d %d", v.layout, v.id, v.source,
				time.UnixMicro(us).UTC(), node, sequence, code, v.created, v.node, v.sequence)
		}
		if again := idFormula[v.layout](partsAs{us, node, sequence}); again != v.id {
			t.Errorf("%s %d: parts make %d", v.layout, v.id, again)
		}
	}
	for _, name := range Layouts() {
		if !seen[name] && name != "sonyflake" { // which is below, its published id has a start of its own
			t.Errorf("%s has no published id here", name)
		}
	}
}

func TestSonyflakeStart(t *testing.T) {
	// osamingo/indigo#36: start 2017-10-11T08:00Z, and its log shows the time.
	const id = 126985290920230913
	at := slices.IndexFunc(layouts[:], func(l layout) bool { return l.name == "sonyflake" })
	us, machine, sequence, code := layouts[at].parse(id, unixUs(t, "2017-10-11T08:00:00Z")/1000)
	if code != Issued || us != unixUs(t, "2020-03-05T08:45:31.570Z") || machine != 1 || sequence != 0 {
		t.Errorf("osamingo/indigo#36: got %s machine %d sequence %d code %d", time.UnixMicro(us).UTC(), machine, sequence, code)
	}

	// By name it is version 1's default, 2014-09-01.
	us, machine, sequence, code = ParseAs("sonyflake", 1<<24|2<<16|3)
	if code != Issued || us != unixUs(t, "2014-09-01T00:00:00.010Z") || machine != 3 || sequence != 2 {
		t.Errorf("default start: got %s machine %d sequence %d code %d", time.UnixMicro(us).UTC(), machine, sequence, code)
	}
	us, _, _, _ = ParseAs("sonyflake", id)
	if want := unixUs(t, "2017-01-24T00:45:31.570Z"); us != want {
		t.Errorf("default start: got %s, want 7568913157 units of 10 ms after 2014-09-01", time.UnixMicro(us).UTC())
	}
}

func TestParseAsLimits(t *testing.T) {
	for _, c := range []struct {
		layout         string
		id             int64
		created        string
		node, sequence int64
	}{
		{"discord", 0, "2015-01-01T00:00:00Z", 0, 0},
		{"discord", math.MaxInt64, "2084-09-06T15:47:35.551Z", 1023, 4095},
		{"instagram", 0, "2011-08-24T21:07:01.721Z", 0, 0},
		{"instagram", math.MaxInt64, "2046-06-27T17:00:49.496Z", 8191, 1023},
		{"instagram", math.MinInt64, "2046-06-27T17:00:49.497Z", 0, 0}, // the next millisecond sets the sign
		{"instagram", -1, "2081-04-30T12:54:37.272Z", 8191, 1023},
		{"mastodon", 0, "1970-01-01T00:00:00Z", 0, 0},
		{"mastodon", math.MaxInt64, "6429-10-17T02:45:55.327Z", 0, 65535},
		{"pgedge", 0, "2023-01-01T00:00:00Z", 0, 0},
		{"pgedge", math.MaxInt64, "2092-09-06T15:47:35.551Z", 1023, 4095},
		{"sonyflake", 0, "2014-09-01T00:00:00Z", 0, 0},
		{"sonyflake", math.MaxInt64, "2188-11-16T03:28:58.870Z", 65535, 255},
		{"twitter", 0, "2010-11-04T01:42:54.657Z", 0, 0},
		{"twitter", math.MaxInt64, "2080-07-10T17:30:30.208Z", 1023, 4095},
	} {
		us, node, sequence, code := ParseAs(c.layout, c.id)
		if code != Issued || us != unixUs(t, c.created) || node != c.node || sequence != c.sequence {
			t.Errorf("%s %d: got %s node %d sequence %d code %d, want %s %d %d", c.layout, c.id,
				time.UnixMicro(us).UTC(), node, sequence, code, c.created, c.node, c.sequence)
		}
	}
}

func TestParseAsRefuses(t *testing.T) {
	for _, name := range Layouts() {
		for _, id := range []int64{-1, math.MinInt64} {
			us, node, sequence, code := ParseAs(name, id)
			if name == "instagram" {
				if code != Issued {
					t.Errorf("instagram %d: code %d, but its time takes bit 63", id, code)
				}
				continue
			}
			if code != Negative || us != 0 || node != 0 || sequence != 0 {
				t.Errorf("%s %d: got %d %d %d code %d, want Negative", name, id, us, node, sequence, code)
			}
		}
	}
	for _, name := range []string{"", "Twitter", "TWITTER", " twitter", "twitter ", "twitte", "twitters", "x", "snowflake", "twitter\x00"} {
		if us, node, sequence, code := ParseAs(name, 1541815603606036480); code != UnknownLayout || us != 0 || node != 0 || sequence != 0 {
			t.Errorf("%q: got %d %d %d code %d, want UnknownLayout", name, us, node, sequence, code)
		}
	}
}

func TestLayouts(t *testing.T) {
	want := []string{"discord", "instagram", "mastodon", "pgedge", "sonyflake", "twitter"}
	got := Layouts()
	if !slices.Equal(got, want) || !slices.IsSorted(got) {
		t.Errorf("got %q, want %q", got, want)
	}
	got[0] = "changed"
	if Layouts()[0] != "discord" {
		t.Error("the caller's copy is the package's")
	}
}

func TestParseAsAllBitsAccountedFor(t *testing.T) {
	for range 100_000 {
		checkParseAs(t, int64(rand.Uint64()))
	}
}

// checkParseAs holds that a decoded id, put together again by the published formula, is the same id.
func checkParseAs(t *testing.T, id int64) {
	for _, name := range Layouts() {
		us, node, sequence, code := ParseAs(name, id)
		if id < 0 && name != "instagram" {
			if code != Negative {
				t.Fatalf("%s %d: code %d", name, id, code)
			}
			continue
		}
		if code != Issued || us%1000 != 0 || node < 0 || sequence < 0 || !finite(us) {
			t.Fatalf("%s %d: got %d %d %d code %d", name, id, us, node, sequence, code)
		}
		if again := idFormula[name](partsAs{us, node, sequence}); again != id {
			t.Fatalf("%s %d: parts %d %d %d make %d", name, id, us, node, sequence, again)
		}
	}
}

func TestParseAsDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { ParseAs("twitter", 1541815603606036480) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseAs(f *testing.F) {
	for _, v := range publishedIDs {
		f.Add(v.id)
	}
	for _, id := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 126985290920230913} {
		f.Add(id)
	}
	f.Fuzz(checkParseAs)
}
