package secretwrite_test

import (
	"context"
	"fmt"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
)

// secretStore implements credential.SecretStore and credential.SecretWriter.
type secretStore struct{ *simulation }

func (w secretStore) add(key string, v version) (number int64, err error) {
	err = w.effect(func() {
		v.created = time.Now()
		w.versions[key] = append(w.versions[key], v)
		number = int64(len(w.versions[key]))
	})
	if err != nil && w.mutant == "repeated add" {
		w.versions[key] = append(w.versions[key], v)
		return int64(len(w.versions[key])), nil
	}
	return number, err
}

func (w secretStore) renew() version {
	w.renewals++
	text := fmt.Sprint("credential ", w.renewals)
	return version{credentials: credential.Credentials{
		DashboardUsername: "admin", DashboardPassword: text,
		APIKey: text,
	}}
}

func (w secretStore) Put(_ context.Context, _, key string, value []byte) (int64, error) {
	return w.add(key, version{value: string(value)})
}

func (w secretStore) AddCredentials(context.Context, string, string) (int64, error) {
	return w.add(secret.CredentialsKey, w.renew())
}

func (w secretStore) LatestVersion(_ context.Context, _, key string) (number int64, err error) {
	err = w.effect(func() { number = int64(len(w.versions[key])) })
	return number, err
}

func (w secretStore) VersionCreated(_ context.Context, _, key string, number int64) (created time.Time, found bool,
	err error,
) {
	err = w.effect(func() {
		if found = number <= int64(len(w.versions[key])); found && !w.versions[key][number-1].destroyed {
			created = w.versions[key][number-1].created
		}
	})
	if w.mutant == "blind adoption" && number == w.record.HighestVersion(key)+1 {
		return time.Now(), true, nil
	}
	return created, found, err
}

func (w secretStore) EnsureCredentials(context.Context, string, string) (c credential.Credentials, number int64,
	err error,
) {
	err = w.effect(func() {
		if len(w.versions[secret.CredentialsKey]) == 0 {
			w.versions[secret.CredentialsKey] = []version{w.renew()}
		}
		c = w.versions[secret.CredentialsKey][0].credentials
	})
	return c, 1, err
}

func (w secretStore) find(key string, number int64) (version, error) {
	if number < 1 || number > int64(len(w.versions[key])) || w.versions[key][number-1].destroyed {
		return version{}, fault.New(fault.BadRequest, "secret_value_unavailable", "There is no such version.")
	}
	return w.versions[key][number-1], nil
}

func (w secretStore) GetCredentials(_ context.Context, _ string, number int64) (credential.Credentials, error) {
	v, err := w.find(secret.CredentialsKey, number)
	return v.credentials, err
}

func (w secretStore) Read(_ context.Context, _, key string, number int64) ([]byte, error) {
	v, err := w.find(key, number)
	return []byte(v.value), err
}

func (w secretStore) DestroyVersions(_ context.Context, _, key string, from, before int64) error {
	if w.mutant == "greedy prune" {
		before++
	}
	return w.effect(func() {
		for i := range w.versions[key] {
			if number := int64(i) + 1; number >= from && number < before {
				w.versions[key][i].destroyed = true
			}
		}
	})
}

func (w secretStore) Destroy(context.Context, string, []string) error {
	return w.effect(func() { clear(w.versions) })
}

// cluster implements provisioning.Cluster and provisioning.AgentProber.
type cluster struct{ *simulation }

func config(a agent.Agent) string {
	text := fmt.Sprint(a.CredentialVersion, a.Rollout)
	for _, e := range a.Env {
		text += fmt.Sprint(" ", e.Key, e.Value, e.SecretVersion)
	}
	return text
}

func (w cluster) Apply(_ context.Context, a agent.Agent, stage agent.StageName, m provisioning.RuntimeInput) error {
	return w.effect(func() {
		switch {
		case stage == agent.StageIdentity && len(a.Secrets()) == 0, stage == agent.StageSecrets:
			w.written = &pod{env: map[string]string{}, credentials: m.Credentials}
			for key, value := range m.Secrets {
				w.written.env[key] = string(value)
			}
		case stage == agent.StageRuntime && !a.WantsPod():
			w.pod, w.next = nil, nil
		case stage == agent.StageRuntime && (w.pod == nil || w.pod.config != config(a)):
			started := *w.written
			started.config = config(a)
			w.next = &started
		}
	})
}

func (w cluster) AwaitReady(_ context.Context, a agent.Agent) error {
	if w.mutant == "early proof" && w.pod != nil {
		return nil
	}
	if w.next != nil {
		w.pod, w.next = w.next, nil
	}
	if w.pod == nil || w.pod.config != config(a) {
		return &provisioning.PodFailure{Code: "readiness_timeout", Message: "another pod runs"}
	}
	return nil
}

func (w cluster) Prune(context.Context, agent.Agent) error { return nil }

func (w cluster) Delete(context.Context, agent.Agent) error {
	return w.effect(func() { w.written, w.pod, w.next = nil, nil, nil })
}

func (w cluster) AwaitGone(context.Context, agent.Agent) error { return nil }

func (w cluster) Probe(context.Context, agent.Agent) error { return nil }

func (w cluster) Accepts(_ context.Context, _ agent.Agent, c credential.Credentials) (provisioning.Verdict, error) {
	switch {
	case w.pod == nil:
		return "", errLost
	case w.pod.credentials == c:
		return provisioning.Accepted, nil
	default:
		return provisioning.Refused, nil
	}
}
