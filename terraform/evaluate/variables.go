package evaluate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Variable returns the given value of a variable, or its default, converted to the variable's type.
func (m *Module) Variable(name string) (cty.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.variable(name)
}

func (m *Module) variable(name string) (cty.Value, error) {
	return m.once("var."+name, func() (cty.Value, error) { return m.convert(name) })
}

// convert converts the value of a variable to its type.
func (m *Module) convert(name string) (cty.Value, error) {
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
	m.mu.Lock()
	defer m.mu.Unlock()
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
			holds, err := m.holds(b, nil)
			if err != nil {
				return nil, fmt.Errorf("validation of %s: %w", address, err)
			}
			if !holds && !slices.Contains(invalid, name) {
				invalid = append(invalid, name)
			}
		}
	}
	return invalid, nil
}

// holds evaluates the condition of a block.
func (m *Module) holds(b *hclsyntax.Block, s scope) (bool, error) {
	v, err := m.eval(b.Body.Attributes["condition"].Expr, s)
	if err != nil {
		return false, err
	}
	if v = unmarked(v); !v.IsKnown() || v.IsNull() || v.Type() != cty.Bool {
		return false, fmt.Errorf("the condition is neither true nor false: %#v", v)
	}
	return v.True(), nil
}

// Refused returns the addresses of the resources, such as google_house.this, of which a precondition is false.
func (m *Module) Refused() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var refused []string
	for _, address := range slices.Sorted(maps.Keys(m.blocks)) {
		b := m.blocks[address]
		conditions := preconditions(b)
		if b.Type != "resource" || len(conditions) == 0 {
			continue
		}
		instances, err := m.instances(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		for _, i := range instances {
			for _, condition := range conditions {
				holds, err := m.holds(condition, i.scope)
				if err != nil {
					return nil, fmt.Errorf("precondition of %s%s: %w", address, i.key, err)
				}
				if !holds && !slices.Contains(refused, address) {
					refused = append(refused, address)
				}
			}
		}
	}
	return refused, nil
}

// preconditions lists the preconditions in the lifecycle of a resource.
func preconditions(b *hclsyntax.Block) []*hclsyntax.Block {
	var found []*hclsyntax.Block
	for _, lifecycle := range b.Body.Blocks {
		for _, condition := range lifecycle.Body.Blocks {
			if lifecycle.Type == "lifecycle" && condition.Type == "precondition" {
				found = append(found, condition)
			}
		}
	}
	return found
}
