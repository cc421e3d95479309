package functions_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// TestTexts_CanBeShown sends texts in every field for texts of people: the names of agents and API keys, and the
// descriptions of webhooks.
func TestTexts_CanBeShown(t *testing.T) {
	t.Parallel()
	h := handlerWithoutStores(t)
	bad := map[string]string{
		"a line": `two\nlines`, "an escape sequence": `\u001b]0;title\u0007`, "NUL": `a\u0000b`, "DEL": `a\u007f`,
		"8-bit CSI": `\u009b31mred`, "an override": `gpj.\u202egpj.exe`, "only an override": `\u202e`,
		"an isolate": `a\u2066b`, "a line separator": `a\u2028b`, "half a surrogate pair": `a\ud800`,
		"nothing to see": `\u200b\u2060`, "a filler": `\u3164`, "a mark alone": `\u0301`,
		"a soft hyphen": `ad\u00admin`, "a joiner of no letters": `ad\u200dmin`,
		"a joiner of digits": `1\u200d2`, "a space without width": `admin\u200b`,
		"a byte order mark": `\ufeffadmin`, "tags": `admin\udb40\udc41`, "two joiners": `\u0645\u200c\u200cx`,
	}
	good := []string{
		`Support Assistant`, `Привет, мир`, `שלום\u200f!`, `می\u200cخواهم`, `\ud83d\udc69\u200d\ud83d\udc67 family`,
		`e\u0301te`, `a\u00a0b`, `\u1780\u200b\u1781`, `\u0915\u094d\u200d`,
		`\ud83c\udff4\udb40\udc67\udb40\udc62\udb40\udc73\udb40\udc63\udb40\udc74\udb40\udc7f Edinburgh`,
		`\ud83c\udff3\ufe0f\u200d\ud83c\udf08 \ud83d\udc68\ud83c\udffd\u200d\ud83d\udcbb`, `<b>\"quoted\"</b> & more`,
	}
	id := uuid.NewString()
	for place, body := range map[string]string{
		"POST /api/v1/agents name":                      `{"resource_plan": "hobby", "name": "%s"}`,
		"PATCH /api/v1/agents/" + id + " name":          `{"name": "%s"}`,
		"POST /api/v1/api-keys name":                    `{"name": "%s"}`,
		"POST /api/v1/webhooks description":             `{"url": "https://example.com/a", "description": "%s"}`,
		"PATCH /api/v1/webhooks/" + id + " description": `{"description": "%s"}`,
	} {
		parts := strings.Fields(place)
		for what, text := range bad {
			res := send(t, h, parts[0], parts[1], fmt.Sprintf(body, text))
			if res.Status != http.StatusUnprocessableEntity || !strings.Contains(string(res.Body), `["body","`+parts[2]+`"]`) {
				t.Errorf("%s with %s: status %d %s, want 422", place, what, res.Status, res.Body)
			}
		}
		for _, text := range good { // there are no stores, so the handler of a valid request fails
			res := send(t, h, parts[0], parts[1], fmt.Sprintf(body, text))
			if res.Status == http.StatusUnprocessableEntity {
				t.Errorf("%s with %q: status %d %s, want it accepted", place, text, res.Status, res.Body)
			}
		}
	}
}

// TestTexts_OfFormerReleasesStay changes another field of an agent whose name would be refused today.
func TestTexts_OfFormerReleasesStay(t *testing.T) {
	t.Parallel()
	const name = "gpj.\u202egpj.exe"
	s := newSamples(t)
	s.UpdateAgent(t, s.agentID, func(a *agent.Agent) { a.Name = name })
	request := append(s.asAdmin("agent_id"), functiontest.RawBody(`{"config": {"team": "a"}}`))
	res := s.CallNamed(t, "UpdateAgent", request...).Want(t, http.StatusOK, "")
	if res.Text("name") != name {
		t.Errorf("name = %q, want %q", res.Text("name"), name)
	}
}

// TestTexts_OtherFieldsAreNoTextsOfPeople finds a field that someone adds for a text and that takes any characters.
func TestTexts_OtherFieldsAreNoTextsOfPeople(t *testing.T) {
	t.Parallel()
	exempt := map[string]string{
		"IntrospectHandoff token": "only compared", "CreateAgent region": "must be one of the regions",
		"CreateAgent image": "the catalog has it, or it is a reference", "UpdateAgent image": "as at a creation",
		"CreateAgent import_url": "a URL, which the rules for the URLs of webhooks check",
		"ExecInAgent stdin":      "the input of the tenant's own program",
		"CreateWebhook url":      "must be a URL", "UpdateWebhook url": "must be a URL",
	}
	found := map[string]bool{}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		s, err := function.Schema(r.Handle.Input)
		must(t, err)
		body := s.Properties["body"]
		if body == nil {
			continue
		}
		for name, field := range body.Properties {
			if takesAnyText(field) {
				found[r.Name+" "+name] = true
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(found)) {
		if exempt[place] == "" {
			t.Errorf("%s takes any text: use function.Text, or say here who checks it", place)
		}
	}
}

func takesAnyText(s *jsonschema.Schema) bool {
	isText := s.Type == "string" || slices.Contains(s.Types, "string")
	return isText && s.Enum == nil && s.Pattern == "" && s.Format == "" && s.Extra["x-text"] == nil
}
