package store

import (
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

// MaxWrites is the maximum number of writes in a commit.
const MaxWrites = 500

// Commit applies all writes in order, or none. It ends the transaction tx, whether it succeeds or not; nil means no
// transaction. Errors: Aborted if data that the transaction read has changed; NotFound, AlreadyExists or
// FailedPrecondition if a precondition fails; InvalidArgument.
func (d *Database) Commit(tx *Transaction, writes []*firestorepb.Write) (*firestorepb.CommitResponse, error) {
	changes, err := d.parseWrites(writes)
	d.mu.Lock()
	defer d.mu.Unlock()
	if tx != nil {
		if tx.ended {
			return nil, errEnded()
		}
		defer d.end(tx)
	}
	switch {
	case err != nil:
		return nil, err
	case tx != nil && tx.readOnly && len(writes) > 0:
		return nil, status.Error(codes.InvalidArgument, "Cannot modify entities in a read-only transaction.")
	case tx != nil && !tx.readOnly && !tx.isCurrent():
		return nil, status.Error(codes.Aborted,
			"Transaction was aborted because a document that it read was changed. Please retry.")
	}
	s := stage{database: d, at: max(d.clock().UnixMicro(), d.last+1), documents: map[string]*firestorepb.Document{}}
	response := &firestorepb.CommitResponse{CommitTime: stamp(s.at)}
	for _, c := range changes {
		result, err := s.apply(c)
		if err != nil {
			return nil, err
		}
		response.WriteResults = append(response.WriteResults, result)
	}
	for i, c := range changes {
		// Several writes of one document share its final update time.
		response.WriteResults[i].UpdateTime = s.documents[c.name].GetUpdateTime()
	}
	d.last = s.at
	for name, document := range s.documents {
		if document != d.newest(name) {
			d.install(name, document, s.at)
		}
	}
	return response, nil
}

// stage holds the results of the writes applied so far in a commit.
type stage struct {
	database  *Database
	at        int64
	documents map[string]*firestorepb.Document
}

func (s *stage) current(name string) *firestorepb.Document {
	if document, ok := s.documents[name]; ok {
		return document
	}
	return s.database.newest(name)
}

func (s *stage) apply(c change) (*firestorepb.WriteResult, error) {
	old := s.current(c.name)
	if err := c.checkPrecondition(old); err != nil {
		return nil, err
	}
	if c.deletes {
		s.documents[c.name] = nil
		return &firestorepb.WriteResult{}, nil
	}
	fields := c.fields
	if c.masked {
		fields = old.GetFields()
		for _, p := range c.mask {
			fields = value.With(fields, p, value.Get(c.fields, p))
		}
	}
	result := &firestorepb.WriteResult{}
	for _, t := range c.transforms {
		changed, told, err := value.Transform(value.Get(fields, t.path), t.how, stamp(s.at).AsTime())
		if err != nil {
			return nil, invalid(fmt.Errorf("document %s: %s: %w", c.name, t.path, err))
		}
		fields = value.With(fields, t.path, changed)
		result.TransformResults = append(result.TransformResults, told)
	}
	if size := s.size(c.name) + value.Size(fields); size > value.MaxDocument {
		return nil, invalid(fmt.Errorf("document %s cannot be written because its size (%d bytes) exceeds the "+
			"maximum allowed size of %d bytes",
			c.name, size, value.MaxDocument))
	}
	s.put(c.name, old, fields)
	return result, nil
}

// put stages a document. One that the commit leaves as it was before keeps its update time, even if an earlier write of
// the same commit changed it.
func (s *stage) put(name string, old *firestorepb.Document, fields map[string]*firestorepb.Value) {
	now, before := stamp(s.at), s.database.newest(name)
	document := &firestorepb.Document{Name: name, Fields: fields, CreateTime: now, UpdateTime: before.GetUpdateTime()}
	if old != nil {
		document.CreateTime = old.GetCreateTime()
	}
	if proto.Equal(before, document) {
		document = before
	} else {
		document.UpdateTime = now
	}
	s.documents[name] = document
}

// overhead is the number of bytes that Firestore adds to the size of a document.
const overhead = 32

func (s *stage) size(name string) int {
	ids, _ := ids(s.database.name, name) // parseWrite has checked the name
	return value.NameSize(ids) + overhead
}
