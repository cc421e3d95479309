package wire

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/provisioning"
)

// noClusters and noMetrics are clients that are never called.
type (
	noClusters struct{ Clusters }
	noMetrics  struct{ MetricsSource }
	noLogs     struct{ agentlog.Source }
	noCommands struct{ agentexec.Source }
	noQuiescer struct{ provisioning.Quiescer }
)

// Close implements io.Closer.
func (noClusters) Close() error { return nil }

// Close implements io.Closer.
func (noMetrics) Close() error { return nil }

// newClients returns clients of emulators that do not run. Opening a client sends nothing.
func newClients(t *testing.T) *Clients {
	t.Helper()
	key, _, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	const nowhere = "127.0.0.1:1"
	c := config.Common{
		ProjectID: "test", Environment: "test", NudgeTopic: "agent-nudges",
		Local: config.Local{FirestoreEmulator: nowhere, PubSubEmulator: nowhere, SecretManager: nowhere},
	}
	if err := c.HandoffKey.EnvDecode(key); err != nil {
		t.Fatal(err)
	}
	o := New(t.Context(), c, Settings{ClientsBucket: "builds-1", Openers: Openers{
		Clusters:      func(context.Context) (Clusters, error) { return noClusters{}, nil },
		MetricsSource: func(context.Context) (MetricsSource, error) { return noMetrics{}, nil },
		Logs:          func(context.Context) (agentlog.Source, error) { return noLogs{}, nil },
		Commands:      func(context.Context) (agentexec.Source, error) { return noCommands{}, nil },
		Quiescer:      func(context.Context) (provisioning.Quiescer, error) { return noQuiescer{}, nil },
		Payments:      func(context.Context) (billing.Payments, error) { return billing.NoProvider{}, nil },
		Members:       func(context.Context) (member.Provider, error) { return member.ManagedExternally{}, nil },
	}})
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// declaredNeeds are the constants of type Need in package function.
func declaredNeeds(t *testing.T) []function.Need {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../../shared/function/route.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var needs []function.Need
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Need" {
			return false
		}
		for _, value := range spec.Values {
			text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			needs = append(needs, function.Need(text))
		}
		return false
	})
	if len(needs) < 5 {
		t.Fatalf("found only the needs %v in shared/function/route.go", needs)
	}
	return needs
}

func TestFor_KnowsEveryNeed(t *testing.T) {
	t.Parallel()
	needs := declaredNeeds(t)
	for _, r := range functions.Routes(functions.Dependencies{}) {
		needs = append(needs, r.Needs...)
	}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		needs = append(needs, w.Needs...)
	}
	slices.Sort(needs)
	for _, need := range slices.Compact(needs) {
		if fills()[need] == nil {
			t.Errorf("the need %s has no entry in fills: add one in functions/cmd/internal/wire/dependencies.go", need)
		}
	}
}

func TestFor_RefusesAnUnknownNeedByName(t *testing.T) {
	t.Parallel()
	_, err := newClients(t).For([]function.Need{function.Firestore, "blob_store"})
	if err == nil || !strings.Contains(err.Error(), `"blob_store"`) {
		t.Errorf("For(blob_store) = %v, want an error that names blob_store", err)
	}
}

// TestFor_FillsTheFieldsOfANeed compares the fields that are set with the tags of Dependencies.
func TestFor_FillsTheFieldsOfANeed(t *testing.T) {
	t.Parallel()
	o := newClients(t)
	for _, need := range declaredNeeds(t) {
		got, err := o.For([]function.Need{need})
		if err != nil {
			t.Errorf("For(%s): %v", need, err)
			continue
		}
		d := reflect.ValueOf(got)
		for i := range d.NumField() {
			f := d.Type().Field(i)
			tag := function.Need(f.Tag.Get("need"))
			if f.Name == "Settings" {
				continue
			}
			if set := !d.Field(i).IsZero(); set != (tag == need) {
				t.Errorf("For(%s) sets Dependencies.%s: %t, but the field has the tag need:%q", need, f.Name, set, tag)
			}
		}
	}
}

// TestFor_BoundsTheHeldAnswersOfAllRoutesTogether holds that routes share their slots, whatever their needs.
func TestFor_BoundsTheHeldAnswersOfAllRoutesTogether(t *testing.T) {
	t.Parallel()
	o := New(t.Context(), config.Common{RateLimitFactor: 1}, Settings{MaxHeldAnswers: 2})
	var got []bool
	for i := range 4 {
		d, err := o.For(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, ok := d.Slots.Acquire(strconv.Itoa(i), "caller")
		got = append(got, ok)
	}
	if want := []bool{true, true, false, false}; !slices.Equal(got, want) {
		t.Errorf("with two slots, four routes got a slot: %v, want %v", got, want)
	}
}

// flushed is a client that publishes in the background.
type flushed struct {
	name string
	log  *[]string
}

// Flush waits for what the client does in the background.
func (f flushed) Flush() { *f.log = append(*f.log, "flush "+f.name) }

// Close implements io.Closer.
func (f flushed) Close() error {
	*f.log = append(*f.log, "close "+f.name)
	return nil
}

// TestClose_FlushesAllBeforeItClosesAny: the database, which is opened first, publishes until it is flushed.
func TestClose_FlushesAllBeforeItClosesAny(t *testing.T) {
	t.Parallel()
	o := newClients(t)
	var got []string
	for _, name := range []string{"database", "publisher"} {
		open := lazy(o, name, func(context.Context) (flushed, error) { return flushed{name, &got}, nil })
		if _, err := open(); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"flush database", "flush publisher", "close publisher", "close database"}
	if !slices.Equal(got, want) {
		t.Errorf("Close: %v, want %v", got, want)
	}
	var _ interface{ Flush() } = (*firestore.Client)(nil)
}
