// Package secretmanager is an in-memory Secret Manager for this machine, for the real client.
//
// It knows secrets and their versions as Secret Manager keeps them: names with the project's number, etags, labels,
// annotations, aliases, checksums, states, paging and filters. It knows no permissions, no regional secrets, no
// expiration, rotation or topics, and keeps nothing when it ends. What it does not know it refuses.
package secretmanageremu

import (
	"context"
	"fmt"
	"sync"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc"

	"agents.example/controlplane/emulators/rpc"
)

// Options of Start; the zero value listens on a free port.
type Options struct {
	// Address to listen on, host:port; empty is a free port of 127.0.0.1.
	Address string
}

// Server is a running Secret Manager: Addr is where, Calls counts by method, Inject makes calls fail, ClientOptions
// are for secretmanager.NewClient, Close ends it.
type Server struct {
	*rpc.Server
}

// Start serves an empty Secret Manager. Every project exists. ctx bounds opening the listener only.
func Start(ctx context.Context, options Options) (*Server, error) {
	s := &service{secrets: map[string]*secret{}}
	server, err := rpc.Start(ctx, options.Address, func(r grpc.ServiceRegistrar) {
		secretmanagerpb.RegisterSecretManagerServiceServer(r, s)
	}, resource)
	if err != nil {
		return nil, fmt.Errorf("start the secret manager: %w", err)
	}
	return &Server{Server: server}, nil
}

// service answers the calls. One lock is enough: nothing under it waits.
type service struct {
	secretmanagerpb.UnimplementedSecretManagerServiceServer

	mu      sync.Mutex
	secrets map[string]*secret // by full name, with the project's number
	clock   int64              // grows with every change; makes order and etags
}

// resource is what a request is about, for faults.
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
