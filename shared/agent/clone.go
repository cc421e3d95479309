package agent

import (
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// SnapshotID is a client's reference to a snapshot.
type SnapshotID string

// JSONSchema implements function.Schemer.
func (SnapshotID) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", Pattern: "^[a-z2-7]{26}-[a-z2-7]{8}$", Description: "The id of a snapshot.",
	}
}

// CloneView is what an agent is a clone of.
type CloneView struct {
	AgentID    string `json:"agent_id" jsonschema:"The id of the agent that the snapshot is of. The agent may be deleted by now."`
	SnapshotID string `json:"snapshot_id" jsonschema:"The id of the snapshot. It may be deleted by now."`
}

// showClone renders what the agent is a clone of; nil if it is none.
func (a Agent) showClone() *CloneView {
	if a.CloneOf == "" {
		return nil
	}
	return &CloneView{AgentID: a.ClonedAgent(), SnapshotID: a.CloneOf}
}

// write writes the view as a value.
func (v *CloneView) write(o *object) {
	if v == nil {
		o.null()
		return
	}
	o.value(v)
}

// ClonedAgent is the id of the agent that this one is a clone of; empty if it is none.
func (a Agent) ClonedAgent() string {
	owner, _, _ := SnapshotOwner(a.CloneOf)
	return owner
}

// Origin is the snapshot whose data a new agent begins with; zero for an agent that begins with none.
type Origin struct {
	SnapshotID string
	// Handle is what the storage of the cells calls the snapshot.
	Handle    string
	SizeBytes int64
	// Image is what the snapshot's agent runs, and Secrets are the names of the secrets that it has.
	Image   image.Choice
	Secrets []string
}

// imageWish is what a new agent asks for: what its client names, or the image of the snapshot's agent, in its default
// version if that of the agent is no longer offered. It is nil for the default image.
func (d Draft) imageWish(now time.Time) *ImageWish {
	source := d.Origin.Image
	switch {
	case d.Image != "":
		return &ImageWish{Selection: d.Image, At: now}
	case source.ID == "":
		return nil
	case source.ID == image.CustomID:
		return &ImageWish{Selection: source.Reference, At: now}
	default:
		return &ImageWish{Selection: source.String(), Instead: source.ID, At: now}
	}
}

// UnknownSnapshot is the error for a clone of a snapshot that does not exist, or whose agent does not.
func UnknownSnapshot() *fault.Error {
	return fault.Validation(fault.ValueError([]any{"body", "from_snapshot"},
		"the organization has no such snapshot; GET /agents/{agent_id}/snapshots lists those of an agent"))
}

// egressPart is what a record calls its rules of egress.
const egressPart = "egress"

// CloneDraft returns the request for an agent that begins with the data of a snapshot, and otherwise with what the
// snapshot's agent has. It leaves out what identifies the agent, what gives access to it, and what makes it act:
// secrets are there by name only, schedules are disabled, and no path is public. Errors: Invalid for an unknown
// snapshot; Conflict for one that is not ready, and while its agent is being deleted.
func (a Agent) CloneDraft(snapshotID string) (Draft, error) {
	s := a.snapshot(snapshotID)
	switch {
	case s == nil || s.Gone():
		return Draft{}, UnknownSnapshot()
	case a.Status == Deleting:
		return Draft{}, a.conflict("a clone")
	case s.Status != SnapshotReady:
		return Draft{}, fault.New(fault.Conflict, "snapshot_not_ready",
			"The snapshot is %s. Only one that is ready can be cloned.", s.Status).WithMeta(a.ConflictMeta())
	}
	a = a.Clone()
	d := Draft{
		Cloud: a.Cloud, Region: a.Region, Config: a.Config, ImagePolicy: a.ImagePolicy,
		MaintenanceWindow: a.MaintenanceWindow, Sandbox: a.Sandbox, Egress: &a.Egress,
		Origin: Origin{SnapshotID: s.ID, Handle: s.Handle, SizeBytes: s.SizeBytes, Image: a.Image.Choice},
		Rest:   a.Rest.Only(egressPart), // a clone reaches no more than the agent, also by rules of a later release
	}
	if p, err := plan.Get(a.Plan); err != nil || !a.Sleep.Equal(DefaultSleep(p)) {
		d.Sleep = &a.Sleep
	}
	d.Env, d.Origin.Secrets = a.cloneEnv()
	for _, f := range a.Files {
		if f.Secret == "" {
			d.Files = append(d.Files, f)
		}
	}
	for _, schedule := range a.Schedules {
		schedule.Disabled = true
		d.Schedules = append(d.Schedules, schedule.spec())
	}
	return d, nil
}

// cloneEnv returns the plain variables of a clone, and the names of the secrets that the agent has, those of its files
// and, up to MaxSecretKeys, those that it lacks itself. Variables that a former release accepted, and no client may set
// any more, are left out; of those that are secrets by today's rules only the name stays.
func (a Agent) cloneEnv() (plain []EnvVar, secrets []string) {
	var names []string
	for _, key := range a.settingKeys() {
		names = append(names, nameOf(key))
	}
	for _, e := range a.Env {
		switch {
		case e.Secret() || isSecret(e.Key, e.Value):
			names = append(names, e.Key)
		case EnvKeyViolation(e.Key) == "":
			plain = append(plain, EnvVar{Key: e.Key, Value: e.Value})
		}
	}
	for _, s := range a.Injected {
		names = append(names, s.Key)
	}
	for _, f := range a.Files {
		if f.Secret != "" {
			names = append(names, f.Secret)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	inherited := a.UnsetSecrets[:min(len(a.UnsetSecrets), max(0, MaxSecretKeys-len(names)))]
	names = slices.DeleteFunc(slices.Concat(names, inherited), func(name string) bool {
		return EnvKeyViolation(name) != ""
	})
	slices.Sort(names)
	return plain, slices.Compact(names)
}

// SetEnv adds plain variables to those of the draft. secrets are those that come with the agent. Errors: Invalid if
// that makes too many.
func (d *Draft) SetEnv(plain []EnvVar, secrets map[string]string) error {
	merged := slices.DeleteFunc(slices.Clone(d.Env), func(e EnvVar) bool {
		_, secret := secrets[e.Key]
		return secret || slices.ContainsFunc(plain, func(n EnvVar) bool { return n.Key == e.Key })
	})
	merged = append(merged, plain...)
	SortEnv(merged)
	values := map[string]any{}
	for _, e := range merged {
		values[e.Key] = e.Value
	}
	if found := EnvViolations(values); len(found) > 0 {
		return fault.Validation(found...)
	}
	d.Env = merged
	return nil
}

// CheckOrigin checks that a volume of the draft's plan has room for the data that the agent begins with. Errors:
// Conflict.
func (d Draft) CheckOrigin() error {
	p, err := plan.Get(d.Plan)
	if err != nil || d.Origin.SizeBytes <= p.StorageBytes() {
		return err
	}
	return fault.New(fault.Conflict, "snapshot_too_large",
		"The snapshot needs a volume of %d GiB, and the plan %s has %d GiB. Choose a larger plan.",
		(d.Origin.SizeBytes+1<<30-1)>>30, d.Plan, p.StorageGiB)
}

// begin makes the agent a clone. The number of its volume is that of a new agent.
func (a *Agent) begin(o Origin) {
	if o.SnapshotID == "" {
		return
	}
	a.CloneOf, a.UnsetSecrets = o.SnapshotID, o.Secrets
	a.Volume = Volume{Source: VolumeSource{SnapshotID: o.SnapshotID, Handle: o.Handle}, Unmade: true}
	a.dropSetSecrets()
}

// dropSetSecrets takes the names that the agent has a variable of off the list of those that it lacks.
func (a *Agent) dropSetSecrets() {
	a.UnsetSecrets = slices.DeleteFunc(slices.Clone(a.UnsetSecrets), func(name string) bool {
		return a.injected(secret.BrokeredKey(name)) != nil ||
			slices.ContainsFunc(a.Env, func(e EnvVar) bool { return e.Key == name })
	})
}

// showUnsetSecrets lists the names of secrets that the agent lacks. One that is being set is none of them.
func (a Agent) showUnsetSecrets() []string {
	names := []string{}
	for _, name := range a.UnsetSecrets {
		if !a.HasSecret(name) && !a.hasBrokered(name) {
			names = append(names, name)
		}
	}
	return names
}
