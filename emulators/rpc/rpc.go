// Package rpc serves a Google Cloud API over gRPC on this machine, counts its calls and injects faults.
//
// It does not implement any API: its users register their services.
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

// Fault is the fault of one call. The zero value is no fault.
type Fault struct {
	// Delay comes first. It ends early if the caller cancels.
	Delay time.Duration
	// Before is returned instead of making the call, which has no effect.
	Before error
	// After is returned instead of the call's successful response: the call takes effect, but its response is lost.
	After error
}

// Hook chooses the fault of a call. method is the short name, such as "AddSecretVersion"; resource is the resource that
// the request names. Hook is called concurrently and may block.
type Hook func(method, resource string) Fault

// Server is a running gRPC server. Its methods are safe for concurrent use.
type Server struct {
	// Addr is the host:port of the server.
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

// Start serves the services that register adds. An empty address means a free port of 127.0.0.1. resource returns the
// resource that a request names. ctx only bounds opening the listener. Faults and counts apply to unary calls only, not
// to streams.
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

// Close stops the server and its calls, and waits until they have returned. It may be called again.
func (s *Server) Close() error {
	s.ended.Do(func() {
		s.server.Stop()
		// Serve returns this error if the server is closed before it has begun to serve.
		if err := <-s.served; !errors.Is(err, grpc.ErrServerStopped) {
			s.err = err
		}
	})
	return s.err
}

// Inject makes hook choose the faults of all later calls; nil ends that.
func (s *Server) Inject(hook Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Calls returns the number of calls per method since Start, including calls with faults.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// ClientOptions configure a Google Cloud client to use this server, without credentials.
func (s *Server) ClientOptions() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(s.Addr), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any,
	error,
) {
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

// count counts a call and returns its fault. The hook runs without the lock, because it may block.
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
