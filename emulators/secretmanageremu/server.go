// Package secretmanageremu provides a local, in-memory stand-in for Secret Manager that the real client connects to.
//
// It stores secrets and versions as Secret Manager does: names with the project number, etags, labels, annotations,
// aliases, checksums, states, paging and filters. It does not implement permissions, regional secrets, expiration,
// rotation or topics, and refuses requests that need them. It persists nothing.
//
// Secret Manager promises little about consistency: a version can be accessed by its number immediately after it was
// added, and everything else "typically converges within minutes, but may take a few hours". Options.Lag makes the
// stand-in as slow: metadata, lists, aliases and "latest" are then answered from an old state.
//
// Calls over Google's quotas of a minute are answered with RESOURCE_EXHAUSTED.
package secretmanageremu

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc"

	"agents.example/controlplane/emulators/rpc"
)

// Options configure Start. The zero value listens on a free port.
type Options struct {
	// Address to listen on, host:port. If empty, a free port of 127.0.0.1.
	Address string
	// Lag is how old the state is from which all requests but AccessSecretVersion by number are answered.
	Lag time.Duration
	// Quotas limit the calls of each project. The zero value is Google's for a new project.
	Quotas Quotas
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Server is a running Secret Manager. Addr is its address, Calls counts calls by method, Inject makes calls fail,
// ClientOptions configure secretmanager.NewClient, and Close stops it.
type Server struct {
	*rpc.Server
	service *service
}

// SetLag changes Options.Lag. The state before the call is not known to a lag that was zero.
func (s *Server) SetLag(lag time.Duration) {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	s.service.lag = lag
}

// Advance moves the clock of the stand-in forward.
func (s *Server) Advance(d time.Duration) {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	s.service.ahead += d
}

// States returns the present states of the versions of every secret, without a lag. The names have the project number.
func (s *Server) States() map[string][]secretmanagerpb.SecretVersion_State {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	all := map[string][]secretmanagerpb.SecretVersion_State{}
	for name, found := range s.service.secrets {
		all[name] = []secretmanagerpb.SecretVersion_State{}
		for _, v := range found.versions {
			all[name] = append(all[name], v.record.GetState())
		}
	}
	return all
}

// Start serves an empty Secret Manager. Every project exists. ctx only bounds opening the listener.
func Start(ctx context.Context, options Options) (*Server, error) {
	s := &service{secrets: map[string]*secret{}, lag: options.Lag, machine: options.Now}
	if s.machine == nil {
		s.machine = time.Now
	}
	s.quotas = newQuotas(options.Quotas, func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now()
	})
	server, err := rpc.Start(ctx, options.Address, func(r grpc.ServiceRegistrar) {
		secretmanagerpb.RegisterSecretManagerServiceServer(r, s)
	}, resource, grpc.ChainUnaryInterceptor(s.quotas.intercept))
	if err != nil {
		return nil, fmt.Errorf("start the Secret Manager stand-in: %w", err)
	}
	return &Server{Server: server, service: s}, nil
}

// service implements the API. A single lock suffices, because no code waits while holding it.
type service struct {
	secretmanagerpb.UnimplementedSecretManagerServiceServer

	mu      sync.Mutex
	secrets map[string]*secret // by full name, with the project number
	clock   int64              // increases with every change; provides order and etags
	lag     time.Duration
	machine func() time.Time
	ahead   time.Duration // how much the clock is ahead of the machine's
	quotas  *quotas
	past    []former // the changes that are younger than the lag, in order
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
