// Package terraform_test compares Terraform with the code: the catalogue, the configuration, the log events and the
// documents.
package terraform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/testtier"
)

// everyTopology runs a test for each topology, without a domain and with one.
func everyTopology(t *testing.T, test func(t *testing.T, m *module)) {
	t.Helper()
	everyTopologyWith(t, nil, test)
}

// everyTopologyWith is everyTopology with values for further variables. Outside the full tier, it gives a domain to
// every second topology only: an edge depends on the topology, for which everyTopology has both.
func everyTopologyWith(t *testing.T, given map[string]cty.Value, test func(t *testing.T, m *module)) {
	t.Helper()
	for i, topology := range []string{"route", "group", "single"} {
		for j, domain := range []string{"", "api.example.com"} {
			if given != nil && i%2 != j && !testtier.IsFull(t) {
				continue
			}
			t.Run(topology+" "+domain, func(t *testing.T) {
				t.Parallel()
				all := map[string]cty.Value{"topology": cty.StringVal(topology), "domain": cty.StringVal(domain)}
				maps.Copy(all, given)
				test(t, load(t, all))
			})
		}
	}
}

// TestRoutes_EqualTheCatalogue compares functions.json, openapi.json and the catalogue.
func TestRoutes_EqualTheCatalogue(t *testing.T) {
	t.Parallel()
	deployed, written, described := map[string]string{}, map[string]string{}, map[string]string{}
	for name, f := range load(t, nil).local(t, "routes").AsValueMap() {
		deployed[name] = f.GetAttr("method").AsString() + " " + f.GetAttr("path").AsString()
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		written[r.Name] = r.Method + " " + r.Path
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(read(t, "../functions/openapi.json")), &document); err != nil {
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
	if diff := cmp.Diff(written, deployed); diff != "" {
		t.Errorf("functions.json differs from the catalogue: run go generate ./functions (-want +got):\n%s", diff)
	}
	for name, path := range written {
		written[name] = strings.ReplaceAll(path, "...}", "}") // OpenAPI knows no parameters with slashes
	}
	if diff := cmp.Diff(written, described); diff != "" {
		t.Errorf("openapi.json differs from the catalogue: run go generate ./functions (-want +got):\n%s", diff)
	}
}

// declaredNeeds lists the constants of type Need in shared/function.
func declaredNeeds(t *testing.T) []string {
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

// TestEveryNeedIsGranted holds that Terraform has an entry for every need.
func TestEveryNeedIsGranted(t *testing.T) {
	t.Parallel()
	grants := load(t, nil).local(t, "grants").AsValueMap()
	needs := declaredNeeds(t)
	if !slices.Contains(needs, string(function.Firestore)) {
		t.Fatalf("found only the needs %v in shared/function: correct this test", needs)
	}
	for _, need := range needs {
		if _, ok := grants[need]; !ok {
			t.Errorf("no roles are listed for the need %q: add an entry to grants in terraform/needs.tf with the "+
				"narrowest roles for it, if it takes any", need)
		}
	}
	for need := range grants {
		if !slices.Contains(needs, need) {
			t.Errorf("terraform/needs.tf grants roles for %q, which is not a need in shared/function: remove it", need)
		}
	}
}

// TestServices_HaveTheRolesOfTheirNeeds compares each service's roles with the needs of its functions in the
// catalogue.
func TestServices_HaveTheRolesOfTheirNeeds(t *testing.T) {
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
		places := m.local(t, "places").AsValueMap()
		got, want := map[string]bool{}, map[string]bool{}
		for _, typ := range []string{"google_project_iam_member", "google_pubsub_topic_iam_member"} {
			for address, g := range m.resources(t, typ) {
				if !strings.HasPrefix(address, "service[") && !strings.HasPrefix(address, "webhooks[") {
					continue
				}
				where := strings.ReplaceAll(text(t, g, "condition.0.expression"), "(none)", "")
				if typ == "google_pubsub_topic_iam_member" {
					where = text(t, g, "topic")
				}
				got[fmt.Sprintf("%s may %s where %q", text(t, g, "member"), text(t, g, "role"), where)] = true
			}
		}
		topics := map[string]string{"nudges": "prod-agent-nudges", "webhooks": "prod-webhook-nudges"}
		for service, s := range m.local(t, "services").AsValueMap() {
			held := []cty.Value{m.local(t, "common_roles")}
			for _, member := range texts(t, s.GetAttr("members")) {
				for _, n := range needs[member] {
					held = append(held, grants[string(n)].GetAttr("roles"))
				}
			}
			for _, roles := range held {
				for role, place := range roles.AsValueMap() {
					account := fmt.Sprintf("google_service_account.service[%q].member", service)
					where, isTopic := topics[place.AsString()]
					if !isTopic {
						where = places[place.AsString()].GetAttr("where").AsString()
					}
					want[fmt.Sprintf("%s may %s where %q", account, role, where)] = true
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("grants of the services (-want +got):\n%s", diff)
		}
	})
}

// TestFunctions_RunInOneService holds that every function is in one service, which runs the binary of its role.
func TestFunctions_RunInOneService(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		services := m.local(t, "services").AsValueMap()
		accounts := map[string]bool{}
		for service, id := range m.local(t, "account_ids").AsValueMap() {
			if n := len(id.AsString()); n < 6 || n > 30 || accounts[id.AsString()] {
				t.Errorf("the account of %s is %q: want 6 to 30 characters, and one account per service", service,
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
			// The binary accounts links every route.
			if binary != role && (binary != "accounts" || role != "api") || target != "" && target != name {
				t.Errorf("%s of the role %s is in %s, which runs %s with the target %q", name, role, service.AsString(),
					binary, target)
			}
		}
	})
}

func attribute(t hcl.Traverser) string {
	if a, ok := t.(hcl.TraverseAttr); ok {
		return a.Name
	}
	return ""
}

// TestReferences_AreDeclaredAndUsed holds that every reference is declared and every declaration is used.
func TestReferences_AreDeclaredAndUsed(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	declared, used := map[string]bool{}, map[string]bool{}
	for _, name := range m.Locals() {
		declared["local."+name] = false
	}
	for address := range m.Blocks() {
		declared[address] = false
	}
	for name, body := range m.Files() {
		for _, b := range body.Blocks {
			_ = hclsyntax.VisitAll(b.Body, func(n hclsyntax.Node) (none hcl.Diagnostics) {
				e, ok := n.(*hclsyntax.ScopeTraversalExpr)
				if !ok || len(e.Traversal) < 2 {
					return none
				}
				address := e.Traversal.RootName() + "." + attribute(e.Traversal[1])
				root := e.Traversal.RootName()
				if root != "var" && root != "local" && !strings.HasPrefix(root, "google_") {
					return none
				}
				if _, ok := declared[address]; !ok && b.Type != "terraform" && b.Type != "removed" {
					t.Errorf("%s: %s is not declared", name, address)
				}
				used[address] = true
				return none
			})
		}
	}
	for address := range declared {
		if (strings.HasPrefix(address, "var.") || strings.HasPrefix(address, "local.")) && !used[address] {
			t.Errorf("%s is not used: remove it", address)
		}
	}
}

// TestVariablesAreDocumented holds that every variable and output has a description.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	for address, b := range load(t, nil).Blocks() {
		if (strings.HasPrefix(address, "var.") || strings.HasPrefix(address, "output.")) &&
			b.Body.Attributes["description"] == nil {
			t.Errorf("%s has no description", address)
		}
	}
}

// TestFilesAreShort keeps each file to one concern.
func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.tf", "*/*.hcl", "cell/*.yaml"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			if n := bytes.Count([]byte(read(t, name)), []byte("\n")); n > 250 {
				t.Errorf("%s has %d lines: split it by concern", name, n)
			}
		}
	}
}

// TestFiles_NameNoFunction holds that the list of functions has no second copy here.
func TestFiles_NameNoFunction(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	for name := range m.Files() {
		code := regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAll([]byte(read(t, name)), nil)
		for function := range m.local(t, "functions").AsValueMap() {
			if bytes.Contains(code, []byte(`"`+function+`"`)) {
				t.Errorf("%s names %s: derive it from functions.json", name, function)
			}
		}
	}
}

// TestFormatted holds the files to Terraform's format if Terraform is installed.
func TestFormatted(t *testing.T) {
	t.Parallel()
	terraform := require(t, "terraform")
	if out, err := exec.CommandContext(t.Context(), terraform, "fmt", "-check", "-recursive",
		".").CombinedOutput(); err != nil {
		t.Errorf("run terraform fmt -recursive terraform: %v\n%s", err, out)
	}
}

// TestCountedEventsAreLogged holds that Terraform counts exactly the events of package logevent, and that the code logs
// each of them.
func TestCountedEventsAreLogged(t *testing.T) {
	t.Parallel()
	source := read(t, "../shared/logevent/logevent.go")
	constants := map[string]string{} // by event
	for _, match := range regexp.MustCompile(`(?m)^\t(\w+) Name = "(\w+)"$`).FindAllStringSubmatch(source, -1) {
		constants[match[2]] = match[1]
	}
	counted := load(t, nil).local(t, "events").AsValueMap()
	for event := range counted {
		if constants[event] == "" {
			t.Errorf("terraform/signals.tf counts the event %q, which shared/logevent does not name: remove it or "+
				"add a constant", event)
		}
	}
	code := productionCode(t)
	for event, constant := range constants {
		if _, ok := counted[event]; !ok {
			t.Errorf("terraform/signals.tf does not count the event %q of shared/logevent: add it to local.events",
				event)
		}
		if !regexp.MustCompile(`logevent\.Key,\s+logevent\.` + constant + `\b`).MatchString(code) {
			t.Errorf("no code logs the event %q: log it with logevent.Key, logevent.%s, or remove it", event, constant)
		}
	}
}

// productionCode returns the Go code that is deployed.
func productionCode(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, dir := range []string{"../shared", "../infra", "../functions"} {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			code.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code.String()
}
