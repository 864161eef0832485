package main

// target is a figure that this project promises: what it must be, and what it aims at.
type target struct {
	figure    string
	must, aim float64
	atLeast   bool // else at most
	measured  func(b *bench) []float64
}

var targets = []target{
	{"`snowflake_next()` to `nextval()`, a call, one session", 1.0, 0.5, false,
		func(b *bench) []float64 { return b.ratio("call/"+next, "call/"+nextval) }},
	{"the same, ids in the time of two sessions on leases", 1.3, 2.0, true,
		func(b *bench) []float64 {
			return b.ratio(crowdFigure("rate", leases, 2), crowdFigure("rate", nextval, 2))
		}},
	{"one worker in sets of 1000, part of the format's 4096 ids a ms", 0.90, 0.98, true,
		func(b *bench) []float64 {
			rate := b.figures[crowdFigure("rate", oneSet, 1)]
			return combine(rate, rate, func(ids, _ float64) float64 { return ids / 4.096 })
		}},
	{"`snowflake_next(1000)`, an id, to `snowflake_next()`", 0.5, 0.2, false,
		func(b *bench) []float64 { return b.ratio("call/"+nextSet, "call/"+next) }},
	{"`uuidv7()` to that of PostgreSQL 18, a call", 0.4, 0.17, false,
		func(b *bench) []float64 { return b.ratio("call 18/"+uuidv7, "call 18/"+uuid18) }},
	{"INSERT by DEFAULT, to identity", 1.05, 1.0, false,
		func(b *bench) []float64 { return b.ratio("insert 1/"+snowflakeKey, "insert 1/"+identityKey) }},
	{"INSERT by DEFAULT of `uuidv7()`, to `gen_random_uuid()`", 0.7, 0.4, false,
		func(b *bench) []float64 { return b.ratio("insert 1/"+uuidv7Key, "insert 1/"+randomKey) }},
	{"`snowflake_timestamp(id)` to `extract(epoch FROM ts)`, a row", 2, 1, false,
		func(b *bench) []float64 { return b.ratio("decode/"+decoding, "decode/"+extracting) }},
	{"`snowflake_between` to the same range on an indexed timestamptz", 1.1, 1.0, false,
		func(b *bench) []float64 { return b.ratio("range/"+byID, "range/"+byTime) }},
	{"first call of a session, more than `nextval()`, ms", 4, 1.5, false,
		func(b *bench) []float64 { return b.difference("visit/call/"+next, "visit/call/"+nextval) }},
	{"private memory of a session more, MB", 1.5, 0.8, false,
		func(b *bench) []float64 { return b.resident("private") }},
	{"committed memory of a session more, MB", 16, 8, false,
		func(b *bench) []float64 { return b.resident("committed") }},
	{"idle sessions, ms of processor of Go's threads", 0, 0, false,
		func(b *bench) []float64 { return b.figures["idle/cpu/Go's threads of these"] }},
	{"idle sessions, context switches of Go's threads", 0, 0, false,
		func(b *bench) []float64 { return b.figures["idle/switches/Go's threads of these"] }},
	{"processor an id with leases, the most sessions to one", 1.2, 1.0, false,
		func(b *bench) []float64 { return b.growth() }},
}

// resident is a figure of memory in the middle one of the crowds.
func (b *bench) resident(what string) []float64 {
	return b.figures[memoryFigure(what, b.residents[len(b.residents)/2])]
}

// targetsTable holds the medians against the targets.
func (b *bench) targetsTable() string {
	var rows [][]string
	for _, t := range targets {
		values := t.measured(b)
		sign, verdict := "≤ ", "not measured"
		if t.atLeast {
			sign = "≥ "
		}
		if len(values) > 0 {
			verdict = t.verdict(median(values))
		}
		rows = append(rows, []string{t.figure, sign + number(t.must), sign + number(t.aim), cell(values), verdict})
	}
	return table([]string{"figure", "must", "aim", "measured", "met"}, rows)
}

func (t target) verdict(value float64) string {
	meets := func(bound float64) bool {
		if t.atLeast {
			return value >= bound
		}
		return value <= bound
	}
	switch {
	case meets(t.aim):
		return "aim"
	case meets(t.must):
		return "must"
	}
	return "**missed**"
}
