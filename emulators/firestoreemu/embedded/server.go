// Package embedded provides an in-process Firestore server for machines without the official emulator. Google's client
// library connects to it.
//
// It implements what package infra/firestore uses: reads by id, atomic commits with preconditions, field paths and
// transforms, transactions, queries of one collection, counts, lists of collections, and document listeners. Its tests
// compare it with the official emulator. Where that emulator is lenient, this one is as strict as the service: a query
// needs its index (package index), and a commit has at most 500 writes. Everything else is answered with UNIMPLEMENTED
// and the name of the missing feature. It does not implement security rules, TTL, backups or history.
//
// Every database of every project exists and is empty until it is written to. Each test uses a random project.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/firestoreemu/embedded/index"
	"agents.example/controlplane/emulators/firestoreemu/embedded/store"
	"agents.example/controlplane/emulators/firestoreemu/embedded/structuredquery"
	"agents.example/controlplane/emulators/rpc"
)

// maxRequest is the maximum size of a request in bytes, as in Firestore.
const maxRequest = 11 << 20

// Options configure Start. The zero value is usable.
type Options struct {
	// Address to listen on, host:port. If empty, a free port of 127.0.0.1.
	Address string
	// Indexes is the index file. If empty, no index is declared.
	Indexes []byte
	// Import is a file written by Export. The server starts with its documents.
	Import string
}

// Server is a running Firestore.
type Server struct {
	*rpc.Server
	service *service
}

// Start serves a Firestore. ctx only bounds the start.
func Start(ctx context.Context, o Options) (*Server, error) {
	declared, err := index.Parse(o.Indexes)
	if err != nil {
		return nil, err
	}
	imported, err := readSnapshot(o.Import)
	if err != nil {
		return nil, err
	}
	s := &service{indexes: declared, imported: imported, databases: map[string]*store.Database{}}
	server, err := rpc.Start(ctx, o.Address,
		func(r grpc.ServiceRegistrar) { firestorepb.RegisterFirestoreServer(r, s) },
		resourceOf, grpc.MaxRecvMsgSize(maxRequest))
	if err != nil {
		return nil, fmt.Errorf("start the embedded Firestore: %w", err)
	}
	return &Server{server, s}, nil
}

// Done returns nil, a channel that never becomes ready: the server lives as long as this process.
func (s *Server) Done() <-chan struct{} { return nil }

// resourceOf returns the database named in a request.
func resourceOf(request any) string {
	if r, ok := request.(interface{ GetDatabase() string }); ok {
		return r.GetDatabase()
	}
	return ""
}

// service implements the Firestore API. The embedded type answers UNIMPLEMENTED with the method name for all other
// methods.
type service struct {
	firestorepb.UnimplementedFirestoreServer
	indexes  index.Declared
	imported snapshot

	mu        sync.Mutex
	databases map[string]*store.Database
}

// database returns a database, creating it if necessary.
func (s *service) database(name string) (*store.Database, error) {
	if err := store.CheckDatabase(name); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.databases[name]
	if d == nil {
		d = store.New(name, time.Now, s.imported.documentsFor(name))
		s.databases[name] = d
	}
	return d, nil
}

// invalid returns the status for a request that is malformed or needs an unimplemented feature.
func invalid(err error) error {
	if errors.Is(err, structuredquery.ErrUnimplemented) {
		return status.Error(codes.Unimplemented, err.Error()+": use the official emulator for it")
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

// unimplemented returns the error for an unimplemented feature.
func unimplemented(what string) error {
	return invalid(fmt.Errorf("%s: %w", what, structuredquery.ErrUnimplemented))
}
