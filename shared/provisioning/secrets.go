package provisioning

import (
	"context"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// bind makes all stored values part of the agent's desired state, in one write of the record.
func (w run) bind(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	if len(a.OperationsAt(secret.Bind)) == 0 {
		return a, nil
	}
	return w.Records.Update(ctx, a, func(a *agent.Agent) { a.BindSecrets(w.Now()) })
}

// syncSecrets runs the stage of the secrets. A new agent without secrets skips it, unless its last secret was deleted.
func (w run) syncSecrets(ctx context.Context, a agent.Agent, m *RuntimeInput) (agent.StageStatus, func(*agent.Agent),
	error,
) {
	if key := a.AwaitedSecret(); key != "" {
		return "", nil, fault.New(fault.Unavailable, codeValueUnavailable,
			"The secret store may not have the value of %s. "+
				"Reconcile its secret operation, or set the secret again with PUT secrets.", key)
	}
	learned := func(a *agent.Agent) { a.MarkSecretsSynced(w.Now()) }
	fresh := a.Status == agent.Provisioning || a.Status == agent.Pending
	if fresh && len(a.OperationsAt(secret.Bind)) > 0 {
		return "", nil, agent.ErrSuperseded // the value was stored after this run bound its secrets
	}
	if fresh && !wantsSecrets(a) && len(a.OperationsAt(secret.Sync)) == 0 {
		return agent.StageSkipped, learned, nil
	}
	return agent.StageSucceeded, learned, w.writeSecrets(ctx, a, m)
}

// ensureCredentials generates the agent's first credentials. It first records until when they may appear in the secret
// store. Otherwise, a deletion of the agent could end before they do, and they would stay forever. Once the secret
// store has answered, nothing can appear later.
func (w run) ensureCredentials(ctx context.Context, a agent.Agent, m *RuntimeInput) (func(*agent.Agent), error) {
	until := w.Now().Add(secret.StoringTime)
	var fence agent.StoringFence
	if _, err := w.progress(ctx, a, func(a *agent.Agent) { fence = a.FenceStoring(until) }); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, secret.AddingUntil(until).Sub(w.Now()))
	defer cancel()
	var version int64
	var err error
	m.Credentials, version, err = w.Secrets.EnsureCredentials(ctx, a.ID, agent.DashboardUsername)
	return func(a *agent.Agent) { a.CredentialVersion = version; a.LiftFence(fence) }, err
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
func (w run) writeSecrets(ctx context.Context, a agent.Agent, m *RuntimeInput) error {
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
		if _, err := w.fetchCredentials(ctx, a, m); err != nil {
			return err
		}
	}
	return w.Cluster.Apply(ctx, a, agent.StageSecrets, *m)
}

// syncStopped writes the secrets of an agent that does not run, if operations wait for that. If the namespace does not
// exist yet, the agent's start writes them.
func (w run) syncStopped(ctx context.Context, a agent.Agent) error {
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
func (w run) proof(ctx context.Context, a agent.Agent) (func(context.Context, agent.Agent) error, error) {
	latter, err := w.Secrets.GetCredentials(ctx, a.ID, a.CredentialVersion)
	if err != nil {
		return nil, err
	}
	former := credential.Credentials{}
	if a.FormerCredential > 0 {
		if former, err = w.Secrets.GetCredentials(ctx, a.ID, a.FormerCredential); err != nil {
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

func (w run) wants(ctx context.Context, a agent.Agent, c credential.Credentials, want Verdict) error {
	got, err := w.Prober.Accepts(ctx, a, c)
	if err == nil && got != want {
		err = fault.New(fault.Unavailable, codeGatewayUnhealthy, "The agent has not picked up its new credentials yet.")
	}
	return err
}

// finish destroys the versions that operations have replaced. It never destroys a version newer than the operation's:
// another request may be adding it.
func (w run) finish(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	done := a.OperationsAt(secret.Destroy, secret.Complete)
	if len(done) == 0 {
		return a, nil
	}
	ids := make([]string, len(done))
	for i, o := range done {
		ids[i] = o.ID
		from, before := a.ObsoleteVersions(o)
		if from >= before {
			continue
		}
		if err := w.Secrets.DestroyVersions(ctx, a.ID, o.Key, from, before); err != nil {
			return a, w.recordFailedDestroy(ctx, a, err)
		}
	}
	return w.Records.Update(ctx, a, func(a *agent.Agent) { a.FinishOperations(ids, w.Now()) })
}

// recordFailedDestroy records why versions could not be destroyed. The agent itself is not affected.
func (w run) recordFailedDestroy(ctx context.Context, a agent.Agent, cause error) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	e := fault.From(cause)
	_, err := w.Records.Update(last, a, func(a *agent.Agent) { a.RetryDestroy(e.Code, isOutage(e), w.Now()) })
	if err != nil {
		return err
	}
	return fault.New(fault.Unavailable, e.Code,
		"Obsolete secret versions could not be destroyed. The service retries automatically.").WithCause(cause)
}
