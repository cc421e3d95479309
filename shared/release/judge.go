package release

import (
	"fmt"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
)

// verdict is what the release decides about an agent that it watches.
type verdict struct {
	// kind is what happens to the agent; "" leaves it as it is.
	kind kind
	// reason is why it goes back.
	reason string
}

type kind string

const (
	// goBack: the agent returns to its former version, because of the reason.
	goBack kind = "go back"
	// countUpdated, countReverted and countInterrupted: the update of the agent has ended, and the release counts it.
	countUpdated     kind = "updated"
	countReverted    kind = "reverted"
	countInterrupted kind = "interrupted"
	// letGo: the former release, which changes no more, still watches the agent.
	letGo kind = "let go"
)

const (
	// metricsPatience is how long after the soak the release waits for metrics of the soak.
	metricsPatience = 15 * time.Minute
	// allowedRestarts is how often a container may start again during the soak in addition to what it did before.
	allowedRestarts = 1
	// minErrors is how many failed requests say something about a version.
	minErrors = 10
	// allowedErrors is the share of failed requests that an agent may have in addition to what it had before.
	allowedErrors = 0.05
)

// judge decides about an agent that the release watches. m is nil if its metrics were not read.
func (r Release) judge(a agent.Agent, m *metrics.Snapshot, now time.Time) verdict {
	s := a.Software(r.Image)
	if s == nil || s.Update.Release != r.ID {
		return verdict{kind: countInterrupted}
	}
	switch u := s.Update; u.State {
	case agent.UpdateReverted:
		if a.Converged() {
			return verdict{kind: countReverted, reason: u.Reason}
		}
	case agent.UpdateInterrupted:
		return verdict{kind: countInterrupted}
	case agent.UpdateDone:
		return verdict{kind: countUpdated}
	case agent.UpdateSoaking:
		return r.judgeSoak(a, u, m, now)
	case agent.UpdateMoving:
	}
	return verdict{}
}

func (r Release) judgeSoak(a agent.Agent, u agent.Update, m *metrics.Snapshot, now time.Time) verdict {
	ends := u.ReadyAt.Add(r.Soak)
	ran := now.Sub(u.ReadyAt) // longer than the soak, after a pause of the release
	if n := restartsOf(a, u); n > allowedRestarts+pastRestarts(u, max(r.Soak, ran)) {
		return verdict{goBack, fmt.Sprintf("its container was started again %d times within %s", n, ran)}
	}
	switch {
	case a.Status != agent.Running || !a.Converged() || now.Before(ends):
		return verdict{}
	case m != nil && !m.CollectedAt.IsZero() && m.CollectedAt.Before(ends) && now.Before(ends.Add(metricsPatience)):
		return verdict{}
	}
	if m != nil {
		if why := failsMore(*m, u, now); why != "" {
			return verdict{goBack, why}
		}
	}
	return verdict{kind: countUpdated}
}

// restartsOf is how often the container was started again since the agent was ready.
func restartsOf(a agent.Agent, u agent.Update) int64 { return a.PodRestarts.Total - u.Restarts }

// pastRestarts is how often the container was started again in a time, on the average of the day before the move.
func pastRestarts(u agent.Update, in time.Duration) int64 {
	return int64(float64(u.PastRestarts) * in.Hours() / metrics.Day.Hours())
}

// recordPast records how an agent served in the day before its move. Its metrics forget that day during a long soak.
func recordPast(u *agent.Update, m metrics.Snapshot) {
	from := u.MovedAt.Add(-metrics.Day)
	u.PastRestarts = int64(m.RestartsBetween(from, u.MovedAt))
	if requests, failed := m.Served(from, u.MovedAt); requests > 0 {
		u.PastErrors = failed / requests
	}
}

// failsMore compares the requests since the agent was ready that failed with those of the day before the move; "" if
// they are not more. Of a soak that ended a day ago, before a pause of the release, the metrics know nothing any more.
func failsMore(m metrics.Snapshot, u agent.Update, until time.Time) string {
	requests, failed := m.Served(u.ReadyAt, until)
	if failed < minErrors || requests == 0 {
		return ""
	}
	share := failed / requests
	if share <= u.PastErrors+allowedErrors {
		return ""
	}
	return fmt.Sprintf("%.0f %% of %.0f requests failed, before %.0f %%", 100*share, requests, 100*u.PastErrors)
}
