package gke

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// annotationContent is the hash of what was applied. Objects whose content is not compared have none: a Secret, because
// the hash would help to guess its values; a ConfigMap, which is immutable and named by its content; and a claim or a
// snapshot, which follow their volume.
const annotationContent = "agents.example/content-hash"

func hasContentHash(kind string) bool {
	return !slices.Contains([]string{"Secret", "ConfigMap", "PersistentVolumeClaim", kindSnapshot, kindContent}, kind)
}

// desiredFields are the fields that are applied, as the API server keeps track of them: without those that identify the
// object.
func desiredFields(o object) (map[string]any, error) {
	fields, err := applyConfiguration(o)
	if err != nil {
		return nil, err
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	meta, _, _ := unstructured.NestedMap(fields, "metadata")
	delete(meta, "name")
	delete(meta, "namespace")
	fields["metadata"] = meta
	return fields, nil
}

// applyConfiguration holds the fields of an object that are set, and no others, because each becomes ours. Go's types
// write a status and empty structures even where nothing is set.
func applyConfiguration(o object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	fields = runtime.DeepCopyJSON(fields)
	delete(fields, "status")
	dropEmpty(fields)
	return fields, nil
}

// contentHash does not cover the generation: most objects are the same for every generation.
func contentHash(fields map[string]any) string {
	covered := maps.Clone(fields)
	if meta, ok := fields["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			delete(annotations, annotationGeneration)
			meta["annotations"] = annotations
		}
		covered["metadata"] = meta
	}
	b, err := json.Marshal(covered)
	if err != nil {
		return "" // what the converter makes always encodes
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// ownFields decodes the fields that the control plane owns. Agents have few different sets of fields, so each is
// decoded once.
func (s *snapshot) ownFields(o *metav1.PartialObjectMetadata) map[string]any {
	sets := ownSets(o.ManagedFields)
	encoded := string(bytes.Join(sets, []byte("\n")))
	if known, ok := s.fields[encoded]; ok {
		return known
	}
	all := decodeSets(sets)
	s.fields[encoded] = all
	return all
}

// ownSets are the encoded sets of the fields that the control plane owns. The API server removes a field when another
// program changes or removes it. Updates in the control plane's name count, too: the API server may record what a
// webhook changed as one.
func ownSets(managed []metav1.ManagedFieldsEntry) [][]byte {
	var sets [][]byte
	for _, m := range managed {
		if m.Manager == fieldManager && m.Subresource == "" && m.FieldsV1 != nil {
			sets = append(sets, m.FieldsV1.GetRawBytes())
		}
	}
	return sets
}

func decodeSets(sets [][]byte) map[string]any {
	all := map[string]any{}
	for _, set := range sets {
		var fields map[string]any
		if json.Unmarshal(set, &fields) == nil {
			mergeFields(all, fields)
		}
	}
	return all
}

func mergeFields(into, from map[string]any) {
	for name, value := range from {
		nested, ok := into[name].(map[string]any)
		more, both := value.(map[string]any)
		if ok && both {
			mergeFields(nested, more)
			continue
		}
		into[name] = value
	}
}

// hasFields reports whether a set of fields, in the encoding FieldsV1, contains all fields of a value. A set without
// members is a field that the API server tracks as a whole.
func hasFields(set map[string]any, value any) bool {
	if len(set) == 0 {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for name, nested := range value {
			member, ok := set["f:"+name].(map[string]any)
			if !ok || !hasFields(member, nested) {
				return false
			}
		}
	case []any:
		for _, item := range value {
			if !hasItem(set, item) {
				return false
			}
		}
	}
	return true
}

// hasItem looks for the item of a list in a set: a structure by its keys, everything else by its value.
func hasItem(set map[string]any, item any) bool {
	for name, member := range set {
		member, ok := member.(map[string]any)
		if !ok {
			continue
		}
		switch kind, encoded, _ := strings.Cut(name, ":"); kind {
		case "k":
			if item, ok := item.(map[string]any); ok && hasKeys(item, encoded) {
				return hasFields(member, item)
			}
		case "v":
			if b, err := json.Marshal(item); err == nil && string(b) == encoded {
				return true
			}
		}
	}
	return false
}

func hasKeys(item map[string]any, encoded string) bool {
	var keys map[string]any
	if json.Unmarshal([]byte(encoded), &keys) != nil {
		return false
	}
	for name, want := range keys {
		got, err := json.Marshal(item[name])
		wanted, wantErr := json.Marshal(want)
		if err != nil || wantErr != nil || !bytes.Equal(got, wanted) {
			return false
		}
	}
	return true
}
