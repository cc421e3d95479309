package provisioning

import (
	"context"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// bind makes all stored values part of the agent's desired state, in one write of the record.
func (w *run) bind(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	if len(a.OperationsAt(secret.Bind)) == 0 {
		return a, nil
	}
	return w.Records.Update(ctx, a, func(a *agent.Agent) { a.BindSecrets(w.Now()) })
}

// syncSecrets runs the stage of the secrets. A new agent without secrets skips it, unless its last secret was deleted.
func (w *run) syncSecrets(ctx context.Context, a agent.Agent, m *RuntimeInput) (agent.StageStatus, error) {
	if key := a.AwaitedSecret(); key != "" {
		return "", fault.New(fault.Unavailable, agent.CodeValueUnavailable,
			"The secret store may not have the value of %s. "+
				"Reconcile its secret operation, or set the secret again with PUT secrets.", key)
	}
	fresh := a.Status == agent.Provisioning || a.Status == agent.Pending
	if fresh && len(a.OperationsAt(secret.Bind)) > 0 {
		return "", agent.ErrSuperseded // the value was stored after this run bound its secrets
	}
	if fresh && !wantsSecrets(a) && len(a.OperationsAt(secret.Sync)) == 0 {
		return agent.StageSkipped, nil
	}
	return agent.StageSucceeded, w.writeSecrets(ctx, a, m)
}

// fetchCredentials reads the credentials, or generates the first ones. It records the version of new ones immediately:
// the objects that it names must never be newer than the record. The fence of a new agent is recorded already.
func (w *run) fetchCredentials(ctx context.Context, a agent.Agent, m *RuntimeInput, fence agent.StoringFence) (
	agent.Agent, error,
) {
	var err error
	if a.CredentialVersion > 0 {
		m.Credentials, err = w.Secrets.GetCredentials(ctx, a.ID, a.CredentialVersion)
		return a, err
	}
	adding, cancel := context.WithTimeout(ctx, secret.AddingUntil(fence.Until()).Sub(w.Now()))
	defer cancel()
	var version int64
	if m.Credentials, version, err = w.Secrets.EnsureCredentials(adding, a.ID, agent.DashboardUsername); err != nil {
		return a, err
	}
	latest, err := w.progress(ctx, a, func(a *agent.Agent) { a.CredentialVersion = version; a.LiftFence(fence) })
	if err != nil {
		return a, err
	}
	return latest, nil
}

func wantsSecrets(a agent.Agent) bool {
	for _, e := range a.Env {
		if e.Secret() {
			return true
		}
	}
	return false
}

// writeSecrets reads the secret variables from the secret store and writes them and the credentials into the namespace.
func (w *run) writeSecrets(ctx context.Context, a agent.Agent, m *RuntimeInput) error {
	m.Secrets = map[string][]byte{}
	for _, e := range a.Env {
		if !e.Secret() {
			continue
		}
		value, err := w.Secrets.Read(ctx, a.ID, e.Key, e.SecretVersion)
		if err != nil {
			return err
		}
		m.Secrets[e.Key] = value
	}
	if m.Credentials == (credential.Credentials{}) {
		var err error
		if m.Credentials, err = w.Secrets.GetCredentials(ctx, a.ID, a.CredentialVersion); err != nil {
			return err
		}
	}
	return w.Cluster.Apply(ctx, a, agent.StageSecrets, *m)
}

// syncStopped writes the secrets of an agent that does not run, if operations wait for that. If the namespace does not
// exist yet, the agent's start writes them.
func (w *run) syncStopped(ctx context.Context, a agent.Agent) error {
	if len(a.OperationsAt(secret.Sync)) == 0 || a.CredentialVersion == 0 {
		return nil
	}
	err := w.writeSecrets(ctx, a, &RuntimeInput{})
	if fault.Code(err) == CodeNamespaceMissing {
		return nil
	}
	return err
}

// proof makes the probe that proves a rotation: the agent accepts the new credentials and refuses the former ones.
// Those that are no longer in the store, as after a restore of an older record, cannot be tried.
func (w *run) proof(ctx context.Context, a agent.Agent) (func(context.Context, agent.Agent) error, error) {
	latter, err := w.Secrets.GetCredentials(ctx, a.ID, a.CredentialVersion)
	if err != nil {
		return nil, err
	}
	former := credential.Credentials{}
	if a.FormerCredential > 0 {
		former, err = w.Secrets.GetCredentials(ctx, a.ID, a.FormerCredential)
		if err != nil && fault.Code(err) != agent.CodeValueUnavailable {
			return nil, err
		}
	}
	return func(ctx context.Context, a agent.Agent) error {
		if err := w.wants(ctx, a, latter, Accepted); err != nil {
			return err
		}
		if former == (credential.Credentials{}) {
			return nil
		}
		return w.wants(ctx, a, former, Refused)
	}, nil
}

func (w *run) wants(ctx context.Context, a agent.Agent, c credential.Credentials, want Verdict) error {
	got, err := w.Prober.Accepts(ctx, a, c)
	if err == nil && got != want {
		err = fault.New(fault.Unavailable, codeGatewayUnhealthy, "The agent has not picked up its new credentials yet.")
	}
	return err
}

// finish destroys the versions that operations have replaced. It never destroys a version newer than the operation's:
// another request may be adding it. If a version can't be destroyed, finish records those that are.
func (w *run) finish(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	done, superseded := a.OperationsAt(secret.Destroy, secret.Complete), a.SupersededVersions()
	if len(done) == 0 && len(superseded) == 0 {
		return a, nil
	}
	var ids []string
	for _, o := range done {
		from, before := a.ObsoleteVersions(o)
		if err := w.destroy(ctx, a, agent.VersionSpan{Key: o.Key, From: from, Before: before}); err != nil {
			return a, w.recordFailedDestroy(ctx, a, ids, nil, err)
		}
		ids = append(ids, o.ID)
	}
	for i, span := range superseded {
		if err := w.destroy(ctx, a, span); err != nil {
			return a, w.recordFailedDestroy(ctx, a, ids, superseded[:i], err)
		}
	}
	return w.Records.Update(ctx, a, func(a *agent.Agent) { w.recordDestroyed(a, ids, superseded) })
}

// destroy destroys versions of an agent.
func (w *run) destroy(ctx context.Context, a agent.Agent, v agent.VersionSpan) error {
	if v.From >= v.Before {
		return nil
	}
	if w.Cleanup != nil {
		if err := w.Cleanup.TakeCleanup(ctx, v.Before-v.From); err != nil {
			return err
		}
	}
	return w.Secrets.DestroyVersions(ctx, a.ID, v.Key, v.From, v.Before)
}

// recordDestroyed records that the versions of operations, and superseded ones, are destroyed.
func (w *run) recordDestroyed(a *agent.Agent, ids []string, superseded []agent.VersionSpan) {
	a.MarkPruned(superseded)
	a.FinishOperations(ids, w.Now())
}

// recordFailedDestroy records why versions could not be destroyed, and which ones were. The agent itself is not
// affected.
func (w *run) recordFailedDestroy(ctx context.Context, a agent.Agent, ids []string, superseded []agent.VersionSpan,
	cause error,
) error {
	last, cancel := w.record(ctx)
	defer cancel()
	e := fault.From(cause)
	_, err := w.Records.Update(last, a, func(a *agent.Agent) {
		w.recordDestroyed(a, ids, superseded)
		a.RetryDestroy(e.Code, isOutage(e), w.Now())
	})
	if err != nil {
		return err
	}
	return fault.New(fault.Unavailable, e.Code,
		"Obsolete secret versions could not be destroyed. The service retries automatically.").WithCause(cause)
}
