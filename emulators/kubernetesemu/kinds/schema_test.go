package kinds

import (
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

func TestParser_KnowsEveryKind(t *testing.T) {
	t.Parallel()
	parser, err := newParser()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range SchemaTypes() {
		if !parser.Type(name).IsValid() {
			t.Errorf("the schema has no type %s", name)
		}
	}
}

func TestParser_KnowsKeysAndDefaults(t *testing.T) {
	t.Parallel()
	parser, err := newParser()
	if err != nil {
		t.Fatal(err)
	}
	const spec = `{"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]}`
	pod, err := parser.Type("io.k8s.api.core.v1.Pod").FromYAML(`{"spec": ` + spec + `}`)
	if err != nil {
		t.Fatal(err)
	}
	set, err := pod.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	got, err := set.ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:ports":{` +
		`"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},` +
		`"k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}}}}}`
	if string(got) != want {
		t.Errorf("fields of a pod = %s, want %s", got, want)
	}
}

// TestParser_IsValid does what typed.NewParser adds to newParser.
func TestParser_IsValid(t *testing.T) {
	t.Parallel()
	parser, err := typed.NewParser(typed.YAMLObject(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	// A reference to a type that is missing is no error of NewParser.
	for _, name := range parser.TypeNames() {
		if !parser.Type(name).IsValid() {
			t.Errorf("the schema has an invalid type %s", name)
		}
	}
}

func BenchmarkParser(b *testing.B) {
	for b.Loop() {
		if _, err := newParser(); err != nil {
			b.Fatal(err)
		}
	}
}
