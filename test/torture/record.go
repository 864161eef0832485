package torture

import (
	"fmt"
	"slices"
	"sync"
)

// span is a run of consecutive ids that one session was given.
type span struct{ first, last int64 }

// record holds every id that any session was given.
type record struct {
	mu    sync.Mutex
	spans []span
	ids   int64
}

// add takes over the spans of a session.
func (r *record) add(spans []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range spans {
		r.ids += s.last - s.first + 1
	}
	r.spans = append(r.spans, spans...)
}

// repeated finds an id that was given twice.
func (r *record) repeated() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.spans, func(a, b span) int {
		if a.first != b.first {
			return int(min(max(a.first-b.first, -1), 1))
		}
		return int(min(max(a.last-b.last, -1), 1))
	})
	for i := 1; i < len(r.spans); i++ {
		if before, s := r.spans[i-1], r.spans[i]; s.first <= before.last {
			return fmt.Errorf("id %d (worker %d) was made twice", s.first, s.first>>12&1023)
		}
	}
	return nil
}

// collect turns ids in the order they were made into spans.
func collect(spans []span, ids []int64) []span {
	for _, id := range ids {
		if n := len(spans); n > 0 && spans[n-1].last+1 == id {
			spans[n-1].last = id
		} else {
			spans = append(spans, span{id, id})
		}
	}
	return spans
}
