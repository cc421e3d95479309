package gate

import (
	"fmt"
	"net/http"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/egress"
)

// HeaderReason is in the gate's own answers to requests. A host's answer may have it, too.
const HeaderReason = "X-Egress-Reason"

// answer writes an answer of the gate itself. reason may be empty.
func answer(w http.ResponseWriter, status int, reason egress.Reason, message string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if reason != "" {
		h.Set(HeaderReason, string(reason))
	}
	switch status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		h.Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	}
	dataplane.Refuse(w, true, status, message)
}

// refuse counts and answers a request that is not forwarded.
func (g *Gate) refuse(w http.ResponseWriter, a Agent, host string, why egress.Reason) {
	g.refused(a, host, why)
	status, message := http.StatusForbidden, ""
	switch why {
	case egress.NotListed:
		message = fmt.Sprintf("%s is not on this agent's egress list. An admin can allow it: "+
			"agentctl egress allow %s %s", host, a.ID, host)
	case egress.Denied:
		message = host + " is denied by this agent's egress rules."
	case egress.NotPublic:
		message = host + " stands for an address that is not one of the internet."
	case egress.NoName:
		message = "The request names no host. Only names, and no addresses, can be reached."
	case egress.OtherHost:
		status = http.StatusMisdirectedRequest
		message = "The request is for another host than its connection."
	case egress.Unsupported:
		message = "Only the ports 80 and 443 of a host can be reached."
	case egress.TooMany:
		status, message = http.StatusServiceUnavailable, "Too many concurrent requests. Retry."
	case egress.Unavailable:
		status = http.StatusBadGateway
		message = "The secret for " + host + " is temporarily unavailable. Retry."
	case egress.Unreachable:
		status, message = http.StatusBadGateway, host+" could not be reached."
	}
	answer(w, status, why, message)
}

// refuseMethod counts and answers a request with a method that the gate does not forward.
func (g *Gate) refuseMethod(w http.ResponseWriter, a Agent, host, method string) {
	g.refused(a, host, egress.Unsupported)
	answer(w, http.StatusMethodNotAllowed, egress.Unsupported, "The gate does not forward the method "+method+".")
}

// refuseTarget answers a request whose target is neither a path nor an address of the scheme.
func refuseTarget(w http.ResponseWriter) {
	answer(w, http.StatusBadRequest, egress.Unsupported, dataplane.TargetRefused)
}

// refuseStranger answers a request from an address that no agent has, or whose agent changed.
func (g *Gate) refuseStranger(w http.ResponseWriter) {
	g.metrics.unknown.Inc()
	w.Header().Set("Connection", "close")
	answer(w, http.StatusServiceUnavailable, "", "The gate does not know this agent yet. Retry.")
}
