package simulationtest

import (
	"context"
	"sync"
	"time"
)

// Direct is a Stepper without a scheduler, for tests of one thing at a time: every call happens immediately, and so
// does what controllers and the kubelet make of it.
type Direct struct {
	sync.Mutex // held during every call
	// Cluster is the cluster that reacts; nil for none.
	Cluster *Cluster
	// Down holds the services that refuse all calls.
	Down map[Service]bool
	// Effects counts the calls that may have changed something.
	Effects int
}

var _ Stepper = (*Direct)(nil)

// Step implements Stepper.
func (d *Direct) Step(_ context.Context, service Service, name string, do func() error) error {
	d.Lock()
	defer d.Unlock()
	if d.Down[service] {
		return &Error{Verdict: Refused, Step: name}
	}
	d.Effects++
	err := do()
	for d.Cluster != nil {
		actions := d.Cluster.Actions(d.Cluster.elapsed(), nil)
		if len(actions) == 0 {
			break
		}
		actions[0].Do()
	}
	return err
}

// Look implements Stepper.
func (d *Direct) Look(_ context.Context, service Service, name string, do func() error) error {
	d.Lock()
	defer d.Unlock()
	if d.Down[service] {
		return &Error{Verdict: Refused, Step: name}
	}
	return do()
}

// About implements Stepper.
func (d *Direct) About(string) Stepper { return d }

// Now implements Stepper. Its precision is that of the database.
func (*Direct) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
