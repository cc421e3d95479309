package ratelimit

import (
	"sync"
	"time"

	"agents.example/controlplane/shared/fault"
)

// Meter collects what keys use until it is a unit, which is then charged. So what is little costs no write of a record,
// and a process forgets less than a unit of each key when it ends. A nil Meter counts nothing. It is safe for
// concurrent use.
type Meter struct {
	unit int64
	now  func() time.Time

	mu   sync.Mutex
	keys map[string]*use
}

// use is what a key used.
type use struct {
	uncharged int64
	charging  bool
	// refusal is that of the last charge, and stands until a time.
	refusal error
	until   time.Time
}

// NewMeter returns a meter of a unit. now is the clock; nil means time.Now.
func NewMeter(unit int64, now func() time.Time) *Meter {
	if now == nil {
		now = time.Now
	}
	return &Meter{unit: unit, now: now, keys: map[string]*use{}}
}

// Refusal returns the error of the last charge of a key, as long as it says that another one is without effect.
func (m *Meter) Refusal(key string) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusalOf(m.keys[key])
}

func (m *Meter) refusalOf(u *use) error {
	if u == nil || !m.now().Before(u.until) {
		return nil
	}
	return u.refusal
}

// Count counts what a key used. charge charges one unit. Its only error that Count returns is RateLimited; after
// another one, the unit is charged with the next use. One charge of a key runs at a time, and the others do not wait
// for it.
func (m *Meter) Count(key string, n int64, charge func() error) error {
	if m == nil {
		return nil
	}
	u, due, err := m.add(key, n)
	if !due {
		return err
	}
	return m.end(u, charge())
}

// add adds what a key used. due reports whether a unit must be charged now; the charge has begun then.
func (m *Meter) add(key string, n int64) (u *use, due bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u = m.keys[key]
	if u == nil {
		u = &use{}
		m.keys[key] = u
	}
	u.uncharged += n
	if err := m.refusalOf(u); err != nil || u.charging || u.uncharged < m.unit {
		return u, false, err
	}
	u.charging = true
	return u, true, nil
}

// end ends a charge that had an outcome. It returns a refusal.
func (m *Meter) end(u *use, outcome error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.charging = false
	refusal := fault.From(outcome)
	switch {
	case outcome == nil:
		u.uncharged -= m.unit
	case refusal.Kind == fault.RateLimited:
		u.refusal, u.until = outcome, m.now().Add(refusal.RetryAfter)
		return outcome
	}
	return nil
}
