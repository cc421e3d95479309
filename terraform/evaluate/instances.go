package evaluate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// instance is one instance of a resource. key is the end of its address, each the key of for_each, and scope the names
// that its arguments see. plain is value without marks.
type instance struct {
	key          string
	each         cty.Value
	scope        scope
	value, plain cty.Value
}

func (m *Module) instances(b *hclsyntax.Block) ([]instance, error) {
	if instances, ok := m.expanded[b]; ok {
		return instances, nil
	}
	instances, err := m.expand(b)
	if err == nil {
		m.expanded[b] = instances
	}
	return instances, err
}

// expand evaluates the instances of a resource.
func (m *Module) expand(b *hclsyntax.Block) ([]instance, error) {
	var instances []instance
	own := arguments(b.Body)
	add := func(key string, each cty.Value, s scope) error {
		v, err := m.body(own, s)
		instances = append(instances, instance{key: key, each: each, scope: s, value: v, plain: unmarked(v)})
		return err
	}
	if a := b.Body.Attributes["for_each"]; a != nil {
		v, err := m.eval(a.Expr, nil)
		if err != nil {
			return nil, err
		}
		elements, err := keyed(v)
		if err != nil {
			return nil, fmt.Errorf("%s: for_each: %w", a.SrcRange, err)
		}
		for _, e := range elements {
			s := scope{"each": cty.ObjectVal(map[string]cty.Value{"key": e[0], "value": e[1]})}
			if err := add(fmt.Sprintf("[%q]", e[0].AsString()), e[0], s); err != nil {
				return nil, err
			}
		}
		return instances, nil
	}
	if a := b.Body.Attributes["count"]; a != nil {
		v, err := m.eval(a.Expr, nil)
		if err != nil {
			return nil, err
		}
		n, err := number(v)
		if err != nil {
			return nil, fmt.Errorf("%s: count: %w", a.SrcRange, err)
		}
		for i := range n {
			index := cty.NumberIntVal(i)
			s := scope{"count": cty.ObjectVal(map[string]cty.Value{"index": index})}
			if err := add(fmt.Sprintf("[%d]", i), index, s); err != nil {
				return nil, err
			}
		}
		return instances, nil
	}
	return instances, add("", cty.NullVal(cty.DynamicPseudoType), nil)
}

// keyed returns the keys and values of for_each, in the order of the keys.
func keyed(v cty.Value) ([][2]cty.Value, error) {
	if v.IsMarked() || !v.IsKnown() {
		return nil, fmt.Errorf("depends on what only the provider knows")
	}
	if v.IsNull() {
		return nil, fmt.Errorf("is null")
	}
	if t := v.Type(); !t.IsObjectType() && !t.IsMapType() && !t.Equals(cty.Set(cty.String)) {
		return nil, fmt.Errorf("is a %s, want a map or a set of strings", t.FriendlyName())
	}
	var elements [][2]cty.Value
	for it := v.ElementIterator(); it.Next(); {
		key, value := it.Element()
		if !key.IsKnown() {
			return nil, fmt.Errorf("depends on what only the provider knows")
		}
		elements = append(elements, [2]cty.Value{key, value})
	}
	slices.SortFunc(elements, func(a, b [2]cty.Value) int { return strings.Compare(a[0].AsString(), b[0].AsString()) })
	return elements, nil
}

func number(v cty.Value) (int64, error) {
	if v.IsMarked() || !v.IsKnown() {
		return 0, fmt.Errorf("depends on what only the provider knows")
	}
	v, err := convert.Convert(v, cty.Number)
	if err != nil || v.IsNull() {
		return 0, errors.Join(errors.New("is no number"), err)
	}
	n, _ := v.AsBigFloat().Int64()
	return n, nil
}

// notArguments reports whether a name in a resource means something to Terraform itself.
func notArguments(name string) bool {
	return slices.Contains([]string{
		"for_each", "count", "depends_on", "provider", "lifecycle", "connection", "provisioner",
	}, name)
}

// arguments is body without what means something to Terraform itself. In a nested block, the same names are arguments.
func arguments(b *hclsyntax.Body) *hclsyntax.Body {
	own := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}}
	for name, a := range b.Attributes {
		if !notArguments(name) {
			own.Attributes[name] = a
		}
	}
	for _, block := range b.Blocks {
		if !notArguments(block.Type) {
			own.Blocks = append(own.Blocks, block)
		}
	}
	return own
}

// body evaluates arguments and nested blocks, and expands dynamic blocks.
//
// Package hcl/ext/dynblock needs the schema of a body, which only the provider has.
func (m *Module) body(b *hclsyntax.Body, s scope) (cty.Value, error) {
	values := map[string]cty.Value{}
	for name, a := range b.Attributes {
		v, err := m.eval(a.Expr, s)
		if err != nil {
			return cty.DynamicVal, fmt.Errorf("%s: %w", name, err)
		}
		values[name] = v
	}
	nested := map[string][]cty.Value{}
	for _, block := range b.Blocks {
		name, found, err := m.nested(block, s)
		if err != nil {
			return cty.DynamicVal, fmt.Errorf("%s: %w", name, err)
		}
		nested[name] = append(nested[name], found...)
	}
	for name, found := range nested {
		values[name] = cty.TupleVal(found)
	}
	return cty.ObjectVal(values), nil
}

// nested evaluates one block, or all blocks of a dynamic one.
func (m *Module) nested(b *hclsyntax.Block, s scope) (name string, blocks []cty.Value, err error) {
	if b.Type != "dynamic" {
		v, err := m.body(b.Body, s)
		return b.Type, []cty.Value{v}, err
	}
	name = b.Labels[0]
	iterator := name
	if a := b.Body.Attributes["iterator"]; a != nil {
		if iterator = hcl.ExprAsKeyword(a.Expr); iterator == "" {
			return name, nil, fmt.Errorf("%s: iterator is no name", a.SrcRange)
		}
	}
	each, err := m.eval(b.Body.Attributes["for_each"].Expr, s)
	if err != nil {
		return name, nil, err
	}
	each, _ = each.Unmark()
	if !each.CanIterateElements() {
		return name, nil, fmt.Errorf("%s: for_each is unknown, null or no collection", b.Range())
	}
	for it := each.ElementIterator(); it.Next(); {
		key, value := it.Element()
		inner := s.with(iterator, cty.ObjectVal(map[string]cty.Value{"key": key, "value": value}))
		for _, content := range b.Body.Blocks {
			v, err := m.body(content.Body, inner)
			if err != nil {
				return name, nil, err
			}
			blocks = append(blocks, v)
		}
	}
	return name, blocks, nil
}
