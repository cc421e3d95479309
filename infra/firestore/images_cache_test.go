package firestore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
)

// slowCatalog holds or refuses the queries of a client.
type slowCatalog struct {
	queries atomic.Int64
	// hold delays queries until it is closed, if it is not nil.
	hold chan struct{}
	// begun gets a value for each query that begins.
	begun chan struct{}
	fail  atomic.Bool
	now   atomic.Int64
}

func (s *slowCatalog) open(t *testing.T) *Client {
	t.Helper()
	return open(t, "", Options{
		Now: func() time.Time { return time.Unix(s.now.Load(), 0) },
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
			opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			if !strings.HasSuffix(method, "/RunQuery") {
				return open(ctx, desc, cc, method, opts...)
			}
			s.queries.Add(1)
			s.begun <- struct{}{}
			if s.hold != nil {
				select {
				case <-s.hold:
				case <-ctx.Done():
					return nil, status.FromContextError(ctx.Err()).Err()
				}
			}
			if s.fail.Load() {
				return nil, status.Error(codes.PermissionDenied, "no")
			}
			return open(ctx, desc, cc, method, opts...)
		})},
	})
}

func (s *slowCatalog) want(t *testing.T, what string, queries int64) {
	t.Helper()
	if got := s.queries.Load(); got != queries {
		t.Errorf("%s: %d queries, want %d", what, got, queries)
	}
}

func TestImages_ConcurrentLookupsShareOneRead(t *testing.T) {
	t.Parallel()
	s := &slowCatalog{hold: make(chan struct{}), begun: make(chan struct{}, 100)}
	images := s.open(t).Images()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := images.Images(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	<-s.begun
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := images.Images(late); err == nil {
		t.Error("a lookup whose caller hung up waits for the read")
	}
	close(s.hold)
	all.Wait()
	s.want(t, "20 lookups", 1)
}

// TestImages_RemembersAFailureForASecond: during an outage of the catalog, not each lookup waits for it.
func TestImages_RemembersAFailureForASecond(t *testing.T) {
	t.Parallel()
	s := &slowCatalog{begun: make(chan struct{}, 100)}
	images := s.open(t).Images()
	s.fail.Store(true)
	for range 3 {
		_, err := images.Images(t.Context())
		if f := new(fault.Error); !errors.As(err, &f) {
			t.Errorf("lookup = %v, want a fault", err)
		}
	}
	s.want(t, "lookups that fail", 1)
	s.fail.Store(false)
	s.now.Add(1)
	if _, err := images.Images(t.Context()); err != nil {
		t.Errorf("a second later: %v", err)
	}
	s.want(t, "lookups after a second", 2)
	s.now.Add(int64(image.MaxAge.Seconds()))
	s.fail.Store(true)
	if _, err := images.Images(t.Context()); err == nil {
		t.Errorf("a lookup after %s gets what was known before, which may be older than that", image.MaxAge)
	}
}

// TestImages_ForgetsACallerThatHungUp: its error says nothing about the database.
func TestImages_ForgetsACallerThatHungUp(t *testing.T) {
	t.Parallel()
	s := &slowCatalog{hold: make(chan struct{}), begun: make(chan struct{}, 100)}
	images := s.open(t).Images()
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := images.Images(ctx)
		ended <- err
	}()
	<-s.begun
	hangUp()
	if err := <-ended; err == nil {
		t.Error("a lookup whose caller hung up succeeds")
	}
	close(s.hold)
	if _, err := images.Images(t.Context()); err != nil {
		t.Errorf("the next lookup: %v", err)
	}
}
