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
)

// Listen implements firestorepb.FirestoreServer for documents. Who resumes is told the present state, which is a
// possible answer to "what has changed since". States that follow each other quickly may be told as one.
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
			err = s.listenTo(l, r)
		case <-l.changed:
			err = l.tell()
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

// receive passes requests on until the client ends the stream.
func receive(ctx context.Context, stream firestorepb.Firestore_ListenServer,
	requests chan<- *firestorepb.ListenRequest) error {
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

// listener is one stream, and what its client knows.
type listener struct {
	stream  firestorepb.Firestore_ListenServer
	changed chan struct{}
	targets map[int32]*target
}

// target is a set of documents that a client listens to.
type target struct {
	database *store.Database
	names    []string
	// told are the documents as the client knows them; a name that is not there was not told yet.
	told map[string]*firestorepb.Document
	stop func()
}

func (s *service) listenTo(l *listener, r *firestorepb.ListenRequest) error {
	if id := r.GetRemoveTarget(); r.GetAddTarget() == nil {
		if t := l.targets[id]; t != nil {
			t.stop()
			delete(l.targets, id)
		}
		return l.target(firestorepb.TargetChange_REMOVE, nil, id)
	}
	d, err := s.database(r.GetDatabase())
	if err != nil {
		return err
	}
	add := r.GetAddTarget()
	switch {
	case add.GetDocuments() == nil:
		return lacks("listening to a query")
	case add.GetOnce():
		return lacks("a target that ends once it is current")
	case l.targets[add.GetTargetId()] != nil || add.GetTargetId() == 0:
		return status.Errorf(codes.InvalidArgument, "target id %d: want a number of its own that is not 0",
			add.GetTargetId())
	}
	for _, name := range add.GetDocuments().GetDocuments() {
		if err := store.CheckDocument(d.Name(), name); err != nil {
			return invalid(err)
		}
	}
	t := &target{database: d, names: add.GetDocuments().GetDocuments(), told: map[string]*firestorepb.Document{}}
	t.stop = d.Watch(t.names, l.changed)
	l.targets[add.GetTargetId()] = t
	if err := l.target(firestorepb.TargetChange_ADD, nil, add.GetTargetId()); err != nil {
		return err
	}
	at, err := l.changes(add.GetTargetId(), t)
	if err != nil {
		return err
	}
	if err := l.target(firestorepb.TargetChange_CURRENT, at, add.GetTargetId()); err != nil {
		return err
	}
	return l.target(firestorepb.TargetChange_NO_CHANGE, at)
}

// tell tells what has changed of all targets, and that this is all.
func (l *listener) tell() error {
	var latest *timestamppb.Timestamp
	for id, t := range l.targets {
		at, err := l.changes(id, t)
		if err != nil {
			return err
		}
		latest = at
	}
	if latest == nil {
		return nil
	}
	return l.target(firestorepb.TargetChange_NO_CHANGE, latest)
}

// changes tells the documents that are not as the client knows them. It answers when they were so.
func (l *listener) changes(id int32, t *target) (*timestamppb.Timestamp, error) {
	documents, at, err := t.database.Get(l.stream.Context(), t.names...)
	if err != nil {
		return nil, err
	}
	for i, name := range t.names {
		document := documents[i]
		if before, known := t.told[name]; known && before == document {
			continue
		}
		t.told[name] = document
		change := &firestorepb.ListenResponse{}
		if document == nil {
			change.ResponseType = &firestorepb.ListenResponse_DocumentDelete{
				DocumentDelete: &firestorepb.DocumentDelete{Document: name, RemovedTargetIds: []int32{id},
					ReadTime: at},
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

// target tells of a change of targets; at, where there is one, is also what resuming goes by.
func (l *listener) target(kind firestorepb.TargetChange_TargetChangeType, at *timestamppb.Timestamp,
	ids ...int32) error {
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
