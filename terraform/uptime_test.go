package terraform_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/terraform/cell"
)

// uptimePath is what the uptime checks request.
const uptimePath = "/health/ready"

// TestUptimeChecks_AskForTheAPIAndForEachCell compares what is asked from outside with a literal table.
func TestUptimeChecks_AskForTheAPIAndForEachCell(t *testing.T) {
	t.Parallel()
	for domain, api := range map[string]string{
		"": "prod-routes-123456789012.us-central1.run.app", "api.example.com": "api.example.com",
	} {
		m := load(t, map[string]cty.Value{"domain": cty.StringVal(domain), "cells": cells("a1", "b1")})
		got := map[string]string{}
		for address, check := range m.resources(t, "google_monitoring_uptime_check_config") {
			resource := check.GetAttr("monitored_resource").Index(cty.NumberIntVal(0))
			if typ := resource.GetAttr("type").AsString(); typ != "uptime_url" {
				t.Errorf("%s asks for a %s, want an uptime_url", address, typ)
			}
			got[address] = resource.GetAttr("labels").GetAttr("host").AsString()
			checkRequest(t, address, check)
		}
		want := map[string]string{
			`this["api"]`:     api,
			`this["cell-a1"]`: cell.CanaryLabel + ".a1.agents.example.net",
			`this["cell-b1"]`: cell.CanaryLabel + ".b1.agents.example.net",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("hosts with the domain %q (-want +got):\n%s", domain, diff)
		}
	}
}

// checkRequest holds how often a check asks, and for what.
func checkRequest(t *testing.T, address string, check cty.Value) {
	t.Helper()
	request := check.GetAttr("http_check").Index(cty.NumberIntVal(0))
	for field, want := range map[string]cty.Value{
		"path": cty.StringVal(uptimePath), "port": cty.NumberIntVal(443), "request_method": cty.StringVal("GET"),
		"use_ssl": cty.True, "validate_ssl": cty.True,
	} {
		if got := request.GetAttr(field); !got.RawEquals(want) {
			t.Errorf("%s: http_check.%s = %#v, want %#v", address, field, got, want)
		}
	}
	for field, want := range map[string]string{"period": "60s", "timeout": "10s"} {
		if got := check.GetAttr(field).AsString(); got != want {
			t.Errorf("%s: %s = %s, want %s", address, field, got, want)
		}
	}
	if n := check.GetAttr("selected_regions").LengthInt(); n != 3 {
		t.Errorf("%s asks from %d locations, want 3: fewer are refused, and more cost more", address, n)
	}
}

// TestUptimeChecks_FindWhatTheAPIAnswers asks the real route, which is public.
func TestUptimeChecks_FindWhatTheAPIAnswers(t *testing.T) {
	t.Parallel()
	content := text(t, load(t, nil).local(t, "uptime_checks"), "api.content")
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if r.Path == uptimePath && r.Access != function.Public {
			t.Errorf("%s asks for a credential, which uptime checks do not have", uptimePath)
		}
	}
	for _, r := range system.Ready(nil) {
		if r.Path != uptimePath {
			continue
		}
		w := httptest.NewRecorder()
		r.Handler(function.Guard{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, uptimePath, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), content) {
			t.Errorf("%s answers %d %s, want 200 with %s", uptimePath, w.Code, w.Body, content)
		}
		return
	}
	t.Errorf("no route has the path %s", uptimePath)
}
