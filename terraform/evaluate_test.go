package terraform_test

import (
	"crypto/sha1" //nolint:gosec // Terraform's sha1, of a name
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// module holds the files of this folder. It is evaluated without a provider, so attributes of resources are unknown.
type module struct {
	files   map[string]*hclsyntax.Body
	locals  map[string]hclsyntax.Expression
	blocks  map[string]*hclsyntax.Block // by address: var.x, google_x.y, output.z
	given   map[string]cty.Value
	results map[string]cty.Value
}

// load reads the module with the required variables and the given ones.
func load(t *testing.T, given map[string]cty.Value) *module {
	t.Helper()
	digest := "@sha256:" + strings.Repeat("0", 64)
	m := &module{
		files: map[string]*hclsyntax.Body{}, locals: map[string]hclsyntax.Expression{},
		blocks:  map[string]*hclsyntax.Block{},
		results: map[string]cty.Value{}, given: map[string]cty.Value{
			"project_id": cty.StringVal("my-project"), "project_number": cty.StringVal("123456789012"),
			"image": cty.StringVal("image" + digest), "agent_image": cty.StringVal("agent" + digest),
			"identity_issuer": cty.StringVal("https://issuer.example"),
			"agent_domain":    cty.StringVal("agents.example.com"),
		},
	}
	for name, v := range given {
		m.given[name] = v
	}
	names, err := filepath.Glob("*.tf")
	if err != nil || len(names) == 0 {
		t.Fatalf("no files: %v", err)
	}
	parser := hclparse.NewParser()
	for _, name := range names {
		file, diags := parser.ParseHCLFile(name)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		m.files[name] = file.Body.(*hclsyntax.Body)
		for _, b := range m.files[name].Blocks {
			m.declare(b)
		}
	}
	return m
}

func (m *module) declare(b *hclsyntax.Block) {
	switch b.Type {
	case "locals":
		for name, a := range b.Body.Attributes {
			m.locals[name] = a.Expr
		}
	case "resource":
		m.blocks[strings.Join(b.Labels, ".")] = b
	case "variable":
		m.blocks["var."+b.Labels[0]] = b
	default:
		m.blocks[strings.Join(append([]string{b.Type}, b.Labels...), ".")] = b
	}
}

// local evaluates one of the module's values.
func (m *module) local(t *testing.T, name string) cty.Value {
	t.Helper()
	expr, ok := m.locals[name]
	if !ok {
		t.Fatalf("there is no local.%s", name)
	}
	if v, ok := m.results["local."+name]; ok {
		return v
	}
	v := m.eval(t, expr, nil)
	m.results["local."+name] = v
	return v
}

// eval evaluates an expression; more brings names such as each.
func (m *module) eval(t *testing.T, expr hclsyntax.Expression, more map[string]cty.Value) cty.Value {
	t.Helper()
	vars := map[string]map[string]cty.Value{}
	ctx := &hcl.EvalContext{Functions: functionsOfTerraform(), Variables: map[string]cty.Value{
		"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(".")}),
	}}
	for _, ref := range expr.Variables() {
		root := ref.RootName()
		if _, isMore := more[root]; isMore || root == "path" {
			continue
		}
		field, ok := ref[1].(hcl.TraverseAttr)
		if !ok {
			t.Fatalf("%s: %s without a name", ref.SourceRange(), root)
		}
		if vars[root] == nil {
			vars[root] = map[string]cty.Value{}
		}
		switch root {
		case "local":
			vars[root][field.Name] = m.local(t, field.Name)
		case "var":
			vars[root][field.Name] = m.variable(t, field.Name)
		default:
			vars[root][field.Name] = cty.DynamicVal
		}
	}
	for root, fields := range vars {
		ctx.Variables[root] = cty.ObjectVal(fields)
	}
	for name, v := range more {
		ctx.Variables[name] = v
	}
	v, diags := expr.Value(ctx)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return v
}

// variable is what is given for a variable, or its default.
func (m *module) variable(t *testing.T, name string) cty.Value {
	t.Helper()
	if v, ok := m.given[name]; ok {
		return v
	}
	b := m.blocks["var."+name]
	if b == nil || b.Body.Attributes["default"] == nil {
		t.Fatalf("var.%s has no value", name)
	}
	v, diags := b.Body.Attributes["default"].Expr.Value(nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if name == "cells" { // the only variable whose type fills in what the default leaves out
		cells := map[string]cty.Value{}
		for key, cell := range v.AsValueMap() {
			fields := cell.AsValueMap()
			fields["closed"], fields["image"] = cty.False, cty.NullVal(cty.String)
			cells[key] = cty.ObjectVal(fields)
		}
		return cty.MapVal(cells)
	}
	return v
}

// functionsOfTerraform are those that the files use, with Terraform's meaning.
func functionsOfTerraform() map[string]function.Function {
	text := func(params int, f func(args []string) cty.Value, returns cty.Type) function.Function {
		spec := function.Spec{Type: function.StaticReturnType(returns)}
		for range params {
			spec.Params = append(spec.Params, function.Parameter{Name: "s", Type: cty.String})
		}
		spec.Impl = func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			var s []string
			for _, a := range args {
				s = append(s, a.AsString())
			}
			return f(s), nil
		}
		return function.New(&spec)
	}
	return map[string]function.Function{
		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc, "coalesce": stdlib.CoalesceFunc, "compact": stdlib.CompactFunc,
		"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc,
		"flatten": stdlib.FlattenFunc,
		"floor":   stdlib.FloorFunc, "join": stdlib.JoinFunc, "jsondecode": stdlib.JSONDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc,
		"keys":       stdlib.KeysFunc, "length": lengthOfAnything(), "lower": stdlib.LowerFunc,
		"merge": stdlib.MergeFunc,
		"min":   stdlib.MinFunc,
		"regex": stdlib.RegexFunc, "setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc,
		"substr": stdlib.SubstrFunc, "values": stdlib.ValuesFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "tostring": stdlib.MakeToFunc(cty.String),
		"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"startswith": text(2, func(s []string) cty.Value { return cty.BoolVal(strings.HasPrefix(s[0], s[1])) },
			cty.Bool),
		"endswith": text(2, func(s []string) cty.Value { return cty.BoolVal(strings.HasSuffix(s[0], s[1])) },
			cty.Bool),
		"strcontains": text(2, func(s []string) cty.Value { return cty.BoolVal(strings.Contains(s[0], s[1])) },
			cty.Bool),
		"sha1": text(1, func(s []string) cty.Value {
			sum := sha1.Sum([]byte(s[0])) //nolint:gosec // see above
			return cty.StringVal(hex.EncodeToString(sum[:]))
		}, cty.String),
		"file": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}}, Type: function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				b, err := os.ReadFile(args[0].AsString())
				return cty.StringVal(string(b)), err
			},
		}),
		// A pattern between slashes is an expression, any other is text.
		"replace": function.New(&function.Spec{
			Params: []function.Parameter{
				{Name: "s", Type: cty.String},
				{Name: "old", Type: cty.String},
				{Name: "new", Type: cty.String},
			},
			Type: function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				if old := args[1].AsString(); len(old) > 1 && old[0] == '/' && old[len(old)-1] == '/' {
					return stdlib.RegexReplace(args[0], cty.StringVal(old[1:len(old)-1]), args[2])
				}
				return stdlib.Replace(args[0], args[1], args[2])
			},
		}),
	}
}

// lengthOfAnything counts the elements of a collection, or the characters of a text.
func lengthOfAnything() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "v", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[0].Type() == cty.String {
				return stdlib.Strlen(args[0])
			}
			return stdlib.Length(args[0])
		},
	})
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
