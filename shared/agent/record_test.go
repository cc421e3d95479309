package agent_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/secret"
)

// eachLeaf calls visit with every field of a record that has no fields itself, and its name.
func eachLeaf(v reflect.Value, name string, visit func(name string, leaf reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[*document.Rest](): // shared and not compared
	case v.Type() == reflect.TypeFor[*agent.ImageWish](): // no part of a record
	case v.Type() == reflect.TypeFor[*agent.EgressSpec](): // no part of a record
	case v.Type() == reflect.TypeFor[time.Time]():
		visit(name, v)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			eachLeaf(v.Field(i), name+"."+v.Type().Field(i).Name, visit)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			eachLeaf(v.Index(i), fmt.Sprintf("%s[%d]", name, i), visit)
		}
	case v.Kind() == reflect.Pointer:
		eachLeaf(v.Elem(), name, visit)
	default:
		visit(name, v)
	}
}

// alter changes a field to another value.
func alter(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		at, _ := reflect.TypeAssert[time.Time](v)
		v.Set(reflect.ValueOf(at.Add(time.Hour)))
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() ^ 1)
	case v.CanFloat():
		v.SetFloat(v.Float() + 1)
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	default:
		t.Fatalf("%s has the kind %s: say here how to alter it", name, v.Kind())
	}
}

// TestClone_SharesNothingAndEqualComparesEveryField alters each field of a clone, in turn.
func TestClone_SharesNothingAndEqualComparesEveryField(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	original := agenttest.FullAgent(at)
	original.Version = "v"
	want := fmt.Sprintf("%+v", original)
	leaves := 0
	var names []string
	eachLeaf(reflect.ValueOf(&original).Elem(), "", func(name string, _ reflect.Value) { names = append(names, name) })
	for i, name := range names {
		clone := original.Clone()
		if !clone.Equal(original) {
			t.Fatal("a clone differs from its original")
		}
		at := 0
		eachLeaf(reflect.ValueOf(&clone).Elem(), "", func(_ string, leaf reflect.Value) {
			if at == i {
				alter(t, name, leaf)
				leaves++
			}
			at++
		})
		if equal := clone.Equal(original); equal != (name == ".Version") {
			t.Errorf("Equal after a change of %s = %t", name, equal)
		}
	}
	if got := fmt.Sprintf("%+v", original); got != want {
		t.Errorf("a change of a clone changed the original to %s\nfrom %s", got, want)
	}
	if leaves < 80 {
		t.Errorf("altered %d fields, want all of them", leaves)
	}
}

func TestEqual_IgnoresWhatNoRecordHolds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := agent.Agent{CreatedAt: now.UTC(), Env: []agent.EnvVar{{Key: "A"}}}
	for name, change := range map[string]func(*agent.Agent){
		"time zone and monotonic clock": func(b *agent.Agent) { b.CreatedAt = now },
		"empty list":                    func(b *agent.Agent) { b.Live = []agent.LiveVersion{} },
		"ended operation": func(b *agent.Agent) {
			b.Operations = []secret.Operation{{ID: "o", Status: secret.Succeeded}}
		},
		"revision of the store": func(b *agent.Agent) { b.Version = "v" },
	} {
		b := a.Clone()
		if change(&b); !b.Equal(a) || !a.Equal(b) {
			t.Errorf("%s: the records differ, want them equal", name)
		}
	}
	for name, change := range map[string]func(*agent.Agent){
		"longer list":    func(b *agent.Agent) { b.Env = append(b.Env, agent.EnvVar{Key: "B"}) },
		"no list":        func(b *agent.Agent) { b.Env = nil },
		"failure":        func(b *agent.Agent) { b.Failure = &agent.Failure{} },
		"open operation": func(b *agent.Agent) { b.Operations = []secret.Operation{{ID: "o"}} },
	} {
		b := a.Clone()
		if change(&b); b.Equal(a) || a.Equal(b) {
			t.Errorf("%s: the records are equal, want them different", name)
		}
	}
}
