package terraform_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// TestDatabase_CanBeRestored holds that the database has point-in-time recovery and backups, and that it cannot be
// deleted by accident.
func TestDatabase_CanBeRestored(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		protected bool
		want      string
	}{
		{protected: true, want: "DELETE_PROTECTION_ENABLED"},
		{protected: false, want: "DELETE_PROTECTION_DISABLED"},
	} {
		m := load(t, map[string]cty.Value{"deletion_protection": cty.BoolVal(row.protected)})
		database := m.resources(t, "google_firestore_database")["records"]
		backups := m.resources(t, "google_firestore_backup_schedule")
		want := map[string]string{
			"name": "agents-prod", "type": "FIRESTORE_NATIVE", "recovery": "POINT_IN_TIME_RECOVERY_ENABLED",
			"protection": row.want, "schedules": "2",
			"daily backups kept": "2419200s", "weekly backups kept": "8467200s", "weekly backups on": "SUNDAY",
			"database of daily backups": "agents-prod", "database of weekly backups": "agents-prod",
		}
		got := map[string]string{
			"name":                       text(t, database, "name"),
			"type":                       text(t, database, "type"),
			"recovery":                   text(t, database, "point_in_time_recovery_enablement"),
			"protection":                 text(t, database, "delete_protection_state"),
			"schedules":                  strconv.Itoa(len(backups)),
			"daily backups kept":         text(t, backups["daily"], "retention"),
			"weekly backups kept":        text(t, backups["weekly"], "retention"),
			"weekly backups on":          text(t, backups["weekly"], "weekly_recurrence.0.day"),
			"database of daily backups":  text(t, backups["daily"], "database"),
			"database of weekly backups": text(t, backups["weekly"], "database"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with protection %t (-want +got):\n%s", row.protected, diff)
		}
		if find(t, backups["daily"], "daily_recurrence.0").IsNull() {
			t.Error("the daily schedule has no daily recurrence")
		}
	}
}

// TestFields_OfExpiringDocumentsAreTTLs holds which documents Firestore deletes some time after their expires_at.
// A test of infra/firestore holds that these are all documents with that field.
func TestFields_OfExpiringDocumentsAreTTLs(t *testing.T) {
	t.Parallel()
	want := []string{
		"audit_log expires_at", "audit_seals expires_at", "billing_events expires_at", "deletions expires_at",
		"events expires_at",
		"idempotency expires_at", "secret_operations expires_at", "webhook_deliveries expires_at",
	}
	var got []string
	for _, f := range load(t, nil).resources(t, "google_firestore_field") {
		if find(t, f, "ttl_config").LengthInt() > 0 {
			got = append(got, text(t, f, "collection")+" "+text(t, f, "field"))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields with ttl_config (-want +got):\n%s", diff)
	}
}

// TestIndexes_AreThoseOfTheCode compares the planned indexes and exemptions with the file that infra/firestore tests.
func TestIndexes_AreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../infra/firestore/indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	type order struct{ FieldPath, Order, ArrayConfig, QueryScope string }
	orNone := func(text string) string {
		if text == "" {
			return "(none)"
		}
		return text
	}
	var declared struct {
		Indexes []struct {
			CollectionGroup, QueryScope string
			Fields                      []order
		}
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			Indexes                    []order
		}
	}
	if err := json.Unmarshal(b, &declared); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, i := range declared.Indexes {
		line := i.CollectionGroup + " " + i.QueryScope
		for _, f := range i.Fields {
			line += " " + f.FieldPath + " " + orNone(f.Order) + " " + orNone(f.ArrayConfig)
		}
		want = append(want, line)
	}
	for _, o := range declared.FieldOverrides {
		line := "only " + o.CollectionGroup + " " + o.FieldPath
		for _, i := range o.Indexes {
			line += " " + i.Order + " " + i.QueryScope
		}
		want = append(want, line)
	}
	m := load(t, nil)
	for _, i := range m.resources(t, "google_firestore_index") {
		got = append(got, strings.Join(append([]string{text(t, i, "collection"), text(t, i, "query_scope")},
			blocks(t, i, "fields", "field_path", "order", "array_config")...), " "))
	}
	for _, f := range m.resources(t, "google_firestore_field") {
		exempt := find(t, f, "index_config.0")
		if exempt.IsNull() {
			t.Errorf("%s has no index_config, so Google's default applies", text(t, f, "field"))
			continue
		}
		got = append(got, strings.Join(append([]string{"only", text(t, f, "collection"), text(t, f, "field")},
			blocks(t, exempt, "indexes", "order", "query_scope")...), " "))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("indexes and exemptions (-want +got):\n%s", diff)
	}
}

// blocks returns the named arguments of each nested block of a type, one after the other.
func blocks(t *testing.T, v cty.Value, typ string, arguments ...string) []string {
	t.Helper()
	var all []string
	for _, b := range find(t, v, typ).AsValueSlice() {
		for _, a := range arguments {
			all = append(all, text(t, b, a))
		}
	}
	return all
}
