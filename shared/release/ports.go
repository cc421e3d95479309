package release

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/page"
)

// Store is the port to the records of releases.
type Store interface {
	// Create writes the next release of an image. It fills in ID and Number, and makes the former release of the image
	// its predecessor. Errors: Conflict (release_open) if a release of the image is open, Unavailable.
	Create(ctx context.Context, r Release) (Release, error)
	// Get reads a release. Errors: NotFound, Unavailable.
	Get(ctx context.Context, id string) (Release, error)
	// List lists the latest releases, newest first. Errors: Unavailable.
	List(ctx context.Context, limit int) ([]Release, error)
	// ListDue lists the releases that the worker carries on. Errors: Unavailable.
	ListDue(ctx context.Context, now time.Time) ([]Release, error)
	// Save writes a release and changes of agents in one commit, if none of them was written since it was read. Errors:
	// ErrSuperseded if one was; Unavailable, after which the commit may have been carried out.
	Save(ctx context.Context, r Release, changes []Change) (Release, error)
}

// Change is what a step of a release does to an agent.
type Change struct{ Before, After agent.Agent }

// Agents is the port to the agents of all organizations.
type Agents interface {
	// ListAll lists agents whose ids come after the given one, in the order of ids. It reads at most limit records.
	// Next is the id to continue after, and empty at the end. Errors: Unavailable.
	ListAll(ctx context.Context, after string, limit int) (page.Page[agent.Agent], error)
	// ListWatched lists the agents that a release watches, at most limit of them. Errors: Unavailable.
	ListWatched(ctx context.Context, releaseID string, limit int) ([]agent.Agent, error)
}

// Metrics is the part of metrics.WorkerStore that tells how agents served.
type Metrics interface {
	Load(ctx context.Context, agentIDs []string) (map[string]metrics.Snapshot, error)
}

// Prober asks a running agent through its hostname.
type Prober interface {
	// Probe checks that the agent serves. Errors: Unavailable.
	Probe(ctx context.Context, a agent.Agent) error
}

// Images is the part of image.Store with which a release makes its version the default one.
type Images interface {
	Get(ctx context.Context, id string) (image.Image, error)
	Put(ctx context.Context, i image.Image) (image.Image, error)
}

// NotFound is the error for a release that does not exist.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "release_not_found", "There is no such release.")
}

// AlreadyOpen is the error for a second release of an image.
func AlreadyOpen(present string) *fault.Error {
	return fault.New(fault.Conflict, "release_open",
		"Release %s of this image is not over. Wait for it, or revert it.", present)
}

// ErrSuperseded means that the release, or an agent, was written since it was read.
const ErrSuperseded = superseded("the release or one of its agents was written since it was read")

type superseded string

// Error implements error.
func (e superseded) Error() string { return string(e) }
