package terraform_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"agents.example/controlplane/terraform/evaluate"
)

// module is this folder with values for its variables. Its methods end the test on an error.
type module struct{ *evaluate.Module }

// required are values of the variables that have no default.
func required() map[string]cty.Value {
	digest := "@sha256:" + strings.Repeat("0", 64)
	return map[string]cty.Value{
		"project_id": cty.StringVal("my-project"), "project_number": cty.StringVal("123456789012"),
		"image": cty.StringVal("image" + digest), "agent_image": cty.StringVal("agent" + digest),
		"identity_issuer": cty.StringVal("https://issuer.example"),
		"agent_domain":    cty.StringVal("agents.example.net"),
	}
}

// load reads the module with the required variables and the given ones.
func load(t *testing.T, given map[string]cty.Value) *module {
	t.Helper()
	all := required()
	for name, v := range given {
		all[name] = v
	}
	return loadExactly(t, all)
}

// modules has a function that loads a module for each set of variables: most tests evaluate the same ones.
var modules sync.Map

// loadExactly reads the module with the given variables. Tests share the result.
func loadExactly(t *testing.T, given map[string]cty.Value) *module {
	t.Helper()
	read, _ := modules.LoadOrStore(cty.ObjectVal(given).GoString(),
		sync.OnceValues(func() (*evaluate.Module, error) { return evaluate.Load(".", given) }))
	m, err := read.(func() (*evaluate.Module, error))()
	if err != nil {
		t.Fatal(err)
	}
	return &module{m}
}

// local evaluates one of the module's values.
func (m *module) local(t *testing.T, name string) cty.Value {
	t.Helper()
	v, err := m.Local(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// variable is what is given for a variable, or its default.
func (m *module) variable(t *testing.T, name string) cty.Value {
	t.Helper()
	v, err := m.Variable(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// resources returns the instances of a type by address without the type, such as this["routes"].
func (m *module) resources(t *testing.T, typ string) map[string]cty.Value {
	t.Helper()
	found, err := m.Resources(typ)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// find follows a path such as template.0.scaling.0.max_instance_count. A block or an argument that is not set is null.
func find(t *testing.T, v cty.Value, path string) cty.Value {
	t.Helper()
	for step := range strings.SplitSeq(path, ".") {
		i, err := strconv.Atoi(step)
		switch {
		case !v.IsKnown() || v.IsNull():
			return v
		case err == nil && i < v.LengthInt():
			v = v.Index(cty.NumberIntVal(int64(i)))
		case v.Type().IsObjectType() && v.Type().HasAttribute(step):
			v = v.GetAttr(step)
		case v.Type().IsMapType() && v.HasIndex(cty.StringVal(step)).True():
			v = v.Index(cty.StringVal(step))
		default:
			return cty.NullVal(cty.DynamicPseudoType)
		}
	}
	return v
}

// text is what find finds, as text. What is not set is "(none)".
func text(t *testing.T, v cty.Value, path string) string {
	t.Helper()
	found := find(t, v, path)
	if !found.IsKnown() {
		return "(unknown)"
	}
	if found.IsNull() {
		return "(none)"
	}
	s, err := convert.Convert(found, cty.String)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return s.AsString()
}

// texts are the elements of a list of text.
func texts(t *testing.T, v cty.Value) []string {
	t.Helper()
	v, err := convert.Convert(v, cty.List(cty.String))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range v.AsValueSlice() {
		all = append(all, e.AsString())
	}
	return all
}

// variables returns the environment of a Cloud Run service. A secret is written as its ID and version.
func variables(t *testing.T, service cty.Value) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, env := range find(t, service, "template.0.containers.0.env").AsValueSlice() {
		if secret := find(t, env, "value_source.0.secret_key_ref.0"); !secret.IsNull() {
			all[text(t, env, "name")] = "secret " + text(t, secret, "secret") + " at " + text(t, secret, "version")
		} else {
			all[text(t, env, "name")] = text(t, env, "value")
		}
	}
	return all
}

// cells is a value of the variable cells.
func cells(names ...string) cty.Value {
	all := map[string]cty.Value{}
	for i, name := range names {
		all[name] = cty.ObjectVal(map[string]cty.Value{
			"number": cty.NumberIntVal(int64(i + 1)), "region": cty.StringVal("us-central1"),
		})
	}
	return cty.ObjectVal(all)
}

// everything sets all variables that a default leaves empty.
func everything() map[string]cty.Value {
	text := cty.StringVal
	return map[string]cty.Value{
		"identity_issuer": text("https://securetoken.google.com/my-project"), "app_url": text("https://app.example.com"),
		"identity_authorized_parties": cty.TupleVal([]cty.Value{text("https://app.example.com")}),
		"handoff_public_keys":         text(`{"keys": []}`),
		"console_client_id":           text("console-1"), "console_scopes": text("openid email"),
		"support_url": text("https://support.example.com"), "backup_for_gke": cty.True,
		"cli_client_id": text("agentctl-1"), "cli_scopes": text("openid offline_access"),
		"provided_secrets": cty.TupleVal([]cty.Value{
			text("HANDOFF_SIGNING_KEY"), text("STRIPE_API_KEY"), text("STRIPE_WEBHOOK_SECRET"),
		}),
		"key_versions":  cty.ObjectVal(map[string]cty.Value{"pepper": cty.NumberIntVal(2)}),
		"previous_keys": cty.TupleVal([]cty.Value{text("pepper")}),
		"next_keys":     cty.TupleVal([]cty.Value{text("webhooks")}),
		"database":      text("agents-prod-2"), "firestore_location": text("nam5"),
		"secret_regions":      cty.TupleVal([]cty.Value{text("us-central1"), text("us-east1")}),
		"alert_emails":        cty.TupleVal([]cty.Value{text("operator@example.com")}),
		"billing_account":     text("012345-6789AB-CDEF01"),
		"agent_storage_class": text("premium-rwo"), "agent_api_port": cty.NumberIntVal(3001),
		"agent_resolvers":   cty.TupleVal([]cty.Value{text("10.8.0.10/32")}),
		"gate_address":      text("34.118.224.54"),
		"agent_registries":  cty.TupleVal([]cty.Value{text("us-docker.pkg.dev/team/"), text("ghcr.io/team/")}),
		"agent_health_path": text("/healthz"), "deletion_protection": cty.False, "trace_ratio": cty.Zero,
		"cloud_armor": cty.True,
		"maintenance_exclusions": cty.ObjectVal(map[string]cty.Value{"launch": cty.ObjectVal(map[string]cty.Value{
			"start_time": text("2026-12-01T00:00:00Z"), "end_time": text("2026-12-08T00:00:00Z"),
			"scope": text("NO_UPGRADES"),
		})}),
		"edge_secret_version": cty.NumberIntVal(2), "release": text("20260102-030405-1"),
		"serving": cty.MapVal(map[string]cty.Value{"prod-routes": text("prod-routes-20260101-030405-1")}),
		"scaling": cty.ObjectVal(map[string]cty.Value{
			"routes": cty.ObjectVal(map[string]cty.Value{"min_instances": cty.NumberIntVal(2)}),
		}),
		"cells": cty.ObjectVal(map[string]cty.Value{
			"a1": cty.ObjectVal(map[string]cty.Value{
				"number": cty.NumberIntVal(1), "region": text("us-central1"), "closed": cty.True,
				"deletion_protection": cty.True,
			}),
			"b1": cty.ObjectVal(map[string]cty.Value{
				"number": cty.NumberIntVal(63), "region": text("europe-west4"),
				"image": text("agent@sha256:" + strings.Repeat("1", 64)),
			}),
		}),
	}
}

// TestModule_EvaluatesInEveryTopology evaluates every resource and output, with one cell, with two, and with every
// setting.
func TestModule_EvaluatesInEveryTopology(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]cty.Value{
		"one cell": nil, "two cells": {"cells": cells("a1", "b1")}, "every setting": everything(),
		"a project of the cells": separateCells(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyTopologyWith(t, settings, checkModule)
		})
	}
}

// checkModule holds that the module can be planned: every resource and output has a value, and no rule refuses one.
func checkModule(t *testing.T, m *module) {
	t.Helper()
	for _, typ := range m.Types() {
		m.resources(t, typ)
	}
	for address := range m.Blocks() {
		if name, ok := strings.CutPrefix(address, "output."); ok {
			if _, err := m.Output(name); err != nil {
				t.Error(err)
			}
		}
	}
	if invalid, err := m.Invalid(); err != nil || len(invalid) > 0 {
		t.Errorf("variables %q are refused (%v)", invalid, err)
	}
	if refused, err := m.Refused(); err != nil || len(refused) > 0 {
		t.Errorf("resources %q are refused (%v)", refused, err)
	}
}

// TestModule_TakesEverySetting holds that everything sets each variable that has a default, except those below.
func TestModule_TakesEverySetting(t *testing.T) {
	t.Parallel()
	set := required()
	maps.Copy(set, everything())
	for _, name := range []string{
		"region", "environment", "topology", "domain", "rate_limit_factor", "debug", "warm_instances", "monthly_budget",
		"maintenance", // maintenance_test.go; it removes blocks whose types are compared
		"secret_manager_writes_per_minute", "max_free_agents", "agent_port", "agent_auth", "warm_agents", "warm_plan",
		"maintenance_window", "backup_schedule",
		"backup_retention_days", "cells_project", "cells_project_number",
	} {
		set[name] = cty.True
	}
	for address, b := range load(t, nil).Blocks() {
		name, ok := strings.CutPrefix(address, "var.")
		if _, given := set[name]; ok && !given && b.Body.Attributes["default"] != nil {
			t.Errorf("everything does not set %s: add a value that differs from its default, or name it here", address)
		}
	}
}

// condition evaluates an IAM condition for a resource. The conditions here are also Go expressions: &&, || and !, ==
// between texts, the methods startsWith, endsWith and extract of resource.name, and api.getAttribute. A resource such
// as BUCKET?PREFIX is a bucket whose objects with a prefix are listed.
func condition(t *testing.T, expression, resource string) bool {
	t.Helper()
	if expression == "" {
		return true
	}
	parsed, err := parser.ParseExpr(expression)
	if err != nil {
		t.Fatalf("condition %s: %v", expression, err)
	}
	v, err := evaluateCondition(parsed, resource)
	holds, ok := v.(bool)
	if err != nil || !ok {
		t.Fatalf("condition %s = %v, %v; want true or false", expression, v, err)
	}
	return holds
}

func evaluateCondition(e ast.Expr, resource string) (any, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.SelectorExpr:
		if root, ok := e.X.(*ast.Ident); ok && root.Name == "resource" && e.Sel.Name == "name" {
			name, _, _ := strings.Cut(resource, "?")
			return name, nil
		}
	case *ast.UnaryExpr:
		if v, err := evaluateCondition(e.X, resource); e.Op == token.NOT && err == nil {
			return v != true, nil
		}
	case *ast.BinaryExpr:
		left, err := evaluateCondition(e.X, resource)
		right, errRight := evaluateCondition(e.Y, resource)
		switch {
		case err != nil || errRight != nil:
		case e.Op == token.LAND:
			return left == true && right == true, nil
		case e.Op == token.LOR:
			return left == true || right == true, nil
		case e.Op == token.EQL:
			return left == right, nil
		}
	case *ast.CallExpr:
		return callInCondition(e, resource)
	}
	return nil, fmt.Errorf("%T is not understood here", e)
}

// callInCondition calls a method of text with one text.
func callInCondition(e *ast.CallExpr, resource string) (any, error) {
	method, ok := e.Fun.(*ast.SelectorExpr)
	if ok && method.Sel.Name == "getAttribute" && len(e.Args) == 2 {
		if name, ok := e.Args[0].(*ast.BasicLit); !ok || name.Value != `"storage.googleapis.com/objectListPrefix"` {
			return nil, errors.New("only the prefix of a list is an attribute here")
		}
		_, prefix, _ := strings.Cut(resource, "?")
		return prefix, nil
	}
	if !ok || len(e.Args) != 1 {
		return nil, fmt.Errorf("%T is no method with one argument", e.Fun)
	}
	receiver, err := evaluateCondition(method.X, resource)
	if err != nil {
		return nil, err
	}
	argument, err := evaluateCondition(e.Args[0], resource)
	if err != nil {
		return nil, err
	}
	s, arg := fmt.Sprint(receiver), fmt.Sprint(argument)
	switch method.Sel.Name {
	case "startsWith":
		return strings.HasPrefix(s, arg), nil
	case "endsWith":
		return strings.HasSuffix(s, arg), nil
	case "extract":
		return extract(s, arg), nil
	}
	return nil, fmt.Errorf("the method %s is not understood here", method.Sel.Name)
}

// extract returns the part of s between the template's text before {name} and the text after it, or "".
func extract(s, template string) string {
	before, rest, _ := strings.Cut(template, "{")
	_, after, _ := strings.Cut(rest, "}")
	_, found, ok := strings.Cut(s, before)
	if !ok {
		return ""
	}
	if after == "" {
		return found
	}
	found, _, ok = strings.Cut(found, after)
	if !ok {
		return ""
	}
	return found
}

// TestConditions_SelectTheirResources evaluates the condition of each place for names as IAM sees them: with the
// project's number for secrets, and its id for databases.
func TestConditions_SelectTheirResources(t *testing.T) {
	t.Parallel()
	const id = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"
	const secrets, elsewhere = "projects/123456789012/secrets/", "projects/210987654321/secrets/"
	const builds = "projects/_/buckets/my-project-prod-builds"
	of, brokered := []string{"agent_secrets", "all_agent_secrets"}, []string{"brokered_secrets", "all_agent_secrets"}
	m := load(t, nil)
	places := m.local(t, "places").AsValueMap()
	for name, row := range map[string]struct {
		resource string
		want     []string // places, in addition to those without a condition
	}{
		"credentials": {
			resource: secrets + "prod-agent-" + id + "-credentials/versions/1",
			want:     []string{"agent_secrets", "all_agent_secrets", "agent_credentials"},
		},
		"secret of credentials": {
			resource: secrets + "prod-agent-" + id + "-credentials", want: of,
		},
		"variable": {
			resource: secrets + "prod-agent-" + id + "-env-API_TOKEN/versions/2", want: of,
		},
		"variable named credentials": {
			resource: secrets + "prod-agent-" + id + "-env-credentials/versions/1", want: of,
		},
		"variable named like credentials": {
			resource: secrets + "prod-agent-" + id + "-env-my_credentials/versions/1", want: of,
		},
		"brokered secret": {resource: secrets + "prod-inject-" + id + "-API_TOKEN/versions/2", want: brokered},
		"brokered secret named credentials": {
			resource: secrets + "prod-inject-" + id + "-credentials/versions/1", want: brokered,
		},
		"another brokered secret": {resource: secrets + "staging-inject-" + id + "-API_TOKEN/versions/1"},
		"another environment":     {resource: secrets + "staging-agent-" + id + "-credentials/versions/1"},
		"an environment agent":    {resource: secrets + "agent-agent-" + id + "-credentials/versions/1"},
		"another project":         {resource: elsewhere + "prod-agent-" + id + "-credentials/versions/1"},
		"pepper":                  {resource: secrets + "prod-api-key-pepper/versions/1"},
		"signing key":             {resource: secrets + "prod-handoff-signing-key/versions/1"},
		"payments":                {resource: secrets + "prod-stripe-api-key/versions/latest"},
		"project":                 {resource: "projects/123456789012"},
		"database":                {resource: "projects/my-project/databases/agents-prod", want: []string{"database"}},
		"another database":        {resource: "projects/my-project/databases/agents-prod-2"},
		"client":                  {resource: builds + "/objects/clients/files/0", want: []string{"clients"}},
		"clients are listed":      {resource: builds + "?clients/releases/", want: []string{"clients"}},
		"all files are listed":    {resource: builds},
		"sources are listed":      {resource: builds + "?source/"},
		"release":                 {resource: builds + "/objects/releases/20260102-030405/image"},
		"client elsewhere":        {resource: "projects/_/buckets/my-project-prod-terraform/objects/clients/files/0"},
		"a list elsewhere":        {resource: "projects/_/buckets/my-project-prod-terraform?clients/"},
	} {
		want := map[string]bool{"project": true, "cells": true, "nudges": true, "webhooks": true}
		for _, place := range row.want {
			want[place] = true
		}
		for place, p := range places {
			where := p.GetAttr("where").AsString()
			if got := condition(t, where, row.resource); got != want[place] {
				t.Errorf("%s: %s is in %s: %t, want %t\n%s", name, row.resource, place, got, want[place], where)
			}
		}
	}
}
