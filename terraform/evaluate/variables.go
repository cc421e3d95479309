package evaluate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Variable returns the given value of a variable, or its default, converted to the variable's type.
func (m *Module) Variable(name string) (cty.Value, error) {
	return m.once("var."+name, func() (cty.Value, error) { return m.variable(name) })
}

func (m *Module) variable(name string) (cty.Value, error) {
	b := m.blocks["var."+name]
	if b == nil {
		return cty.DynamicVal, fmt.Errorf("var.%s is not declared", name)
	}
	v, ok := m.given[name]
	if a := b.Body.Attributes["default"]; !ok && a != nil {
		var err error
		if v, err = m.eval(a.Expr, nil); err != nil {
			return cty.DynamicVal, err
		}
	} else if !ok {
		return cty.DynamicVal, fmt.Errorf("var.%s is required and has no value", name)
	}
	a := b.Body.Attributes["type"]
	if a == nil {
		return v, nil
	}
	typ, defaults, diags := typeexpr.TypeConstraintWithDefaults(a.Expr)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	if defaults != nil && !v.IsNull() {
		v = defaults.Apply(v)
	}
	v, err := convert.Convert(v, typ)
	if err != nil {
		return cty.DynamicVal, fmt.Errorf("var.%s: %w", name, err)
	}
	return v, nil
}

// Invalid returns the names of the variables whose value a validation rule refuses.
func (m *Module) Invalid() ([]string, error) {
	var invalid []string
	for _, address := range slices.Sorted(maps.Keys(m.blocks)) {
		name, ok := strings.CutPrefix(address, "var.")
		if !ok {
			continue
		}
		for _, b := range m.blocks[address].Body.Blocks {
			if b.Type != "validation" {
				continue
			}
			v, err := m.Evaluate(b.Body.Attributes["condition"].Expr)
			if err != nil {
				return nil, fmt.Errorf("validation of %s: %w", address, err)
			}
			if !v.IsKnown() || v.IsNull() || v.Type() != cty.Bool {
				return nil, fmt.Errorf("validation of %s is neither true nor false: %#v", address, v)
			}
			if v.False() && !slices.Contains(invalid, name) {
				invalid = append(invalid, name)
			}
		}
	}
	return invalid, nil
}
