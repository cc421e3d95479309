package gke

import "sync"

// remembered is a set of identifiers that forgets all of them when it is full.
type remembered struct {
	mu  sync.Mutex
	all map[string]struct{}
}

func (r *remembered) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.all[id]
	return ok
}

func (r *remembered) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= maxRemembered {
		r.all = map[string]struct{}{}
	}
	r.all[id] = struct{}{}
}
