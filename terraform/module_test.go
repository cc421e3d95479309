package terraform_test

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

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

// TestModule_EvaluatesInEveryTopology evaluates every resource, with one cell and with two.
func TestModule_EvaluatesInEveryTopology(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"route", "group", "single"} {
		for _, domain := range []string{"", "api.example.com"} {
			for name, cells := range map[string]cty.Value{"one cell": cells("a1"), "two cells": cells("a1", "b1")} {
				t.Run(topology+" "+domain+" "+name, func(t *testing.T) {
					t.Parallel()
					m := load(t, map[string]cty.Value{
						"topology": cty.StringVal(topology), "domain": cty.StringVal(domain), "cells": cells,
					})
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
				})
			}
		}
	}
}
