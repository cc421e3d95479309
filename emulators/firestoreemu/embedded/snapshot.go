package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/emulators/firestoreemu/embedded/store"
)

// Export writes all documents of a database to a file, replacing it. The file appears completely or not at all.
func (s *Server) Export(project, database, path string) (err error) {
	d, err := s.service.database(fmt.Sprintf("projects/%s/databases/%s", project, database))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".snapshot-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	for _, document := range d.All() {
		if _, err := protodelim.MarshalTo(w, document); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Documents returns all documents of a database by their names, each in an encoding that is equal for equal documents.
func (s *Server) Documents(project, database string) (map[string]string, error) {
	d, err := s.service.database(fmt.Sprintf("projects/%s/databases/%s", project, database))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, document := range d.All() {
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(document)
		if err != nil {
			return nil, err
		}
		found[document.GetName()] = string(encoded)
	}
	return found, nil
}

// snapshot is the documents of an exported file. Every project gets them in its database of the same id.
type snapshot struct {
	database  string // the id
	documents []*firestorepb.Document
}

func readSnapshot(path string) (snapshot, error) {
	if path == "" {
		return snapshot{}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return snapshot{}, fmt.Errorf("read the exported documents: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var s snapshot
	for r := bufio.NewReader(f); ; {
		document := &firestorepb.Document{}
		err := protodelim.UnmarshalFrom(r, document)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return snapshot{}, fmt.Errorf("read the exported documents of %s: %w", path, err)
		}
		database, err := store.DatabaseOf(document.GetName())
		if err != nil {
			return snapshot{}, fmt.Errorf("read the exported documents of %s: %w", path, err)
		}
		s.database = idOf(database)
		s.documents = append(s.documents, document)
	}
}

// documentsFor returns the documents renamed to a database. References to documents are not changed.
func (s snapshot) documentsFor(database string) []*firestorepb.Document {
	if s.database != idOf(database) {
		return nil
	}
	documents := make([]*firestorepb.Document, len(s.documents))
	for i, document := range s.documents {
		former, _ := store.DatabaseOf(document.GetName()) // readSnapshot has checked it
		documents[i] = proto.CloneOf(document)
		documents[i].Name = database + strings.TrimPrefix(document.GetName(), former)
	}
	return documents
}

// idOf returns the id in a database name.
func idOf(database string) string { return database[strings.LastIndexByte(database, '/')+1:] }
