package clients

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
)

const (
	// versionsFor is how long a list of versions is used, and failureFor how long a failure to read it. Anyone may
	// call, and each reading costs a call of the bucket.
	versionsFor = time.Minute
	failureFor  = 2 * time.Second
	// readTimeout bounds a reading, which goes on if its caller disconnects, because other callers wait for it.
	readTimeout = 10 * time.Second
	// maxReleases bounds the lists of files that are kept, of 3 KiB each.
	maxReleases = 256
)

// catalog remembers what was published. It reads nothing for a version that is not in the list of versions.
type catalog struct {
	store clientrelease.Store
	// own is the version of this binary's release; empty for none.
	own   string
	calls singleflight.Group

	mu       sync.Mutex
	versions []string // the oldest first
	failure  error
	until    time.Time // when versions and failure are read again
	releases map[string]clientrelease.Release
}

func newCatalog(store clientrelease.Store) *catalog {
	return &catalog{store: store, own: clientrelease.Version(), releases: map[string]clientrelease.Release{}}
}

// list returns the published versions, the oldest first. Errors: NotFound, Unavailable.
func (c *catalog) list(ctx context.Context) ([]string, error) {
	if c.store == nil {
		return nil, notFound("This control plane has no clients: its operator has configured no bucket " +
			"(CLIENTS_BUCKET).")
	}
	c.mu.Lock()
	versions, failure, fresh := c.versions, c.failure, time.Now().Before(c.until)
	c.mu.Unlock()
	if fresh {
		return versions, failure
	}
	return shared(ctx, &c.calls, "versions", func(ctx context.Context) ([]string, error) {
		found, err := c.store.Versions(ctx)
		found = slices.DeleteFunc(found, func(v string) bool {
			_, valid := clientrelease.Time(v)
			return !valid
		})
		clientrelease.Sort(found)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.versions, c.failure, c.until = found, err, time.Now().Add(versionsFor)
		if err != nil {
			c.until = time.Now().Add(failureFor)
		}
		return found, err
	})
}

// release returns what a version has published. Errors: NotFound, Unavailable.
func (c *catalog) release(ctx context.Context, version string) (clientrelease.Release, error) {
	versions, err := c.list(ctx)
	if err != nil {
		return clientrelease.Release{}, err
	}
	if !slices.Contains(versions, version) {
		return clientrelease.Release{}, notFound("No release has published clients of the version %s.", version)
	}
	c.mu.Lock()
	known, ok := c.releases[version]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	return shared(ctx, &c.calls, "release "+version, func(ctx context.Context) (clientrelease.Release, error) {
		r, err := c.store.Release(ctx, version)
		if err != nil {
			return r, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.releases) >= maxReleases {
			clear(c.releases)
		}
		c.releases[version] = r
		return r, nil
	})
}

// current returns the clients that fit this control plane: those of the release that it belongs to, so that it is never
// older than its clients. A binary that no release has built serves the newest. Errors: NotFound, Unavailable.
func (c *catalog) current(ctx context.Context) (clientrelease.Release, error) {
	versions, err := c.list(ctx)
	if err != nil {
		return clientrelease.Release{}, err
	}
	if c.own != "" {
		return c.release(ctx, c.own)
	}
	if len(versions) == 0 {
		return clientrelease.Release{}, notFound("No release has published clients yet.")
	}
	return c.release(ctx, versions[len(versions)-1])
}

// shared lets concurrent callers share one call.
func shared[T any](ctx context.Context, group *singleflight.Group, key string,
	call func(context.Context) (T, error),
) (T, error) {
	done := group.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return call(ctx)
	})
	var none T
	select {
	case <-ctx.Done():
		return none, fault.New(fault.Unavailable, "clients_unavailable",
			"The request ended before the clients were read. Retry.").WithCause(context.Cause(ctx))
	case r := <-done:
		if r.Err != nil {
			return none, r.Err
		}
		value, _ := r.Val.(T)
		return value, nil
	}
}
