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

// Listen implements firestorepb.FirestoreServer for documents. A client that resumes receives the current state, which
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

// target is a set of documents that a client listens to.
type target struct {
	database *store.Database
	names    []string
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
	case add.GetDocuments() == nil:
		return unimplemented("listening to a query")
	case add.GetOnce():
		return unimplemented("a target that ends once it is current")
	case l.targets[add.GetTargetId()] != nil || add.GetTargetId() == 0:
		return status.Errorf(codes.InvalidArgument, "target id %d: want an unused id other than 0",
			add.GetTargetId())
	}
	for _, name := range add.GetDocuments().GetDocuments() {
		if err := store.CheckDocument(d.Name(), name); err != nil {
			return invalid(err)
		}
	}
	t := &target{database: d, names: add.GetDocuments().GetDocuments(), sent: map[string]*firestorepb.Document{}}
	t.stop = d.Watch(t.names, l.changed)
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

// sendChanges sends the changes of all targets, then marks them complete.
func (l *listener) sendChanges() error {
	var latest *timestamppb.Timestamp
	for id, t := range l.targets {
		at, err := l.sendChangesOf(id, t)
		if err != nil {
			return err
		}
		latest = at
	}
	if latest == nil {
		return nil
	}
	return l.sendTargetChange(firestorepb.TargetChange_NO_CHANGE, latest)
}

// sendChangesOf sends the documents that differ from what the client received last. It returns the time at which they
// were read.
func (l *listener) sendChangesOf(id int32, t *target) (*timestamppb.Timestamp, error) {
	documents, at, err := t.database.Get(l.stream.Context(), t.names...)
	if err != nil {
		return nil, err
	}
	for i, name := range t.names {
		document := documents[i]
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
