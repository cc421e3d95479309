package embedded

import (
	"context"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/emptypb"

	"agents.example/controlplane/emulators/firestoreemu/embedded/store"
)

// Commit implements firestorepb.FirestoreServer.
func (s *service) Commit(_ context.Context, r *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	d, err := s.database(r.GetDatabase())
	if err != nil {
		return nil, err
	}
	var tx *store.Transaction
	if len(r.GetTransaction()) > 0 {
		if tx, err = d.Transaction(r.GetTransaction()); err != nil {
			return nil, err
		}
	}
	return d.Commit(tx, r.GetWrites())
}

// BeginTransaction implements firestorepb.FirestoreServer.
func (s *service) BeginTransaction(_ context.Context,
	r *firestorepb.BeginTransactionRequest,
) (*firestorepb.BeginTransactionResponse, error) {
	d, err := s.database(r.GetDatabase())
	if err != nil {
		return nil, err
	}
	tx, err := begin(d, r.GetOptions())
	if err != nil {
		return nil, err
	}
	return &firestorepb.BeginTransactionResponse{Transaction: tx.ID()}, nil
}

func begin(d *store.Database, o *firestorepb.TransactionOptions) (*store.Transaction, error) {
	if o.GetReadOnly().GetReadTime() != nil {
		return nil, unimplemented("a transaction at a read_time")
	}
	return d.Begin(o.GetReadOnly() != nil), nil
}

// Rollback implements firestorepb.FirestoreServer. Rolling back an ended transaction is an error.
func (s *service) Rollback(_ context.Context, r *firestorepb.RollbackRequest) (*emptypb.Empty, error) {
	d, err := s.database(r.GetDatabase())
	if err != nil {
		return nil, err
	}
	tx, err := d.Transaction(r.GetTransaction())
	if err != nil {
		return nil, err
	}
	tx.Rollback()
	return &emptypb.Empty{}, nil
}
