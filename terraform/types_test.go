package terraform_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// providerTypes is the part of the provider's schema that the module uses. An attribute has its type, and a nested
// block the types of its attributes and blocks.
type providerTypes struct {
	Version   string                `json:"version"`
	Resources map[string]blockTypes `json:"resources"`
}

type blockTypes map[string]memberTypes

// memberTypes is the type of an attribute, or those of a nested block.
type memberTypes struct {
	attribute cty.Type
	block     blockTypes
}

// UnmarshalJSON parses each type once for all resources that have it.
func (m *memberTypes) UnmarshalJSON(raw []byte) (err error) {
	if raw[0] == '{' {
		return json.Unmarshal(raw, &m.block)
	}
	m.attribute, err = ctyjson.UnmarshalType(raw)
	return err
}

func readProviderTypes(t *testing.T) providerTypes {
	t.Helper()
	var p providerTypes
	if err := json.Unmarshal([]byte(read(t, "testdata/provider.json")), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProvider_IsThatOfTheTypes compares the pinned version with that of the types.
func TestProvider_IsThatOfTheTypes(t *testing.T) {
	t.Parallel()
	m, p := load(t, nil), readProviderTypes(t)
	required := m.Blocks()["terraform"].Body.Blocks[0].Body.Attributes["google"].Expr
	v, err := m.Evaluate(required)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text(t, v, "version"), "~> "+p.Version; got != want {
		t.Errorf("versions.tf pins %q, and testdata/provider.json has the types of %q: bring both to one version; "+
			"terraform providers schema -json prints the types", got, want)
	}
}

// TestResources_HaveTheTypesOfTheProvider fails for a value that the provider refuses. Where Terraform plans a value
// that it does not know yet, its type alone must fit, because an apply that fails has made the resources before it.
func TestResources_HaveTheTypesOfTheProvider(t *testing.T) {
	t.Parallel()
	p := readProviderTypes(t)
	for name, settings := range map[string]map[string]cty.Value{
		"the required settings": nil, "every setting": everything(), "a project of the cells": separateCells(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyTopologyWith(t, settings, func(t *testing.T, m *module) {
				for _, typ := range m.Types() {
					if !strings.HasPrefix(typ, "google_") {
						continue
					}
					for address, v := range m.resources(t, typ) {
						p.Resources[typ].check(t, typ+"."+address, v)
					}
				}
			})
		})
	}
}

// check compares the attributes and the nested blocks of a resource or of a block with their types.
func (b blockTypes) check(t *testing.T, where string, v cty.Value) {
	t.Helper()
	for name, v := range v.AsValueMap() {
		at := where + "." + name
		switch want, ok := b[name]; {
		case !ok:
			t.Errorf("%s has no type in testdata/provider.json: add it from terraform providers schema -json", at)
		case want.block != nil:
			for _, block := range known(v) {
				want.block.check(t, at, block)
			}
		default:
			checkType(t, at, v, want.attribute)
		}
	}
}

// known are the blocks of a type; none where only an apply knows them.
func known(blocks cty.Value) []cty.Value {
	if !blocks.IsKnown() {
		return nil
	}
	return blocks.AsValueSlice()
}

// checkType accepts no conversion that depends on the value, such as that of text to a number.
func checkType(t *testing.T, at string, v cty.Value, want cty.Type) {
	t.Helper()
	if v.Type().Equals(want) || v.Type() == cty.DynamicPseudoType {
		return
	}
	conversion := convert.GetConversion(v.Type(), want)
	if conversion == nil {
		t.Errorf("%s is %s, and the provider wants %s", at, v.Type().FriendlyName(), want.FriendlyName())
		return
	}
	if _, err := conversion(v); err != nil {
		t.Errorf("%s: %v", at, err)
	}
}
