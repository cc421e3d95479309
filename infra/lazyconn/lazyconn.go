// Package lazyconn opens the connection of a Google Cloud client at its first call. Google's constructors read
// credentials and connect. A process that starts should not pay that for clients that its first request does not use.
// Package lazyconn does not know any service.
package lazyconn

import (
	"context"
	"sync"

	"google.golang.org/api/option"
	gtransport "google.golang.org/api/transport/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Client is a generated client, as far as this package uses it.
type Client interface {
	Connection() *grpc.ClientConn
	Close() error
}

// Open returns a client that makes its calls through a second one, which create makes at the first call. The options of
// that one are options. If it cannot be made, the call fails with codes.Unavailable, and the next call tries again.
//
// base bounds nothing: credentials keep it for as long as the client is used.
func Open[C Client](base context.Context, create func(context.Context, ...option.ClientOption) (C, error),
	options ...option.ClientOption,
) (C, error) {
	base = context.WithoutCancel(base)
	pool := &pool{open: func() (Client, error) { return create(base, options...) }}
	return create(base, append(options[:len(options):len(options)], gtransport.WithConnPool(pool))...)
}

// pool implements gtransport.ConnPool.
type pool struct {
	open func() (Client, error)

	mu     sync.Mutex
	client Client // nil before the first call
	closed bool
}

func (p *pool) connect() (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, status.Error(codes.Canceled, "the client is closed")
	}
	if p.client == nil {
		client, err := p.open()
		if err != nil {
			return nil, status.Errorf(codes.Unavailable, "open the connection: %v", err)
		}
		p.client = client
	}
	return p.client.Connection(), nil
}

// Invoke implements grpc.ClientConnInterface.
func (p *pool) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := p.connect()
	if err != nil {
		return err
	}
	return conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (p *pool) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (
	grpc.ClientStream, error,
) {
	conn, err := p.connect()
	if err != nil {
		return nil, err
	}
	return conn.NewStream(ctx, desc, method, opts...)
}

// Conn implements gtransport.ConnPool. It returns nil if the connection cannot be opened.
func (p *pool) Conn() *grpc.ClientConn {
	conn, _ := p.connect()
	return conn
}

// Num implements gtransport.ConnPool.
func (*pool) Num() int { return 1 }

// Close implements gtransport.ConnPool. It closes what was opened.
func (p *pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.client == nil {
		return nil
	}
	return p.client.Close()
}
