package lazyconn_test

import (
	"context"
	"errors"
	"net"
	"testing"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/infra/lazyconn"
)

// topics is a service with every topic.
type topics struct {
	pubsubpb.UnimplementedPublisherServer
}

// GetTopic implements pubsubpb.PublisherServer.
func (topics) GetTopic(_ context.Context, r *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	return &pubsubpb.Topic{Name: r.Topic}, nil
}

// opener creates clients of a service, and counts those that connect.
type opener struct {
	failures, attempts int
}

func (o *opener) create(ctx context.Context, options ...option.ClientOption) (*apiv1.TopicAdminClient, error) {
	const withoutPool = 3 // the options of serve
	if len(options) == withoutPool {
		o.attempts++
		if o.attempts <= o.failures {
			return nil, errors.New("no credentials")
		}
		if err := ctx.Err(); err != nil { // credentials would keep a context that has ended
			return nil, err
		}
	}
	return apiv1.NewTopicAdminClient(ctx, options...)
}

// serve returns the options of a client of a new service.
func serve(t *testing.T) []option.ClientOption {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pubsubpb.RegisterPublisherServer(server, topics{})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return []option.ClientOption{
		option.WithEndpoint(l.Addr().String()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

func get(t *testing.T, c *apiv1.TopicAdminClient) error {
	t.Helper()
	c.CallOptions = &apiv1.TopicAdminCallOptions{} // no retries
	_, err := c.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: "projects/p/topics/t"})
	return err
}

// TestOpen_ConnectsAtTheFirstCall: opening and closing create no connection, calls share one, and an error is not kept.
func TestOpen_ConnectsAtTheFirstCall(t *testing.T) {
	t.Parallel()
	o := opener{failures: 1}
	ctx, cancel := context.WithCancel(t.Context())
	c, err := lazyconn.Open(ctx, o.create, serve(t)...)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // as at a shutdown, in which requests in flight may still need the client
	if o.attempts != 0 {
		t.Errorf("%d connections before the first call, want none", o.attempts)
	}
	if err := get(t, c); status.Code(err) != codes.Unavailable {
		t.Errorf("a call without a connection: %v, want code Unavailable", err)
	}
	for range 2 {
		if err := get(t, c); err != nil {
			t.Errorf("a call after a failure to connect: %v", err)
		}
	}
	if o.attempts != 2 {
		t.Errorf("%d attempts to connect, want 2", o.attempts)
	}
	conn := c.Connection() //nolint:staticcheck // there is one connection, not a pool
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := get(t, c); status.Code(err) != codes.Canceled {
		t.Errorf("a call of a closed client: %v, want code Canceled", err)
	}
	if err := conn.Close(); err == nil {
		t.Error("the connection was still open after the client was closed")
	}
}

func TestClose_ClosesWhatWasNeverOpened(t *testing.T) {
	t.Parallel()
	var o opener
	c, err := lazyconn.Open(t.Context(), o.create, serve(t)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil || o.attempts != 0 {
		t.Errorf("close = %v after %d connections, want success after none", err, o.attempts)
	}
	if err := get(t, c); status.Code(err) != codes.Canceled || o.attempts != 0 {
		t.Errorf("a call of a closed client: %v after %d connections, want code Canceled after none", err, o.attempts)
	}
}
