// Package main is the Go side of the lease keeper's process: what bridge/keeper.c may call. It joins a holder
// (pgsnowflake/keeper) to an arbiter (pgsnowflake/keeper/arbiter).
//
// Functions return at once, except kpGiveBack. Requests to the arbiter run on goroutines, one at a time, and a byte in a
// pipe says that an answer is there. Every function and goroutine recovers from panics.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../bridge
#include "abi.h"
*/
import "C"

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"pgsnowflake/gen"
	"pgsnowflake/keeper"
	"pgsnowflake/keeper/arbiter"
)

func main() {} // a C archive needs one; it never runs

// process is the one keeper of this process.
var process processState

type processState struct {
	id, name string
	conninfo string // empty: nothing is asked, nothing is held
	holder   *keeper.Holder
	client   *arbiter.Client
	answers  chan answer // of the request on its way; nil if there is none
	bell     *os.File    // where a byte is written with each answer
}

type answer struct {
	reply keeper.Reply
	err   error
}

// recovered turns a panic into SF_PANIC.
func recovered(code *C.int32_t) {
	if r := recover(); r != nil {
		*code = C.SF_PANIC
	}
}

// sfReady is the first call into Go: when it returns, the runtime is up.
//
//export sfReady
func sfReady() (code C.int32_t) { return C.SF_ISSUED }

// kpSetenv sets "NAME=value" in Go's environment.
//
//export kpSetenv
func kpSetenv(entry *C.char) (code C.int32_t) {
	defer recovered(&code)
	if name, value, ok := strings.Cut(C.GoString(entry), "="); ok {
		os.Setenv(name, value)
	}
	return C.SF_ISSUED
}

// kpStart makes the keeper of a server known by id, and to people by name. It returns the descriptor that is readable
// when an answer is there, or -1.
//
//export kpStart
func kpStart(id, name *C.char) (fd C.int32_t) {
	fd = -1
	defer recovered(&fd)
	var pipe [2]int
	if syscall.Pipe2(pipe[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK) != nil {
		return -1
	}
	process.id, process.name = C.GoString(id), C.GoString(name)
	process.bell = os.NewFile(uintptr(pipe[1]), "answers")
	return C.int32_t(pipe[0])
}

func clockAt(c C.SfClock) keeper.Clock {
	return keeper.Clock{BootNs: int64(c.boot_ns), WallMs: int64(c.wall_ms)}
}

// kpConfigure tells the settings in force, at the start and when they may have changed.
//
//export kpConfigure
func kpConfigure(conninfo *C.char, settings *C.SfKeeperSettings, clock C.SfClock) (code C.int32_t) {
	defer recovered(&code)
	want := keeper.Want{Low: int32(settings.low), High: int32(settings.high), TTLMs: int64(settings.ttl_ms)}
	p := &process
	if text := C.GoString(conninfo); p.holder == nil || text != p.conninfo {
		p.leave(time.Second, 1<<62)
		p.conninfo = text
		p.client = arbiter.New(text)
		p.holder = keeper.NewHolder(p.id, p.name, want, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
		return C.SF_ISSUED
	}
	p.holder.Want(clockAt(clock), want)
	return C.SF_ISSUED
}

// kpStep does what is due: takes an answer, asks the next. It fills in what sessions may use from now on, or why they may
// not, and when to call again by the monotonic clock if no answer comes before.
//
//export kpStep
func kpStep(clock C.SfClock, step *C.SfKeeperStep) (code C.int32_t) {
	defer func() {
		if r := recover(); r != nil {
			code = C.SF_PANIC
			say(step, fmt.Sprint(r))
		}
	}()
	p, now := &process, clockAt(clock)
	step.grant.worker = -1
	if p.conninfo == "" {
		step.wake_ns = 1<<63 - 1
		say(step, "snowflake.lease_conninfo is empty")
		return C.SF_ISSUED
	}
	if p.answers != nil {
		select {
		case a := <-p.answers:
			p.answers = nil
			if a.err != nil {
				p.holder.Failed(now, a.err.Error())
			} else {
				p.holder.Answered(now, a.reply)
			}
		default:
		}
	}
	if p.answers == nil {
		if r, due := p.holder.Next(now); due {
			p.ask(r)
		}
	}
	if lease, ok := p.holder.Lease(now); ok {
		step.grant.worker = C.int32_t(lease.Worker)
		step.grant.valid_ns = C.int64_t(lease.ValidNs)
		step.grant.until_ms = C.int64_t(lease.UntilMs)
		step.floor_ms = C.int64_t(lease.FloorMs)
	}
	step.wake_ns = C.int64_t(p.holder.Wake(now))
	say(step, p.holder.Reason(now))
	return C.SF_ISSUED
}

// say writes a reason, cut to its room and zero-terminated.
func say(step *C.SfKeeperStep, reason string) {
	to := unsafe.Slice((*byte)(unsafe.Pointer(&step.grant.reason[0])), len(step.grant.reason))
	to[copy(to[:len(to)-1], reason)] = 0
}

// ask has a request carried to the arbiter.
func (p *processState) ask(r keeper.Request) {
	answers := make(chan answer, 1)
	p.answers = answers
	client, patience := p.client, time.Duration(p.holder.PatienceMs())*time.Millisecond
	go func() {
		answers <- carry(client, r, patience)
		p.bell.Write([]byte{0})
	}()
}

// carry asks, and makes an error of a panic.
func carry(client *arbiter.Client, r keeper.Request, patience time.Duration) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a.err = fmt.Errorf("internal error: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a.reply, a.err = client.Ask(ctx, r)
	return a
}

// leave gives a lease back within a time, if one is held. A request on its way is waited for first, since there is one
// connection.
func (p *processState) leave(patience time.Duration, lastMs int64) {
	if p.holder == nil {
		return
	}
	deadline := time.Now().Add(patience)
	if p.answers != nil {
		select {
		case <-p.answers:
			p.answers = nil
		case <-time.After(patience): // its goroutine has the connection; the answer is nobody's any more
			go closeAfter(p.answers, p.client)
			p.answers = nil
			return
		}
	}
	if r, held := p.holder.Leave(lastMs); held {
		carry(p.client, r, time.Until(deadline))
	}
	p.client.Close()
}

// closeAfter ends a connection when the request on it has been answered.
func closeAfter(answers <-chan answer, client *arbiter.Client) {
	<-answers
	client.Close()
}

// kpRaise moves a worker's slot to where ids have times from floorMs on (gen.Raise).
//
//export kpRaise
func kpRaise(slot unsafe.Pointer, floorMs C.int64_t) (code C.int32_t) {
	defer recovered(&code)
	gen.Raise(unsafe.Slice((*atomic.Uint64)(slot), 1), int64(floorMs))
	return C.SF_ISSUED
}

// kpGiveBack ends the lease and tells the arbiter the last time in the worker's slot, waiting for patienceMs at most.
//
//export kpGiveBack
func kpGiveBack(slot unsafe.Pointer, patienceMs C.int32_t) (code C.int32_t) {
	defer recovered(&code)
	last := gen.SlotTimeUs((*atomic.Uint64)(slot).Load()) / 1000
	process.leave(time.Duration(patienceMs)*time.Millisecond, last+1)
	return C.SF_ISSUED
}
