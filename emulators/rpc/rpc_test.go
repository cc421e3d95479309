package rpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// start serves gRPC's health service as an example.
func start(t *testing.T) (*rpc.Server, grpc_health_v1.HealthClient) {
	t.Helper()
	service := health.NewServer()
	server, err := rpc.Start(t.Context(), "",
		func(r grpc.ServiceRegistrar) { grpc_health_v1.RegisterHealthServer(r, service) },
		func(request any) string { return "about " + request.(*grpc_health_v1.HealthCheckRequest).Service })
	if err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(connection.Close(), server.Close(), server.Close()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return server, grpc_health_v1.NewHealthClient(connection)
}

func TestInject_AppliesFaults(t *testing.T) {
	t.Parallel()
	lost := status.Error(codes.Unavailable, "lost")
	tests := map[string]struct {
		fault   rpc.Fault
		service string
		cancel  bool
		want    codes.Code
	}{
		"no fault": {want: codes.OK},
		"error before the call": {
			fault: rpc.Fault{Before: status.Error(codes.PermissionDenied, "no")},
			want:  codes.PermissionDenied,
		},
		"before takes precedence over after": {
			fault: rpc.Fault{Before: status.Error(codes.Aborted, "no"), After: lost},
			want:  codes.Aborted,
		},
		"response lost": {fault: rpc.Fault{After: lost}, want: codes.Unavailable},
		"after does not hide the call's error": {
			fault: rpc.Fault{After: lost}, service: "unknown",
			want: codes.NotFound,
		},
		"delayed":                          {fault: rpc.Fault{Delay: 10 * time.Millisecond}, want: codes.OK},
		"delayed until the caller cancels": {fault: rpc.Fault{Delay: time.Hour}, cancel: true, want: codes.Canceled},
		"error without a gRPC status":      {fault: rpc.Fault{Before: errors.New("plain")}, want: codes.Unknown},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := start(t)
			seen := make(chan [2]string, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			server.Inject(func(method, resource string) rpc.Fault {
				seen <- [2]string{method, resource}
				if test.cancel {
					cancel()
				}
				return test.fault
			})
			_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: test.service})
			if got := status.Code(err); got != test.want {
				t.Errorf("error = %v, want %v", err, test.want)
			}
			if got, want := <-seen, [2]string{"Check", "about " + test.service}; got != want {
				t.Errorf("hook received %q, want %q", got, want)
			}
			server.Inject(nil)
			if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
				t.Errorf("call without a hook: %v", err)
			}
			if diff := cmp.Diff(map[string]int{"Check": 2}, server.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClose_EndsWaitingCalls(t *testing.T) {
	t.Parallel()
	server, client := start(t)
	arrived := make(chan struct{})
	server.Inject(func(string, string) rpc.Fault {
		close(arrived)
		return rpc.Fault{Delay: time.Hour}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		ended <- err
	}()
	<-arrived
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("waiting call succeeded, want an error")
	}
}

func TestStart_FailsIfTheAddressIsInUse(t *testing.T) {
	t.Parallel()
	server, _ := start(t)
	if _, err := rpc.Start(t.Context(), server.Addr, func(grpc.ServiceRegistrar) {}, nil); err == nil {
		t.Error("Start on an address in use succeeded, want an error")
	}
}
