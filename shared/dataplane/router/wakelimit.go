package router

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Wakes cost money, and only the front can tell a credential from a guess. Whoever has none must not wake an agent time
// after time.
const (
	// maxUnproven is how many wakes in falseTime an agent has of strangers whose credential no answer has proven.
	maxUnproven = 6
	falseTime   = time.Hour
	// wakingTime is how long after the beginning of its last held request an agent counts as waking. One that is awake
	// stays so for longer: agent.MinSleepSeconds, of which a start may take a part.
	wakingTime = 2 * time.Minute
)

// wakeLimit bounds the false wakes of an agent: wakes that were begun with a credential that the front then refused. A
// wake counts from its beginning until an answer shows that the agent accepts its client, because a client that goes
// away gets no answer. Requests for an agent that is waking are free.
type wakeLimit struct {
	// busy is false if there is nothing that answers could change.
	busy atomic.Bool

	mu       sync.Mutex
	unproven []unprovenWake // by time
	// heldAt is when the last request was held.
	heldAt time.Time
}

// unprovenWake is a wake that may be false.
type unprovenWake struct {
	address netip.Addr
	until   time.Time
	// refused means that it is: then the address may begin no other one.
	refused bool
}

// wakeRights say what a client may do that other strangers may not.
type wakeRights struct {
	// known means that the agent has accepted the client lately.
	known bool
	// open means that the request is for a path that anyone may request.
	open bool
}

// wakeLimitedError means that a request may wake its agent only after a time.
type wakeLimitedError struct{ wait time.Duration }

// Error implements error.
func (e wakeLimitedError) Error() string { return fmt.Sprintf("the agent may be woken in %s", e.wait) }

// begin counts a request for an agent without a pod. began says that it is the one that wakes the agent. If it may not,
// wait is how long that lasts.
func (l *wakeLimit) begin(address netip.Addr, rights wakeRights, now time.Time) (began bool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unproven = slices.DeleteFunc(l.unproven, func(w unprovenWake) bool { return !now.Before(w.until) })
	if !l.heldAt.IsZero() && now.Sub(l.heldAt) < wakingTime {
		l.heldAt = now
		return false, 0
	}
	if !rights.known {
		for _, w := range l.unproven {
			if w.address == address && w.refused {
				return false, w.until.Sub(now)
			}
		}
		if !rights.open {
			if len(l.unproven) >= maxUnproven {
				return false, l.unproven[0].until.Sub(now)
			}
			l.unproven = append(l.unproven, unprovenWake{address: address, until: now.Add(falseTime)})
			l.busy.Store(true)
		}
	}
	l.heldAt = now
	return true, 0
}

// judge looks what an answer of the agent says about the wakes of its client. began says that the answer is that of the
// request that began a wake.
func (l *wakeLimit) judge(address netip.Addr, status int, began bool, now time.Time) {
	if !began && !l.busy.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !refuses(status) {
		l.unproven = slices.DeleteFunc(l.unproven, func(w unprovenWake) bool { return w.address == address })
		l.busy.Store(len(l.unproven) > 0)
		return
	}
	counted := false
	for i := range l.unproven {
		if l.unproven[i].address == address {
			l.unproven[i].refused, counted = true, true
		}
	}
	if began && !counted && len(l.unproven) < maxUnproven { // it was taken for one of a public path, or was known
		l.unproven = append(l.unproven, unprovenWake{address: address, until: now.Add(falseTime), refused: true})
		l.busy.Store(true)
	}
}

// refuses reports whether a front may have refused a stranger with a status.
func refuses(status int) bool { return status < http.StatusInternalServerError && !accepts(status) }
