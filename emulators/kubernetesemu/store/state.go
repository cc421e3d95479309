package store

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
)

// header is the first line of a file of states.
type header struct {
	Version uint64 `json:"version"`
}

// line is the state of one object in a file.
type line struct {
	Kind   schema.GroupVersionKind `json:"kind"`
	Object json.RawMessage         `json:"object"`
}

// Save writes all objects to a file, for Restore.
func (s *Store) Save(path string) (err error) {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("save the cluster's objects: %w", err)
	}
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	err = encoder.Encode(header{s.version})
	for k := range s.tables {
		for _, o := range s.List(k, "") {
			text, encodeErr := json.Marshal(o)
			err = errors.Join(err, encodeErr, encoder.Encode(line{k.GroupVersionKind, text}))
		}
	}
	if err = errors.Join(err, out.Flush(), file.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("save the cluster's objects: %w", err)
	}
	return nil
}

// Restore reads the objects that Save wrote, if there are any. No watch can resume from before.
func (s *Store) Restore(path string, catalog *kinds.Catalog) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer file.Close() //nolint:errcheck // it is only read
		err = s.read(json.NewDecoder(bufio.NewReader(file)), catalog)
	}
	if err != nil {
		return fmt.Errorf("read the cluster's objects from %s: %w", path, err)
	}
	return nil
}

func (s *Store) read(decoder *json.Decoder, catalog *kinds.Catalog) error {
	var h header
	if err := decoder.Decode(&h); err != nil {
		return err
	}
	for {
		var l line
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		k := catalog.Kind(l.Kind)
		if k == nil {
			continue // of a former version
		}
		o := k.New()
		if err := json.Unmarshal(l.Object, o); err != nil {
			return err
		}
		m := Meta(o)
		version := m.GetResourceVersion()
		s.Put(k, Key{m.GetNamespace(), m.GetName()}, o)
		m.SetResourceVersion(version) // no client sees the object yet
	}
	s.version = max(s.version, h.Version)
	for _, t := range s.tables {
		t.changes, t.dropped = nil, s.version
	}
	return nil
}
