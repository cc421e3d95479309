package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agents.example/controlplane/shared/client"
)

// failure is what an assistant learns about a call that failed.
type failure struct {
	Code   string `json:"code"`
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail"`
	// Entries are all faults of invalid arguments.
	Entries []entry        `json:"entries,omitempty"`
	Meta    map[string]any `json:"meta,omitempty"`
	// RetryAfter is how long to wait before the call is repeated.
	RetryAfter int    `json:"retry_after_seconds,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
	Next       string `json:"next"`
}

// entry is one fault of the arguments.
type entry struct {
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
	Type string `json:"type"`
}

// Error implements error.
func (f *failure) Error() string { return f.Detail }

// invalid is the failure of an argument that cannot be sent to the API.
func invalid(argument, msg string) error {
	return &failure{
		Code: "invalid_arguments", Status: http.StatusUnprocessableEntity, Detail: "The arguments are invalid.",
		Entries: []entry{{Loc: []any{argument}, Msg: msg, Type: "value_error"}},
		Next:    "Correct the arguments that entries name, and call the tool again.",
	}
}

// known returns the failure that an error is, or that it follows from an answer of the API; nil for other errors.
func known(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	e := client.AsError(err)
	if e == nil {
		return nil
	}
	f = &failure{
		Code: e.Code, Status: e.Status, Detail: e.Detail, Meta: e.Meta, RequestID: e.RequestID, Next: next(e),
		RetryAfter: int(math.Ceil(e.RetryAfter.Seconds())),
	}
	if f.Code == "" {
		f.Code = strings.ToLower(strings.ReplaceAll(http.StatusText(e.Status), " ", "_"))
	}
	for _, v := range e.Violations {
		f.Entries = append(f.Entries, entry{v.Loc, v.Msg, v.Type})
	}
	return f
}

// next says what to do after an error of the API.
func next(e *client.Error) string {
	switch e.Status {
	case http.StatusPaymentRequired:
		return "This needs money or free capacity: meta names the limit. Say so to the user. Stopping or deleting " +
			"another agent frees capacity; only an admin can change the plan, in the console."
	case http.StatusForbidden:
		return "The token does not allow this. Say so to the user: a member may only read, and an admin can do it."
	case http.StatusNotFound:
		return "Check the id with list_agents or list_secret_operations. An agent of another organization is not found."
	case http.StatusConflict:
		return "The agent's present state does not allow this. Use one of meta.allowed_actions if it is there, or " +
			"wait with wait_for_agent."
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return "Correct what detail or the entries name, and call the tool again."
	case http.StatusTooManyRequests:
		return "Wait retry_after_seconds, then repeat the call."
	}
	if e.Status >= http.StatusInternalServerError {
		return "Wait retry_after_seconds or a few seconds. Before you repeat a change, check with get_agent " +
			"whether it took effect."
	}
	return "Read detail. Do not repeat the same call."
}

// unanswered returns the failure of a call whose answer is not there. The cause may have details of the network.
func unanswered(err error) *failure {
	f := &failure{
		Code: "api_unavailable", Detail: "The API could not be reached.",
		Next: "Check with get_agent whether a change took effect, then repeat the call.",
	}
	if errors.Is(err, context.DeadlineExceeded) {
		f.Code, f.Detail = "timeout", "The API did not answer in time."
	}
	return f
}

// failed is the result of a tool that failed. Both texts say the same, one for people and one for programs.
func failed(t tool, err error) *mcp.CallToolResult {
	f := known(err)
	if f == nil {
		f = unanswered(err)
	}
	if t.unrehearsed && (f.Status == 0 || f.Status >= http.StatusInternalServerError) {
		f.Next = "It is not known whether the program ran, and it may still run: no other tool shows that. Say so to " +
			"the user, and ask before you call the tool again."
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", f.Code, f.Detail)
	for _, e := range f.Entries {
		parts := make([]string, len(e.Loc))
		for i, l := range e.Loc {
			parts[i] = fmt.Sprint(l)
		}
		fmt.Fprintf(&text, "\n- %s: %s", strings.Join(parts, "."), e.Msg)
	}
	fmt.Fprintf(&text, "\nNext: %s", f.Next)
	encoded, err := json.Marshal(f)
	if err != nil {
		encoded = nil
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{
		&mcp.TextContent{Text: text.String()}, &mcp.TextContent{Text: string(encoded)},
	}}
}
