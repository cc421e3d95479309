package firestore

import (
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// handle applies a message to the watches. It returns an error for a message that it does not know.
func (s *listenStream) handle(received *firestorepb.ListenResponse) error {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	switch r := received.GetResponseType().(type) {
	case *firestorepb.ListenResponse_TargetChange:
		return s.handleTargetChange(r.TargetChange)
	case *firestorepb.ListenResponse_DocumentChange:
		for _, id := range r.DocumentChange.GetTargetIds() {
			if w := s.targets[id]; w != nil {
				w.receive()
			}
		}
	case *firestorepb.ListenResponse_DocumentDelete:
		s.receiveDeletion(r.DocumentDelete.GetRemovedTargetIds())
	case *firestorepb.ListenResponse_DocumentRemove:
		s.receiveDeletion(r.DocumentRemove.GetRemovedTargetIds())
	case *firestorepb.ListenResponse_Filter:
		// The service says how many records it has sent. If the watch has missed one, its feed watches again.
		if w := s.targets[r.Filter.GetTargetId()]; w != nil && w.count != r.Filter.GetCount() {
			s.remove(w)
			w.end(errMissed)
		}
	default:
		return fmt.Errorf("unknown message %T of a listener", r)
	}
	return nil
}

// The caller holds the lock in all methods below.

// receiveDeletion counts a record that the service deleted after its retention.
func (s *listenStream) receiveDeletion(ids []int32) {
	for _, id := range ids {
		if w := s.targets[id]; w != nil {
			w.count--
		}
	}
}

func (s *listenStream) handleTargetChange(change *firestorepb.TargetChange) error {
	for _, w := range s.named(change.GetTargetIds()) {
		switch change.GetTargetChangeType() {
		case firestorepb.TargetChange_ADD:
		case firestorepb.TargetChange_CURRENT:
			w.current = true
		case firestorepb.TargetChange_NO_CHANGE:
			if len(change.GetTargetIds()) == 0 && change.GetReadTime() != nil {
				s.backoff = reopening()
				w.complete(change.GetReadTime().AsTime())
			}
		case firestorepb.TargetChange_RESET:
			w.reset()
		case firestorepb.TargetChange_REMOVE:
			s.drop(w)
			w.end(causeOf(change))
		default:
			return fmt.Errorf("unknown change %s of a listener's target", change.GetTargetChangeType())
		}
	}
	return nil
}

// named returns the watches with the ids, or all for no ids. An id may be that of a watch that has ended.
func (s *listenStream) named(ids []int32) []*watch {
	var found []*watch
	if len(ids) == 0 {
		for _, w := range s.targets {
			found = append(found, w)
		}
	}
	for _, id := range ids {
		if w := s.targets[id]; w != nil {
			found = append(found, w)
		}
	}
	return found
}

// causeOf returns why the service removed a target.
func causeOf(change *firestorepb.TargetChange) error {
	cause := change.GetCause()
	if cause == nil || cause.GetCode() == int32(codes.OK) {
		return status.Error(codes.Internal, "the service removed the target")
	}
	return status.Error(codes.Code(cause.GetCode()), cause.GetMessage())
}
