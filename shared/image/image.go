// Package image describes the images that agents can run: the operator's catalog, its versions, and how an agent's
// selection becomes the image that its pod runs. It does not fetch images and knows no registry.
package image

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/plan"
)

// Image is one runtime that agents can run: an entry of the catalog.
type Image struct {
	// ID is a slug, such as "assistant".
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	DocsURL     string `json:"docs_url,omitempty"`
	// MinPlan is the smallest plan of agents that may run the image; empty allows every plan.
	MinPlan plan.ID `json:"min_plan,omitempty"`
	// DefaultVersion is the version that new agents take, and agents that follow releases at their next start.
	DefaultVersion string `json:"default_version"`
	// DefaultBy is the release that last decided on DefaultVersion. With it, a late write of a release that was
	// reverted fails.
	DefaultBy string `json:"-"`
	Runtime
	// Versions are sorted from the oldest to the newest.
	Versions []Version `json:"versions"`
	// Revision is the store's revision of the record. Reading sets it.
	Revision string `json:"-"`
	// Rest is what other releases stored in the record. Reading sets it.
	Rest *document.Rest `json:"-"`
}

// Version is one build of an image.
type Version struct {
	Version string `json:"version"`
	// Reference names the build by digest: registry/repository@sha256:….
	Reference string    `json:"image"`
	State     State     `json:"state,omitempty"`
	Notes     string    `json:"notes,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// State is whether agents may take a version.
type State string

// The states.
const (
	// Available versions may be taken by every agent.
	Available State = "available"
	// Deprecated versions may be taken, but clients see that they had better not.
	Deprecated State = "deprecated"
	// Withdrawn versions may be taken by no agent. Agents that run one keep it until they take another one.
	Withdrawn State = "withdrawn"
)

// Values lists the states.
func (State) Values() []string {
	return []string{string(Available), string(Deprecated), string(Withdrawn)}
}

// Runtime is how a container of an image is run. Zero values are the platform's defaults.
type Runtime struct {
	// Port is the $PORT on which the container listens, and APIPort the one on which it serves /v1, if that is another.
	Port    int `json:"port,omitempty"`
	APIPort int `json:"api_port,omitempty"`
	// HealthPath is a path that the container answers with status 200 once it serves. If empty, it serves once it
	// accepts connections.
	HealthPath string `json:"health_path,omitempty"`
	// BusyPath is a path on which the container says whether it must not sleep, with the body {"busy": true}; empty for
	// a container that does not say so there. Package front describes the answer.
	BusyPath string `json:"busy_path,omitempty"`
	// Auth says who checks the credentials of requests: dataplane.AuthFront, or dataplane.AuthImage.
	Auth string `json:"auth,omitempty"`
	// Command and Args replace the image's own.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Env has defaults of the container's environment. The agent's own variables win. A value may refer to variables of
	// the platform and to the agent's, as in $(PORT).
	Env Env `json:"env,omitempty"`
	// DataPath is where the agent's volume is mounted, and Home is the container's $HOME; both are /data by default.
	DataPath string `json:"data_path,omitempty"`
	Home     string `json:"home,omitempty"`
	// GraceSeconds is how long the container may take to end after SIGTERM.
	GraceSeconds int `json:"grace_seconds,omitempty"`
	// PublicPaths are prefixes of paths that anyone may request: the front forwards them without a credential.
	PublicPaths []string `json:"public_paths,omitempty"`
	// Quiesce is the path of a program of the image that makes the volume quiet for a snapshot; empty if it has none.
	// It is run in the agent's container with the argument begin, after which the volume must stay as it is until it is
	// run with the argument end.
	Quiesce string `json:"quiesce,omitempty"`
	// RestoreOnRevert says that a former version cannot read the data of a later one: an agent that goes back gets the
	// data from before its update.
	RestoreOnRevert bool `json:"restore_on_revert,omitempty"`
	// Kernel is KernelLinux if the image needs system calls that a sandbox does not have.
	Kernel Kernel `json:"kernel,omitempty"`
}

// Kernel is what an image needs of the kernel below it.
type Kernel string

// The kernels.
const (
	// KernelAny is the default: the image runs in a sandbox, too.
	KernelAny Kernel = "any"
	// KernelLinux needs the node's own kernel: agents with a sandbox cannot run the image.
	KernelLinux Kernel = "linux"
)

// Values lists the kernels.
func (Kernel) Values() []string { return []string{string(KernelAny), string(KernelLinux)} }

// Env are variables, sorted by name. In JSON it is an object.
type Env []Variable

// Variable is one variable of a container's environment.
type Variable struct{ Name, Value string }

// MarshalJSON implements json.Marshaler.
func (e Env) MarshalJSON() ([]byte, error) {
	object := make(map[string]string, len(e))
	for _, v := range e {
		object[v.Name] = v.Value
	}
	return json.Marshal(object)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Env) UnmarshalJSON(b []byte) error {
	var object map[string]string
	if err := json.Unmarshal(b, &object); err != nil {
		return err
	}
	*e = nil
	for _, name := range slices.Sorted(maps.Keys(object)) {
		*e = append(*e, Variable{Name: name, Value: object[name]})
	}
	return nil
}

// Choice is what an agent runs: a version of an image, and how that is run. An agent's record has all of it, so that
// its pod depends on nothing that may change in the catalog. It is zero for an agent that a former release made.
type Choice struct {
	ID      string
	Version string
	// Reference names the build, by digest.
	Reference string
	Runtime
}

// Digest is the digest of the build, such as "sha256:…"; empty for a reference without one.
func (c Choice) Digest() string { return digestOf(c.Reference) }

// Digest is the digest of the build; empty for a reference without one.
func (v Version) Digest() string { return digestOf(v.Reference) }

func digestOf(reference string) string {
	_, digest, _ := strings.Cut(reference, "@")
	return digest
}

// String names the choice as a client does: the reference of a custom image, or else id@version. It is empty for the
// zero Choice.
func (c Choice) String() string {
	switch c.ID {
	case "":
		return ""
	case CustomID:
		return c.Reference
	default:
		return c.ID + "@" + c.Version
	}
}

// Same reports whether two choices run the same build in the same way. How snapshots are taken is no part of that.
func (c Choice) Same(d Choice) bool {
	return c.ID == d.ID && c.Reference == d.Reference && c.equal(d.Runtime)
}

func (r Runtime) equal(s Runtime) bool {
	return r.Port == s.Port && r.APIPort == s.APIPort && r.HealthPath == s.HealthPath &&
		r.BusyPath == s.BusyPath && r.Auth == s.Auth &&
		slices.Equal(r.Command, s.Command) && slices.Equal(r.Args, s.Args) && slices.Equal(r.Env, s.Env) &&
		r.DataPath == s.DataPath && r.Home == s.Home && r.GraceSeconds == s.GraceSeconds &&
		slices.Equal(r.PublicPaths, s.PublicPaths) && r.Kernel == s.Kernel
}

// Clone returns a copy that shares no memory with the choice.
func (c Choice) Clone() Choice {
	c.Command, c.Args, c.Env = slices.Clone(c.Command), slices.Clone(c.Args), slices.Clone(c.Env)
	c.PublicPaths = slices.Clone(c.PublicPaths)
	return c
}

// Find returns the version with a name.
func (i Image) Find(version string) (Version, bool) {
	for _, v := range i.Versions {
		if v.Version == version {
			return v, true
		}
	}
	return Version{}, false
}

// choice is what an agent runs that takes a version.
func (i Image) choice(v Version) Choice {
	return Choice{ID: i.ID, Version: v.Version, Reference: v.Reference, Runtime: i.Runtime}.Clone()
}
