package keeper_test

// The simulator: servers and an arbiter in virtual time, with everything that may go wrong between them. Nothing here
// sleeps, and a world follows from its seed alone.

import (
	"container/heap"
	"fmt"
	"math/rand/v2"

	"pgsnowflake/keeper"
	"pgsnowflake/keeper/model"
)

const (
	ms     = int64(1_000_000) // nanoseconds
	second = 1000 * ms
	hour   = 3600 * second
	// startMs is the time of day when a world begins, Unix milliseconds.
	startMs = int64(1_796_000_000_000)
	forever = int64(1) << 62
)

// plan is what a world is made of.
type plan struct {
	servers, workers int
	ttlMs            int64
	lastNs           int64
	faults           float64 // how many for each ttl
	arbiterFaults    float64
	backSteps        bool   // the arbiter's clock is set back, too far for servers to go on making ids
	skewMs           int64  // how far clocks of servers are from the right time, at most
	without          string // a guard that is switched off
	broken           string // a promise that the arbiter breaks
	onlyIDs          bool   // look at the times of ids alone; the arbiter does not fail over
}

// timer is something that happens at a time.
type timer struct {
	at  int64
	seq int
	do  func()
}

type timers []timer

func (q timers) Len() int { return len(q) }
func (q timers) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q timers) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timers) Push(x any)   { *q = append(*q, x.(timer)) }
func (q *timers) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// span is a stretch of times that ids of a server have, or may have, as one worker. Unix milliseconds.
type span struct {
	server           *server
	floorMs, untilMs int64
}

type world struct {
	plan
	random  *rand.Rand
	nowNs   int64
	queue   timers
	seq     int
	servers []*server
	arbiter *arbiter
	spans   [][]span    // by worker
	users   [][]*server // by worker, those that have published it
	wrong   error
	healed  bool
	ids     int // attempts to make an id that succeeded
	grants  int
}

func (w *world) after(ns int64, do func()) {
	w.seq++
	heap.Push(&w.queue, timer{w.nowNs + ns, w.seq, do})
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == nil {
		w.wrong = fmt.Errorf("at %.3f s: %w", float64(w.nowNs)/1e9, fmt.Errorf(format, args...))
	}
}

// clock runs at its own rate, and its time of day may be set.
type clock struct {
	w       *world
	ppm     int64
	bootNs  int64 // at sinceNs
	sinceNs int64
	wallMs  int64 // time of day when bootNs was 0
}

func (c *clock) boot() int64 { return c.bootAt(c.w.nowNs) }

func (c *clock) bootAt(nowNs int64) int64 {
	real := nowNs - c.sinceNs
	return c.bootNs + real + real/1_000_000*c.ppm
}

func (c *clock) wall() int64 { return c.wallMs + c.boot()/ms }

func (c *clock) read() keeper.Clock { return keeper.Clock{BootNs: c.boot(), WallMs: c.wall()} }

// realOf is when the clock reads bootNs, or just after.
func (c *clock) realOf(bootNs int64) int64 {
	left := bootNs - c.boot()
	real := c.w.nowNs + left - left/1_000_000*c.ppm
	for c.bootAt(real) < bootNs {
		real += max((bootNs-c.bootAt(real))/2, 1)
	}
	return real
}

func (c *clock) setRate(ppm int64) {
	c.bootNs, c.sinceNs, c.ppm = c.boot(), c.w.nowNs, ppm
}

func (w *world) newClock(skewMs int64) clock {
	return clock{w: w, ppm: w.rate(), sinceNs: w.nowNs, wallMs: startMs + w.nowNs/ms + w.between(-skewMs, skewMs)}
}

// rate is of a clock, in ppm: often one of the extremes.
func (w *world) rate() int64 {
	switch w.random.IntN(4) {
	case 0:
		return 200
	case 1:
		return -200
	}
	return w.between(-200, 200)
}

// arbiterSkewMs is how far the clock of a healthy arbiter is from the right time, at most: two of them differ by less
// than the margin.
func (w *world) arbiterSkewMs() int64 { return w.ttlMs / keeper.MarginParts * 3 / 8 }

// right is what the clock's time of day would have been at its start if it were right now.
func (c *clock) right() int64 { return startMs + (c.w.nowNs-c.boot())/ms }

// keepWithin brings the time of day back to where it is off by no more than this.
func (c *clock) keepWithin(skewMs int64) {
	c.wallMs = min(max(c.wallMs, c.right()-skewMs), c.right()+skewMs)
}

func (w *world) between(low, high int64) int64 { return low + w.random.Int64N(high-low+1) }

// arbiter is the model, its clock, and what it would forget in a failover.
type arbiter struct {
	model.Arbiter
	w          *world
	clock      clock
	downUntil  int64
	term       int
	undo       []undo
	jumpMs     int64          // broken promise: how far the clock was set forward
	splitUntil int64          // broken promise: until then the former primary goes on beside this one
	former     *model.Arbiter // and this is it
}

type undo struct {
	atNs int64
	back func()
}

func (a *arbiter) remember(worker int) {
	if len(a.undo) > 512 {
		a.undo = append(a.undo[:0], a.undo[256:]...)
	}
	if worker < 0 {
		term, quiet := a.Term, a.QuietMs
		a.undo = append(a.undo, undo{a.w.nowNs, func() { a.Term, a.QuietMs = term, quiet }})
		return
	}
	row := a.Rows[worker]
	a.undo = append(a.undo, undo{a.w.nowNs, func() { a.Rows[worker] = row }})
}

// failOver makes a standby the arbiter that has not seen the commits of the last moments, and has its own clock.
func (a *arbiter) failOver(lossNs int64) {
	if a.w.broken == "one primary at a time" {
		former := a.Arbiter
		former.Before = nil
		a.former, a.splitUntil = &former, a.w.nowNs+2*a.w.ttlMs*ms
	}
	for len(a.undo) > 0 && a.undo[len(a.undo)-1].atNs >= a.w.nowNs-lossNs {
		a.undo[len(a.undo)-1].back()
		a.undo = a.undo[:len(a.undo)-1]
	}
	a.undo = a.undo[:0]
	if a.w.broken != "a new timeline after a loss" {
		a.term++
	}
	if a.w.broken == "clocks of primary and standby agree" {
		a.jumpMs = -a.w.ttlMs / 2
	}
	a.clock = a.w.newClock(a.w.arbiterSkewMs())
	a.downUntil = a.w.nowNs + a.w.between(0, 5*second)
}

// server is a holder with its clock, and sessions that use what it publishes.
type server struct {
	w           *world
	n           int
	life        int // of its postmaster
	holder      *keeper.Holder
	clock       clock
	up          bool
	process     int // counts the keeper processes: events of an earlier one do nothing
	pausedUntil int64
	pauseNs     int64 // it will be paused so long as soon as it has asked something
	cutUntil    int64
	asked       int // the number of the request on its way, 0 for none
	sent        int
	wakeAt      int64
	has         bool // sessions see a lease
	fixed       bool // it wants a certain worker
	lease       keeper.Lease
}

func newWorld(p plan, seed uint64) *world {
	w := &world{plan: p, random: rand.New(rand.NewPCG(seed, 1)), spans: make([][]span, p.workers), users: make([][]*server, p.workers)}
	w.arbiter = &arbiter{w: w, clock: w.newClock(w.arbiterSkewMs()), term: 1}
	w.arbiter.MaxTTLMs = p.ttlMs
	w.arbiter.Term = "1"
	w.arbiter.Before = w.arbiter.remember
	switch p.without {
	case "expiry":
		w.arbiter.Off.NoExpiry = true
	case "quarantine":
		w.arbiter.Off.NoQuarantine = true
	case "floor after a quarantine":
		w.arbiter.Off.NoQuietFloor = true
	case "token":
		w.arbiter.Off.NoToken = true
	case "never shorter":
		w.arbiter.Off.MayShorten = true
	}
	for n := range p.servers {
		s := &server{w: w, n: n, clock: w.newClock(p.skewMs)}
		w.servers = append(w.servers, s)
		w.after(w.random.Int64N(second), s.start)
	}
	return w
}

// start starts a server's keeper, as a new process that remembers nothing.
func (s *server) start() {
	if s.up {
		return
	}
	id := fmt.Sprintf("%d.%d", s.n, s.life)
	s.holder = keeper.NewHolder(id, id, s.wanted(), s.w.random)
	s.holder.Without(s.w.without)
	s.up, s.asked, s.wakeAt = true, 0, forever
	s.process++
	s.step()
}

// wanted is any worker, or a certain one; some servers want short leases.
func (s *server) wanted() keeper.Want {
	want := keeper.Want{High: int32(s.w.workers) - 1, TTLMs: s.w.ttlMs / int64(1+s.n%2)}
	if s.fixed {
		want.Low = int32(s.n % s.w.workers)
		want.High = want.Low
	}
	return want
}

// stop ends the server with all its sessions; leaving tells the arbiter if that can be reached.
func (s *server) stop(leaving, newLife bool) {
	if !s.up {
		return
	}
	if r, ok := s.holder.Leave(s.clock.wall() + 1); leaving && ok {
		s.shorten(r.Worker, s.clock.wall()+1) // the slot is closed, so no session makes a later one
		s.w.carry(s, r, nil)
	}
	s.up = false
	s.process++
	if newLife {
		s.life++
	}
	s.publish(false, keeper.Lease{})
}

// step lets the keeper do what it has to do now.
func (s *server) step() {
	if !s.up {
		return
	}
	if s.w.nowNs < s.pausedUntil {
		s.wake(s.pausedUntil)
		return
	}
	if r, ok := s.holder.Next(s.clock.read()); ok {
		s.send(r)
	}
	lease, ok := s.holder.Lease(s.clock.read())
	s.publish(ok, lease)
	s.wake(s.clock.realOf(s.holder.Wake(s.clock.read())))
}

func (s *server) wake(at int64) {
	at = max(at, s.w.nowNs+ms)
	if at >= s.wakeAt && s.wakeAt > s.w.nowNs {
		return
	}
	s.wakeAt = at
	process := s.process
	s.w.after(at-s.w.nowNs, func() {
		if s.process == process && s.wakeAt == at {
			s.wakeAt = forever
			s.step()
		}
	})
}

// send has a request carried, and waits for the answer no longer than the holder has patience.
func (s *server) send(r keeper.Request) {
	s.sent++
	number, process := s.sent, s.process
	s.asked = number
	if s.pauseNs > 0 {
		s.pausedUntil, s.pauseNs = s.w.nowNs+s.pauseNs, 0
	}
	answer := func(do func()) {
		if s.process != process || s.asked != number {
			return
		}
		s.asked = 0
		do()
		s.step()
	}
	s.w.carry(s, r, func(reply *keeper.Reply) {
		s.whenRunning(func() {
			answer(func() {
				if reply == nil {
					s.holder.Failed(s.clock.read(), "refused")
				} else {
					s.holder.Answered(s.clock.read(), *reply)
				}
			})
		})
	})
	s.w.after(s.holder.PatienceMs()*ms, func() {
		s.whenRunning(func() { answer(func() { s.holder.Failed(s.clock.read(), "no answer") }) })
	})
}

// whenRunning does something when the server is not paused.
func (s *server) whenRunning(do func()) {
	if s.w.nowNs < s.pausedUntil {
		s.w.after(s.pausedUntil-s.w.nowNs, func() { s.whenRunning(do) })
		return
	}
	do()
}

// latency is of one way: short mostly, sometimes longer than anyone has patience.
func (w *world) latency() int64 {
	switch n := w.random.IntN(100); {
	case w.healed:
	case n < 2:
		return w.random.Int64N(3 * w.ttlMs * ms)
	case n < 6:
		return w.random.Int64N(w.ttlMs * ms / 4)
	}
	return 200_000 + w.random.Int64N(3*ms)
}

// lost is whether a message that leaves now does not arrive.
func (w *world) lost(s *server) bool {
	return w.nowNs < s.cutUntil || !w.healed && w.random.IntN(500) == 0
}

// carry brings a request to the arbiter and the reply back; nil when the arbiter is down. Both may get lost.
func (w *world) carry(s *server, r keeper.Request, back func(*keeper.Reply)) {
	if w.lost(s) {
		return
	}
	latency := w.latency()
	if r.Kind == keeper.GiveBack && w.random.IntN(3) == 0 { // it may lie in a connection that nobody waits for any more
		latency = w.random.Int64N(2 * w.ttlMs * ms)
	}
	w.after(latency, func() {
		reply := w.arbiter.call(s, r)
		if back == nil || w.lost(s) {
			return
		}
		w.after(w.latency(), func() { back(reply) })
	})
}

func (a *arbiter) call(s *server, r keeper.Request) *keeper.Reply {
	if a.w.nowNs < a.splitUntil && s.n%2 == 0 { // still talks to the former primary
		reply := a.former.Call(a.clock.wall(), a.former.Term, r)
		return &reply
	}
	if a.w.nowNs < a.downUntil {
		return nil
	}
	if !a.w.backSteps {
		a.clock.keepWithin(a.w.arbiterSkewMs())
	}
	reply := a.Call(a.clock.wall()+a.jumpMs, fmt.Sprint(a.term), r)
	if reply.Outcome == keeper.Granted && r.Kind == keeper.Claim {
		a.w.grants++
	}
	return &reply
}

// publish is what sessions see from now on.
func (s *server) publish(has bool, lease keeper.Lease) {
	if s.has && (!has || lease.Worker != s.lease.Worker) {
		users := s.w.users[s.lease.Worker]
		for i, other := range users {
			if other == s {
				s.w.users[s.lease.Worker] = append(users[:i], users[i+1:]...)
				break
			}
		}
		s.has = false
	}
	if !has || s.has && lease == s.lease {
		return
	}
	if !s.has {
		s.w.users[lease.Worker] = append(s.w.users[lease.Worker], s)
	}
	s.has, s.lease = true, lease
	s.check()
	floorMs := lease.FloorMs
	if s.w.without == "floor" {
		floorMs = s.clock.wall()
	}
	s.use(lease.Worker, floorMs, lease.UntilMs)
}

// usableTo is until when sessions may use what is published, in the world's time.
func (s *server) usableTo() int64 {
	to := forever
	if s.w.without != "validity" {
		to = s.clock.realOf(s.lease.ValidNs)
	}
	if s.w.without != "until" {
		to = min(to, s.clock.realOf((s.lease.UntilMs-s.clock.wallMs)*ms))
	}
	return to
}

// usableFrom is from when.
func (s *server) usableFrom() int64 {
	if s.w.without == "floor" {
		return s.w.nowNs
	}
	return max(s.w.nowNs, s.clock.realOf((s.lease.FloorMs-s.clock.wallMs)*ms))
}

// check fails the world when sessions of another server may make ids with the same worker at some moment from now on.
func (s *server) check() {
	if !s.has {
		return
	}
	from, to := s.usableFrom(), s.usableTo()
	for _, other := range s.w.users[s.lease.Worker] {
		if !s.w.onlyIDs && other != s && max(from, other.usableFrom()) < min(to, other.usableTo()) {
			s.w.fail("servers %d and %d may both make ids as worker %d", other.n, s.n, s.lease.Worker)
		}
	}
}

// use notes the times that ids of the server may have as a worker, and fails the world when another's may, too.
func (s *server) use(worker int32, floorMs, untilMs int64) {
	own := -1
	spans := s.w.spans[worker][:0]
	oldest := startMs + s.w.nowNs/ms - 20*s.w.ttlMs
	for _, other := range s.w.spans[worker] {
		if other.untilMs < oldest {
			continue
		}
		if other.server == s && other.floorMs <= floorMs && floorMs <= other.untilMs {
			own = len(spans)
			other.untilMs = max(other.untilMs, untilMs)
		}
		spans = append(spans, other)
		if other.server != s && max(floorMs, other.floorMs) < min(untilMs, other.untilMs) {
			s.w.fail("ids of servers %d and %d as worker %d may be the same: times %d-%d and %d-%d", other.server.n, s.n, worker,
				other.floorMs-startMs, other.untilMs-startMs, floorMs-startMs, untilMs-startMs)
		}
	}
	if own < 0 {
		spans = append(spans, span{s, floorMs, untilMs})
	}
	s.w.spans[worker] = spans
}

// shorten ends what a server may still use as a worker.
func (s *server) shorten(worker int32, untilMs int64) {
	spans := s.w.spans[worker]
	for i := range spans {
		if spans[i].server == s {
			spans[i].untilMs = min(spans[i].untilMs, max(untilMs, spans[i].floorMs))
		}
	}
}

// makeID is a session that looks at the lease and makes an id a while later: at once, or after a long stop.
func (s *server) makeID(stopNs int64) {
	if !s.has || s.w.nowNs < s.usableFrom() || s.w.nowNs >= s.usableTo() {
		return
	}
	lease, process := s.lease, s.process
	s.w.after(stopNs, func() {
		wall := s.clock.wall()
		if s.process != process || wall < lease.FloorMs && s.w.without != "floor" || wall >= lease.UntilMs && s.w.without != "until" {
			return
		}
		s.w.ids++
		s.use(lease.Worker, wall, wall+1)
	})
}

// fault does something to a server.
func (w *world) fault() {
	s := w.servers[w.random.IntN(len(w.servers))]
	ttl := w.ttlMs * ms
	switch n := w.random.IntN(76); {
	case n < 15:
		s.cutUntil = w.nowNs + w.random.Int64N(3*ttl)
	case n < 27:
		if pause := w.random.Int64N(2 * ttl); w.random.IntN(2) == 0 {
			s.pauseNs = pause
		} else {
			s.pausedUntil = max(s.pausedUntil, w.nowNs+pause)
		}
	case n < 42:
		for range 3 {
			s.makeID(w.random.Int64N(3 * ttl))
		}
		s.makeID(0)
	case n < 50: // the settings change; often back again
		for range 1 + w.random.IntN(2) {
			s.fixed = !s.fixed
			if s.up {
				s.holder.Want(s.clock.read(), s.wanted())
				s.step()
			}
		}
	case n < 55: // the postmaster starts its children anew
		s.stop(false, false)
		w.after(w.random.Int64N(ttl), s.start)
	case n < 61: // the machine, or the server, starts anew
		s.stop(w.random.IntN(2) == 0, true)
		w.after(w.random.Int64N(2*ttl), s.start)
	case n < 66:
		s.clock.setRate(w.rate())
		s.check()
	default:
		s.clock.wallMs += w.between(-w.skewMs, w.skewMs)
		s.clock.keepWithin(2 * w.skewMs)
		s.check()
		s.step()
	}
}

// arbiterFault does something to the arbiter.
func (w *world) arbiterFault() {
	a := w.arbiter
	kinds := 5
	if w.onlyIDs {
		kinds = 3 // no failover
	}
	switch w.random.IntN(kinds) {
	case 0:
		a.downUntil = w.nowNs + w.random.Int64N(2*w.ttlMs*ms)
	case 1:
		a.clock.setRate(w.rate())
	case 2:
		a.clock.wallMs += w.between(-w.arbiterSkewMs(), w.arbiterSkewMs())
		if w.backSteps {
			a.clock.wallMs -= w.random.Int64N(w.ttlMs)
		}
		if w.broken == clockSetForward {
			a.jumpMs += 2 * w.ttlMs
		}
	default:
		a.failOver(w.random.Int64N(second))
	}
}

// run lets the world's time pass until a violation or its end; then all is well for a while, and whoever can have a
// lease must have one.
func (w *world) run() error {
	w.nowAndThen(w.faults, w.fault)
	w.nowAndThen(w.arbiterFaults, w.arbiterFault)
	w.until(w.lastNs)
	if w.backSteps || w.without != "" || w.broken != "" {
		return w.wrong
	}
	w.healed = true
	w.arbiter.downUntil, w.arbiter.splitUntil = 0, 0
	for _, s := range w.servers {
		s.cutUntil, s.pausedUntil, s.pauseNs = 0, 0, 0
		s.clock.keepWithin(0)
		s.fixed = false
		s.start()
		s.holder.Want(s.clock.read(), s.wanted())
		s.step()
	}
	w.until(w.lastNs + 5*w.ttlMs*ms)
	if usable := w.usable(); usable < min(len(w.servers), w.workers) {
		w.fail("%d of %d servers have one of %d workers when all is well again", usable, len(w.servers), w.workers)
	}
	return w.wrong
}

// nowAndThen lets something happen so many times for each ttl, until all is well.
func (w *world) nowAndThen(often float64, do func()) {
	w.after(int64(w.random.ExpFloat64()*float64(w.ttlMs*ms)/often), func() {
		if !w.healed {
			do()
			w.nowAndThen(often, do)
		}
	})
}

// usable is how many servers have a lease now.
func (w *world) usable() (n int) {
	for _, s := range w.servers {
		if s.has && w.nowNs >= s.usableFrom() && w.nowNs < s.usableTo() {
			n++
		}
	}
	return n
}

// until lets time pass.
func (w *world) until(ns int64) {
	for len(w.queue) > 0 && w.queue[0].at <= ns && w.wrong == nil {
		next := heap.Pop(&w.queue).(timer)
		w.nowNs = next.at
		next.do()
	}
	w.nowNs = max(w.nowNs, ns)
}
