//go:build unix

package firestoreemu_test

import (
	"fmt"
	"testing"

	firestoreclient "cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// write is one write of a program.
type write struct {
	Document string
	Delete   bool
	Fields   map[string]constant
	// Mask holds the paths of the update mask; nil means no mask.
	Mask []string
	// Condition is "", "exists", "missing", "unchanged" or "changed".
	Condition  string
	Transforms []transform
}

type transform struct {
	Path, Kind string
	Values     []constant
}

func (w write) String() string {
	return fmt.Sprintf("{%s delete=%t fields=%v mask=%q if %q transforms %v}", w.Document, w.Delete, w.Fields, w.Mask,
		w.Condition, w.Transforms)
}

func (t transform) String() string { return fmt.Sprintf("%s %s %v", t.Kind, t.Path, t.Values) }

func drawWrites(t *rapid.T) []write {
	writes := make([]write, rapid.SampledFrom([]int{1, 1, 1, 2, 3, 0}).Draw(t, "writes"))
	times := map[string]int{}
	for i := range writes {
		writes[i] = drawWrite(t)
		times[writes[i].Document]++
	}
	for i, w := range writes {
		if times[w.Document] > 1 {
			writes[i].Condition = "" // the embedded emulator refuses preconditions here
		}
	}
	return writes
}

func drawWrite(t *rapid.T) write {
	w := write{
		Document: rapid.SampledFrom(documentIDs()).Draw(t, "document"),
		Delete:   rapid.IntRange(0, 5).Draw(t, "delete") == 0,
		Fields:   map[string]constant{},
		Condition: rapid.SampledFrom([]string{"", "", "", "exists", "missing", "unchanged", "changed"}).Draw(t,
			"condition"),
	}
	if w.Delete {
		return w
	}
	for _, name := range []string{"a", "b", "m", "q-q"} {
		if rapid.Bool().Draw(t, "has "+name) {
			w.Fields[name] = drawValue(t)
		}
	}
	if rapid.Bool().Draw(t, "masked") {
		w.Mask = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "m", "m.x", "m.y.z", "`q-q`", "b.c"}), 0,
			3, rapid.ID).Draw(t, "mask")
		if w.Mask == nil {
			w.Mask = []string{}
		}
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "transforms") {
		w.Transforms = append(w.Transforms, drawTransform(t))
	}
	return w
}

func drawTransform(t *rapid.T) transform {
	tr := transform{
		Path: rapid.SampledFrom([]string{"a", "b", "m.x", "n.deep"}).Draw(t, "path"),
		Kind: rapid.SampledFrom([]string{"time", "increment", "union", "remove"}).Draw(t, "transform"),
	}
	for range rapid.IntRange(1, 3).Draw(t, "values") {
		// The service refuses nested arrays; the official emulator refuses them only in some places.
		tr.Values = append(tr.Values,
			rapid.Custom(drawValue).Filter(func(c constant) bool { return !c.isArray() }).Draw(t, "element"))
	}
	return tr
}

func (w write) request(s *session) *firestorepb.Write {
	r := &firestorepb.Write{CurrentDocument: w.condition(s)}
	if w.Delete {
		r.Operation = &firestorepb.Write_Delete{Delete: s.name(w.Document)}
		return r
	}
	fields := map[string]*firestorepb.Value{}
	for name, v := range w.Fields {
		fields[name] = v.on(s)
	}
	r.Operation = &firestorepb.Write_Update{Update: &firestorepb.Document{Name: s.name(w.Document), Fields: fields}}
	if w.Mask != nil {
		r.UpdateMask = &firestorepb.DocumentMask{FieldPaths: w.Mask}
	}
	for _, t := range w.Transforms {
		r.UpdateTransforms = append(r.UpdateTransforms, t.request(s))
	}
	return r
}

func (w write) condition(s *session) *firestorepb.Precondition {
	seen := s.updated[s.name(w.Document)]
	switch {
	case w.Condition == "exists" || w.Condition == "missing":
		return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: w.Condition == "exists"}}
	case w.Condition == "" || len(seen) == 0:
		return nil
	case w.Condition == "unchanged":
		return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_UpdateTime{UpdateTime: seen[len(seen)-1]}}
	default:
		return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_UpdateTime{UpdateTime: seen[0]}}
	}
}

func (t transform) request(s *session) *firestorepb.DocumentTransform_FieldTransform {
	array := &firestorepb.ArrayValue{}
	for _, v := range t.Values {
		array.Values = append(array.Values, v.on(s))
	}
	r := &firestorepb.DocumentTransform_FieldTransform{FieldPath: t.Path}
	switch t.Kind {
	case "time":
		r.TransformType = &firestorepb.DocumentTransform_FieldTransform_SetToServerValue{
			SetToServerValue: firestorepb.DocumentTransform_FieldTransform_REQUEST_TIME,
		}
	case "increment":
		r.TransformType = &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: array.Values[0]}
	case "union":
		r.TransformType = &firestorepb.DocumentTransform_FieldTransform_AppendMissingElements{AppendMissingElements: array}
	default:
		r.TransformType = &firestorepb.DocumentTransform_FieldTransform_RemoveAllFromArray{RemoveAllFromArray: array}
	}
	return r
}

// TestCommit_KeepsTheUpdateTimeOfARestoredDocument changes a document and changes it back in the same commit.
func TestCommit_KeepsTheUpdateTimeOfARestoredDocument(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, host string) {
		c := client(t, host, "p-"+uuid.NewString(), firestoreclient.DefaultDatabaseID)
		doc := c.Doc("things/one")
		created, err := doc.Create(t.Context(), map[string]any{"a": 1})
		if err != nil {
			t.Fatal(err)
		}
		//nolint:staticcheck // BulkWriter does not commit atomically
		results, err := c.Batch().
			Set(doc, map[string]any{"b": 2}, firestoreclient.MergeAll).
			Set(doc, map[string]any{"a": 1}).
			Commit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if !r.UpdateTime.Equal(created.UpdateTime) {
				t.Errorf("write %d: update time = %v, want %v", i, r.UpdateTime, created.UpdateTime)
			}
		}
	})
}
