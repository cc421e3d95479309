package secretmanager_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/shared/fault"
)

// odd is a Secret Manager that answers what none should, and notes how long its callers wait.
type odd struct {
	secretmanagerpb.UnimplementedSecretManagerServiceServer
	sum *int64
}

func (o odd) AccessSecretVersion(_ context.Context,
	r *secretmanagerpb.AccessSecretVersionRequest,
) (*secretmanagerpb.AccessSecretVersionResponse, error) {
	return &secretmanagerpb.AccessSecretVersionResponse{
		Name: r.GetName(), Payload: &secretmanagerpb.SecretPayload{Data: []byte(canary), DataCrc32C: o.sum},
	}, nil
}

func (o odd) AddSecretVersion(_ context.Context,
	r *secretmanagerpb.AddSecretVersionRequest,
) (*secretmanagerpb.SecretVersion, error) {
	return &secretmanagerpb.SecretVersion{Name: r.GetParent() + "/versions/latest"}, nil
}

func serve(t *testing.T, o odd, intercept grpc.UnaryServerInterceptor) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(intercept), grpc.WaitForHandlers(true))
	secretmanagerpb.RegisterSecretManagerServiceServer(server, o)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func pass(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return handle(ctx, r)
}

func TestRead_RefusesDamagedValues(t *testing.T) {
	t.Parallel()
	for name, sum := range map[string]*int64{"wrong checksum": proto.Int64(7), "no checksum": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, err := open(t, serve(t, odd{sum: sum}, pass)).Read(t.Context(), uuid.NewString(), "TOKEN", 1)
			if fault.Code(err) != "secret_store_unavailable" || len(value) > 0 {
				t.Errorf("%d bytes, %v, want secret_store_unavailable", len(value), err)
			}
			mustNotLeak(t, "the error", fmt.Sprint(err))
		})
	}
}

func TestPut_RefusesAVersionNameWithoutANumber(t *testing.T) {
	t.Parallel()
	version, err := open(t, serve(t, odd{}, pass)).Put(t.Context(), uuid.NewString(), "TOKEN", []byte(canary))
	if !fault.Is(err, fault.Unavailable) || version != 0 {
		t.Errorf("version %d, %v, want an error", version, err)
	}
	mustNotLeak(t, "the error", fmt.Sprint(err))
}

func TestStore_EveryCallHasADeadline(t *testing.T) {
	t.Parallel()
	seen := make(chan time.Duration, 100)
	s := open(t, serve(t, odd{},
		func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			deadline, ok := ctx.Deadline()
			left := time.Until(deadline)
			if !ok {
				left = time.Hour
			}
			seen <- left
			return handle(ctx, r)
		}))
	// The caller's own deadline is far off, as a worker's is.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	agent := uuid.NewString()
	calls := 0
	for _, call := range []func() error{
		func() error { _, _, err := s.EnsureCredentials(ctx, agent, "admin"); return err },
		func() error { _, err := s.Put(ctx, agent, "TOKEN", []byte("value")); return err },
		func() error { _, err := s.Read(ctx, agent, "TOKEN", 1); return err },
		func() error { return s.Destroy(ctx, agent, nil) },
	} {
		if call() == nil {
			t.Error("the odd service was satisfactory")
		}
		calls++
	}
	for range calls {
		if left := <-seen; left > 10*time.Second {
			t.Errorf("a call may take %v, want 10 s at most", left)
		}
	}
}
