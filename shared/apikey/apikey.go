// Package apikey defines the control plane's API keys: their format, their record and the view that clients get. It
// does not store them.
package apikey

import (
	"context"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/role"
)

// Purpose says what a key is used for.
type Purpose string

// Values lists the purposes.
func (Purpose) Values() []string {
	return []string{"script", "ci", "sdk", "playground", "mcp", "other"}
}

// DefaultPurpose is the purpose of a key whose creator named none.
const DefaultPurpose Purpose = "script"

// DefaultRole is the role of a key whose creator named none, and of a key from a release before keys had roles.
const DefaultRole = role.Admin

// Key is the record of a key. It holds the key's hash, not the key.
type Key struct {
	ID             string
	OrganizationID string
	Name           string
	Purpose        Purpose
	// Role is what the key may do. It never changes.
	Role   role.Role
	Prefix string
	// Hash is the keyed hash of the key, and the id of its document. Pepper is the id of the pepper that made it; empty
	// if an earlier release did.
	Hash, Pepper string
	CreatedBy    string
	// Ancestors are the ids of the keys through which a user's session led to this key, the oldest first. The last one
	// is CreatedBy. They stay when an ancestor is revoked.
	Ancestors  []string
	CreatedAt  time.Time
	LastUsedAt time.Time // zero: never
	ExpiresAt  time.Time // zero: never
}

// Expired reports whether the key has expired.
func (k Key) Expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// TouchInterval is the shortest time between two recorded uses of a key.
const TouchInterval = 5 * time.Minute

// View is a key as a client sees it.
type View struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Purpose    Purpose    `json:"purpose"`
	Role       role.Role  `json:"role" jsonschema:"What the key may do: everything that admins may, or only read, as members may."`
	KeyPrefix  string     `json:"key_prefix" jsonschema:"The leading part of the key."`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at" jsonschema:"Updated at most once in five minutes; null before the first use."`
	ExpiresAt  *time.Time `json:"expires_at" jsonschema:"Null if the key does not expire. A key that an API key created expires with it at the latest."`
	CreatedBy  string     `json:"created_by" jsonschema:"The id of the user or API key that created the key."`
}

// AmendSchema adds to the schema what the fields' types do not express.
func (View) AmendSchema(s *jsonschema.Schema) {
	s.Properties["id"].Format, s.Properties["created_by"].Format = "uuid", "uuid"
}

// Example implements the contract of package function for outputs with an example.
func (View) Example() any {
	created := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	return Key{
		ID: "7d9f1c66-1a3b-4b6e-8f60-3d0c5f2a9e11", Name: "Deployments", Purpose: "ci", Role: DefaultRole,
		Prefix:    exampleKey[:PrefixLength],
		CreatedBy: "c1f6a9f2-52f8-5a8e-9d5b-6f0a7b3c2d10", CreatedAt: created, LastUsedAt: created.AddDate(0, 0, 7),
	}.Show()
}

// exampleKey looks like a key, but its checksum is wrong.
const exampleKey = "so_ExampleExampleExampleExampleExampleExampleE000000"

// CreatedView is the answer to a key's creation, the only answer that contains the whole key.
type CreatedView struct {
	View
	// Secret is the full key; nil when the answer is a replay.
	Secret *string `json:"secret" jsonschema:"The full key. It is shown only once; null if the response is a replay."`
}

// Example implements the contract of package function for outputs with an example.
func (CreatedView) Example() any {
	v, _ := View{}.Example().(View)
	v.LastUsedAt = nil
	secret := exampleKey
	return CreatedView{View: v, Secret: &secret}
}

// Show renders the record for a client.
func (k Key) Show() View {
	v := View{
		ID: k.ID, Name: k.Name, Purpose: k.Purpose, Role: k.Role, KeyPrefix: k.Prefix,
		CreatedAt: k.CreatedAt.UTC(), CreatedBy: k.CreatedBy,
	}
	if !k.LastUsedAt.IsZero() {
		t := k.LastUsedAt.UTC()
		v.LastUsedAt = &t
	}
	if !k.ExpiresAt.IsZero() {
		t := k.ExpiresAt.UTC()
		v.ExpiresAt = &t
	}
	return v
}

// Store is what routes do with the keys of the caller's organization.
type Store interface {
	// Create writes a key, the organization's count and the audit entry in one transaction, and returns the record. For
	// a repeated request (package idempotency) it returns the first request's record: its id differs from k's, and its
	// hash is empty. A key that a key creates is bounded by Key.MadeWith. Errors: Conflict when the limit of live keys
	// is reached, those of Key.MadeWith, Unauthenticated when the creating key is revoked, or the creating session
	// ended, before the commit, Unavailable.
	Create(ctx context.Context, k Key) (Key, error)
	// List reads a page of keys, newest first. Errors: BadRequest for a bad cursor, Unavailable.
	List(ctx context.Context, p page.Request) (page.Page[Key], error)
	// Revoke deletes a key. Once it has returned, no new request is authenticated with the key. Errors: NotFound,
	// Unavailable.
	Revoke(ctx context.Context, id string) error
	// RevokeWithDescendants does the same to a key and to the keys of WithDescendants in one transaction. The key
	// itself may already be revoked. Errors: NotFound when no key is left, Unavailable.
	RevokeWithDescendants(ctx context.Context, id string) error
}

// Finder looks up keys to authenticate requests.
type Finder interface {
	// Find reads the key with the hash and, in the same round trip, the document that the route needs; none for the
	// zero Ref. If no key has the hash, and others are given, it reads once more for a key with any of the hashes.
	// Errors: NotFound for an unknown key, Unavailable.
	Find(ctx context.Context, hash string, also document.Ref, others ...string) (Key, *document.Fetched, error)
	// Touch records a use of the key in the background, at most once in TouchInterval. It never fails a request.
	Touch(ctx context.Context, k Key)
	// Move stores a key under another hash and pepper in the background, and records its use. A key that was changed or
	// revoked in between stays as it is. It never fails a request.
	Move(ctx context.Context, from string, to Key)
}

// NotFound is the error for a key that does not exist or belongs to another organization.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "api_key_not_found", "API key not found.")
}
