//go:build unix

package linearizability_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/agent"
)

// faultPercent is how many commits of a lossy store fail or lose their answers.
const faultPercent = 10

// openLossyStore opens a store of agents whose calls of Firestore fail at random, and returns the function that puts it
// in the place of another.
func openLossyStore(t *testing.T, project string, nudger agent.Nudger) func(agent.Store) agent.Store {
	t.Helper()
	client, err := firestore.Open(t.Context(), firestore.Options{
		ProjectID: project, EmulatorHost: firestoreHost,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(loseCommits)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	store := client.Agents(nudger)
	return func(agent.Store) agent.Store { return store }
}

// loseCommits fails some commits before they happen, and loses the answers of others.
func loseCommits(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	faulty := strings.HasSuffix(method, "/Commit") && rand.IntN(100) < faultPercent
	fault := status.Error([]codes.Code{codes.Unavailable, codes.DeadlineExceeded}[rand.IntN(2)], "injected")
	if faulty && rand.IntN(2) == 0 {
		return fault
	}
	if err := invoke(ctx, method, request, reply, conn, options...); err != nil || !faulty {
		return err
	}
	return fault
}
