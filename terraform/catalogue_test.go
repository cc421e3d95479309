// Package terraform_test holds what is deployed to what is written: the catalogue, the configuration, the log, and the
// files among themselves.
package terraform_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/inprocess"
	"agents.example/controlplane/shared/function"
)

// everyTopology runs a test for each topology, without a domain and with one.
func everyTopology(t *testing.T, test func(t *testing.T, m *module)) {
	t.Helper()
	for _, topology := range []string{"route", "group", "single"} {
		for _, domain := range []string{"", "api.example.com"} {
			t.Run(topology+" "+domain, func(t *testing.T) {
				t.Parallel()
				test(t, load(t, map[string]cty.Value{"topology": cty.StringVal(topology),
					"domain": cty.StringVal(domain)}))
			})
		}
	}
}

// TestRoutesAreThoseOfTheCatalogue compares functions.json, the catalogue and the description of the interface.
func TestRoutesAreThoseOfTheCatalogue(t *testing.T) {
	t.Parallel()
	deployed, written, described := map[string]string{}, map[string]string{}, map[string]string{}
	for name, f := range load(t, nil).local(t, "routes").AsValueMap() {
		deployed[name] = f.GetAttr("method").AsString() + " " + f.GetAttr("path").AsString()
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		written[r.Name] = r.Method + " " + r.Path
	}
	b, err := os.ReadFile("../functions/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(b, &document); err != nil {
		t.Fatal(err)
	}
	for path, operations := range document.Paths {
		for method, raw := range operations {
			var o struct{ OperationID string }
			if json.Unmarshal(raw, &o) == nil && o.OperationID != "" {
				described[o.OperationID] = strings.ToUpper(method) + " " + path
			}
		}
	}
	if !maps.Equal(deployed, written) {
		t.Errorf("functions.json is not the catalogue: run go generate ./functions\n%v\n%v", deployed, written)
	}
	if !maps.Equal(described, written) {
		t.Errorf("openapi.json is not the catalogue: run go generate ./functions\n%v\n%v", described, written)
	}
}

// needsOfTheProject are the constants of type Need in shared/function.
func needsOfTheProject(t *testing.T) []string {
	t.Helper()
	packages, err := filepath.Glob("../shared/function/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var needs []string
	for _, name := range packages {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Need" {
				for _, v := range spec.Values {
					if lit, ok := v.(*ast.BasicLit); ok {
						need, _ := strconv.Unquote(lit.Value)
						needs = append(needs, need)
					}
				}
			}
			return true
		})
	}
	return needs
}

// TestEveryNeedIsGranted fails when there is a need that Terraform grants nothing for.
func TestEveryNeedIsGranted(t *testing.T) {
	t.Parallel()
	grants := load(t, nil).local(t, "grants").AsValueMap()
	needs := needsOfTheProject(t)
	if !slices.Contains(needs, string(function.Firestore)) {
		t.Fatalf("shared/function has the needs %v: the test does not find them", needs)
	}
	for _, need := range needs {
		if _, ok := grants[need]; !ok {
			t.Errorf("nothing is granted for the need %q: add an entry to grants in terraform/needs.tf with the narrowest roles for it, "+
				"or an empty list if it takes none", need)
		}
	}
	for need := range grants {
		if !slices.Contains(needs, need) {
			t.Errorf("terraform/needs.tf grants roles for %q, which is no need of shared/function: take it out", need)
		}
	}
}

// TestServicesMayWhatTheirFunctionsNeed compares each service's roles with the needs of the functions in it, as the
// catalogue has them.
func TestServicesMayWhatTheirFunctionsNeed(t *testing.T) {
	t.Parallel()
	needs := map[string][]function.Need{}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		needs[r.Name] = r.Needs
	}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		needs[w.Name] = w.Needs
	}
	everyTopology(t, func(t *testing.T, m *module) {
		grants := m.local(t, "grants").AsValueMap()
		common := m.local(t, "common_grants").AsValueSlice()
		got, want := map[string]bool{}, map[string]bool{}
		for _, g := range m.local(t, "service_grants").AsValueMap() {
			got[fmt.Sprintf("%s may %s where %q", g.GetAttr("service").AsString(), g.GetAttr("role").AsString(),
				g.GetAttr("where").AsString())] = true
		}
		for service, s := range m.local(t, "services").AsValueMap() {
			roles := common
			for _, member := range texts(t, s.GetAttr("members")) {
				for _, n := range needs[member] {
					roles = append(slices.Clone(roles), grants[string(n)].AsValueSlice()...)
				}
			}
			for _, g := range roles {
				want[fmt.Sprintf("%s may %s where %q", service, g.GetAttr("role").AsString(),
					g.GetAttr("where").AsString())] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("granted %v\nneeded %v", got, want)
		}
	})
}

// TestEveryFunctionHasOneService also holds that a service runs the binary that its functions are linked into.
func TestEveryFunctionHasOneService(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		services := m.local(t, "services").AsValueMap()
		accounts := map[string]bool{}
		for service, id := range m.local(t, "account_ids").AsValueMap() {
			if n := len(id.AsString()); n < 6 || n > 30 || accounts[id.AsString()] {
				t.Errorf("the account of %s is %q: it must have 6 to 30 characters and be nobody else's", service,
					id.AsString())
			}
			accounts[id.AsString()] = true
		}
		for name, service := range m.local(t, "service_of").AsValueMap() {
			s, ok := services[service.AsString()]
			if !ok {
				t.Fatalf("%s is in the service %s, which does not exist", name, service.AsString())
			}
			role := m.local(t, "functions").GetAttr(name).GetAttr("role").AsString()
			binary, target := s.GetAttr("binary").AsString(), s.GetAttr("target").AsString()
			// The binary accounts links what all routes need.
			if binary != role && (binary != "accounts" || role != "api") || target != "" && target != name {
				t.Errorf("%s of the role %s is in %s, which runs %s with the target %q", name, role, service.AsString(),
					binary, target)
			}
		}
	})
}

// TestEnvironmentIsWhatConfigurationReads holds the environment of each service against the configuration of its
// binary.
func TestEnvironmentIsWhatConfigurationReads(t *testing.T) {
	t.Parallel()
	// What Cloud Run sets itself, and what only other networks than Google's need.
	notSet := []string{"PORT", "LISTEN_HOST", "AGENT_SCHEME", "AGENT_PORT", "AGENT_RESOLVERS", "GATEWAY_SOURCES",
		"AGENT_GATEWAY_ADDRESS", "PUSH_ISSUER", "WATCH_TIMEOUT", "STRIPE_URL"}
	everyTopology(t, func(t *testing.T, m *module) {
		secret := m.local(t, "secret_environments").AsValueMap()
		settable := m.local(t, "common_environment").AsValueMap()
		maps.Copy(settable, m.local(t, "worker_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "optional_secrets").AsValueMap())
		maps.Copy(settable, m.local(t, "routes_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "payments_environment").AsValueMap())
		for service, env := range m.local(t, "environments").AsValueMap() {
			binary := m.local(t, "services").GetAttr(service).GetAttr("binary").AsString()
			read := inprocess.Variables(function.Role(binary))
			set := env.AsValueMap()
			maps.Copy(set, secret[service].AsValueMap())
			for name := range set {
				if _, is := read[name]; !is {
					t.Errorf("%s sets %s, which its binary does not read: take it out of terraform/environment.tf",
						service, name)
				}
				if slices.Contains(notSet, name) {
					t.Errorf("%s sets %s, which is not Terraform's to set", service, name)
				}
			}
			for name, required := range read {
				if _, ok := set[name]; required && !ok {
					t.Errorf("%s does not set %s, without which its binary does not start: add it to terraform/environment.tf", service, name)
				}
			}
			for name := range read {
				_, can := settable[name]
				_, is := set[name]
				if !can && !is && !slices.Contains(notSet, name) && name != "FUNCTION_TARGET" {
					t.Errorf("functions/cmd/internal/config reads %s, which Terraform never sets: add it to terraform/environment.tf", name)
				}
			}
		}
	})
}
