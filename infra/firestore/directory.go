package firestore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
)

// Directory implements organization.Directory.
type Directory struct {
	client *Client
}

var _ organization.Directory = (*Directory)(nil)

// Ensure implements organization.Directory. What this process knows to be so costs no call, what another has ensured
// costs one.
func (d *Directory) Ensure(ctx context.Context, organizationID string, u organization.User) error {
	wanted, err := d.unknown(organizationID, u)
	if err != nil || len(wanted) == 0 {
		return err
	}
	refs := make([]*gcp.DocumentRef, len(wanted))
	for i, w := range wanted {
		refs[i] = w.ref
	}
	err = d.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snaps, err := d.client.read(ctx, refs...)
		if err != nil {
			return err
		}
		b, missing := d.client.batch(), false
		for i, snap := range snaps {
			if !snap.Exists() {
				b.Create(wanted[i].ref, wanted[i].document)
				missing = true
				continue
			}
			if updates := wanted[i].outdated(snap); len(updates) > 0 {
				b.Update(wanted[i].ref, updates, gcp.LastUpdateTime(snap.UpdateTime))
				missing = true
			}
		}
		if !missing {
			return nil
		}
		// The documents of a race's loser exist when it looks again, and so do those whose answer was lost.
		_, err = d.client.commit(ctx, b)
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range wanted {
		d.client.ensured.remember(w.ref.Path, w.fact)
	}
	return nil
}

// wantedRecord is a record that should exist, and say what a token says.
type wantedRecord struct {
	ref      *gcp.DocumentRef
	document any
	// current are the fields that follow the token; one that the token leaves out stays as it is.
	current map[string]string
	// fact stands for the current fields.
	fact string
}

// outdated lists the fields of an existing record that the token has newer.
func (w wantedRecord) outdated(snap *gcp.DocumentSnapshot) []gcp.Update {
	var updates []gcp.Update
	for _, field := range slices.Sorted(maps.Keys(w.current)) {
		if was, _ := snap.Data()[field].(string); w.current[field] != "" && was != w.current[field] {
			updates = append(updates, gcp.Update{Path: field, Value: w.current[field]})
		}
	}
	return updates
}

// unknown lists the records of which this process doesn't know that they exist and are current, as they would be
// created.
func (d *Directory) unknown(organizationID string, u organization.User) ([]wantedRecord, error) {
	now := d.client.now()
	if u.CreatedAt.IsZero() {
		u.CreatedAt = now
	}
	membership := ""
	if organizationID != "" && u.Subject != "" {
		membership = membershipID(organizationID, u.Subject)
	}
	var wanted []wantedRecord
	for _, r := range []struct {
		collection, id string
		document       any
		current        map[string]string
	}{
		{organizationCollection, organizationID, organizationDocumentOf(organization.New(organizationID, now)), nil},
		{
			userCollection, u.ID,
			userDocument{Subject: u.Subject, Email: u.Email, Name: u.Name, CreatedAt: precise(u.CreatedAt)},
			map[string]string{"email": u.Email, "name": u.Name},
		},
		{membershipCollection, membership, membershipDocument{organizationID, u.Subject, now}, nil},
	} {
		if r.id == "" {
			continue
		}
		ref, ok := d.client.ref(r.collection, r.id)
		if !ok {
			return nil, fmt.Errorf("create a record of %s: %w", r.collection, errBadID)
		}
		fact := r.current["email"] + "\x00" + r.current["name"]
		if !d.client.ensured.holds(ref.Path, fact) {
			wanted = append(wanted, wantedRecord{ref, r.document, r.current, fact})
		}
	}
	return wanted, nil
}

// Organization implements organization.Directory.
func (d *Directory) Organization(ctx context.Context, id string) (organization.Organization, error) {
	ref, ok := d.client.ref(organizationCollection, id)
	if !ok {
		return organization.Organization{}, errNoOrganization()
	}
	snaps, err := d.client.read(ctx, ref)
	if err != nil {
		return organization.Organization{}, err
	}
	if !snaps[0].Exists() {
		return organization.Organization{}, errNoOrganization()
	}
	return organizationOf(snaps[0])
}

func errNoOrganization() error {
	return fault.New(fault.NotFound, "not_found", "Organization not found.")
}
