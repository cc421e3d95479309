package cloud_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// entry is what the story reads of an audit entry.
type entry struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Actor  struct {
		Type string `json:"type"`
		Role string `json:"role"`
	} `json:"actor"`
	Outcome   string `json:"outcome"`
	RequestID string `json:"request_id"`
	Changes   []struct {
		Field string  `json:"field"`
		Old   *string `json:"old"`
		New   *string `json:"new"`
	} `json:"changes"`
}

const auditLog = "/api/v1/organizations/current/audit-log"

// entries reads the audit entries of one target, oldest first.
func (w world) entries(t *testing.T, target string) []entry {
	t.Helper()
	a := w.must(t, http.StatusOK, http.MethodGet, auditLog+"?limit=100&target_id="+target, "")
	var found []entry
	if err := json.Unmarshal([]byte(a.text), &found); err != nil {
		t.Fatal(err)
	}
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	return found
}

// audited finds an entry for each call that may change something, refused ones too, with what it changed and no secret.
func audited(t *testing.T, w world) {
	const canary = "canary-audited"
	began := time.Now().Add(-time.Second)
	id := w.create(t, `{"name": "audited", "resource_plan": "hobby", "env_vars": {"A_TOKEN": "`+canary+`"}}`)
	path := "/api/v1/agents/" + id
	w.awaitStatus(t, id, "running")
	w.must(t, http.StatusOK, http.MethodPatch, path, `{"name": "renamed", "env_vars": {"PLAIN": "`+canary+`"}}`)
	w.must(t, http.StatusUnprocessableEntity, http.MethodPatch, path, `{"env_vars": {"B_TOKEN": "`+canary+`"}}`)
	refused := w.call(t, w.Ready.MemberToken, http.MethodPost, path+"/stop", "")
	w.must(t, http.StatusOK, http.MethodPost, path+"/stop", "")
	w.must(t, http.StatusOK, http.MethodPost, path+"/stop", "") // changes nothing
	w.must(t, http.StatusConflict, http.MethodPost, path+"/restart", "")
	w.must(t, http.StatusAccepted, http.MethodDelete, path, "")

	var got []string
	found := w.entries(t, id)
	for _, e := range found {
		got = append(got, e.Action+" "+e.Outcome)
	}
	want := []string{
		"CreateAgent succeeded", "UpdateAgent succeeded", "UpdateAgent validation_error", "StopAgent role_required",
		"StopAgent succeeded", "StopAgent succeeded", "RestartAgent agent_state_conflict", "DeleteAgent succeeded",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("entries:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if e := found[3]; e.Actor.Type != "session" || e.Actor.Role != "member" ||
		e.RequestID != refused.header.Get("X-Request-Id") {
		t.Errorf("a refusal is %+v", e)
	}
	renamed := false
	for _, c := range found[1].Changes {
		renamed = renamed || c.Field == "name" && *c.Old == "audited" && *c.New == "renamed"
	}
	if !renamed || len(found[5].Changes) != 0 {
		t.Errorf("changes %+v and %+v", found[1].Changes, found[5].Changes)
	}
	exported(t, w, id, began, canary, found)
}

// exported reads the same entries as lines.
func exported(t *testing.T, w world, id string, began time.Time, canary string, want []entry) {
	t.Helper()
	query := url.Values{"target_id": {id}, "from": {began.UTC().Format(time.RFC3339)}}
	a := w.must(t, http.StatusOK, http.MethodGet, auditLog+"/export?"+query.Encode(), "")
	lines := strings.Split(strings.TrimSuffix(a.text, "\n"), "\n")
	if len(lines) != len(want) || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("exported %d lines as %s, want %d", len(lines), a.header.Get("Content-Type"), len(want))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) || strings.Contains(line, canary) {
			t.Errorf("a line is no JSON, or shows a value of the environment")
		}
	}
}
