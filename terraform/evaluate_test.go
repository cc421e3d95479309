package terraform_test

import (
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
