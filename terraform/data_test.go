package terraform_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/terraform/cell"
)

// settings renders what is known of a value as JSON, and leaves out what is null or unknown.
func settings(t *testing.T, v cty.Value) any {
	t.Helper()
	known, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsKnown() {
			return cty.NullVal(v.Type()), nil
		}
		return v, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(ctyjson.SimpleJSONValue{Value: known})
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(b, &decoded); err != nil {
		t.Fatal(err)
	}
	return withoutEmpty(decoded)
}

func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if v[name] = withoutEmpty(value); v[name] == nil {
				delete(v, name)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

type fields = map[string]any

func block(f fields) []any { return []any{f} }

// wantSettings compares the named settings of a resource.
func wantSettings(t *testing.T, address string, v cty.Value, want fields) {
	t.Helper()
	got, _ := settings(t, v).(map[string]any)
	of := fields{}
	for name := range want {
		of[name] = got[name]
	}
	if diff := cmp.Diff(want, of); diff != "" {
		t.Errorf("%s (-want +got):\n%s", address, diff)
	}
}

// TestBackups_HoldTheVolumesOfLabeledNamespaces holds what Backup for GKE does if it is turned on: a copy a day, kept
// for a week. It is off by default, because it has a price for each agent.
// TestPlans_DecideWhatAgentsMayReachAndWhatIsBackedUp of infra/gke holds the label of the namespaces.
func TestBackups_HoldTheVolumesOfLabeledNamespaces(t *testing.T) {
	t.Parallel()
	byDefault := load(t, map[string]cty.Value{"cells": cells("a1", "b1")})
	if n := len(byDefault.resources(t, "google_gke_backup_backup_plan")); n != 0 {
		t.Errorf("%d backup plans by default, want none", n)
	}
	m := load(t, map[string]cty.Value{"cells": cells("a1", "b1"), "backup_for_gke": cty.True})
	plans := m.resources(t, "google_gke_backup_backup_plan")
	if len(plans) != 2 {
		t.Fatalf("%d backup plans of two cells, want 2", len(plans))
	}
	for _, name := range []string{"a1", "b1"} {
		instance := `cell["` + name + `"]`
		wantSettings(t, "backup plan "+instance, plans[instance], fields{
			"location": "us-central1", "cluster": "google_container_cluster." + instance + ".id",
			"backup_config": block(fields{
				"include_secrets": false, "include_volume_data": true, "permissive_mode": true,
				"selected_namespace_labels": block(fields{
					"resource_labels": block(fields{"key": "agents.example/backup", "value": "daily"}),
				}),
			}),
			"backup_schedule":  block(fields{"cron_schedule": "0 9 * * *"}),
			"retention_policy": block(fields{"backup_retain_days": 7.0}),
		})
		wantSettings(t, "restore plan "+instance, m.resources(t, "google_gke_backup_restore_plan")[instance], fields{
			"location": "us-central1", "cluster": "google_container_cluster." + instance + ".id",
			"backup_plan": "google_gke_backup_backup_plan." + instance + ".id",
			"restore_config": block(fields{
				"all_namespaces": true, "namespaced_resource_restore_mode": "MERGE_REPLACE_VOLUME_ON_CONFLICT",
				"volume_data_restore_policy":     "RESTORE_VOLUME_DATA_FROM_BACKUP",
				"cluster_resource_restore_scope": block(fields{"no_group_kinds": true}),
			}),
		})
	}
}

// TestBackups_RaiseAnAlertWhenTheyFail evaluates the alert with lines of the form that Backup for GKE documents.
func TestBackups_RaiseAnAlertWhenTheyFail(t *testing.T) {
	t.Parallel()
	filter := load(t, map[string]cty.Value{"cells": cells("a1", "b1")}).logFilters(t)["backup_failed"]
	for _, row := range []struct {
		log, plan, state string
		raised           bool
	}{
		{log: "backup_change", plan: "prod-a1", state: "FAILED", raised: true},
		{log: "backup_change", plan: "prod-b1", state: "FAILED", raised: true},
		{log: "backup_change", plan: "prod-a1", state: "SUCCEEDED"},
		{log: "backup_change", plan: "prod-a1-copy", state: "FAILED"},
		{log: "backup_change", plan: "staging-a1", state: "FAILED"},
		{log: "restore_change", plan: "prod-a1", state: "FAILED"},
	} {
		e := entry{
			"logName":                       "projects/my-project/logs/gkebackup.googleapis.com%2F" + row.log,
			"resource.type":                 "gkebackup.googleapis.com/BackupPlan",
			"jsonPayload.inputBackup.state": row.state,
			"jsonPayload.backup":            "projects/1/locations/r/backupPlans/" + row.plan + "/backups/daily",
		}
		if got := e.matches(t, filter); got != row.raised {
			t.Errorf("%s of %s, %s: raised %t, want %t", row.log, row.plan, row.state, got, row.raised)
		}
	}
}

// TestBackups_KeepWhatTheInterfacePromises refuses settings that keep less.
func TestBackups_KeepWhatTheInterfacePromises(t *testing.T) {
	t.Parallel()
	const days, schedule = "backup_retention_days", "backup_schedule"
	for _, row := range []struct {
		variable string
		value    cty.Value
		refused  bool
	}{
		{variable: days, value: cty.NumberIntVal(7)},
		{variable: days, value: cty.NumberIntVal(30)},
		{variable: days, value: cty.NumberIntVal(6), refused: true},
		{variable: days, value: cty.NumberFloatVal(7.5), refused: true},
		{variable: schedule, value: cty.StringVal("30 2 * * *")},
		{variable: schedule, value: cty.StringVal("0 9 * * 0"), refused: true},
		{variable: schedule, value: cty.StringVal(""), refused: true},
	} {
		invalid, err := load(t, map[string]cty.Value{row.variable: row.value}).Invalid()
		if err != nil || len(invalid) > 0 != row.refused {
			t.Errorf("%s = %#v: refused %v, %v; want refused %t", row.variable, row.value, invalid, err, row.refused)
		}
	}
}

// TestCells_ReportAndProtect holds what each cluster reports and what its network closes.
func TestCells_ReportAndProtect(t *testing.T) {
	t.Parallel()
	m := load(t, map[string]cty.Value{"cells": cells("a1", "b1")})
	clusters := m.resources(t, "google_container_cluster")
	if len(clusters) != 2 {
		t.Fatalf("%d clusters of two cells, want 2", len(clusters))
	}
	for address, c := range clusters {
		wantSettings(t, address, c, fields{
			"enable_autopilot":       true,
			"addons_config":          block(fields{"gke_backup_agent_config": block(fields{"enabled": false})}),
			"cost_management_config": block(fields{"enabled": true}),
			"logging_config":         block(fields{"enable_components": []any{"SYSTEM_COMPONENTS", "WORKLOADS"}}),
			"monitoring_config": block(fields{
				"enable_components":  []any{"SYSTEM_COMPONENTS", "POD"},
				"managed_prometheus": block(fields{"enabled": true}),
			}),
		})
	}
	firewalls := m.resources(t, "google_compute_firewall")
	wantSettings(t, "the firewall", firewalls["mail"], fields{
		"direction": "EGRESS", "destination_ranges": []any{"0.0.0.0/0"}, "priority": 900.0,
		"deny": block(fields{"protocol": "tcp", "ports": []any{"25", "465", "587"}}),
		// The rule applies to all nodes of the network.
		"target_service_accounts": nil, "target_tags": nil, "disabled": nil, "allow": nil,
	})
}

// TestLogs_OfAgentsAreNotStored evaluates the exclusion for containers of a cell.
func TestLogs_OfAgentsAreNotStored(t *testing.T) {
	t.Parallel()
	m := load(t, map[string]cty.Value{"cells": cells("a1", "b1")})
	exclusion := m.resources(t, "google_logging_project_exclusion")["agents"]
	filter := exclusion.GetAttr("filter").AsString()
	const id = "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9"
	for _, row := range []struct {
		typ, cluster, namespace string
		excluded                bool
	}{
		{typ: "k8s_container", cluster: "prod-a1", namespace: agent.Namespace(id), excluded: true},
		{typ: "k8s_container", cluster: "prod-b1", namespace: agent.Namespace(uuid.NewString()), excluded: true},
		{typ: "k8s_container", cluster: "stage-a1", namespace: agent.Namespace(id)},
		{typ: "k8s_container", cluster: "another", namespace: agent.Namespace(id)},
		{typ: "k8s_pod", cluster: "prod-a1", namespace: agent.Namespace(id)}, // events
		{typ: "k8s_container", cluster: "prod-a1", namespace: agent.Namespace(uuid.Nil.String())},
		{typ: "k8s_container", cluster: "prod-a1", namespace: cell.GatewayNamespace},
		{typ: "k8s_container", cluster: "prod-a1", namespace: "agent-warm"},
		{typ: "k8s_container", cluster: "prod-a1", namespace: "agent-canary"},
		{typ: "k8s_container", cluster: "prod-a1", namespace: "kube-system"},
		{typ: "k8s_container", cluster: "prod-a1", namespace: "not-" + agent.Namespace(id)},
		{typ: "k8s_container", cluster: "prod-a1", namespace: agent.Namespace(id) + "-2"},
	} {
		line := entry{
			"resource.type": row.typ, "resource.labels.cluster_name": row.cluster,
			"resource.labels.namespace_name": row.namespace,
		}
		if got := line.matches(t, filter); got != row.excluded {
			t.Errorf("%s of %s in %s: excluded %t, want %t", row.typ, row.namespace, row.cluster, got, row.excluded)
		}
	}
}

// TestLogs_HaveOneLineOfARequest evaluates the exclusion for Cloud Run's own lines.
func TestLogs_HaveOneLineOfARequest(t *testing.T) {
	t.Parallel()
	filter := load(t, nil).resources(t, "google_logging_project_exclusion")["requests"].GetAttr("filter").AsString()
	const requests, printed = "projects/my-project/logs/run.googleapis.com%2Frequests",
		"projects/my-project/logs/run.googleapis.com%2Fstderr"
	for _, row := range []struct {
		log, service, status string
		excluded             bool
	}{
		{log: requests, service: "prod-routes", status: "200", excluded: true},
		{log: requests, service: "prod-worker", status: "429", excluded: true},
		{log: requests, service: "prod-routes", status: "500"},
		{log: requests, service: "prod-routes", status: "503"},
		{log: requests, service: "stage-routes", status: "200"},
		{log: printed, service: "prod-routes", status: "200"},
		{log: printed, service: "prod-routes"}, // a line that is not about a request
	} {
		line := entry{
			"resource.type": "cloud_run_revision", "resource.labels.service_name": row.service, "logName": row.log,
		}
		if row.status != "" {
			line["httpRequest.status"] = row.status
		}
		if got := line.matches(t, filter); got != row.excluded {
			t.Errorf("a line of %s in %s with the status %q: excluded %t, want %t", row.service, row.log, row.status,
				got, row.excluded)
		}
	}
}

// TestServices_LimitTheHeap compares Go's limit of each service with its memory.
func TestServices_LimitTheHeap(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			memory := mebibytes(t, text(t, s, "template.0.containers.0.resources.0.limits.memory"), "Mi")
			limit := 0
			for _, env := range s.GetAttr("template").AsValueSlice()[0].GetAttr("containers").AsValueSlice()[0].
				GetAttr("env").AsValueSlice() {
				if env.GetAttr("name").AsString() == "GOMEMLIMIT" {
					limit = mebibytes(t, env.GetAttr("value").AsString(), "MiB")
				}
			}
			if limit < memory*3/4 || limit > memory*8/10 {
				t.Errorf("%s limits its heap to %d of %d MiB, want three quarters to four fifths", address, limit,
					memory)
			}
		}
	})
}

func mebibytes(t *testing.T, quantity, unit string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(quantity, unit))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

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
		"egress_days expires_at", "egress_notices expires_at", "events expires_at",
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
	type order struct{ FieldPath, Order, ArrayConfig, QueryScope string }
	orNone := func(text string) string {
		if text == "" {
			return "(none)"
		}
		return text
	}
	var declared struct {
		Indexes, Retired []struct {
			CollectionGroup, QueryScope string
			Fields                      []order
		}
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			Indexes                    []order
		}
	}
	if err := json.Unmarshal([]byte(read(t, "../infra/firestore/indexes.json")), &declared); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, i := range slices.Concat(declared.Indexes, declared.Retired) {
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

// TestIndexes_AreAwaited holds that Terraform waits for the index of a large collection, and the build for Terraform.
// By default the provider waits for 20 minutes, forgets the index, and then fails to create it again.
func TestIndexes_AreAwaited(t *testing.T) {
	t.Parallel()
	const large = 8 * time.Hour
	m, build := load(t, nil), duration(t, builds(t)["terraform/build/deploy.yaml"].Timeout)
	for _, row := range []struct{ typ, operation string }{
		{typ: "google_firestore_index", operation: "create"},
		{typ: "google_firestore_field", operation: "create"},
		{typ: "google_firestore_field", operation: "update"},
	} {
		for address, r := range m.resources(t, row.typ) {
			set := text(t, r, "timeouts.0."+row.operation)
			if set == "(none)" {
				set = "20m"
			}
			if waits := duration(t, set); waits < large || build < waits+time.Hour {
				t.Errorf("%s: Terraform waits %s to %s it, and the build %s; want %s at least, and an hour more",
					address, waits, row.operation, build, large)
			}
		}
	}
}

var update = flag.Bool("update", false, "write testdata/released_indexes.txt, after a release")

// TestIndexes_OutliveTheirLastQueryByARelease compares the indexes with those of the last release, by their names in
// Terraform. Revisions of that release serve while this one is deployed, and after a roll-back.
func TestIndexes_OutliveTheirLastQueryByARelease(t *testing.T) {
	t.Parallel()
	const file = "testdata/released_indexes.txt"
	m := load(t, nil)
	declared := m.local(t, "indexes").AsValueMap()
	if *update {
		retired := m.local(t, "declared").GetAttr("retired").AsValueSlice()
		used := maps.Clone(declared)
		maps.DeleteFunc(used, func(_ string, i cty.Value) bool { return slices.ContainsFunc(retired, i.RawEquals) })
		names := strings.Join(slices.Sorted(maps.Keys(used)), "\n") + "\n"
		if err := os.WriteFile(file, []byte(names), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name := range strings.Lines(read(t, file)) {
		if _, is := declared[strings.TrimSpace(name)]; !is {
			t.Errorf("the index %q of the last release is gone: move it to retired in infra/firestore/indexes.json",
				name)
		}
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

// TestSecrets_AreProtected holds that the control plane's secrets cannot be deleted by accident, and that the
// generated pepper is not in the state.
func TestSecrets_AreProtected(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	secrets := m.resources(t, "google_secret_manager_secret")
	for _, id := range []string{
		"prod-api-key-pepper", "prod-handoff-signing-key", "prod-stripe-api-key", "prod-stripe-webhook-secret",
		"prod-edge-secrets",
	} {
		want := map[string]string{"secret_id": id, "deletion_protection": "true"}
		s := secrets[`this["`+id+`"]`]
		if diff := cmp.Diff(want, arguments(t, s, want)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
		if find(t, s, "replication.0.auto.0").IsNull() || !find(t, s, "replication.0.user_managed.0").IsNull() {
			t.Errorf("%s is not replicated automatically", id)
		}
	}
	want := map[string]string{
		"secret": `google_secret_manager_secret.this["prod-api-key-pepper"].id`, "secret_data": "(none)",
		"secret_data_wo": "(unknown)", "secret_data_wo_version": "1", "deletion_policy": "ABANDON",
	}
	versions := m.resources(t, "google_secret_manager_secret_version")
	if diff := cmp.Diff(want, arguments(t, versions[`generated["prod-api-key-pepper"]`], want)); diff != "" ||
		len(versions) != 4 {
		t.Errorf("%d versions, want four (-want +got):\n%s", len(versions), diff)
	}
}

// TestSecrets_StayInTheirRegions holds that secret_regions replaces automatic replication.
func TestSecrets_StayInTheirRegions(t *testing.T) {
	t.Parallel()
	want := []string{"europe-west1", "europe-west4"}
	m := load(t, map[string]cty.Value{"secret_regions": cty.TupleVal([]cty.Value{
		cty.StringVal(want[0]), cty.StringVal(want[1]),
	})})
	for address, s := range m.resources(t, "google_secret_manager_secret") {
		managed := find(t, s, "replication.0.user_managed.0")
		if got := blocks(t, managed, "replicas", "location"); !slices.Equal(got, want) {
			t.Errorf("%s is replicated to %q, want %q", address, got, want)
		}
		if !find(t, s, "replication.0.auto.0").IsNull() {
			t.Errorf("%s is replicated automatically, too", address)
		}
	}
}

// TestSecrets_AreReadByTheirHoldersOnly compares the environments of services with the rights on secrets: a service
// reads the secrets in its environment and no others.
func TestSecrets_AreReadByTheirHoldersOnly(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"route", "group", "single"} {
		m := load(t, map[string]cty.Value{
			"topology": cty.StringVal(topology), "app_url": cty.StringVal("https://app.example.com"),
			"handoff_public_keys": cty.StringVal(`{"keys": []}`),
			"provided_secrets": cty.SetVal([]cty.Value{
				cty.StringVal("HANDOFF_SIGNING_KEY"), cty.StringVal("STRIPE_API_KEY"),
				cty.StringVal("STRIPE_WEBHOOK_SECRET"),
			}),
		})
		want, got := map[string]string{
			gateIdentity + " reads prod-gate-ca": "roles/secretmanager.secretAccessor",
		}, map[string]string{}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			account := "google_service_account.service" + strings.TrimPrefix(address, "this") + ".member"
			for name, value := range variables(t, s) {
				secret, is := strings.CutPrefix(value, "secret ")
				if !is {
					continue
				}
				id, version, _ := strings.Cut(secret, " at ")
				want[account+" reads "+id] = "roles/secretmanager.secretAccessor"
				generated := id == "prod-api-key-pepper" || id == "prod-webhook-signing-key"
				if generated == (version == "latest") {
					t.Errorf("%s reads %s at %s: want generated secrets at their version, and others at latest",
						address, name, version)
				}
			}
		}
		for _, member := range m.resources(t, "google_secret_manager_secret_iam_member") {
			got[text(t, member, "member")+" reads "+text(t, member, "secret_id")] = text(t, member, "role")
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s: readers of secrets (-want +got):\n%s", topology, diff)
		}
	}
}
