package secretwrite

import (
	"context"
	"slices"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/secret"
)

// lookups are the keys whose latest versions a request has looked up, each with the agent's record before that.
type lookups map[string]agent.Agent

// current reports whether the latest version of a key was looked up, and the record of the key is the same as before
// that. Then no request can have added a version in between: each one records its operation first.
func (l lookups) current(a agent.Agent, key string) bool {
	before, ok := l[key]
	return ok && a.SameSecret(before, key)
}

// cover reports whether the latest version of each operation's key was looked up.
func (l lookups) cover(operations []secret.Operation) bool {
	return !slices.ContainsFunc(operations, func(o secret.Operation) bool { _, ok := l[o.Key]; return !ok })
}

// lookUp sets LatestBefore of the operations that are about to begin. It charges for them before it calls the secret
// store. It skips operations that the record refuses or that are already satisfied, and keys that were looked up since
// the record of the key changed.
func (d Service) lookUp(ctx context.Context, a agent.Agent, requested []secret.Operation, done lookups) error {
	if call.From(ctx).Attempt.Replaying() {
		return nil // the answer is kept, so nothing is recorded
	}
	planned, err := a.PlanOperations(requested, d.now())
	if err != nil {
		return nil //nolint:nilerr // the change is refused with this error, unless its answer is kept
	}
	var total Cost
	var missing []int
	for i, o := range requested {
		begins := slices.ContainsFunc(planned, func(p secret.Operation) bool { return p.ID == o.ID })
		if begins && !done.current(a, o.Key) {
			missing, total = append(missing, i), total.Plus(cost(a, o))
		}
	}
	if kept, err := d.charge(ctx, total); kept || err != nil {
		return err
	}
	for _, i := range missing {
		done[requested[i].Key] = a
	}
	if call.From(ctx).Rehearsal != nil {
		return nil // nothing was charged for these calls, and no rule depends on what they find
	}
	return forEach(len(missing), func(i int) error {
		return d.lookUpLatest(ctx, a, &requested[missing[i]])
	})
}

// lookUpLatest sets LatestBefore of an operation. If the outcome of an earlier operation of the key is unknown, its
// version may be newer than what the store lists and what the record knows. It is then looked up by its number, so that
// it is not taken for the new operation's, and is destroyed with it.
func (d Service) lookUpLatest(ctx context.Context, a agent.Agent, o *secret.Operation) error {
	listed, err := d.Secrets.LatestVersion(ctx, a.ID, o.Key)
	o.LatestBefore = max(listed, a.HighestVersion(o.Key))
	uncertain := slices.ContainsFunc(a.Operations, func(older secret.Operation) bool {
		return older.Key == o.Key && older.Open() && older.Stage == secret.Store
	})
	for found := uncertain; err == nil && found; {
		_, found, err = d.Secrets.VersionCreated(ctx, a.ID, o.Key, o.LatestBefore+1)
		if found {
			o.LatestBefore++
		}
	}
	return err
}
