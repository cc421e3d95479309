package podlogs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/fault"
)

// maxStatus is more than the size of an API server's error.
const maxStatus = 64 << 10

// reasonNotFound is what the API server says of what does not exist, also on behalf of a kubelet.
const reasonNotFound = "NotFound"

// explain turns the error of an API server into the vocabulary of package agentlog:
//
//	404 of the API server               NotRunning: the namespace, the pod or the log is gone
//	400, a container waits to start     NotRunning
//	400, no previous container          NoPrevious
//	all others                          Unavailable: operators may grant rights later, and nodes come back. A 404 of a
//	                                    proxy that does not reach the cluster is one, too.
//
// The texts of a kubelet stay out of errors: they may have parts of a tenant's log. Those of refusals do not.
func explain(res *http.Response, body io.Reader) error {
	var s struct {
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	_ = json.NewDecoder(io.LimitReader(body, maxStatus)).Decode(&s) // a proxy's error is no JSON
	switch {
	case res.StatusCode == http.StatusNotFound && s.Reason == reasonNotFound:
		return agentlog.NotRunning()
	case res.StatusCode == http.StatusBadRequest && strings.HasPrefix(s.Message, "previous terminated container"):
		return agentlog.NoPrevious()
	case res.StatusCode == http.StatusBadRequest && strings.HasPrefix(s.Message, "container "):
		return agentlog.NotRunning()
	}
	cause := fmt.Errorf("the API server answers %d %s", res.StatusCode, s.Reason)
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		cause = fmt.Errorf("%w: %s", cause, s.Message)
	}
	err := unavailable(cause)
	if seconds, bad := strconv.Atoi(res.Header.Get("Retry-After")); bad == nil && seconds > 0 {
		err.RetryAfter = time.Duration(seconds) * time.Second
	}
	return err
}

// unavailable is an error of the way to the API server, or of the server itself.
func unavailable(cause error) *fault.Error {
	return fault.New(fault.Unavailable, "cluster_unavailable",
		"The agent's cluster is temporarily unavailable. Retry.").WithCause(cause)
}
