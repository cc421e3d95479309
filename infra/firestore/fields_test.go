package firestore

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/metrics"
)

// TestInSnapshot_DecodesLikeData compares the two ways to decode a document, for one whose fields are all set, and for
// those that differ from it by one field.
func TestInSnapshot_DecodesLikeData(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	for collection, record := range map[string]func() (any, fields){
		agentCollection: func() (any, fields) { a := &agent.Agent{}; return a, agentFields(a, new(string)) },
		keyCollection:   func() (any, fields) { k := &apikey.Key{}; return k, keyFields(k) },
	} {
		filled, stored := record()
		fill(reflect.ValueOf(filled).Elem())
		variants := variantsOf(stored.encode())
		refs := make([]*gcp.DocumentRef, len(variants))
		b := c.batch()
		for i, doc := range variants {
			refs[i], _ = c.ref(collection, fmt.Sprintf("decoded-%d", i))
			b.Create(refs[i], doc)
		}
		_, err := c.commit(t.Context(), b)
		must(t, err)
		snaps, err := c.read(t.Context(), refs...)
		must(t, err)
		failures := 0
		for i, snap := range snaps {
			got, gotFields := record()
			want, wantFields := record()
			_, gotErr := gotFields.decode(inSnapshot(snap))
			_, wantErr := wantFields.decode(inMap(snap.Data()))
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v decodes to %+v, %v; want %+v, %v", collection, variants[i], got, gotErr, want, wantErr)
			}
			if gotErr != nil {
				failures++
			}
			if again := gotFields.encode(); i == 0 && !reflect.DeepEqual(again, stored.encode()) {
				t.Errorf("%s: all fields decode to %v, want %v", collection, again, stored.encode())
			}
		}
		if failures != len(stored) {
			t.Errorf("%s: %d documents have an error, want one for each of %d", collection, failures, len(stored))
		}
	}
}

// variantsOf returns the document, with a field that no release knows, and copies of it: for each of its fields, one
// where it is missing, one where it is null, and one where it has a wrong type.
func variantsOf(doc map[string]any) []map[string]any {
	with := func(name string, value any) map[string]any {
		variant := map[string]any{"of_the_future": []any{"x"}}
		for n, v := range doc {
			variant[n] = v
		}
		variant[name] = value
		return variant
	}
	variants := []map[string]any{with("of_the_future", map[string]any{"x": true})}
	for name := range doc {
		missing := with(name, nil)
		delete(missing, name)
		variants = append(variants, missing, with(name, nil), with(name, []byte("wrong")))
	}
	return variants
}

// fill sets the variables of a record to values other than zero. A slice gets a second element, which stays zero.
func fill(v reflect.Value) {
	n := 0
	var set func(reflect.Value)
	set = func(v reflect.Value) {
		n++
		switch at := v.Addr().Interface().(type) {
		case *time.Time:
			*at = time.Unix(int64(n), 1000).UTC()
			return
		case *json.RawMessage:
			*at = json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))
			return
		case *metrics.Ring, **document.Rest:
			return
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(fmt.Sprint("text ", n))
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Float64:
			v.SetFloat(float64(n) + 0.5)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			set(v.Elem())
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			set(v.Index(0))
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Field(i)
				set(reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()) // sets unexported ones, too
			}
		}
	}
	set(v)
}
