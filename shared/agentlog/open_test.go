package agentlog_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/agentlog/agentlogtest"
)

// politePods end a log without an error when the request ends, as an API server may that notices it first.
type politePods struct{ agentlog.Pods }

func (politePods) Read(ctx context.Context, _ agent.Agent, _ agentlog.Part) (io.ReadCloser, error) {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.Close() })
	return r, nil
}

func TestStream_DoesNotTakeTheEndOfItsRequestForThatOfTheLog(t *testing.T) {
	t.Parallel()
	const id = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	cell := agentlogtest.NewCell()
	cell.Start(id)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := agentlog.Open(ctx, politePods{cell}, agent.Agent{ID: id}, agentlog.Options{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	cancel()
	if _, err := s.Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Next after the context ended: %v, want an error", err)
	}
}
