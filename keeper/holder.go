package keeper

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	nsPerMs = 1_000_000

	// renewals is how often a lease is renewed while it lasts.
	renewals = 3
	// What follows are parts of a lease's length. retryParts is of the longest pause after a failure. The others are of how
	// long an answer is waited for: to a claim, so that also an arbiter that has much to do can give it; and to all else,
	// so that a lease can be renewed once more in its time.
	retryParts    = 10
	claimParts    = 3
	patienceParts = 6
)

// Clock is a reading of a holder's clocks.
type Clock struct {
	BootNs int64 // monotonic, and counting while the machine is suspended; nanoseconds
	WallMs int64 // Unix milliseconds
}

// Want is what a server's settings ask for.
type Want struct {
	Low, High int32 // the worker ids that will do; the same for a fixed one
	TTLMs     int64
}

// Lease is what sessions may rely on: until the monotonic clock reads ValidNs they make ids as Worker, with times from
// FloorMs on and before UntilMs.
type Lease struct {
	Worker  int32
	FloorMs int64 // Unix milliseconds
	UntilMs int64 // Unix milliseconds
	ValidNs int64 // of the monotonic clock
}

// guards switch off what keeps leases apart, so that tests see each of them missed.
type guards struct {
	noValidity, noMargin, fromReceipt, noFloor, noUntil, renewEnded bool
}

// Holder is a server's side of the protocol: it says what to ask when, and which lease is held. It has at most one
// request on its way. All of its methods take a reading of the clocks that is not older than that of the call before.
type Holder struct {
	id, name string
	want     Want
	random   *rand.Rand
	off      guards

	token int64
	held  bool
	ended bool // the last lease ended without a word of the arbiter
	lease Lease

	asked    *Request // on its way
	askedNs  int64
	nextNs   int64     // when to ask next
	giveBack []Request // grants that are held no more and whose end the arbiter does not know yet
	reason   string    // why no lease is held, or why the last renewal failed
}

// NewHolder makes the holder of a server. id must be one that no other server and no copy of this one has; name is
// shown to people.
func NewHolder(id, name string, want Want, random *rand.Rand) *Holder {
	return &Holder{id: id, name: name, want: want, random: random, reason: "no answer of the arbiter yet"}
}

// Want changes what is asked for. A lease that does not fit is given up at once.
func (h *Holder) Want(now Clock, want Want) {
	if want == h.want {
		return
	}
	if h.held && (h.lease.Worker < want.Low || h.lease.Worker > want.High) {
		h.drop("the settings ask for another worker id")
	}
	h.want = want
	h.nextNs = now.BootNs
}

// Lease is the lease that may be used now, and whether there is one; if not, Reason says why.
func (h *Holder) Lease(now Clock) (Lease, bool) {
	h.end(now)
	usable := h.held && (h.off.noFloor || now.WallMs >= h.lease.FloorMs) && (h.off.noUntil || now.WallMs < h.lease.UntilMs)
	return h.lease, usable
}

// Reason says why there is no lease to use, or, while there is one, what stands in the way of the next; empty when
// nothing does. It stays the same text while the reason stays the same.
func (h *Holder) Reason(now Clock) string {
	switch {
	case !h.held || h.reason != "":
		return h.reason
	case now.WallMs < h.lease.FloorMs:
		return fmt.Sprintf("the clock must pass %s first, up to which another server could make ids as worker %d",
			showMs(h.lease.FloorMs), h.lease.Worker)
	case now.WallMs >= h.lease.UntilMs:
		return "the clock of this server is ahead of the arbiter's by more than snowflake.lease_ttl allows"
	}
	return ""
}

// Wake is when to call Next again at the latest, if nothing else happens, by the monotonic clock.
func (h *Holder) Wake(now Clock) int64 {
	wake := h.nextNs
	switch {
	case h.asked != nil:
		wake = now.BootNs + h.want.TTLMs*nsPerMs // the answer, or its failure, comes first
	case len(h.giveBack) > 0:
		wake = now.BootNs
	}
	if h.held {
		wake = min(wake, h.lease.ValidNs)
		for _, ms := range []int64{h.lease.FloorMs, h.lease.UntilMs} {
			if now.WallMs < ms {
				wake = min(wake, now.BootNs+(ms-now.WallMs)*nsPerMs)
			}
		}
		if h.asked == nil && now.WallMs >= h.lease.UntilMs {
			wake = min(wake, h.askedNs+h.retryNs())
		}
	}
	return wake
}

// PatienceMs is how long the answer to the request on its way is waited for, milliseconds.
func (h *Holder) PatienceMs() int64 {
	if h.asked != nil && h.asked.Kind == Claim {
		return h.want.TTLMs / claimParts
	}
	return h.want.TTLMs / patienceParts
}

// Next is what to ask now, and whether there is anything.
func (h *Holder) Next(now Clock) (Request, bool) {
	h.end(now)
	if h.asked != nil {
		return Request{}, false
	}
	switch {
	case len(h.giveBack) > 0:
		h.asked = &h.giveBack[0]
		h.giveBack = h.giveBack[1:]
	case h.held && (now.BootNs >= h.nextNs || now.WallMs >= h.lease.UntilMs && now.BootNs >= h.askedNs+h.retryNs()),
		h.off.renewEnded && h.ended && now.BootNs >= h.nextNs:
		h.asked = &Request{Kind: Renew, Worker: h.lease.Worker}
	case !h.held && now.BootNs >= h.nextNs:
		h.token = max(h.token+1, now.BootNs) // rises over a restart of this process, too
		h.asked = &Request{Kind: Claim, Low: h.want.Low, High: h.want.High, NowMs: now.WallMs}
	default:
		return Request{}, false
	}
	r := h.asked
	r.Holder, r.Name, r.TTLMs = h.id, h.name, h.want.TTLMs
	if r.Kind != GiveBack {
		r.Token = h.token
	}
	h.askedNs = now.BootNs
	return *r, true
}

// Answered takes the arbiter's reply to the request on its way.
func (h *Holder) Answered(now Clock, reply Reply) {
	h.end(now)
	r := h.asked
	h.asked = nil
	switch {
	case r.Kind == GiveBack: // whatever it was
	case reply.Outcome == TTLTooLong:
		h.failed(now, fmt.Sprintf("snowflake.lease_ttl is %d ms and the arbiter allows %d ms", r.TTLMs, reply.MaxTTLMs))
	case r.Kind == Renew && reply.Outcome == Granted:
		h.confirmed(now, r, reply)
	case r.Kind == Renew:
		h.held, h.ended = false, false
		h.reason = fmt.Sprintf("the arbiter has ended the lease of worker %d", r.Worker)
		h.nextNs = now.BootNs
	case reply.Outcome == Granted:
		h.held = true
		h.lease = Lease{Worker: reply.Worker, FloorMs: reply.FloorMs}
		h.confirmed(now, r, reply)
		if reply.Worker < h.want.Low || reply.Worker > h.want.High { // the settings changed meanwhile
			h.drop("the settings ask for another worker id")
			h.nextNs = now.BootNs
		}
	default:
		h.reason = whyNot(r, reply)
		h.nextNs = now.BootNs + min(max(reply.WaitMs, 0)*nsPerMs+nsPerMs, h.retryNs())
	}
	h.end(now)
}

// whyNot puts a refused claim into words that do not change while the reason does not.
func whyNot(r *Request, reply Reply) string {
	switch {
	case reply.Outcome == Quarantine:
		return "the arbiter has failed over: until " + showMs(reply.QuietMs) + " of its clock it grants no new lease"
	case r.Low != r.High:
		return fmt.Sprintf("all %d worker ids of %d-%d are held by other servers", r.High-r.Low+1, r.Low, r.High)
	case reply.Connected:
		return fmt.Sprintf("worker %d is held by %s, which is connected to the arbiter", r.Low, reply.Other)
	}
	return fmt.Sprintf("worker %d is held by %s, which is not connected to the arbiter", r.Low, reply.Other)
}

// Failed says that the request on its way got no answer, and why.
func (h *Holder) Failed(now Clock, why string) {
	h.asked = nil
	h.failed(now, why)
	h.end(now)
}

func (h *Holder) failed(now Clock, why string) {
	h.reason = why
	h.nextNs = now.BootNs + h.retryNs()/2 + h.random.Int64N(h.retryNs()/2+1)
}

// Leave ends the lease, if one is held, and is the request that tells the arbiter: ids had times before lastMs. Nothing
// else may be asked afterwards.
func (h *Holder) Leave(lastMs int64) (Request, bool) {
	if !h.held {
		return Request{}, false
	}
	h.drop("the server is shutting down")
	r := h.giveBack[len(h.giveBack)-1]
	r.LastMs = min(lastMs, r.LastMs)
	return r, true
}

// confirmed makes the lease last as the reply to a request says.
func (h *Holder) confirmed(now Clock, r *Request, reply Reply) {
	if !h.held && !h.off.renewEnded {
		return // it ended before the answer came: only a claim brings it back
	}
	from := h.askedNs
	if h.off.fromReceipt {
		from = now.BootNs
	}
	ns := r.TTLMs * nsPerMs
	h.nextNs = h.askedNs + ns/renewals
	if !h.off.noMargin {
		ns -= ns / MarginParts
	}
	h.lease.ValidNs = from + ns
	h.lease.UntilMs = reply.UntilMs
	h.held, h.ended = true, false
	h.reason = ""
}

// end drops a lease that is not valid any more.
func (h *Holder) end(now Clock) {
	if !h.held || now.BootNs < h.lease.ValidNs || h.off.noValidity {
		return
	}
	why := h.reason
	if why == "" {
		why = "the lease of worker " + fmt.Sprint(h.lease.Worker) + " was not renewed in time"
	}
	h.held, h.ended = false, true
	h.reason = why
	h.nextNs = min(h.nextNs, now.BootNs)
}

// drop ends the lease before its time, and remembers to give it back.
func (h *Holder) drop(why string) {
	h.giveBack = append(h.giveBack, Request{Kind: GiveBack, Holder: h.id, Name: h.name, Token: h.token,
		TTLMs: h.want.TTLMs, Worker: h.lease.Worker, LastMs: h.lease.UntilMs})
	h.held = false
	h.reason = why
}

func (h *Holder) retryNs() int64 { return h.want.TTLMs * nsPerMs / retryParts }

func showMs(unixMs int64) string {
	return time.UnixMilli(unixMs).UTC().Format("2006-01-02 15:04:05.000Z")
}
