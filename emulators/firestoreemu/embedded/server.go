// Package embedded is a Firestore in this process, for machines without the official emulator. Google's client library
// talks to it.
//
// It has what package infra/firestore uses, and the comparison in its tests holds it against the official emulator:
// reads by id, atomic commits under preconditions, field paths and transforms, transactions, queries of one collection,
// counts, lists of collections, and listeners to documents. Where the emulator is lenient it is as strict as the
// service: a query needs its index (package index), and a commit has at most 500 writes. What it does not have answers
// UNIMPLEMENTED with its name. It has no security rules, TTL, backups or history.
//
// Every database of every project exists, empty, until it is written to; a test takes a random project for itself.
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

// maxRequest is the most bytes of a request, as in Firestore.
const maxRequest = 11 << 20

// Options of Start; the zero value is usable.
type Options struct {
	// Address to listen on, host:port; empty is a free port of 127.0.0.1.
	Address string
	// Indexes is the index file; empty declares none.
	Indexes []byte
	// Import is a file that Export wrote, to start with its documents; empty starts without any.
	Import string
}

// Server is a running Firestore.
type Server struct {
	*rpc.Server
	service *service
}

// Start serves a Firestore. ctx bounds the start only.
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

// Done is nil, and so never ready: the server ends with this process.
func (s *Server) Done() <-chan struct{} { return nil }

// resourceOf names the database that a request is about.
func resourceOf(request any) string {
	if r, ok := request.(interface{ GetDatabase() string }); ok {
		return r.GetDatabase()
	}
	return ""
}

// service answers Firestore's calls. What is not here is answered by the embedded type: UNIMPLEMENTED with the method's
// name.
type service struct {
	firestorepb.UnimplementedFirestoreServer
	indexes  index.Declared
	imported snapshot

	mu        sync.Mutex
	databases map[string]*store.Database
}

// database finds a database, or makes it.
func (s *service) database(name string) (*store.Database, error) {
	if err := store.CheckDatabase(name); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.databases[name]
	if d == nil {
		d = store.New(name, time.Now, s.imported.of(name))
		s.databases[name] = d
	}
	return d, nil
}

// invalid is the status of a request that can't be understood, or asks for what is not here.
func invalid(err error) error {
	if errors.Is(err, structuredquery.ErrUnimplemented) {
		return status.Error(codes.Unimplemented, err.Error()+": use the official emulator for it")
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

// lacks names what a request asks for and is not here.
func lacks(what string) error {
	return invalid(fmt.Errorf("%s: %w", what, structuredquery.ErrUnimplemented))
}
