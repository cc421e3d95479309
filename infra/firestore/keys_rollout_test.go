package firestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/testtier"
)

// rollout simulates how one pepper replaces another: clients create, use and revoke keys at instances of two
// deployments that follow each other, in a random order.
type rollout struct {
	keyTenant
	random *rand.Rand
	// deployments are the instances of each step of the change, in order.
	deployments []*identity.Authenticator
	// serving are the deployments of which instances run.
	serving []int
	// tokens are the keys that clients have, by the id of the key.
	tokens map[string]string
	ids    []string
}

func newRollout(t *testing.T, seed uint64) *rollout {
	t.Helper()
	// Time passes between two calls, so that each use of a key may write.
	began, calls := agenttest.Now(), atomic.Int64{}
	c := open(t, "", Options{Now: func() time.Time {
		return began.Add(time.Duration(calls.Add(1)) * apikey.TouchInterval)
	}})
	r := &rollout{
		keyTenant: newKeyTenant(t, c), random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a simulation
		tokens: map[string]string{},
	}
	former, next := bytes.Repeat([]byte("1"), 32), bytes.Repeat([]byte("2"), 32)
	for _, peppers := range []apikey.Peppers{
		{Present: former}, {Present: former, Next: next}, {Present: next, Previous: former}, {Present: next},
	} {
		r.deployments = append(r.deployments, &identity.Authenticator{Keys: c.Keys(), Peppers: peppers, Now: time.Now})
	}
	return r
}

// instance returns an instance that serves a request.
func (r *rollout) instance() *identity.Authenticator {
	return r.deployments[r.serving[r.random.IntN(len(r.serving))]]
}

func (r *rollout) create() {
	r.t.Helper()
	token := apikey.Generate()
	k, err := r.keys.Create(r.Ctx, newKey().HashedWith(r.instance().Peppers.Present, token))
	must(r.t, err)
	r.tokens[k.ID] = token
	r.ids = append(r.ids, k.ID)
}

// use calls an instance with a key.
func (r *rollout) use(id string) error {
	caller, _, err := r.instance().Authenticate(r.t.Context(), identity.Attempt{Token: r.tokens[id]})
	if err == nil && caller.ID != id {
		return fmt.Errorf("the caller is %s, want %s", caller.ID, id)
	}
	return err
}

func (r *rollout) revokeOne() {
	r.t.Helper()
	i := r.random.IntN(len(r.ids))
	id := r.ids[i]
	must(r.t, r.keys.Revoke(r.Ctx, id))
	r.ids = append(r.ids[:i:i], r.ids[i+1:]...)
	for _, n := range r.serving {
		_, _, err := r.deployments[n].Authenticate(r.t.Context(), identity.Attempt{Token: r.tokens[id]})
		if err == nil {
			r.t.Errorf("step %d accepts a revoked key", n)
		}
	}
}

// serve lets instances of some deployments serve for a while.
func (r *rollout) serve(deployments ...int) {
	r.t.Helper()
	r.serving = deployments
	for range 25 {
		switch n := r.random.IntN(10); {
		case len(r.ids) < 3 || n == 0 && len(r.ids) < maxKeys:
			r.create()
		case n == 1:
			r.revokeOne()
		case n == 2:
			r.keys.client.Flush()
		default:
			id := r.ids[r.random.IntN(len(r.ids))]
			if err := r.use(id); err != nil {
				r.t.Fatalf("instances of the steps %v refuse the key %s: %v", deployments, id, err)
			}
		}
	}
	r.wantKeys(len(r.ids))
}

// TestPeppers_NoKeyIsRefusedWhileOneReplacesAnother runs the whole change, with a roll-back of each step that may be
// rolled back. At any time instances of two neighboring steps serve.
func TestPeppers_NoKeyIsRefusedWhileOneReplacesAnother(t *testing.T) {
	t.Parallel()
	for seed := range testtier.Count(t, 4, 4, 12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := newRollout(t, uint64(seed)) //nolint:gosec // a seed
			for _, steps := range [][]int{
				{0}, {0, 1}, {1}, {0, 1}, {0}, {0, 1}, {1, 2}, {2}, {1, 2}, {1}, {1, 2}, {2},
			} {
				r.serve(steps...)
			}
			// The last step may be taken once no key needs the previous pepper.
			for _, id := range r.ids {
				must(t, r.use(id))
			}
			r.keys.client.Flush()
			present := r.deployments[3].Peppers.Present.ID()
			for _, k := range r.listKeys(100) {
				if k.Pepper != present {
					t.Errorf("the key %s is under the pepper %s, want it moved to %s", k.ID, k.Pepper, present)
				}
			}
			r.serve(2, 3)
			r.serve(3)
		})
	}
}
