package firestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Directory implements organization.Directory.
type Directory struct {
	client *Client
}

var (
	_ organization.Directory = (*Directory)(nil)
	_ organization.Settings  = (*Directory)(nil)
)

// Directory is the store of organizations and users.
func (c *Client) Directory() *Directory { return &Directory{client: c} }

// organizationFields lists what is stored of an organization. The document also holds its account; see accountFields.
func organizationFields(o *organization.Organization) fields {
	return fields{
		{"plan", text(&o.Plan)},
		{"status", text(&o.Status)},
		{"usage", group(usageFields(&o.Usage))},
		{"created_at", timestamp(&o.CreatedAt)},
		{creationsField, timestamp(&o.CreationsFullAt)},
		{secretWritesField, timestamp(&o.SecretWritesFullAt)},
		{exportsField, timestamp(&o.ExportsFullAt)},
		{"exec", text(&o.Exec)},
		{egressField, compactGroup(egressFields(&o.Egress))},
	}
}

// egressField is what new agents may reach.
const egressField = "egress"

// creationsField is the state of the rate limit of creations. Only a creation writes it.
const creationsField = "creations_full_at"

// setCreations replaces the state of the rate limit of creations.
func setCreations(o organization.Organization) gcp.Update {
	return gcp.Update{Path: creationsField, Value: timestamp(&o.CreationsFullAt).encode()}
}

// secretWritesField is the state of the rate limit of secret writes. Only a creation and a charge write it.
const secretWritesField = "secret_writes_full_at"

// setSecretWrites replaces the state of the rate limit of secret writes.
func setSecretWrites(o organization.Organization) gcp.Update {
	return gcp.Update{Path: secretWritesField, Value: timestamp(&o.SecretWritesFullAt).encode()}
}

// exportsField is the state of the rate limit of exports. The admission of an export and CountSent write it.
const exportsField = "exports_full_at"

// setExports replaces the state of the rate limit of exports.
func setExports(o organization.Organization) gcp.Update {
	return gcp.Update{Path: exportsField, Value: timestamp(&o.ExportsFullAt).encode()}
}

func usageFields(u *organization.Usage) fields {
	return fields{
		{"agents", number(&u.Agents)},
		{"cpu_millis", number(&u.CPUMillis)},
		{"memory_bytes", number(&u.MemoryBytes)},
		{"storage_bytes", number(&u.StorageBytes)},
		{"api_keys", number(&u.APIKeys)},
		{"snapshot_bytes", number(&u.SnapshotBytes)},
	}
}

func userFields(u *organization.User) fields {
	return fields{
		{"subject", text(&u.Subject)},
		{"email", text(&u.Email)},
		{"name", text(&u.Name)},
		{"created_at", timestamp(&u.CreatedAt)},
	}
}

// organizationOf makes the organization of a document that exists.
func organizationOf(snap *gcp.DocumentSnapshot) (organization.Organization, error) {
	o := organization.Organization{ID: snap.Ref.ID}
	rest, err := decodeWithRest(snap, organizationFields(&o))
	o.Rest = rest
	return o, err
}

// setUsage replaces the amounts of the usage that this release knows.
func setUsage(u organization.Usage) []gcp.Update {
	var list []gcp.Update
	for name, n := range usageFields(&u).encode() {
		list = append(list, gcp.Update{Path: "usage." + name, Value: n})
	}
	return list
}

// incrementUsage adds to whatever the usage is, so that it needs no precondition. It checks no limit.
func incrementUsage(moved organization.Usage) []gcp.Update {
	var list []gcp.Update
	for name, n := range usageFields(&moved).encodeNonZero(nil) {
		list = append(list, gcp.Update{Path: "usage." + name, Value: gcp.Increment(n)})
	}
	return list
}

func errNoOrganization() error {
	return fault.New(fault.NotFound, "not_found", "Organization not found.")
}

// read reads the document of an organization. Errors: NotFound, Unavailable.
func (d *Directory) read(ctx context.Context, id string) (*gcp.DocumentSnapshot, error) {
	ref, ok := d.client.ref(organizationCollection, id)
	if !ok {
		return nil, errNoOrganization()
	}
	snap, err := d.client.readOne(ctx, ref)
	if err != nil {
		return nil, err
	}
	if !snap.Exists() {
		return nil, errNoOrganization()
	}
	return snap, nil
}

// Organization implements organization.Directory.
func (d *Directory) Organization(ctx context.Context, id string) (organization.Organization, error) {
	snap, err := d.read(ctx, id)
	if err != nil {
		return organization.Organization{}, err
	}
	return organizationOf(snap)
}

// SetPlan puts an organization on a plan, without an account that pays for it. It is for test data: the operator and
// payment providers change plans through package billing. Errors: NotFound, Unavailable.
func (d *Directory) SetPlan(ctx context.Context, organizationID string, id plan.ID) error {
	if _, err := plan.Get(id); err != nil {
		return err
	}
	return d.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snap, err := d.read(ctx, organizationID)
		if err != nil {
			return err
		}
		_, err = d.client.commit(ctx, d.client.batch().Update(snap.Ref, []gcp.Update{{Path: "plan", Value: id}},
			gcp.LastUpdateTime(snap.UpdateTime)))
		return err
	})
}

// Choose implements organization.Settings.
func (d *Directory) Choose(ctx context.Context, organizationID string, change func(*organization.Choices) error) error {
	return d.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snap, err := d.read(ctx, organizationID)
		if err != nil {
			return err
		}
		var c organization.Choices
		f := chosenFields(&c)
		rest, err := decodeWithRest(snap, f)
		if err != nil {
			return err
		}
		if err = change(&c); err != nil {
			return err
		}
		_, err = d.client.commit(ctx, d.client.batch().Update(snap.Ref, updates(f.encodeWith(rest)),
			gcp.LastUpdateTime(snap.UpdateTime)))
		return err
	})
}

// chosenFields lists what is stored of an organization's choices.
func chosenFields(c *organization.Choices) fields {
	return fields{{"exec", text(&c.Exec)}, {egressField, compactGroup(egressFields(&c.Egress))}}
}

// Ensure implements organization.Directory. It makes no call for records that this process has ensured before, and one
// for those that another process has, and for a membership that it read organization.EndsKnown ago.
func (d *Directory) Ensure(ctx context.Context, organizationID string, u organization.User) (time.Time, error) {
	records, ended, err := d.unknownRecords(organizationID, u)
	if err != nil || len(records) == 0 {
		return ended, err
	}
	refs := make([]*gcp.DocumentRef, len(records))
	for i, r := range records {
		refs[i] = r.ref
	}
	known := make([]knownRecord, len(records))
	err = d.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		readAt := d.client.now()
		snaps, err := d.client.read(ctx, refs...)
		if err != nil {
			return err
		}
		b, changed := d.client.batch(), false
		for i, snap := range snaps {
			known[i] = knownRecord{claims: records[i].claims(), readAt: readAt}
			if !snap.Exists() {
				b.Create(records[i].ref, records[i].doc)
				changed = true
				continue
			}
			if records[i].membership {
				if known[i].sessionsEnded, err = sessionsEnded(snap); err != nil {
					return err
				}
				ended = known[i].sessionsEnded
			}
			if outdated := records[i].outdated(snap); len(outdated) > 0 {
				b.Update(records[i].ref, outdated, gcp.LastUpdateTime(snap.UpdateTime))
				changed = true
			}
		}
		if !changed {
			return nil
		}
		// After a lost race or a lost answer, the next read finds the documents.
		_, err = d.client.commit(ctx, b)
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	for i, r := range records {
		d.client.ensured.remember(r.ref.Path, known[i])
	}
	return ended, nil
}

// SessionsEnded implements organization.Directory. It makes no call for what it read organization.EndsKnown ago.
func (d *Directory) SessionsEnded(ctx context.Context, organizationID, subject string) (time.Time, error) {
	key, readAt := endsKey(organizationID, subject), d.client.now()
	if known, ok := d.client.ensured.get(key); ok && readAt.Sub(known.readAt) < organization.EndsKnown {
		return known.sessionsEnded, nil
	}
	ref, ok := d.client.ref(membershipCollection, membershipID(organizationID, subject))
	if !ok {
		return time.Time{}, fmt.Errorf("read a membership: %w", errBadID)
	}
	snap, err := d.client.readOne(ctx, ref)
	if err != nil {
		return time.Time{}, err
	}
	var ended time.Time
	if snap.Exists() {
		if ended, err = sessionsEnded(snap); err != nil {
			return time.Time{}, err
		}
	}
	d.client.ensured.remember(key, knownRecord{sessionsEnded: ended, readAt: readAt})
	return ended, nil
}

// endsKey is the key of what is known of the end of a user's sessions. It is not the path of the membership, which
// Ensure must create if it does not exist.
func endsKey(organizationID, subject string) string {
	return "ends " + membershipID(organizationID, subject)
}

// sessionsEnded returns when the sessions of a membership were last ended.
func sessionsEnded(snap *gcp.DocumentSnapshot) (time.Time, error) {
	var m membership
	err := decode(snap, membershipFields(&m))
	return m.sessionsEnded, err
}

// ensuredRecord is a record that must exist and agree with a token.
type ensuredRecord struct {
	ref *gcp.DocumentRef
	doc map[string]any
	// current are the fields that follow the token. A field that the token leaves out stays as it is.
	current map[string]string
	// membership records change without the token: an admin ends the sessions.
	membership bool
}

// claims are the current fields as one string, to remember.
func (r ensuredRecord) claims() string { return r.current["email"] + "\x00" + r.current["name"] }

// outdated lists the fields of an existing record that differ from the token.
func (r ensuredRecord) outdated(snap *gcp.DocumentSnapshot) []gcp.Update {
	var list []gcp.Update
	for _, name := range slices.Sorted(maps.Keys(r.current)) {
		if was, _ := snap.Data()[name].(string); r.current[name] != "" && was != r.current[name] {
			list = append(list, gcp.Update{Path: name, Value: r.current[name]})
		}
	}
	return list
}

// unknownRecords lists the records that may be missing or outdated as far as this process knows, as they would be
// created. It returns when the user's sessions were last ended if that is known.
func (d *Directory) unknownRecords(organizationID string, u organization.User) (
	unknown []ensuredRecord, ended time.Time, err error,
) {
	memberID := ""
	if organizationID != "" && u.Subject != "" {
		memberID = membershipID(organizationID, u.Subject)
	}
	now := d.client.now()
	for _, r := range []struct {
		collection, id string
		create         func() fields
		current        map[string]string
	}{
		{collection: organizationCollection, id: organizationID, create: func() fields {
			o := organization.New(organizationID, now)
			return organizationFields(&o)
		}},
		{collection: userCollection, id: u.ID, create: func() fields {
			if u.CreatedAt.IsZero() {
				u.CreatedAt = now
			}
			return userFields(&u)
		}, current: map[string]string{"email": u.Email, "name": u.Name}},
		{collection: membershipCollection, id: memberID, create: func() fields {
			return membershipFields(&membership{organizationID: organizationID, subject: u.Subject, seenAt: now})
		}},
	} {
		if r.id == "" {
			continue
		}
		ref, ok := d.client.ref(r.collection, r.id)
		if !ok {
			return nil, time.Time{}, fmt.Errorf("create a record of %s: %w", r.collection, errBadID)
		}
		record := ensuredRecord{ref: ref, current: r.current, membership: r.collection == membershipCollection}
		known, ok := d.client.ensured.get(ref.Path)
		if ok && known.claims == record.claims() &&
			(!record.membership || now.Sub(known.readAt) < organization.EndsKnown) {
			if record.membership {
				ended = known.sessionsEnded
			}
			continue
		}
		record.doc = r.create().encode()
		unknown = append(unknown, record)
	}
	return unknown, ended, nil
}
