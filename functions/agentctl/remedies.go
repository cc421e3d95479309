package agentctl

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"agents.example/controlplane/shared/client"
)

// remedies returns what the user can do about an error of the API.
func (t *tool) remedies(e *client.Error) []string {
	switch e.Status {
	case http.StatusUnauthorized:
		if key, _ := t.app.Lookup("AGENTS_API_KEY"); key != "" && t.profile == "" {
			return []string{
				"The API refuses the key in AGENTS_API_KEY. It may be mistyped, revoked, expired, or of another API.",
				"Set another key, or unset the variable and run: agentctl login",
			}
		}
		return []string{"Run: agentctl login"}
	case http.StatusPaymentRequired:
		return moneyRemedies(e.Meta)
	case http.StatusForbidden:
		return forbiddenRemedies(e.Code)
	case http.StatusConflict:
		return conflictRemedies(e)
	case http.StatusPreconditionFailed:
		return []string{"Read the object again, and repeat the command with its new version."}
	case http.StatusTooManyRequests:
		return []string{waitText(e.RetryAfter)}
	case http.StatusUnprocessableEntity:
		if e.Code == "idempotency_key_reused" {
			return []string{"Use a new --idempotency-key for another request."}
		}
	}
	if e.Status >= http.StatusInternalServerError {
		return []string{waitText(e.RetryAfter) + " Give support the request id if this persists."}
	}
	return nil
}

func waitText(after time.Duration) string {
	if after <= 0 {
		return "Try again in a minute."
	}
	return fmt.Sprintf("Try again in %s.", after.Round(time.Second))
}

// moneyRemedies explains a 402 from the limits that it mentions.
func moneyRemedies(meta map[string]any) []string {
	if size, ok := meta["resource_plan"].(string); ok && size != "" {
		return []string{
			"Choose a size that the image takes, such as: --plan " + size,
			"The organization's plan must allow that size: agentctl billing plans",
		}
	}
	var next []string
	if limit, ok := meta["limit"].(string); ok {
		next = append(next, fmt.Sprintf("The plan %v allows %s of %s, and %s are in use.",
			meta["plan"], amount(limit, meta["max"]), strings.ReplaceAll(limit, "_", " "),
			amount(limit, meta["current"])))
	}
	if plan, ok := meta["upgrade_to"].(string); ok && plan != "" {
		next = append(next, "Change to a larger plan: agentctl billing checkout "+plan)
	} else if len(next) == 0 {
		next = append(next, "See the subscription: agentctl billing subscription")
	}
	if limit, _ := meta["limit"].(string); limit != "" && limit != "resource_plan" {
		next = append(next, "Or free capacity: agentctl agents stop AGENT, agentctl agents delete AGENT")
	}
	return next
}

// amount shows a figure of a limit.
func amount(limit string, value any) string {
	if n, ok := value.(float64); ok && strings.HasSuffix(limit, "_bytes") {
		return bytesText(n)
	}
	return fmt.Sprint(value)
}

func forbiddenRemedies(code string) []string {
	switch code {
	case "role_required":
		return []string{"Ask an admin of the organization, or use an API key with the role admin."}
	case "organization_required":
		return []string{"The session has no active organization. Run: agentctl login"}
	case "plan_feature_required":
		return []string{"Compare the plans: agentctl billing plans"}
	}
	return nil
}

func conflictRemedies(e *client.Error) []string {
	var next []string
	if e.Code == "egress_open" {
		next = append(next, "Restrict it first: agentctl egress set AGENT --mode allow_list --allow HOSTS")
	}
	if actions, ok := e.Meta["allowed_actions"].([]any); ok {
		names := make([]string, len(actions))
		for i, action := range actions {
			names[i] = fmt.Sprint(action)
		}
		if len(names) > 0 {
			next = append(next, "Possible now: "+strings.Join(names, ", ")+".")
		}
	}
	if e.RetryAfter > 0 {
		next = append(next, waitText(e.RetryAfter))
	}
	return next
}
