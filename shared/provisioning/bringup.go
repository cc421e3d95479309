package provisioning

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/parallel"
	"agents.example/controlplane/shared/secret"
)

// chain is a list of stages that are applied one after the other.
type chain []agent.StageName

// order lists the chains in groups. The chains of a group are applied concurrently. The pod starts as soon as its
// namespace, its environment and its volume exist. The policy comes before what it must have room for.
func order() [][]chain {
	return [][]chain{
		{{agent.StageNamespace}},
		{{agent.StagePolicy, agent.StageStorage}, {agent.StageIdentity, agent.StageSecrets}},
		{{agent.StageRuntime}},
		{{agent.StageRoute}},
	}
}

// todo lists the stages to apply, in the order of order: the unfinished ones and, for an agent that is not being
// provisioned, those that a change can affect. A change of the size leaves all stages unfinished. A second attempt
// applies the other objects of such an agent, too, in case someone deleted one. It leaves out the volume.
//
// A running agent's namespace does not come first. If it is gone, another stage fails, and no worker makes a new one
// with an empty volume.
func todo(a agent.Agent) [][]chain {
	left := a.Unfinished()
	if !a.BeingProvisioned() || !a.AppliedAt.IsZero() {
		left = append(left, agent.StageSecrets, agent.StageRuntime)
		if a.Attempts > 0 || !a.AppliedAt.IsZero() {
			left = append(left, agent.StagePolicy, agent.StageIdentity, agent.StageRoute)
		}
	}
	groups := order()
	if !a.BeingProvisioned() && slices.Contains(left, agent.StageNamespace) {
		groups = slices.Insert(groups, 0, []chain{{agent.StagePolicy}})
		groups[2][0] = chain{agent.StageStorage}
	}
	var found [][]chain
	for _, group := range groups {
		var chains []chain
		for _, c := range group {
			c = slices.DeleteFunc(c, func(s agent.StageName) bool { return !slices.Contains(left, s) })
			if len(c) > 0 {
				chains = append(chains, c)
			}
		}
		if len(chains) > 0 {
			found = append(found, chains)
		}
	}
	return found
}

// bringUp applies the objects of an agent that wants a pod, and looks at it once. It writes the record at the beginning
// and at the end, and for the first credentials.
func (w *run) bringUp(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	groups, until := todo(a), w.Now().Add(secret.StoringTime)
	var fence agent.StoringFence
	a, err := w.begin(ctx, a, func(a *agent.Agent) {
		for _, c := range slices.Concat(groups[:min(1, len(groups))]...) {
			a.Learn(agent.StageBegan{Stage: c[0], At: w.Now()})
		}
		if a.CredentialVersion == 0 {
			fence = a.FenceStoring(until)
		}
	})
	if err != nil {
		return a, err
	}
	w.keepLast(ctx, a)
	for i, group := range groups {
		var failed *outcome
		if a, failed = w.applyGroup(ctx, a, group, i == 0, fence); failed != nil {
			w.learn(agent.StageTried{Stage: failed.stage, Since: failed.since})
			return a, w.failed(ctx, a, failed.stage, failed.err)
		}
	}
	w.learn(agent.ObjectsApplied{At: w.Now()})
	return w.look(ctx, a)
}

// outcome is what applying a chain led to.
type outcome struct {
	agent agent.Agent
	// findings is what the record of the agent must learn.
	findings []agent.Finding
	// stage is the one that failed with err, and since is when it began.
	stage agent.StageName
	since time.Time
	err   error
}

// applyGroup applies the chains of a group concurrently. It returns the present record and the first chain that failed.
func (w *run) applyGroup(ctx context.Context, a agent.Agent, group []chain, begun bool, fence agent.StoringFence) (
	present agent.Agent, failed *outcome,
) {
	outcomes := make([]outcome, len(group))
	indexes := make([]int, len(group))
	for i := range indexes {
		indexes[i] = i
	}
	began := w.Now()
	errs := parallel.ForEach(indexes, len(indexes), func(i int) error {
		outcomes[i] = w.applyChain(ctx, a, group[i], begun, fence)
		return outcomes[i].err
	})
	present = a
	for i, o := range outcomes {
		w.learn(o.findings...)
		if o.agent.CredentialVersion > a.CredentialVersion {
			present = o.agent
		}
		if errs[i] != nil && failed == nil {
			failed = &outcome{stage: cmp.Or(o.stage, group[i][0]), since: o.since, err: errs[i]}
			if o.since.IsZero() {
				failed.since = began // a panic leaves no outcome
			}
		}
	}
	return present, failed
}

// applyChain applies the stages of a chain. The record shows the first one as begun already if begun is true.
func (w *run) applyChain(ctx context.Context, a agent.Agent, stages chain, begun bool,
	fence agent.StoringFence,
) (o outcome) {
	o.agent = a
	input := &RuntimeInput{}
	for i, stage := range stages {
		from := w.Now()
		if !begun || i > 0 {
			o.findings = append(o.findings, agent.StageBegan{Stage: stage, At: from})
		}
		status := agent.StageSucceeded
		switch stage {
		case agent.StageIdentity:
			if o.agent, o.err = w.fetchCredentials(ctx, o.agent, input, fence); o.err == nil {
				o.err = w.Cluster.Apply(ctx, o.agent, stage, *input)
			}
		case agent.StageSecrets:
			status, o.err = w.syncSecrets(ctx, o.agent, input)
		default:
			o.err = w.Cluster.Apply(ctx, o.agent, stage, RuntimeInput{})
		}
		if errors.Is(o.err, ErrVolumeUnbound) {
			o.err = nil
			continue // growVolume ends the stage
		}
		if o.err != nil {
			o.stage, o.since = stage, from
			return o
		}
		if key := input.Credentials.APIKey; key != "" {
			o.findings = append(o.findings, agent.APIKeyUsed{
				Version: o.agent.CredentialVersion, Hash: credential.HashKey(a.ID, key),
			})
		}
		o.findings = append(o.findings, agent.StageEnded{Stage: stage, Status: status, Since: from, At: w.Now()})
	}
	return o
}
