package pubsub

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/fault"
)

func TestNudge_TimesOutAfterFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker,
			_ ...grpc.CallOption,
		) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		conn, err := grpc.NewClient("passthrough:///never-dialed",
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(hang))
		if err != nil {
			t.Fatal(err)
		}
		client, err := apiv1.NewTopicAdminClient(t.Context(), option.WithGRPCConn(conn))
		if err != nil {
			t.Fatal(err)
		}
		p := newPublisher(client, Options{ProjectID: "p", Topic: "t"})
		began := time.Now()
		if err := p.Nudge(t.Context(), "a"); fault.Code(err) != "queue_unavailable" {
			t.Errorf("Nudge returned %v, want code queue_unavailable", err)
		}
		if took := time.Since(began); took != publishTimeout {
			t.Errorf("Nudge took %v, want %v", took, publishTimeout)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}
