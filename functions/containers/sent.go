package containers

import (
	"context"
	"io"
	"log/slog"

	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

// mayReceive refuses a call whose answer may be large, if the organization has just got as much as it may.
func (s Service) mayReceive(ctx context.Context) error {
	return s.Sent.Refusal(call.From(ctx).Caller.OrganizationID)
}

// countSent counts what is sent to the organization of a call. The only error is RateLimited: an outage ends no answer.
func (s Service) countSent(ctx context.Context, bytes int) error {
	organization := call.From(ctx).Caller.OrganizationID
	return s.Sent.Count(organization, int64(bytes), func() error {
		err := s.Exports.CountSent(ctx, organization, ratelimit.ExportUnit)
		if err != nil && !fault.Is(err, fault.RateLimited) {
			slog.WarnContext(ctx, "sent bytes could not be counted", "organization_id", organization, "error", err)
		}
		return err
	})
}

// sentWriter counts what is written to the answer of a call.
type sentWriter struct {
	ctx     context.Context //nolint:containedctx // of the request
	service Service
	to      io.Writer
}

// Write implements io.Writer.
func (w sentWriter) Write(p []byte) (int, error) {
	if err := w.service.countSent(w.ctx, len(p)); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// sentStream counts the outputs of a terminal.
type sentStream struct {
	agentexec.Stream

	service Service
}

// Read implements agentexec.Stream.
func (s sentStream) Read(ctx context.Context) (channel.Frame, error) {
	f, err := s.Stream.Read(ctx)
	if err == nil {
		err = s.service.countSent(ctx, len(f.Data))
	}
	return f, err
}
