// Package rpc serves a Google Cloud API over gRPC on this machine, counts its calls and makes them fail on demand.
//
// It knows listening, counting and faults. It does not know any API: its users register their services.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"sync"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const defaultAddress = "127.0.0.1:0"

// Fault is what happens to one call; the zero value lets it be.
type Fault struct {
	// Delay is waited before anything else, unless the caller gives up first.
	Delay time.Duration
	// Before is answered instead of making the call: it has no effect.
	Before error
	// After is answered instead of the call's own answer, when that is no error: the effect is there, the answer is
	// lost.
	After error
}

// Hook decides the fault of a call: method is its short name, such as "AddSecretVersion", and resource what it is
// about, as the request spells it. It is called from many goroutines, and may wait.
type Hook func(method, resource string) Fault

// Server is a running gRPC server. Its methods may be called from any goroutine.
type Server struct {
	// Addr is host:port.
	Addr   string
	server *grpc.Server
	served chan error
	ended  sync.Once
	err    error
	name   func(request any) string
	mu     sync.Mutex
	hook   Hook
	calls  map[string]int
}

// Start serves what register adds, at address; an empty address is a free port of 127.0.0.1. resource names what a
// request is about. ctx bounds opening the listener only. Faults and counts are of unary calls, not of streams.
func Start(
	ctx context.Context, address string, register func(grpc.ServiceRegistrar), resource func(request any) string,
	options ...grpc.ServerOption,
) (*Server, error) {
	if address == "" {
		address = defaultAddress
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w; choose another address", err)
	}
	s := &Server{Addr: listener.Addr().String(), served: make(chan error, 1), name: resource, calls: map[string]int{}}
	s.server = grpc.NewServer(append(options, grpc.UnaryInterceptor(s.intercept), grpc.WaitForHandlers(true))...)
	register(s.server)
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Close ends the server and its calls, and waits until they have returned. It is safe to call again.
func (s *Server) Close() error {
	s.ended.Do(func() {
		s.server.Stop()
		// A server that is closed before it has begun to serve says so.
		if err := <-s.served; !errors.Is(err, grpc.ErrServerStopped) {
			s.err = err
		}
	})
	return s.err
}

// Inject makes hook decide the faults of the calls that follow; nil ends that.
func (s *Server) Inject(hook Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Calls answers how often each method has been called since Start, faulty calls included.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// ClientOptions make a Google Cloud client use this server, without credentials.
func (s *Server) ClientOptions() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(s.Addr), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any,
	error) {
	fault := s.count(path.Base(info.FullMethod), request)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fault.Before != nil {
		return nil, fault.Before
	}
	answer, err := handle(ctx, request)
	if err == nil && fault.After != nil {
		return nil, fault.After
	}
	return answer, err
}

// count counts a call and answers its fault. The hook runs without the lock, since it may wait.
func (s *Server) count(method string, request any) Fault {
	s.mu.Lock()
	s.calls[method]++
	hook := s.hook
	s.mu.Unlock()
	if hook == nil {
		return Fault{}
	}
	return hook(method, s.name(request))
}
