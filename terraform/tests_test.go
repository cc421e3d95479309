package terraform_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// TestTerraformTests_Hold evaluates the assertions in tests/, which terraform test evaluates with Google's provider.
func TestTerraformTests_Hold(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("tests/*.tftest.hcl")
	if err != nil || len(names) == 0 {
		t.Fatalf("tests: %q, %v", names, err)
	}
	for _, name := range names {
		file, diags := hclparse.NewParser().ParseHCLFile(name)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		given := map[string]cty.Value{}
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			switch b.Type {
			case "variables":
				given = values(t, b.Body)
			case "run":
				t.Run(filepath.Base(name)+" "+b.Labels[0], func(t *testing.T) {
					t.Parallel()
					checkRun(t, b, maps.Clone(given))
				})
			}
		}
	}
}

// values evaluates the arguments of a block that refers to nothing.
func values(t *testing.T, b *hclsyntax.Body) map[string]cty.Value {
	t.Helper()
	all := map[string]cty.Value{}
	for name, a := range b.Attributes {
		v, diags := a.Expr.Value(nil)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		all[name] = v
	}
	return all
}

// checkRun holds that the assertions of a run are true, and that it expects exactly the variables or
// resources that are refused.
func checkRun(t *testing.T, run *hclsyntax.Block, given map[string]cty.Value) {
	t.Helper()
	var conditions []hclsyntax.Expression
	for _, b := range run.Body.Blocks {
		switch b.Type {
		case "variables":
			maps.Copy(given, values(t, b.Body))
		case "assert":
			conditions = append(conditions, b.Body.Attributes["condition"].Expr)
		}
	}
	m := loadExactly(t, given)
	var expected []string
	if a := run.Body.Attributes["expect_failures"]; a != nil {
		for _, ref := range a.Expr.Variables() {
			expected = append(expected, strings.TrimPrefix(ref.RootName()+"."+attribute(ref[1]), "var."))
		}
	}
	refused, err := m.Invalid()
	if err == nil && len(refused) == 0 {
		refused, err = m.Refused()
	}
	if err != nil || !slices.Equal(refused, expected) {
		t.Errorf("variables or resources %q are refused (%v), want %q", refused, err, expected)
	}
	for _, condition := range conditions {
		v, err := m.Evaluate(condition)
		if err != nil {
			t.Error(err)
		} else if !v.IsKnown() || v.IsNull() || v.False() {
			t.Errorf("%s: %#v, want true", condition.Range(), v)
		}
	}
	if len(conditions)+len(expected) == 0 {
		t.Error("the run asserts nothing")
	}
}
