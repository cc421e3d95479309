package containers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
)

// awakeTime is how long an agent stays awake after the record was last told that a call runs in its container, and
// awakeRenewal is how long before its end that is told again.
const (
	awakeTime    = 15 * time.Minute
	awakeRenewal = 10 * time.Minute
)

// keepAwake keeps an agent from falling asleep until ctx ends: its front does not see what runs in its container.
func (s Service) keepAwake(ctx context.Context, a agent.Agent) error {
	if a.Sleep.AfterSeconds == 0 {
		return nil
	}
	a, err := s.stayAwake(ctx, a)
	if err != nil {
		return err
	}
	go func() {
		renewal := time.NewTicker(awakeTime - awakeRenewal)
		defer renewal.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-renewal.C:
				latest, err := s.stayAwake(ctx, a)
				if err != nil {
					slog.WarnContext(ctx, "an agent with an open terminal may fall asleep", "agent_id", a.ID,
						"error", err)
					continue
				}
				a = latest
			}
		}
	}()
	return nil
}

// stayAwake writes the record only if the agent would be allowed to fall asleep soon. It returns the record.
func (s Service) stayAwake(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	var err error
	for !a.AwakeUntil.After(time.Now().Add(awakeRenewal)) {
		a, err = s.Records.Update(ctx, a, func(a *agent.Agent) { a.StayAwake(time.Now().UTC().Add(awakeTime)) })
		if !errors.Is(err, agent.ErrSuperseded) {
			return a, err
		}
	}
	return a, nil
}
