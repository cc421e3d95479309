package front

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

const (
	dashboardTimeout = 5 * time.Second
	// dashboardAge is how long a result is valid: anyone may ask, and each look makes the container render a page.
	dashboardAge = 10 * time.Second
)

// dashboard remembers with which status the container answers a user of the dashboard.
type dashboard struct {
	looking sync.Mutex // held during a look
	looked  time.Time  // guarded by looking
	status  atomic.Int32
}

// serveDashboard answers with which status the container answers GET /. The control plane asks: a container that
// accepts connections may refuse every user, and readiness does not show it. Anyone may ask and gets the number only.
func (f *Front) serveDashboard(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(dataplane.HeaderPublic, "1")
	ready := !f.draining.Load() && f.health.check(req.Context()) == nil
	if status := f.dashboard.look(f, req, ready); status != 0 {
		w.Header().Set(dataplane.HeaderDashboardStatus, strconv.Itoa(status))
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "not ready", http.StatusServiceUnavailable)
}

// look returns the status for a user who signed in with the dashboard's password, at the client's address. Requests
// that come during a look do not wait for it, so that strangers do not use up what the front can serve. They get the
// former status, or 0.
func (d *dashboard) look(f *Front, req *http.Request, ready bool) int {
	if !ready {
		return 0
	}
	if d.looking.TryLock() {
		defer d.looking.Unlock()
		if now := f.options.Now(); d.looked.IsZero() || now.Sub(d.looked) >= dashboardAge || now.Before(d.looked) {
			// The result is for others, too, so the look goes on if this client leaves.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), dashboardTimeout)
			defer cancel()
			d.status.Store(int32(f.askDashboard(ctx, req))) //nolint:gosec // a status has three digits
			d.looked = now
		}
	}
	return int(d.status.Load())
}

func (f *Front) askDashboard(ctx context.Context, req *http.Request) int {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback(f.options.Port)+"/", nil)
	if err != nil {
		return http.StatusBadGateway
	}
	ask.Host = req.Host
	ask.Header.Set("User-Agent", "agent-front")
	ask.Header.Set("Accept", "text/html")
	setForwarded(ask.Header, req)
	setPerson(ask.Header, verdict{person: person{id: f.credentials.username}, way: wayBasic})
	if f.options.ForwardCredentials {
		ask.Header.Set("Authorization", f.credentials.header)
	}
	res, err := bounded{f.transport}.RoundTrip(ask)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case err != nil:
		return http.StatusBadGateway
	}
	_ = res.Body.Close() // unread
	return res.StatusCode
}
