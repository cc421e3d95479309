package gke

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// configHash stands for everything in an agent's record that a pod is started with: two records with one hash want the
// same pod. It is on the pod, so that a change replaces the pod, and so that the pod of the desired state can be told
// from the one before.
//
// Secrets are in it by their versions, not by their values, which could be guessed from a hash. Images are in it by
// their digests. Settings are not in it: they differ between two versions of this program, and either must recognise
// the pod that the other made.
func configHash(a agent.Agent) string {
	versions := map[string]int64{}
	for _, e := range a.Env {
		if e.Secret() && (a.Imports || e.Key != dataplane.EnvImportURL) {
			versions[e.Key] = e.SecretVersion
		}
	}
	b, err := json.Marshal(struct {
		Plain       map[string]string
		Secrets     map[string]int64
		Credentials int64
		Rollout     int64
		Sandbox     bool
		Plan        plan.ID
		Image       *build          `json:",omitempty"`
		Front       *build          `json:",omitempty"`
		Name        string          `json:",omitempty"`
		Config      json.RawMessage `json:",omitempty"`
		Files       []agent.File    `json:",omitempty"`
		PublicPaths []string        `json:",omitempty"`
		SleepAfter  int64           `json:",omitempty"`
		Imports     bool            `json:",omitempty"`
		Egress      *exitWay        `json:",omitempty"`
	}{
		plainEnv(a), versions, a.CredentialVersion, a.Rollout, a.Sandbox, a.Plan, buildOf(a.Image), buildOf(a.Front),
		a.NameAtStart, a.ConfigFile(), a.Files, a.PublicPaths, a.Sleep.AfterSeconds, a.Imports,
		wayOf(a),
	})
	if err != nil {
		return "" // strings and numbers always encode
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// exitWay is what a hash has of an agent's way out. The names that an agent may reach are not in it, nor the versions
// of brokered secrets: the gate takes both over.
type exitWay struct {
	// Hosts stands for the hosts of brokered secrets, and Keys has the variables with placeholders.
	Hosts string
	Keys  []string
}

// wayOf is nil for an agent without a gate.
func wayOf(a agent.Agent) *exitWay {
	p, ok := a.EgressPolicy()
	if !ok {
		return nil
	}
	w := &exitWay{Hosts: p.InjectHash()}
	for _, s := range a.Injected {
		w.Keys = append(w.Keys, s.Key)
	}
	return w
}

// build is what a hash has of an image: a copy of it in another registry is the same build.
type build struct {
	Digest  string
	Runtime image.Runtime
}

// buildOf is nil for an image that the agent's record does not name.
func buildOf(s agent.Software) *build {
	if s.Reference == "" {
		return nil
	}
	return &build{Digest: cmp.Or(s.Digest(), s.Reference), Runtime: s.Runtime}
}
