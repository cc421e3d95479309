package router

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/dataplane"
)

// refusal is an answer of the router itself.
type refusal struct {
	status int
	code   string
	detail string
	// retryAfter is the number of seconds after which a repetition may succeed; 0 for none.
	retryAfter int
}

// answer is one of the router's own answers.
type answer int

// The router's answers. 503 means that the agent did not get the request; 502 means that it may have.
const (
	unknownHost answer = iota
	agentNotReady
	agentStopped
	agentBusy
	routerBusy
	agentUnreachable
	brokenBody
	connectRefused
	targetRefused
	answerRefused
)

func (a answer) refusal() refusal {
	switch a {
	case unknownHost:
		return refusal{http.StatusNotFound, "not_found", "No agent has this hostname.", 0}
	case agentNotReady:
		return refusal{
			http.StatusServiceUnavailable, "agent_not_ready", "The agent is starting or is not running. Retry.", 5,
		}
	case agentStopped:
		return refusal{
			http.StatusServiceUnavailable, "agent_stopped",
			"The agent is paused or stopped. Its owner can start it again.", 0,
		}
	case agentBusy:
		return refusal{
			http.StatusServiceUnavailable, "agent_busy", "The agent has too many concurrent requests. Retry.", 1,
		}
	case routerBusy:
		return refusal{
			http.StatusServiceUnavailable, "router_busy", "The service has too many concurrent requests. Retry.", 1,
		}
	case brokenBody:
		return refusal{http.StatusBadRequest, "invalid_body", "The body of the request could not be read.", 0}
	case connectRefused:
		return refusal{http.StatusMethodNotAllowed, "method_not_allowed", "Agents are not proxies.", 0}
	case targetRefused:
		return refusal{http.StatusBadRequest, "invalid_target", dataplane.TargetRefused, 0}
	case answerRefused:
		return refusal{
			http.StatusBadGateway, "invalid_answer", "The header of the agent's answer is too large.", 0,
		}
	case agentUnreachable:
	}
	return refusal{
		http.StatusBadGateway, "agent_unreachable",
		"The agent closed the connection before it answered. It may have received the request.", 0,
	}
}

// refusal is the answer to a request for an agent that is not ready.
func (s State) refusal() answer {
	if s == Stopped {
		return agentStopped
	}
	return agentNotReady
}

// problem is the body of an error: the same as that of the control plane's API.
type problem struct {
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	RequestID string `json:"request_id"`
}

// page is the answer to a browser. It holds nothing from the request, and needs no script to reload itself.
const page = `<!doctype html><html lang="en"><head><meta charset="utf-8">%s` +
	`<meta name="viewport" content="width=device-width"><title>%s</title></head>` +
	`<body><h1>%s</h1><p>%s</p><p><small>Request %s</small></p></body></html>
`

// refuse writes an answer of the router: a page to a browser, JSON to other clients. It returns the request's id.
func refuse(w http.ResponseWriter, req *http.Request, a answer) string {
	id, why := uuid.NewString(), a.refusal()
	title := http.StatusText(why.status)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Request-Id", id)
	header.Add("Vary", "Accept")
	if why.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(why.retryAfter))
	}
	if why.status == http.StatusMethodNotAllowed {
		header.Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	}
	var body []byte
	if acceptsPage(req) {
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
		header.Set("Referrer-Policy", "no-referrer")
		reload := ""
		if why.retryAfter > 0 {
			reload = fmt.Sprintf(`<meta http-equiv="refresh" content="%d">`, why.retryAfter)
		}
		body = fmt.Appendf(nil, page, reload, title, title, why.detail, id)
	} else {
		header.Set("Content-Type", "application/json")
		body, _ = json.Marshal(problem{why.detail, why.code, why.status, title, id}) // strings always encode
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(why.status)
	_, _ = w.Write(body) // an error means that the client disconnected
	return id
}

// acceptsPage reports whether a browser opens a page. Its scripts, images and forms get JSON.
func acceptsPage(req *http.Request) bool {
	return (req.Method == http.MethodGet || req.Method == http.MethodHead) &&
		strings.Contains(req.Header.Get("Accept"), "text/html")
}
