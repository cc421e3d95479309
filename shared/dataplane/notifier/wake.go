package notifier

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"
)

// errFull means that too many agents wait for a nudge.
var errFull = errors.New("too many agents wait for a nudge")

// Wake makes a nudge due that wakes an agent if it sleeps.
func (n *Notifier) Wake(_ context.Context, agentID string) error {
	if !n.nudge(agentID, true) {
		return errFull
	}
	return nil
}

// ServeWake is the handler of POST /wake/{id}. It answers 202 when the nudge is due, and reads no body.
func (n *Notifier) ServeWake(w http.ResponseWriter, req *http.Request) {
	id := req.PathValue("id")
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		http.Error(w, "the path must end with the id of an agent", http.StatusBadRequest)
		return
	}
	if err := n.Wake(req.Context(), id); err != nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// WakePath is the pattern of ServeWake.
const WakePath = "POST /wake/{id}"
