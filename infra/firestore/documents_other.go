package firestore

import (
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// organizationDocument is an organization as it is stored.
type organizationDocument struct {
	Plan      plan.ID             `firestore:"plan"`
	Status    organization.Status `firestore:"status"`
	Usage     usageDocument       `firestore:"usage"`
	CreatedAt time.Time           `firestore:"created_at"`
}

type usageDocument struct {
	Agents       int64 `firestore:"agents"`
	CPUMillis    int64 `firestore:"cpu_millis"`
	MemoryBytes  int64 `firestore:"memory_bytes"`
	StorageBytes int64 `firestore:"storage_bytes"`
	APIKeys      int64 `firestore:"api_keys"`
}

func organizationDocumentOf(o organization.Organization) organizationDocument {
	return organizationDocument{Plan: o.Plan, Status: o.Status, Usage: usageDocument(o.Usage),
		CreatedAt: precise(o.CreatedAt)}
}

// organizationOf makes the record of a document that exists.
func organizationOf(snap *gcp.DocumentSnapshot) (organization.Organization, error) {
	d, err := decode[organizationDocument](snap)
	return organization.Organization{
		ID: snap.Ref.ID, Plan: d.Plan, Status: d.Status, Usage: organization.Usage(d.Usage), CreatedAt: d.CreatedAt,
	}, err
}

// setUsage updates the usage to what was computed from the organization as it was read.
func setUsage(u organization.Usage) []gcp.Update {
	return []gcp.Update{{Path: "usage", Value: usageDocument(u)}}
}

// moveUsage adds a change to whatever the usage is, so that no race is lost. It is for what may be given back without
// asking.
func moveUsage(change organization.Usage) []gcp.Update {
	var updates []gcp.Update
	for path, n := range map[string]int64{
		"usage.agents": change.Agents, "usage.cpu_millis": change.CPUMillis, "usage.memory_bytes": change.MemoryBytes,
		"usage.storage_bytes": change.StorageBytes, "usage.api_keys": change.APIKeys,
	} {
		if n != 0 {
			updates = append(updates, gcp.Update{Path: path, Value: gcp.Increment(n)})
		}
	}
	return updates
}

// keyDocument is an API key as it is stored. The document's id is the key's hash.
type keyDocument struct {
	ID             string         `firestore:"id"`
	OrganizationID string         `firestore:"organization_id"`
	Name           string         `firestore:"name"`
	Purpose        apikey.Purpose `firestore:"purpose"`
	Prefix         string         `firestore:"prefix"`
	CreatedBy      string         `firestore:"created_by"`
	CreatedAt      time.Time      `firestore:"created_at"`
	LastUsedAt     *time.Time     `firestore:"last_used_at"`
	ExpiresAt      *time.Time     `firestore:"expires_at"`
}

func keyDocumentOf(k apikey.Key) keyDocument {
	return keyDocument{
		ID: k.ID, OrganizationID: k.OrganizationID, Name: k.Name, Purpose: k.Purpose, Prefix: k.Prefix,
		CreatedBy: k.CreatedBy,
		CreatedAt: precise(k.CreatedAt), LastUsedAt: nullable(k.LastUsedAt), ExpiresAt: nullable(k.ExpiresAt),
	}
}

// userDocument is a user as it is stored.
type userDocument struct {
	Subject   string    `firestore:"subject"`
	Email     string    `firestore:"email"`
	Name      string    `firestore:"name"`
	CreatedAt time.Time `firestore:"created_at"`
}

// entryDocument is an audit entry as it is stored. Firestore deletes it some time after expires_at.
type entryDocument struct {
	OrganizationID string           `firestore:"organization_id"`
	CreatedAt      time.Time        `firestore:"created_at"`
	ExpiresAt      *time.Time       `firestore:"expires_at"`
	Actor          actorDocument    `firestore:"actor"`
	Action         string           `firestore:"action"`
	Target         targetDocument   `firestore:"target"`
	Outcome        string           `firestore:"outcome"`
	RequestID      string           `firestore:"request_id"`
	IP             string           `firestore:"ip"`
	UserAgent      string           `firestore:"user_agent"`
	Changes        []changeDocument `firestore:"changes"`
	// Commits names the changes that wrote the entry; it is empty when none did.
	Commits []string `firestore:"commits"`
}

type actorDocument struct {
	Type      identity.AuthType `firestore:"type"`
	ID        string            `firestore:"id"`
	Email     string            `firestore:"email"`
	Role      identity.Role     `firestore:"role"`
	KeyPrefix string            `firestore:"key_prefix"`
}

type targetDocument struct {
	Type string `firestore:"type"`
	ID   string `firestore:"id"`
	Name string `firestore:"name"`
}

type changeDocument struct {
	Field string `firestore:"field"`
	Old   string `firestore:"old"`
	New   string `firestore:"new"`
}

func entryDocumentOf(e audit.Entry) entryDocument {
	d := entryDocument{
		OrganizationID: e.OrganizationID, CreatedAt: precise(e.CreatedAt), ExpiresAt: nullable(e.ExpiresAt),
		Actor: actorDocument{
			Type: e.Actor.Type, ID: e.Actor.ID, Email: e.Actor.Email, Role: e.Actor.Role, KeyPrefix: e.Actor.KeyPrefix,
		},
		Action: e.Action, Target: targetDocument(e.Target), Outcome: e.Outcome,
		RequestID: e.Request.RequestID, IP: e.Request.IP, UserAgent: e.Request.UserAgent,
	}
	for _, c := range e.Changes {
		d.Changes = append(d.Changes, changeDocument(c))
	}
	return d
}
