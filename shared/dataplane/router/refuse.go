package router

import (
	"cmp"
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
	// title is that of the page for a browser; empty for that of the status.
	title string
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
	agentWaking
	agentMoved
	wakesLimited
)

func (a answer) refusal() refusal {
	const unavailable = http.StatusServiceUnavailable
	return [...]refusal{
		unknownHost: {status: http.StatusNotFound, code: "not_found", detail: "No agent has this hostname."},
		agentNotReady: {
			status: unavailable, code: "agent_not_ready", retryAfter: 5,
			detail: "The agent is starting or is not running. Retry.",
		},
		agentStopped: {
			status: unavailable, code: "agent_stopped",
			detail: "The agent is paused or stopped. Its owner can start it again.",
		},
		agentBusy: {
			status: unavailable, code: "agent_busy", retryAfter: 1,
			detail: "The agent has too many concurrent requests. Retry.",
		},
		routerBusy: {
			status: unavailable, code: "router_busy", retryAfter: 1,
			detail: "The service has too many concurrent requests. Retry.",
		},
		agentUnreachable: {
			status: http.StatusBadGateway, code: "agent_unreachable",
			detail: "The agent closed the connection before it answered. It may have received the request.",
		},
		brokenBody: {
			status: http.StatusBadRequest, code: "invalid_body", detail: "The body of the request could not be read.",
		},
		connectRefused: {
			status: http.StatusMethodNotAllowed, code: "method_not_allowed", detail: "Agents are not proxies.",
		},
		targetRefused: {status: http.StatusBadRequest, code: "invalid_target", detail: dataplane.TargetRefused},
		answerRefused: {
			status: http.StatusBadGateway, code: "invalid_answer",
			detail: "The header of the agent's answer is too large.",
		},
		agentWaking: {
			status: unavailable, code: "agent_waking", retryAfter: 2, title: "The agent is waking up",
			detail: "The agent was idle and is starting. Retry.",
		},
		agentMoved: {
			status: unavailable, code: "agent_not_ready", retryAfter: 1,
			detail: "The agent was about to sleep and did not take the request. Retry.",
		},
		wakesLimited: {
			status: unavailable, code: "wakes_limited",
			detail: "The agent sleeps, and requests with refused credentials have woken it too often. Retry later.",
		},
	}[a]
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

// refuse writes an answer of the router. It returns the request's id.
func refuse(w http.ResponseWriter, req *http.Request, a answer) string {
	return a.refusal().write(w, req)
}

// write writes an answer: a page to a browser, JSON to other clients. It returns the request's id.
func (why refusal) write(w http.ResponseWriter, req *http.Request) string {
	id, title := uuid.NewString(), http.StatusText(why.status)
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
		reload, detail := "", why.detail
		if why.retryAfter > 0 {
			detail = strings.TrimSuffix(detail, " Retry.") + " This page loads again by itself."
			reload = fmt.Sprintf(`<meta http-equiv="refresh" content="%d">`, why.retryAfter)
		}
		title = cmp.Or(why.title, title)
		body = fmt.Appendf(nil, page, reload, title, title, detail, id)
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
