package firestore

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/webhook"
)

// TestExpiringDocuments_AreDeleted holds that Firestore deletes the documents of every collection with expires_at. API
// keys are counted, so functions delete expired ones.
func TestExpiringDocuments_AreDeleted(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("client.go")
	must(t, err)
	stored := storedRecords()
	for _, match := range regexp.MustCompile(`Collection\s+= "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if stored[match[1]].fields == nil {
			t.Errorf("storedRecords lacks the collection %s: add it", match[1])
		}
	}
	var declared struct {
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			TTL                        bool
		}
	}
	must(t, json.Unmarshal(indexesJSON, &declared))
	deleted := map[string]bool{}
	for _, o := range declared.FieldOverrides {
		if o.TTL && o.FieldPath != "expires_at" {
			t.Errorf("%s.%s has ttl in indexes.json, want it on expires_at only", o.CollectionGroup, o.FieldPath)
		}
		deleted[o.CollectionGroup] = deleted[o.CollectionGroup] || o.TTL
	}
	for collection, r := range stored {
		expires := slices.ContainsFunc(r.fields, func(f field) bool { return f.name == "expires_at" })
		if want := expires && collection != keyCollection; deleted[collection] != want {
			t.Errorf("documents of %s are deleted at expires_at: %t, want %t; correct ttl in indexes.json", collection,
				deleted[collection], want)
		}
	}
}

// TestExpiry_IsTheRetention compares the time after which Firestore deletes a document with what clients are told.
func TestExpiry_IsTheRetention(t *testing.T) {
	t.Parallel()
	at := agenttest.Now()
	c := open(t, "", Options{Now: func() time.Time { return at }})
	c.addRecord(t, "o", 1)
	snaps, err := c.runQuery(t.Context(), query{collection: eventCollection, limit: 1})
	must(t, err)
	deletion := agent.NewDeletionRecord(agent.Agent{}, agent.Deletion{}, at)
	for name, row := range map[string]struct {
		doc  map[string]any
		days int
	}{
		"events, a day longer than cursors": {snaps[0].Data(), 31},
		"deliveries":                        {deliveryFields(&webhook.Delivery{CreatedAt: at}).encode(), 30},
		"secret operations": {
			historyFields(&secret.Operation{UpdatedAt: at, Status: secret.Succeeded}).encode(), 90,
		},
		"deletions": {deletionRecordFields(&deletion).encode(), 30},
	} {
		if got, want := row.doc["expires_at"], at.AddDate(0, 0, row.days); got != want {
			t.Errorf("%s expire at %v, want %v", name, got, want)
		}
	}
}
