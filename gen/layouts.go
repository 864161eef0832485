package gen

// layout says where an id of another system keeps its parts. Each part is a run of bits; what lies above the
// time, if anything, is the sign bit and must be zero.
type layout struct {
	name          string
	epochMs       int64 // what the time counts from, Unix milliseconds
	unitMs        int64 // what the time counts in, milliseconds
	timeShift     uint8
	nodeShift     uint8
	nodeBits      uint8
	sequenceShift uint8
	sequenceBits  uint8
	signed        bool // bit 63 belongs to the time, so a negative bigint is a late id
}

// layouts is sorted by name.
var layouts = [...]layout{
	// Discord, developer documentation, "Snowflakes": milliseconds since 2015-01-01 in bits 63-22, worker in
	// 21-17, process in 16-12, increment in 11-0. Worker and process are shown as one node number,
	// worker*32 + process. Discord writes ids as unsigned decimals: those with bit 63 set, from 2084-09-06 on, do
	// not fit a bigint at all, so a negative bigint is none of them.
	{name: "discord", epochMs: 1420070400000, unitMs: 1, timeShift: 22, nodeShift: 12, nodeBits: 10, sequenceBits: 12},

	// Instagram, engineering blog, "Sharding & IDs at Instagram": milliseconds since 2011-08-24T21:07:01.721Z in
	// all of bits 63-23, logical shard in 22-10, sequence in 9-0. Its PL/pgSQL function returns a bigint and
	// shifts into the sign bit, so from 2046-06-27 on ids are negative bigints; they are decoded as the 64 bits
	// they are.
	{name: "instagram", epochMs: 1314220021721, unitMs: 1, timeShift: 23, nodeShift: 10, nodeBits: 13, sequenceBits: 10, signed: true},

	// Mastodon, lib/mastodon/snowflake.rb: Unix milliseconds in bits 62-16, and in 15-0 a tail without inner
	// parts, a counter that starts at a hash (random for posts from elsewhere). It is shown as the sequence; there is
	// no node.
	{name: "mastodon", unitMs: 1, timeShift: 16, sequenceBits: 16},

	// pgEdge snowflake, since 2023-10-31: milliseconds since 2023-01-01 in bits 62-22, node in 21-12, counter in
	// 11-0. Ids made before have the node in the lowest bits, and nothing in an id tells which kind it is.
	{name: "pgedge", epochMs: 1672531200000, unitMs: 1, timeShift: 22, nodeShift: 12, nodeBits: 10, sequenceBits: 12},

	// Sonyflake version 1, its README: units of 10 ms since the start time in bits 62-24, sequence in 23-16,
	// machine in 15-0. The start is version 1's default, 2014-09-01; ids made with a start of one's own, or by
	// version 2, whose default is 2025-01-01, come out off by the difference.
	{name: "sonyflake", epochMs: 1409529600000, unitMs: 10, timeShift: 24, nodeBits: 16, sequenceShift: 16, sequenceBits: 8},

	// Twitter, the snowflake service: milliseconds since 2010-11-04T01:42:54.657Z in bits 62-22, data centre in
	// 21-17 and worker in 16-12, shown as one node number, sequence in 11-0.
	{name: "twitter", epochMs: 1288834974657, unitMs: 1, timeShift: 22, nodeShift: 12, nodeBits: 10, sequenceBits: 12},
}

// Layouts lists the names that ParseAs knows, sorted.
func Layouts() []string {
	names := make([]string, len(layouts))
	for i := range layouts {
		names[i] = layouts[i].name
	}
	return names
}

// ParseAs takes apart an id of another system, by the name of its layout in lower case: discord, instagram,
// mastodon, pgedge, sonyflake (version 1 with its default start time) or twitter.
//
// createdUs is in Unix microseconds, a whole number of milliseconds, of 10 ms for sonyflake. node is the machine,
// shard or worker of the layout: 0..1023 for discord, pgedge and twitter, 0..8191 for instagram, 0..65535 for
// sonyflake, and 0 for mastodon, whose ids name none. sequence is 0..4095, 0..1023 for instagram, 0..255 for
// sonyflake and 0..65535 for mastodon, where it is the whole tail.
//
// Code is UnknownLayout for any other name, and Negative for an id below 0 in every layout but instagram, which
// uses bit 63 for its time. On any code but Issued the other results are 0.
func ParseAs(name string, id int64) (createdUs, node, sequence int64, code Code) {
	for i := range layouts {
		if layouts[i].name == name {
			return layouts[i].parse(id, layouts[i].epochMs)
		}
	}
	return 0, 0, 0, UnknownLayout
}

// parse is ParseAs for one layout, counting time from startMs, Unix milliseconds.
func (l *layout) parse(id, startMs int64) (createdUs, node, sequence int64, code Code) {
	if id < 0 && !l.signed {
		return 0, 0, 0, Negative
	}
	bits := uint64(id)
	createdUs = (startMs + int64(bits>>l.timeShift)*l.unitMs) * usPerMs
	node = int64(bits >> l.nodeShift & (1<<l.nodeBits - 1))
	sequence = int64(bits >> l.sequenceShift & (1<<l.sequenceBits - 1))
	return createdUs, node, sequence, Issued
}
