package terraform_test

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// arguments reads the arguments that a test wants, by path.
func arguments(t *testing.T, v cty.Value, want map[string]string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for path := range want {
		got[path] = text(t, v, path)
	}
	return got
}

// TestClusters_OneCellCanBeUnprotected removes the protection of a cell that will be removed, and of nothing else.
func TestClusters_OneCellCanBeUnprotected(t *testing.T) {
	t.Parallel()
	leaving := load(t, map[string]cty.Value{"cells": cty.ObjectVal(map[string]cty.Value{
		"a1": cty.ObjectVal(map[string]cty.Value{
			"number": cty.NumberIntVal(1), "region": cty.StringVal("us-central1"), "deletion_protection": cty.False,
		}),
		"b1": cty.ObjectVal(map[string]cty.Value{
			"number": cty.NumberIntVal(2), "region": cty.StringVal("europe-west4"),
		}),
	})})
	for address, want := range map[string]string{`cell["a1"]`: "false", `cell["b1"]`: "true"} {
		c := leaving.resources(t, "google_container_cluster")[address]
		if got := text(t, c, "deletion_protection"); got != want {
			t.Errorf("only a1 is unprotected: %s is protected: %s, want %s", address, got, want)
		}
	}
	records := leaving.resources(t, "google_firestore_database")["records"]
	if got := text(t, records, "delete_protection_state"); got != "DELETE_PROTECTION_ENABLED" {
		t.Errorf("an unprotected cell leaves the database %s", got)
	}
}

// TestClusters_ArePrivate holds that nodes have no public address, that the API server is reached with a Google
// identity only, and that a cluster with agents cannot be deleted by accident.
func TestClusters_ArePrivate(t *testing.T) {
	t.Parallel()
	const endpoints = "control_plane_endpoints_config.0."
	m := load(t, map[string]cty.Value{"cells": cells("a1", "b1")})
	clusters := m.resources(t, "google_container_cluster")
	for _, cell := range []string{"a1", "b1"} {
		want := map[string]string{
			"name": "prod-" + cell, "location": "us-central1",
			"enable_autopilot": "true", "deletion_protection": "true",
			"network":    "google_compute_network.cells.id",
			"subnetwork": `google_compute_subnetwork.cell["` + cell + `"].id`,
			"ip_allocation_policy.0.cluster_secondary_range_name": "pods",
			"ip_allocation_policy.0.services_ipv4_cidr_block":     "(none)",
			"private_cluster_config.0.enable_private_nodes":       "true",

			endpoints + "dns_endpoint_config.0.allow_external_traffic": "true",
			endpoints + "ip_endpoints_config.0.enabled":                "false",

			"cluster_autoscaling.0.auto_provisioning_defaults.0.service_account": "google_service_account.nodes.email",

			"gateway_api_config.0.channel": "CHANNEL_STANDARD", "release_channel.0.channel": "REGULAR",
			"maintenance_policy.0.recurring_window.0.recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
		}
		if diff := cmp.Diff(want, arguments(t, clusters[`cell["`+cell+`"]`], want)); diff != "" {
			t.Errorf("cluster of %s (-want +got):\n%s", cell, diff)
		}
	}
	unprotected := load(t, map[string]cty.Value{"deletion_protection": cty.False})
	for address, c := range unprotected.resources(t, "google_container_cluster") {
		if text(t, c, "deletion_protection") != "false" {
			t.Errorf("%s is protected against the setting", address)
		}
	}
}

// TestNodes_HaveTheRightsOfNodes holds what code on a node may do in the project.
func TestNodes_HaveTheRightsOfNodes(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for address, member := range load(t, nil).resources(t, "google_project_iam_member") {
		if account := text(t, member, "member"); account == "google_service_account.nodes.member" {
			got[text(t, member, "role")] = address
		}
	}
	want := map[string]string{}
	for _, role := range []string{
		"roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader",
		"roles/serviceusage.serviceUsageConsumer",
	} {
		want[role] = `nodes["` + role + `"]`
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles of nodes (-want +got):\n%s", diff)
	}
}

// TestNodes_ReachTheInternetThroughNAT holds that each region with a cell has one router, whose NAT serves all of its
// subnetworks. Nodes have no public address, so agents have no other way out.
func TestNodes_ReachTheInternetThroughNAT(t *testing.T) {
	t.Parallel()
	one, two := cells("a1", "b1"), everything()["cells"]
	for name, row := range map[string]struct {
		cells   cty.Value
		regions []string
	}{
		"two cells in a region": {cells: one, regions: []string{"us-central1"}},
		"two regions":           {cells: two, regions: []string{"us-central1", "europe-west4"}},
	} {
		m := load(t, map[string]cty.Value{"cells": row.cells})
		nats := m.resources(t, "google_compute_router_nat")
		if len(nats) != len(row.regions) {
			t.Errorf("%s: %d NATs, want %d", name, len(nats), len(row.regions))
		}
		for _, region := range row.regions {
			want := map[string]string{
				"router": "prod-cells-" + region, "region": region, "nat_ip_allocate_option": "AUTO_ONLY",
				"source_subnetwork_ip_ranges_to_nat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
				"enable_dynamic_port_allocation":     "true", "min_ports_per_vm": "32", "max_ports_per_vm": "4096",
				"enable_endpoint_independent_mapping": "false",
			}
			if diff := cmp.Diff(want, arguments(t, nats[`cells["`+region+`"]`], want)); diff != "" {
				t.Errorf("%s: NAT of %s (-want +got):\n%s", name, region, diff)
			}
			router := m.resources(t, "google_compute_router")[`cells["`+region+`"]`]
			if got := text(t, router, "network"); got != "google_compute_network.cells.id" {
				t.Errorf("%s: the router of %s is in %s", name, region, got)
			}
		}
	}
}

// TestCells_HaveSeparateRanges holds that the ranges of all 63 numbers are disjoint, and that they leave out the range
// that GKE uses for Services.
func TestCells_HaveSeparateRanges(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 63 {
		names = append(names, "a"+strings.Repeat("b", i%20)+string(rune('a'+i/20)))
	}
	ranges := map[string]netip.Prefix{"Services": netip.MustParsePrefix("34.118.224.0/20")}
	for address, s := range load(t, map[string]cty.Value{"cells": cells(names...)}).resources(t,
		"google_compute_subnetwork") {
		for what, row := range map[string]struct {
			path string
			bits int
		}{
			"nodes": {path: "ip_cidr_range", bits: 20},
			"pods":  {path: "secondary_ip_range.0.ip_cidr_range", bits: 16},
		} {
			prefix := netip.MustParsePrefix(text(t, s, row.path))
			if prefix.Bits() != row.bits || !prefix.Addr().IsPrivate() {
				t.Errorf("%s of %s are in %s, want a private range of /%d", what, address, prefix, row.bits)
			}
			for other, taken := range ranges {
				if taken.Overlaps(prefix) {
					t.Errorf("%s of %s are in %s, which overlaps %s of %s", what, address, prefix, taken, other)
				}
			}
			ranges[what+" of "+address] = prefix
		}
	}
	if len(ranges) != 127 {
		t.Errorf("%d ranges, want two a cell and one of Services", len(ranges))
	}
}

// separateCells places two cells in a project without the control plane.
func separateCells() map[string]cty.Value {
	return map[string]cty.Value{
		"cells": cells("a1", "b1"), "cells_project": cty.StringVal("my-cells"),
		"cells_project_number": cty.StringVal("210987654321"), "billing_account": cty.StringVal("012345-6789AB-CDEF01"),
		"alert_emails": cty.ListVal([]cty.Value{cty.StringVal("operator@example.com")}),
	}
}

// projectOfResource is the project of a resource: its argument, or the one of the provider.
func projectOfResource(t *testing.T, v cty.Value) string {
	t.Helper()
	if !v.Type().HasAttribute("project") {
		return "my-project"
	}
	return text(t, v, "project")
}

// TestCellsProject_HasWhatRunsAgents lists the resources of a separate project, and holds that the names of all others
// stay those of a deployment in one project.
func TestCellsProject_HasWhatRunsAgents(t *testing.T) {
	t.Parallel()
	settings := separateCells()
	settings["backup_for_gke"] = cty.True
	everyTopologyWith(t, settings, func(t *testing.T, m *module) {
		want := []string{
			`compute_firewall.mail`, `compute_global_address.cell["a1"]`, `compute_global_address.cell["b1"]`,
			`compute_network.cells`, `compute_router.cells["us-central1"]`, `compute_router_nat.cells["us-central1"]`,
			`compute_ssl_policy.cells["cells"]`, `compute_subnetwork.cell["a1"]`, `compute_subnetwork.cell["b1"]`,
			`container_cluster.cell["a1"]`, `container_cluster.cell["b1"]`,
			`certificate_manager_certificate.cell["a1"]`, `certificate_manager_certificate.cell["b1"]`,
			`certificate_manager_certificate_map.agents`, `certificate_manager_certificate_map_entry.cell["a1"]`,
			`certificate_manager_certificate_map_entry.cell["b1"]`,
			`certificate_manager_dns_authorization.cell["a1"]`, `certificate_manager_dns_authorization.cell["b1"]`,
			`gke_backup_backup_plan.cell["a1"]`, `gke_backup_backup_plan.cell["b1"]`,
			`gke_backup_restore_plan.cell["a1"]`, `gke_backup_restore_plan.cell["b1"]`,
			`logging_metric.event["cells nudge_not_published"]`, `logging_project_exclusion.agents`,
			`monitoring_alert_policy.log["backup_failed"]`,
			`monitoring_notification_channel.cells_email["operator@example.com"]`,
			`project_iam_custom_role.this["cluster_caller"]`, `project_iam_custom_role.this["metric_reader"]`,
			`project_iam_member.nodes["roles/container.defaultNodeServiceAccount"]`,
			`project_iam_member.nodes["roles/serviceusage.serviceUsageConsumer"]`, `service_account.nodes`,
		}
		if m.variable(t, "domain").AsString() != "" {
			want = append(want, `compute_security_policy.edge["agents"]`)
		}
		var got []string
		for _, typ := range m.Types() {
			for address, v := range m.resources(t, typ) {
				in := projectOfResource(t, v) == "my-cells"
				if in && !strings.HasPrefix(typ+"."+address, "google_project_iam_member.service[") {
					got = append(got, strings.TrimPrefix(typ, "google_")+"."+address)
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("resources of the cells' project (-want +got):\n%s", diff)
		}
	})
}

// TestCellsProject_AdmitsTheControlPlaneNarrowly lists the rights that services and nodes have in either project.
func TestCellsProject_AdmitsTheControlPlaneNarrowly(t *testing.T) {
	t.Parallel()
	everyTopologyWith(t, separateCells(), func(t *testing.T, m *module) {
		custom := []string{"projects/my-cells/roles/prod_cluster_caller", "projects/my-cells/roles/prod_metric_reader"}
		granted := map[string]bool{}
		for address, v := range m.resources(t, "google_project_iam_member") {
			in, role := text(t, v, "project") == "my-cells", text(t, v, "role")
			if strings.HasPrefix(address, "service[") {
				granted[role] = granted[role] || in
				if in != slices.Contains(custom, role) {
					t.Errorf("%s is granted in the project of the cells: %t", address, in)
				}
			} else if here := role == "roles/artifactregistry.reader" || address == "gate"; in == here {
				t.Errorf("%s is granted in the project of the cells: %t", address, in)
			}
		}
		for _, role := range custom {
			if !granted[role] {
				t.Errorf("%s is granted to no service", role)
			}
		}
		notifier := text(t, m.resources(t, "google_pubsub_topic_iam_member")["notifier"], "member")
		pool := "/projects/210987654321/locations/global/workloadIdentityPools/my-cells.svc.id.goog/"
		if !strings.Contains(notifier, pool) {
			t.Errorf("the notifier is %s, want an identity of the pool %s", notifier, pool)
		}
	})
}

// TestCellsProject_IsObserved holds that metrics, logs and costs of the cells reach the operator.
func TestCellsProject_IsObserved(t *testing.T) {
	t.Parallel()
	m := load(t, separateCells())
	scope := m.resources(t, "google_monitoring_monitored_project")[`cells["cells"]`]
	want := map[string]string{"metrics_scope": "my-project", "name": "my-cells"}
	if diff := cmp.Diff(want, arguments(t, scope, want)); diff != "" {
		t.Errorf("metrics scope (-want +got):\n%s", diff)
	}
	for address, service := range m.resources(t, "google_cloud_run_v2_service") {
		got, has := variables(t, service)["MONITORING_PROJECT"]
		if has && got != "my-cells" {
			t.Errorf("%s reads the metrics of %s", address, got)
		}
	}
	backups := m.resources(t, "google_monitoring_alert_policy")[`log["backup_failed"]`]
	filter := text(t, backups, "conditions.0.condition_matched_log.0.filter")
	if want := "projects/my-cells/logs/gkebackup.googleapis.com%2Fbackup_change"; !strings.Contains(filter, want) {
		t.Errorf("the alert about backups matches %s, want lines of %s", filter, want)
	}
	channel := `google_monitoring_notification_channel.cells_email["operator@example.com"].id`
	if got := text(t, backups, "notification_channels.0"); got != channel {
		t.Errorf("the alert about backups notifies %s, want %s", got, channel)
	}
	events := m.resources(t, "google_logging_metric")
	one, other := events[`event["nudge_not_published"]`], events[`event["cells nudge_not_published"]`]
	for _, argument := range []string{"name", "filter", "description"} {
		if got, want := text(t, other, argument), text(t, one, argument); got != want {
			t.Errorf("the cells' counter has the %s %s, want %s", argument, got, want)
		}
	}
	budgets := m.resources(t, "google_billing_budget")
	if got := text(t, budgets[`project["cells"]`], "budget_filter.0.projects.0"); got != "projects/210987654321" {
		t.Errorf("the cells' budget is of %s, want that of their project", got)
	}
	clusters, err := m.Output("clusters")
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, clusters, "a1.project"); got != "my-cells" {
		t.Errorf("the output clusters names the project %s, want my-cells", got)
	}
	every, err := load(t, everything()).Output("clusters")
	if err != nil {
		t.Fatal(err)
	}
	for cell, want := range map[string]string{"a1": "true", "b1": "false"} {
		if got := text(t, every, cell+".closed"); got != want {
			t.Errorf("the output clusters says of %s that it is closed: %s, want %s", cell, got, want)
		}
	}
}

// eventsIn are the events that the files of a folder name, as Terraform names them.
func eventsIn(t *testing.T, folder string) []string {
	t.Helper()
	names := map[string]string{}
	declared := regexp.MustCompile(`(?m)^\t(\w+) +Name = "(\w+)"`)
	for _, m := range declared.FindAllStringSubmatch(read(t, "../shared/logevent/logevent.go"), -1) {
		names[m[1]] = m[2]
	}
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s, %v", len(files), folder, err)
	}
	var found []string
	for _, file := range files {
		for _, m := range regexp.MustCompile(`logevent\.(\w+)`).FindAllStringSubmatch(read(t, file), -1) {
			if name := names[m[1]]; name != "" && !strings.HasSuffix(file, "_test.go") {
				found = append(found, name)
			}
		}
	}
	return found
}

// TestCellsProject_CountsWhatCellsLog holds that Terraform counts the events of programs that run in cells.
func TestCellsProject_CountsWhatCellsLog(t *testing.T) {
	t.Parallel()
	var want []string
	for _, folder := range []string{"router", "front", "notifier"} {
		want = append(want, eventsIn(t, "../shared/dataplane/"+folder)...)
	}
	slices.Sort(want)
	got := texts(t, load(t, nil).local(t, "cells_events"))
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("cells_events in signals.tf (-want +got):\n%s", diff)
	}
}

// TestCellsProject_DefaultsToOneProject holds that a deployment in one project has nothing of a second one, and that
// settings that do not fit are refused.
func TestCellsProject_DefaultsToOneProject(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	for _, typ := range m.Types() {
		for address, v := range m.resources(t, typ) {
			if got := projectOfResource(t, v); got != "my-project" {
				t.Errorf("%s.%s is in %s, want one project", typ, address, got)
			}
		}
	}
	for name, row := range map[string]struct {
		id, number string
		refused    []string
	}{
		"two projects":               {id: "my-cells", number: "210987654321"},
		"one project":                {},
		"no number":                  {id: "my-cells", refused: []string{"cells_project_number"}},
		"a number alone":             {number: "210987654321", refused: []string{"cells_project_number"}},
		"the control plane's":        {id: "my-project", number: "123456789012", refused: []string{"cells_project"}},
		"a name instead of an id":    {id: "My cells", number: "210987654321", refused: []string{"cells_project"}},
		"an id instead of a number:": {id: "my-cells", number: "my-cells", refused: []string{"cells_project_number"}},
	} {
		given := separateCells()
		maps.Copy(given, map[string]cty.Value{
			"cells_project": cty.StringVal(row.id), "cells_project_number": cty.StringVal(row.number),
		})
		if refused, err := load(t, given).Invalid(); err != nil || !slices.Equal(refused, row.refused) {
			t.Errorf("%s: %q are refused (%v), want %q", name, refused, err, row.refused)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func itoa(n int) string { return strconv.Itoa(n) }
