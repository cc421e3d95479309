package firestore

import (
	"context"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/logevent"
)

// nudgeTimeout keeps a slow queue from holding up an answer: the sweep makes up for a lost nudge.
const nudgeTimeout = 5 * time.Second

// nudge asks for a worker. The change is committed, so neither a failure nor a client that went away may undo it or
// keep it waiting.
func (s *Agents) nudge(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nudgeTimeout)
	defer cancel()
	if err := s.nudger.Nudge(ctx, id); err != nil {
		slog.WarnContext(ctx, "nudge not published; the sweep will repeat it", logevent.Key, logevent.NudgeNotPublished,
			"agent_id", id, "error", err)
	}
}
