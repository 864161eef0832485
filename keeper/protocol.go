// Package keeper decides how a server holds a worker id that is unique over many servers.
//
// One PostgreSQL, the arbiter, keeps a row for each worker: who holds it and until when. A server's lease keeper (the
// Holder of this package) claims a worker there, renews it and gives it back. The package only decides: clocks and
// the way to the arbiter are the caller's, so that a simulator can stand in for both. Over pgx it is package arbiter.
//
// Two rules keep ids of different servers apart, and each does so alone while its conditions hold:
//
//   - Time of ids. A grant carries an interval: ids under it have times from its floor on and before its end. The next
//     grant of that worker to another server begins where the former one ended. This needs no clock at all, only that
//     the arbiter forgets nothing.
//   - Time of day. A holder stops on its own monotonic clock, counted from before it asked, a margin before the arbiter
//     would give the worker away.
//
// An arbiter that failed over may have forgotten the last grants. It notices, as its timeline is another one, and grants
// nothing for as long as a forgotten lease can last, then only above the times that such a lease can have carried.
// Meanwhile it confirms whoever renews: a holder does so only while its lease has not ended.
package keeper

// Margin is the part of a lease's length by which a holder stops before the arbiter may give its worker away: one
// MarginParts-th of it. It covers clocks that run at different rates and small steps of the arbiter's clock.
const MarginParts = 10

// Kind says what a Request asks for.
type Kind int32

// The kinds of requests.
const (
	Claim    Kind = iota // a worker between Low and High
	Renew                // go on with Worker, whose lease has not ended
	GiveBack             // Worker is needed no more; its ids have times before LastMs
)

// Request is what a holder asks of the arbiter.
type Request struct {
	Kind   Kind
	Holder string // tells this start of this server from all others; a copied data directory does not share it
	Name   string // the same for people
	Token  int64  // rises with a holder's claims; a grant is known by the token of its claim
	TTLMs  int64  // how long a grant is to last, milliseconds
	NowMs  int64  // Claim: the holder's clock, Unix milliseconds; workers whose floor it has passed are preferred
	Low    int32  // Claim: the worker ids that will do, 0..1023
	High   int32
	Worker int32 // Renew, GiveBack
	LastMs int64 // GiveBack: the end of the interval that was used, Unix milliseconds
}

// Outcome says what became of a Request.
type Outcome int32

// The outcomes.
const (
	Granted    Outcome = iota // Claim, Renew: the grant is in the reply. GiveBack: done
	Taken                     // Claim: no worker is free
	Lost                      // Renew, GiveBack: the arbiter knows nothing of this grant
	Quarantine                // Claim: the arbiter has failed over and grants nothing before QuietMs
	TTLTooLong                // TTLMs is more than the arbiter's MaxTTLMs
)

// Reply is the arbiter's answer. Times are Unix milliseconds of the arbiter's clock.
type Reply struct {
	Outcome   Outcome
	Worker    int32
	FloorMs   int64  // ids have times from here on
	UntilMs   int64  // and before this
	WaitMs    int64  // Taken, Quarantine: milliseconds until asking again may succeed
	QuietMs   int64  // Quarantine
	MaxTTLMs  int64  // TTLTooLong
	Other     string // Taken: the name of the holder of the one worker that was asked for
	Connected bool   // and whether it has a session at the arbiter
}
