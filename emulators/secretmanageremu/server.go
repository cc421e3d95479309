// Package secretmanageremu provides a local, in-memory stand-in for Secret Manager that the real client connects to.
//
// It stores secrets and versions as Secret Manager does: names with the project number, etags, labels, annotations,
// aliases, checksums, states, paging and filters. It does not implement permissions, regional secrets, expiration,
// rotation or topics, and refuses requests that need them. It persists nothing.
package secretmanageremu

import (
	"context"
	"fmt"
	"sync"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc"

	"agents.example/controlplane/emulators/rpc"
)

// Options configure Start. The zero value listens on a free port.
type Options struct {
	// Address to listen on, host:port. If empty, a free port of 127.0.0.1.
	Address string
}

// Server is a running Secret Manager. Addr is its address, Calls counts calls by method, Inject makes calls fail,
// ClientOptions configure secretmanager.NewClient, and Close stops it.
type Server struct {
	*rpc.Server
}

// Start serves an empty Secret Manager. Every project exists. ctx only bounds opening the listener.
func Start(ctx context.Context, options Options) (*Server, error) {
	s := &service{secrets: map[string]*secret{}}
	server, err := rpc.Start(ctx, options.Address, func(r grpc.ServiceRegistrar) {
		secretmanagerpb.RegisterSecretManagerServiceServer(r, s)
	}, resource)
	if err != nil {
		return nil, fmt.Errorf("start the Secret Manager stand-in: %w", err)
	}
	return &Server{Server: server}, nil
}

// service implements the API. A single lock suffices, because no code waits while holding it.
type service struct {
	secretmanagerpb.UnimplementedSecretManagerServiceServer

	mu      sync.Mutex
	secrets map[string]*secret // by full name, with the project number
	clock   int64              // increases with every change; provides order and etags
}

// resource returns the resource that a request names, for faults.
func resource(request any) string {
	switch r := request.(type) {
	case *secretmanagerpb.CreateSecretRequest:
		return r.GetParent() + "/secrets/" + r.GetSecretId()
	case *secretmanagerpb.UpdateSecretRequest:
		return r.GetSecret().GetName()
	case interface{ GetName() string }:
		return r.GetName()
	case interface{ GetParent() string }:
		return r.GetParent()
	default:
		return ""
	}
}
