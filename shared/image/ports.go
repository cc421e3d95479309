package image

import (
	"context"
	"time"

	"agents.example/controlplane/shared/fault"
)

// MaxAge is how old a process's knowledge of the catalog may be.
const MaxAge = 15 * time.Second

// Catalog is the port through which agents' images are looked up.
type Catalog interface {
	// Images returns all images. The answer may be older than the last change by MaxAge, but not than the last one of
	// this process. Errors: Unavailable.
	Images(ctx context.Context) (Set, error)
}

// Store is the port through which the operator changes the catalog.
type Store interface {
	// List lists the entries of the catalog, sorted by id. Errors: Unavailable.
	List(ctx context.Context) ([]Image, error)
	// Get reads one entry. Errors: NotFound, Unavailable.
	Get(ctx context.Context, id string) (Image, error)
	// Put writes an entry, if it is still at the revision that was read; an empty revision creates it. Errors: Conflict
	// (image_changed) for an entry that changed or was removed, Unavailable.
	Put(ctx context.Context, i Image) (Image, error)
	// Remove deletes an entry, if it is still at the revision that was read. Errors: Conflict (image_changed) for an
	// entry that changed or was removed, NotFound for one that was not read, Unavailable.
	Remove(ctx context.Context, i Image) error
}

// NotFound is the error for an image that the catalog does not have.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "image_not_found", "The catalog has no such image.")
}

// Changed is the error of a write of an entry that another writer changed since it was read.
func Changed() *fault.Error {
	return fault.New(fault.Conflict, "image_changed", "The image changed since it was read. Read it again.")
}
