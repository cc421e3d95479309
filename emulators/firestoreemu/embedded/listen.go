package embedded

import (
	"context"
	"errors"
	"io"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/emulators/firestoreemu/embedded/store"
	"agents.example/controlplane/emulators/firestoreemu/embedded/structuredquery"
)

// Listen implements firestorepb.FirestoreServer for documents and queries. A client that resumes receives the current state, which
// is a valid answer to "what has changed since". Several changes in quick succession may be sent as one.
func (s *service) Listen(stream firestorepb.Firestore_ListenServer) error {
	ctx := stream.Context()
	requests, ended := make(chan *firestorepb.ListenRequest), make(chan error, 1)
	go func() { ended <- receive(ctx, stream, requests) }()
	l := &listener{stream: stream, changed: make(chan struct{}, 1), targets: map[int32]*target{}}
	defer l.stop()
	for {
		var err error
		select {
		case r := <-requests:
			err = s.handleRequest(l, r)
		case <-l.changed:
			err = l.sendChanges()
		case err = <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// receive forwards requests until the client ends the stream.
func receive(ctx context.Context, stream firestorepb.Firestore_ListenServer,
	requests chan<- *firestorepb.ListenRequest,
) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listener is the state of one stream.
type listener struct {
	stream  firestorepb.Firestore_ListenServer
	changed chan struct{}
	targets map[int32]*target
}

// target is what a client listens to: documents, or the results of a query.
type target struct {
	database *store.Database
	names    []string
	// query is nil for documents. Its documents are in collection.
	query      *structuredquery.Query
	collection string
	// sent maps names to the documents that the client received last. A missing key means that the client has received
	// nothing for that name yet.
	sent map[string]*firestorepb.Document
	stop func()
}

func (s *service) handleRequest(l *listener, r *firestorepb.ListenRequest) error {
	if id := r.GetRemoveTarget(); r.GetAddTarget() == nil {
		if t := l.targets[id]; t != nil {
			t.stop()
			delete(l.targets, id)
		}
		return l.sendTargetChange(firestorepb.TargetChange_REMOVE, nil, id)
	}
	d, err := s.database(r.GetDatabase())
	if err != nil {
		return err
	}
	add := r.GetAddTarget()
	switch {
	case add.GetOnce():
		return unimplemented("a target that ends once it is current")
	case l.targets[add.GetTargetId()] != nil || add.GetTargetId() == 0:
		return status.Errorf(codes.InvalidArgument, "target id %d: want an unused id other than 0",
			add.GetTargetId())
	}
	t, err := s.newTarget(d, add)
	if err != nil {
		return err
	}
	t.stop = d.Watch(t.watched(), l.changed)
	l.targets[add.GetTargetId()] = t
	if err := l.sendTargetChange(firestorepb.TargetChange_ADD, nil, add.GetTargetId()); err != nil {
		return err
	}
	at, err := l.sendChangesOf(add.GetTargetId(), t)
	if err != nil {
		return err
	}
	if err := l.sendTargetChange(firestorepb.TargetChange_CURRENT, at, add.GetTargetId()); err != nil {
		return err
	}
	return l.sendTargetChange(firestorepb.TargetChange_NO_CHANGE, at)
}

// newTarget makes the target that a client adds.
func (s *service) newTarget(d *store.Database, add *firestorepb.Target) (*target, error) {
	t := &target{database: d, names: add.GetDocuments().GetDocuments(), sent: map[string]*firestorepb.Document{}}
	if add.GetDocuments() != nil {
		for _, name := range t.names {
			if err := store.CheckDocument(d.Name(), name); err != nil {
				return nil, invalid(err)
			}
		}
		return t, nil
	}
	var err error
	t.query, err = s.parseQuery(d.Name(), add.GetQuery().GetParent(), add.GetQuery().GetStructuredQuery())
	if err == nil {
		t.collection = add.GetQuery().GetParent() + "/" + t.query.Collection
	}
	return t, err
}

// watched are the names whose changes concern the target.
func (t *target) watched() []string {
	if t.query != nil {
		return []string{t.collection}
	}
	return t.names
}

// read reads what the target consists of. A document that does not exist is nil.
func (t *target) read(ctx context.Context) (now map[string]*firestorepb.Document, order []string,
	at *timestamppb.Timestamp, err error,
) {
	var documents []*firestorepb.Document
	order = t.names
	if t.query == nil {
		documents, at, err = t.database.Get(ctx, t.names...)
	} else {
		documents, at, err = t.database.Scan(t.collection, t.query.Choose)
		for _, d := range documents {
			order = append(order, d.GetName())
		}
	}
	now = make(map[string]*firestorepb.Document, len(documents))
	for i, d := range documents {
		now[order[i]] = d
	}
	for name, d := range t.sent {
		if _, known := now[name]; !known && d != nil {
			now[name], order = nil, append(order, name)
		}
	}
	return now, order, at, err
}

// sendChanges sends the changes of all targets, then marks them complete as of the time at which the first was read.
func (l *listener) sendChanges() error {
	var earliest *timestamppb.Timestamp
	for id, t := range l.targets {
		at, err := l.sendChangesOf(id, t)
		if err != nil {
			return err
		}
		if earliest == nil {
			earliest = at
		}
	}
	if earliest == nil {
		return nil
	}
	return l.sendTargetChange(firestorepb.TargetChange_NO_CHANGE, earliest)
}

// sendChangesOf sends the documents that differ from what the client received last. It returns the time at which they
// were read.
func (l *listener) sendChangesOf(id int32, t *target) (*timestamppb.Timestamp, error) {
	documents, names, at, err := t.read(l.stream.Context())
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		document := documents[name]
		if before, known := t.sent[name]; known && before == document {
			continue
		}
		t.sent[name] = document
		change := &firestorepb.ListenResponse{}
		if document == nil {
			change.ResponseType = &firestorepb.ListenResponse_DocumentDelete{
				DocumentDelete: &firestorepb.DocumentDelete{
					Document: name, RemovedTargetIds: []int32{id},
					ReadTime: at,
				},
			}
		} else {
			change.ResponseType = &firestorepb.ListenResponse_DocumentChange{
				DocumentChange: &firestorepb.DocumentChange{Document: document, TargetIds: []int32{id}},
			}
		}
		if err := l.stream.Send(change); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// sendTargetChange sends a target change. If at is set, it also becomes the resume token.
func (l *listener) sendTargetChange(kind firestorepb.TargetChange_TargetChangeType, at *timestamppb.Timestamp,
	ids ...int32,
) error {
	change := &firestorepb.TargetChange{TargetChangeType: kind, TargetIds: ids, ReadTime: at}
	if at != nil {
		change.ResumeToken = []byte(at.AsTime().String())
	}
	return l.stream.Send(&firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_TargetChange{TargetChange: change}})
}

func (l *listener) stop() {
	for _, t := range l.targets {
		t.stop()
	}
}
