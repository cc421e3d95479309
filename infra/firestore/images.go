package firestore

import (
	"context"
	"errors"
	"sync"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
)

// Images implements image.Store and image.Catalog.
type Images struct{ client *Client }

var (
	_ image.Store   = (*Images)(nil)
	_ image.Catalog = (*Images)(nil)
)

// Images is the catalog of images.
func (c *Client) Images() *Images { return &Images{client: c} }

// maxImages bounds what one read of the catalog lists.
const maxImages = 500

// imageCache has the catalog as this process last read it.
type imageCache struct {
	mu     sync.Mutex
	listed []image.Image
	readAt time.Time
	// err is why the catalog could not be read at failedAt.
	err      error
	failedAt time.Time
	// reading lets one call at a time read the catalog. Its capacity is one.
	reading chan struct{}
}

// failureAge is for how long calls get the error of the last read of the catalog: during an outage, not each of them
// waits for it.
const failureAge = time.Second

// known returns what the cache knows; ok is false if a call must read the catalog.
func (c *imageCache) known(now time.Time) (listed []image.Image, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.readAt.IsZero() && now.Sub(c.readAt) < image.MaxAge:
		return c.listed, true, nil
	case c.err != nil && now.Sub(c.failedAt) < failureAge:
		return nil, true, c.err
	default:
		return nil, false, nil
	}
}

// learn records the outcome of a read that began at a time.
func (c *imageCache) learn(listed []image.Image, err error, began, ended time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err, c.failedAt = err, ended; err == nil {
		c.listed, c.readAt = listed, began
	}
}

func imageFields(i *image.Image) fields {
	return fields{
		{"name", text(&i.Name)},
		{"description", text(&i.Description)},
		{"docs_url", text(&i.DocsURL)},
		{"min_plan", text(&i.MinPlan)},
		{"default_version", text(&i.DefaultVersion)},
		{"default_by", text(&i.DefaultBy)},
		{"runtime", compactGroup(runtimeFields(&i.Runtime))},
		{"versions", array(&i.Versions, imageVersionFields)},
	}
}

func runtimeFields(r *image.Runtime) fields {
	return fields{
		{"port", number(&r.Port)},
		{"api_port", number(&r.APIPort)},
		{"health_path", text(&r.HealthPath)},
		{"busy_path", text(&r.BusyPath)},
		{"auth", text(&r.Auth)},
		{"command", texts(&r.Command)},
		{"args", texts(&r.Args)},
		{"env", array((*[]image.Variable)(&r.Env), variableFields)},
		{"data_path", text(&r.DataPath)},
		{"home", text(&r.Home)},
		{"grace_seconds", number(&r.GraceSeconds)},
		{"public_paths", texts(&r.PublicPaths)},
		{"kernel", text(&r.Kernel)},
		{"quiesce", text(&r.Quiesce)},
		{"restore_on_revert", flag(&r.RestoreOnRevert)},
	}
}

func variableFields(v *image.Variable) fields {
	return fields{{"name", text(&v.Name)}, {"value", text(&v.Value)}}
}

func imageVersionFields(v *image.Version) fields {
	return fields{
		{"version", text(&v.Version)},
		{"reference", text(&v.Reference)},
		{"state", text(&v.State)},
		{"notes", text(&v.Notes)},
		{"created_at", timestamp(&v.CreatedAt)},
	}
}

// softwareFields lists what an agent's record has of one of its images.
func softwareFields(s *agent.Software) fields {
	return append(choiceFields(&s.Choice), field{"update", compactKeyedGroup(updateFields(&s.Update))})
}

func choiceFields(c *image.Choice) fields {
	return fields{
		{"reference", text(&c.Reference)},
		{"id", text(&c.ID)},
		{"version", text(&c.Version)},
		{"runtime", compactGroup(runtimeFields(&c.Runtime))},
	}
}

func updateFields(u *agent.Update) fields {
	return fields{
		{"release", text(&u.Release)},
		{"version", text(&u.Version)},
		{"former", compactKeyedGroup(choiceFields(&u.Former))},
		{"state", text(&u.State)},
		{"moved_at", timestamp(&u.MovedAt)},
		{"ready_at", timestamp(&u.ReadyAt)},
		{"restarts", number(&u.Restarts)},
		{"past_restarts", number(&u.PastRestarts)},
		{"past_errors", float(&u.PastErrors)},
		{"reason", text(&u.Reason)},
	}
}

func maintenanceWindowFields(w *image.MaintenanceWindow) fields {
	return fields{
		{"days", texts(&w.Days)},
		{"start", text(&w.Start)},
		{"hours", number(&w.Hours)},
		{"timezone", text(&w.Timezone)},
	}
}

func imageOf(snap *gcp.DocumentSnapshot) (image.Image, error) {
	i := image.Image{ID: snap.Ref.ID, Revision: versionOf(snap.UpdateTime)}
	rest, err := decodeWithRest(snap, imageFields(&i))
	i.Rest = rest
	return i, err
}

// Images implements image.Catalog. A process reads the catalog at most once in image.MaxAge, and when it needs it.
// Calls that need it concurrently share one read.
func (s *Images) Images(ctx context.Context) (image.Set, error) {
	c := &s.client.images
	listed, ok, err := c.known(s.client.clock())
	if !ok {
		select {
		case c.reading <- struct{}{}:
			defer func() { <-c.reading }()
		case <-ctx.Done():
			return image.Set{}, unavailable("read the catalog", ctx.Err())
		}
		if listed, ok, err = c.known(s.client.clock()); !ok { // it was read in between
			began := s.client.clock()
			listed, err = s.List(ctx)
			if !errors.Is(ctx.Err(), context.Canceled) { // a caller that hung up says nothing about the database
				c.learn(listed, err, began, s.client.clock())
			}
		}
	}
	if err != nil {
		return image.Set{}, err
	}
	return image.Set{Catalog: listed, BuiltIn: s.client.builtIn}, nil
}

// imageRefs are the documents of entries of the catalog. No entry has the name of a custom image.
func (c *Client) imageRefs(ids []string) []*gcp.DocumentRef {
	var refs []*gcp.DocumentRef
	for _, id := range ids {
		if ref, ok := c.ref(imageCollection, id); ok {
			refs = append(refs, ref)
		}
	}
	return refs
}

// imagesIn is the part of the catalog that was read.
func (c *Client) imagesIn(snaps []*gcp.DocumentSnapshot) (image.Set, error) {
	set := image.Set{BuiltIn: c.builtIn}
	for _, snap := range snaps {
		if !snap.Exists() {
			continue
		}
		i, err := imageOf(snap)
		if err != nil {
			return image.Set{}, err
		}
		set.Catalog = append(set.Catalog, i)
	}
	return set, nil
}

// readImages reads entries of the catalog for the commit of a change.
func (c *Client) readImages(ctx context.Context) func(ids []string) (image.Set, error) {
	return func(ids []string) (image.Set, error) {
		snaps, err := c.read(ctx, c.imageRefs(ids)...)
		if err != nil {
			return image.Set{}, err
		}
		return c.imagesIn(snaps)
	}
}

// List implements image.Store.
func (s *Images) List(ctx context.Context) ([]image.Image, error) {
	snaps, err := s.client.runQuery(ctx, query{
		collection: imageCollection, order: []order{{gcp.DocumentID, gcp.Asc}}, limit: maxImages,
	})
	if err != nil {
		return nil, err
	}
	listed := make([]image.Image, 0, len(snaps))
	for _, snap := range snaps {
		i, err := imageOf(snap)
		if err != nil {
			reportUnreadable(ctx, imageCollection, snap.Ref.ID, err)
			continue
		}
		listed = append(listed, i)
	}
	return listed, nil
}

// Get implements image.Store.
func (s *Images) Get(ctx context.Context, id string) (image.Image, error) {
	ref, ok := s.client.ref(imageCollection, id)
	if !ok {
		return image.Image{}, image.NotFound()
	}
	snap, err := s.client.readOne(ctx, ref)
	switch {
	case err != nil:
		return image.Image{}, err
	case !snap.Exists():
		return image.Image{}, image.NotFound()
	}
	return imageOf(snap)
}

// Put implements image.Store.
func (s *Images) Put(ctx context.Context, i image.Image) (image.Image, error) {
	ref, ok := s.client.ref(imageCollection, i.ID)
	if !ok {
		return image.Image{}, errBadID
	}
	doc := imageFields(&i).encodeWith(i.Rest)
	b := s.client.batch()
	if i.Revision == "" {
		b.Create(ref, doc)
	} else {
		read, err := updateTimeOf(i.Revision)
		if err != nil {
			return image.Image{}, image.Changed()
		}
		b.Update(ref, updates(doc), gcp.LastUpdateTime(read))
	}
	revision, err := s.client.commit(ctx, b)
	s.client.images.forget() // also after an error: the write may have been carried out
	if err != nil {
		return image.Image{}, lostRace(err)
	}
	i.Revision = revision
	return i, nil
}

// Remove implements image.Store.
func (s *Images) Remove(ctx context.Context, i image.Image) error {
	ref, ok := s.client.ref(imageCollection, i.ID)
	read, err := updateTimeOf(i.Revision)
	if !ok || err != nil {
		return image.NotFound()
	}
	_, err = s.client.commit(ctx, s.client.batch().Delete(ref, gcp.LastUpdateTime(read)))
	s.client.images.forget()
	return lostRace(err)
}

// forget makes the next lookup read the catalog.
func (c *imageCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readAt, c.err = time.Time{}, nil
}

// lostRace returns what an operator learns of a write of the catalog that was not carried out, or may have been.
func lostRace(err error) error {
	var u *undecided
	switch {
	case !errors.As(err, &u):
		return err
	case u.unknown:
		return unavailable("commit", u.cause)
	default:
		return image.Changed()
	}
}
