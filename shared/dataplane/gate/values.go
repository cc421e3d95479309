package gate

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/sync/singleflight"
)

const (
	// valueTime is for how long a value is used. A sweep forgets it within 5 minutes.
	valueTime = 5*time.Minute - 2*sweepEvery
	// failureTime is for how long the gate does not ask again for a value that could not be read.
	failureTime = time.Second
	// valueTimeout bounds reading a value.
	valueTimeout = 10 * time.Second
	// maxValues bounds the values in memory.
	maxValues = 4096
)

// valueKey identifies a version of a secret.
type valueKey struct {
	agentID, key string
	version      int64
}

type value struct {
	text  string
	err   error
	until time.Time
}

// values keeps the values of brokered secrets for a short time.
type values struct {
	gate  *Gate
	reads singleflight.Group

	mu    sync.Mutex
	known map[valueKey]value
}

func (v *values) init(g *Gate) { v.gate, v.known = g, map[valueKey]value{} }

// headers returns the headers with the secrets of a host.
func (v *values) headers(ctx context.Context, a Agent, host string) (http.Header, error) {
	injections := a.Policy.Injections(host)
	if len(injections) == 0 {
		return nil, nil //nolint:nilnil // no header is set
	}
	h := make(http.Header, len(injections))
	for _, i := range injections {
		if len(i.Rest) > 0 {
			return nil, fmt.Errorf("%s: only a gate of a later release knows which requests get it", i.Key)
		}
		text, err := v.value(ctx, valueKey{agentID: a.ID, key: i.Key, version: i.Version})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Key, err)
		}
		if text = i.Render(text); !httpguts.ValidHeaderFieldValue(text) {
			return nil, fmt.Errorf("%s: the value has characters that a header cannot have", i.Key)
		}
		h.Set(i.Header, text)
	}
	return h, nil
}

// value returns a value. Concurrent calls for the same one read it once.
func (v *values) value(ctx context.Context, k valueKey) (string, error) {
	if found, ok := v.find(k); ok {
		return found.text, found.err
	}
	// The read goes on for the others that wait for it, if the request is canceled.
	detached := context.WithoutCancel(ctx)
	read := v.reads.DoChan(fmt.Sprintf("%s %s %d", k.agentID, k.key, k.version), func() (any, error) {
		if found, ok := v.find(k); ok {
			return found.text, found.err
		}
		return v.read(detached, k)
	})
	select {
	case r := <-read:
		text, _ := r.Val.(string)
		return text, r.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (v *values) read(ctx context.Context, k valueKey) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, valueTimeout)
	defer cancel()
	began := time.Now()
	text, err := v.gate.o.Values.Value(ctx, k.agentID, k.key, k.version)
	found := value{text: text, err: err, until: began.Add(valueTime)}
	if err != nil {
		found = value{err: err, until: time.Now().Add(failureTime)}
		v.gate.metrics.readsFailed.Inc()
	} else {
		v.gate.metrics.reads.Inc()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for other := range v.known { // any: a full table is rare, and a value can be read again
		if len(v.known) < maxValues {
			break
		}
		delete(v.known, other)
	}
	v.known[k] = found
	return found.text, found.err
}

func (v *values) find(k valueKey) (value, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found, ok := v.known[k]
	return found, ok && time.Now().Before(found.until)
}

// sweep forgets values after their time.
func (v *values) sweep(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for k, found := range v.known {
		if !now.Before(found.until) {
			delete(v.known, k)
		}
	}
}
