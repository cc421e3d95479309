package evaluate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// computed marks the stand-ins of values that only the provider knows. As in Terraform, no key of for_each may have it.
type computed struct{}

func unmarked(v cty.Value) cty.Value {
	v, _ = v.UnmarkDeep()
	return v
}

// standIns are the computed attributes whose stand-in is text.
func standIns() []string {
	return []string{"id", "name", "email", "member", "self_link", "address", "output"}
}

// Resources returns the instances of a type of resource by address without the type, such as this["key"]. Arguments
// that are not set are absent. A nested block is a tuple of objects under the name of its type.
func (m *Module) Resources(typ string) (map[string]cty.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]cty.Value{}
	for address, b := range m.blocks {
		if b.Type != "resource" || b.Labels[0] != typ {
			continue
		}
		instances, err := m.instances(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		for _, i := range instances {
			found[b.Labels[1]+i.key] = i.plain
		}
	}
	return found, nil
}

// Types lists the types of the module's resources.
func (m *Module) Types() []string {
	types := map[string]bool{}
	for _, b := range m.blocks {
		if b.Type == "resource" {
			types[b.Labels[0]] = true
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// resource is the value of a reference to a resource: an object, a tuple with count, an object by key with for_each.
// Attributes that the configuration does not set have stand-ins.
func (m *Module) resource(typ, name string) (cty.Value, error) {
	address := typ + "." + name
	b := m.blocks[address]
	if b == nil || b.Type != "resource" {
		return cty.DynamicVal, fmt.Errorf("%s is not declared", address)
	}
	return m.once(address, func() (cty.Value, error) {
		instances, err := m.instances(b)
		if err != nil {
			return cty.DynamicVal, err
		}
		keyed, listed := map[string]cty.Value{}, []cty.Value{}
		for _, i := range instances {
			v := m.complete(address+i.key, i.value, b.Body)
			if i.each.Type() == cty.String {
				keyed[i.each.AsString()] = v
			}
			listed = append(listed, v)
		}
		switch {
		case b.Body.Attributes["for_each"] != nil:
			return cty.ObjectVal(keyed), nil
		case b.Body.Attributes["count"] != nil:
			return cty.TupleVal(listed), nil
		default:
			return listed[0], nil
		}
	})
}

// complete adds the stand-ins of attributes that references name and the configuration does not set. A reference
// reaches a nested block by the name of its type, so blocks that no reference names stay as they are.
func (m *Module) complete(address string, v cty.Value, body *hclsyntax.Body) cty.Value {
	attributes := v.AsValueMap()
	if attributes == nil {
		attributes = map[string]cty.Value{}
	}
	for _, name := range m.computed {
		if _, ok := attributes[name]; ok {
			continue
		}
		attributes[name] = cty.DynamicVal
		if address != "" && slices.Contains(standIns(), name) {
			attributes[name] = cty.StringVal(address + "." + name).Mark(computed{})
		}
	}
	for _, b := range body.Blocks {
		if notArguments(b.Type) {
			continue
		}
		name, content := b.Type, b.Body
		if b.Type == "dynamic" && len(b.Body.Blocks) > 0 {
			name, content = b.Labels[0], b.Body.Blocks[0].Body
		}
		blocks, ok := attributes[name]
		_, named := slices.BinarySearch(m.computed, name)
		if !ok || !named || !blocks.IsKnown() { // two dynamic blocks of one type have different contents
			continue
		}
		var nested []cty.Value
		for _, v := range blocks.AsValueSlice() {
			nested = append(nested, m.complete("", v, content))
		}
		attributes[name] = cty.TupleVal(nested)
	}
	return cty.ObjectVal(attributes)
}
