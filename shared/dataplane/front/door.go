package front

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

// maxPause bounds the time between two attempts to sleep, if none is due later because of the agent's own sleep time.
const maxPause = time.Hour

// door counts the requests in the container, and keeps further ones out of it while the agent falls asleep. It closes
// under the lock of the count. So a request is either in the container, and the door does not close, or it is refused.
type door struct {
	now func() time.Time
	// after is how long the agent must be idle; 0 is a door that never closes, and that counts nothing.
	after time.Duration

	mu       sync.Mutex
	inFlight int
	// idleSince is when the last request left the container, or when the idle time started over.
	idleSince time.Time
	// failures are the attempts to sleep since the last request.
	failures int
	// id is the name of the closed door; empty while it is open. opensAt is when it opens unless it is held.
	id      string
	opensAt time.Time
	// ending means that the process ends: an open door stays open, and a closed one stays closed.
	ending bool
}

func newDoor(now func() time.Time, after time.Duration) *door {
	return &door{now: now, after: after, idleSince: now()}
}

// enter lets a request into the container, unless the door is closed. Then it must leave.
func (d *door) enter() bool { return d.admit(http.Header{}) }

// admit is enter. It names a closed door in the header of the refusal: when that is sent, the door may be open.
func (d *door) admit(refusal http.Header) bool {
	if d.after == 0 {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.id != "" {
		d.describeLocked(refusal)
		return false
	}
	d.inFlight++
	d.failures = 0
	return true
}

func (d *door) leave() {
	if d.after == 0 {
		return
	}
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inFlight--
	d.idleSince = now
}

// idle returns how long no request has been in the container, and how long that must be for the agent to sleep.
func (d *door) idle() (idle, wanted time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.idleLocked()
}

// idleLocked doubles the wanted time with each failure after the first one, so that an agent that cannot sleep costs
// few calls.
func (d *door) idleLocked() (idle, wanted time.Duration) {
	wanted = d.after
	for range d.failures - 1 {
		wanted = min(2*wanted, max(maxPause, d.after))
	}
	if d.inFlight > 0 {
		return 0, wanted
	}
	return d.now().Sub(d.idleSince), wanted
}

// close closes the door if the agent is idle, and returns its name. No door has the name of another one.
func (d *door) close() (id string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if idle, wanted := d.idleLocked(); d.ending || idle < wanted {
		return "", false
	}
	d.id, d.opensAt = rand.Text(), d.now().Add(dataplane.DoorTime)
	return d.id, true
}

// hold keeps a closed door closed for DoorTime from now on.
func (d *door) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opensAt = d.now().Add(dataplane.DoorTime)
}

// left returns the time until a closed door opens, at least 0. That of a process that ends stays closed for longer than
// any worker asks for.
func (d *door) left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leftLocked()
}

func (d *door) leftLocked() time.Duration {
	if d.ending {
		return dataplane.DoorTime
	}
	return max(0, d.opensAt.Sub(d.now()))
}

// open opens the door after an attempt to sleep that failed. The idle time starts over.
func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return
	}
	d.id, d.idleSince = "", d.now()
	d.failures++
}

// end leaves the door as it is.
func (d *door) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ending = true
}

// describe names the door in the header of an answer if it is closed.
func (d *door) describe(h http.Header) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.describeLocked(h)
}

func (d *door) describeLocked(h http.Header) {
	if d.id == "" {
		return
	}
	h.Set(dataplane.HeaderDoor, d.id)
	h.Set(dataplane.HeaderDoorTime, strconv.Itoa(int(d.leftLocked()/time.Second)))
}

// serveDoor answers whether the door is closed. Anyone may ask.
func (f *Front) serveDoor(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(dataplane.HeaderPublic, "1")
	f.door.describe(w.Header())
	w.WriteHeader(http.StatusNoContent)
}

// refuseAtDoor answers a request that the container must not get. It reads nothing of it: the router sends the request
// again, because of the header that names the door.
func refuseAtDoor(w http.ResponseWriter, api bool) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", "1")
	refuse(w, api, http.StatusServiceUnavailable, "The agent is falling asleep. Retry.")
}
