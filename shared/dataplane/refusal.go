package dataplane

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Cookies of the sessions that links start. The front sets them.
const (
	// SecureCookie is the one over HTTPS. Its prefix keeps pages of other hosts from setting it.
	SecureCookie = "__Host-agent_session"
	// PlainCookie is the one over HTTP, which exists on a developer's machine only. Browsers accept the prefix __Host-
	// over HTTPS only.
	PlainCookie = "agent_session"
)

// IsAPIPath reports whether a path belongs to the agent's API.
func IsAPIPath(p string) bool { return p == "/v1" || strings.HasPrefix(p, "/v1/") }

// Challenge sets the headers of the answer to a request without an accepted credential, and returns what it says.
func Challenge(h http.Header, api bool) (message string) {
	h.Set("Cache-Control", "no-store")
	if api {
		h.Set("WWW-Authenticate", `Bearer realm="agent"`)
		return "The agent's API needs its key: Authorization: Bearer <key>."
	}
	h.Set("WWW-Authenticate", `Basic realm="agent", charset="UTF-8"`)
	return "The agent needs its user name and password, or a link from the control plane."
}

// Refuse answers with an error. Callers of the API get the body that clients of OpenAI's API understand.
func Refuse(w http.ResponseWriter, api bool, status int, message string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !api {
		http.Error(w, message, status)
		return
	}
	body, _ := json.Marshal(map[string]any{"error": map[string]any{
		"message": message, "type": errorType(status), "param": nil, "code": nil,
	}}) // strings always encode
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// errorType returns OpenAI's name for a kind of error.
func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	default:
		return "invalid_request_error"
	}
}
