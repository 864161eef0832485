// Package model is the arbiter's side of the lease protocol in plain Go: what the SQL functions of
// ext/arbiter/snowflake_arbiter_setup.sql do, without a database. The simulator runs the protocol against it, and a
// test holds it to the SQL, answer for answer.
package model

import "pgsnowflake/keeper"

// Workers is how many worker ids there are.
const Workers = 1024

// Guards switch off what the arbiter keeps leases apart with, so that tests see each of them missed.
type Guards struct {
	NoExpiry, NoQuarantine, NoQuietFloor, NoToken, MayShorten bool
}

// Row is what the arbiter remembers about a worker. Times are Unix milliseconds.
type Row struct {
	Holder, Name string // the last one
	Token        int64
	Held         bool // false once it was given back
	FloorMs      int64
	UntilMs      int64
}

// Arbiter is the whole table.
type Arbiter struct {
	MaxTTLMs int64
	Term     string // names the incarnation of the arbiter that was called last
	QuietMs  int64  // before this no new lease is granted
	Rows     [Workers]Row
	Off      Guards
	// Before is called with the number of a row that is about to change, or -1 for what is not in Rows.
	Before func(worker int)
	// Connected says whether a holder has a session.
	Connected func(holder string) bool
}

// Call answers a request. nowMs is the arbiter's clock, Unix milliseconds; term names its incarnation.
func (a *Arbiter) Call(nowMs int64, term string, r keeper.Request) keeper.Reply {
	if a.Term != term {
		a.before(-1)
		if a.Term != "" && !a.Off.NoQuarantine {
			a.QuietMs = nowMs + a.MaxTTLMs + a.MaxTTLMs/keeper.MarginParts
		}
		a.Term = term
	}
	if r.TTLMs > a.MaxTTLMs {
		return keeper.Reply{Outcome: keeper.TTLTooLong, MaxTTLMs: a.MaxTTLMs}
	}
	switch r.Kind {
	case keeper.Claim:
		return a.claim(nowMs, r)
	case keeper.Renew:
		return a.renew(nowMs, r)
	}
	return a.takeBack(r)
}

func (a *Arbiter) before(worker int) {
	if a.Before != nil {
		a.Before(worker)
	}
}

func (a *Arbiter) claim(nowMs int64, r keeper.Request) keeper.Reply {
	if nowMs < a.QuietMs {
		return keeper.Reply{Outcome: keeper.Quarantine, QuietMs: a.QuietMs, WaitMs: a.QuietMs - nowMs}
	}
	worker, own := a.pick(nowMs, r)
	if worker < 0 {
		return a.taken(nowMs, r)
	}
	row := &a.Rows[worker]
	if own && r.Token <= row.Token && !a.Off.NoToken {
		return keeper.Reply{Outcome: keeper.Lost} // overtaken by a later claim
	}
	a.before(worker)
	if !own {
		row.FloorMs = row.UntilMs
	}
	if !a.Off.NoQuietFloor {
		row.FloorMs = max(row.FloorMs, a.QuietMs)
	}
	row.Holder, row.Name, row.Token = r.Holder, r.Name, r.Token
	return a.grant(nowMs, worker, r)
}

// pick chooses the worker for a claim: the one that the holder had last, else the lowest free one whose floor the
// holder's clock has passed, else the free one with the lowest floor; -1 if none is free.
func (a *Arbiter) pick(nowMs int64, r keeper.Request) (worker int, own bool) {
	worker = -1
	for w := int(r.Low); w <= int(r.High); w++ {
		row := &a.Rows[w]
		if row.Holder == r.Holder {
			return w, true
		}
		if row.Held && row.UntilMs > nowMs && !a.Off.NoExpiry {
			continue
		}
		if worker < 0 || max(row.UntilMs, r.NowMs) < max(a.Rows[worker].UntilMs, r.NowMs) {
			worker = w
		}
	}
	return worker, false
}

func (a *Arbiter) taken(nowMs int64, r keeper.Request) keeper.Reply {
	first := r.Low
	for w := r.Low; w <= r.High; w++ {
		if a.Rows[w].UntilMs < a.Rows[first].UntilMs {
			first = w
		}
	}
	reply := keeper.Reply{Outcome: keeper.Taken, WaitMs: a.Rows[first].UntilMs - nowMs}
	if r.Low == r.High {
		reply.Other = a.Rows[first].Name
		reply.Connected = a.Connected != nil && a.Connected(a.Rows[first].Holder)
	}
	return reply
}

func (a *Arbiter) renew(nowMs int64, r keeper.Request) keeper.Reply {
	row := &a.Rows[r.Worker]
	known := row.Held && row.Holder == r.Holder && (row.Token == r.Token || a.Off.NoToken)
	if !known && nowMs >= a.QuietMs {
		return keeper.Reply{Outcome: keeper.Lost}
	}
	a.before(int(r.Worker))
	if !known { // forgotten in a failover: the holder states a lease that has not ended
		row.Holder, row.Name, row.Token = r.Holder, r.Name, r.Token
		reply := a.grant(nowMs, int(r.Worker), r)
		row.FloorMs = row.UntilMs // what it was is forgotten, too
		return reply
	}
	return a.grant(nowMs, int(r.Worker), r)
}

// grant makes a row's holder have it for as long as was asked.
func (a *Arbiter) grant(nowMs int64, worker int, r keeper.Request) keeper.Reply {
	row := &a.Rows[worker]
	row.Held = true
	until := nowMs + r.TTLMs
	if !a.Off.MayShorten {
		until = max(until, row.UntilMs)
	}
	row.UntilMs = until
	return keeper.Reply{Outcome: keeper.Granted, Worker: int32(worker), FloorMs: row.FloorMs, UntilMs: row.UntilMs}
}

func (a *Arbiter) takeBack(r keeper.Request) keeper.Reply {
	row := &a.Rows[r.Worker]
	if !row.Held || row.Holder != r.Holder || row.Token != r.Token && !a.Off.NoToken {
		return keeper.Reply{Outcome: keeper.Lost}
	}
	a.before(int(r.Worker))
	row.Held = false
	row.UntilMs = min(row.UntilMs, max(row.FloorMs, r.LastMs))
	return keeper.Reply{Outcome: keeper.Granted, Worker: r.Worker}
}
