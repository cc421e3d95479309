package front

import (
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

// TestDoor_ClosesOnAnEmptyContainerOnly lets requests and the closing door race, and looks at who is inside.
func TestDoor_ClosesOnAnEmptyContainerOnly(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	d := newDoor(func() time.Time { return time.Unix(0, now.Load()) }, 2)
	var inside atomic.Int32 // counted apart from the door
	var closed atomic.Bool
	var requests sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		requests.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				now.Add(1)
				runtime.Gosched()
				if !d.enter() {
					continue
				}
				inside.Add(1)
				now.Add(2) // as long as the agent must be idle
				runtime.Gosched()
				if closed.Load() {
					t.Error("a request is in the container behind a closed door")
				}
				inside.Add(-1)
				d.leave()
				now.Add(1)
			}
		})
	}
	names := map[string]bool{}
	for until := time.Now().Add(patience); len(names) < 100 && !t.Failed() && time.Now().Before(until); {
		id, ok := d.close()
		if !ok {
			runtime.Gosched()
			continue
		}
		closed.Store(true)
		if n := inside.Load(); n != 0 {
			t.Errorf("the door closed on %d requests", n)
		}
		if d.enter() {
			t.Error("a request entered through the closed door")
		}
		if names[id] {
			t.Errorf("the door %s closed twice", id)
		}
		names[id] = true
		closed.Store(false)
		d.open()
	}
	close(over)
	requests.Wait()
	if len(names) < 100 {
		t.Errorf("the door closed %d times", len(names))
	}
}

// patience bounds what only a failing test waits for.
const patience = 2 * time.Minute

// TestDoor_StaysAsItIsInAProcessThatEnds also covers answers of the control plane that come at that moment.
func TestDoor_StaysAsItIsInAProcessThatEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	open := newDoor(func() time.Time { return now }, time.Minute)
	closed := newDoor(func() time.Time { return now }, time.Minute)
	now = now.Add(time.Minute)
	id, ok := closed.close()
	if !ok {
		t.Fatal("the door of an idle agent does not close")
	}
	open.end()
	closed.end()
	if id, ok := open.close(); ok {
		t.Errorf("the door %s closes in a process that ends", id)
	}
	now = now.Add(dataplane.DoorTime)
	closed.open()
	h := http.Header{}
	closed.describe(h)
	if h.Get(dataplane.HeaderDoor) != id || h.Get(dataplane.HeaderDoorTime) != "15" || closed.enter() {
		t.Errorf("in a process that ends, the door is %v, want %s closed for 15 s", h, id)
	}
}
