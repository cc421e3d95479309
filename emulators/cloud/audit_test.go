package cloud_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// auditEntry holds the fields of an audit entry that the tests check.
type auditEntry struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Actor  struct {
		Type string `json:"type"`
		Role string `json:"role"`
	} `json:"actor"`
	Outcome   string `json:"outcome"`
	Replayed  bool   `json:"replayed"`
	RequestID string `json:"request_id"`
	Changes   []struct {
		Field string  `json:"field"`
		Old   *string `json:"old"`
		New   *string `json:"new"`
	} `json:"changes"`
}

const auditLog = "/api/v1/organizations/current/audit-log"

// ofRepeats reports whether an entry is there because the test repeated a call: the database was not available, or its
// answer came too late, and the repeat got the answer of the first call.
func (e auditEntry) ofRepeats() bool { return e.Outcome == "store_unavailable" || e.Replayed }

// auditEntries reads the audit entries of one target, oldest first, without those of repeats.
func (d deployment) auditEntries(t *testing.T, target string) []auditEntry {
	t.Helper()
	a := d.must(t, http.StatusOK, http.MethodGet, auditLog+"?limit=100&target_id="+target, "")
	var found []auditEntry
	if err := json.Unmarshal([]byte(a.text), &found); err != nil {
		t.Fatal(err)
	}
	found = slices.DeleteFunc(found, auditEntry.ofRepeats)
	slices.Reverse(found)
	return found
}

// testAuditLog checks that every call that may change something has an entry, also a refused one, with the changes and
// no secret value.
func testAuditLog(t *testing.T, d deployment) {
	const canary = "canary-audited"
	began := time.Now().Add(-time.Second)
	id := d.create(t, `{"name": "audited", "resource_plan": "hobby", "env_vars": {"A_TOKEN": "`+canary+`"}}`)
	path := "/api/v1/agents/" + id
	d.awaitStatus(t, id, "running")
	d.must(t, http.StatusOK, http.MethodPatch, path, `{"name": "renamed", "env_vars": {"PLAIN": "`+canary+`"}}`)
	d.must(t, http.StatusUnprocessableEntity, http.MethodPatch, path, `{"env_vars": {"B_TOKEN": "`+canary+`"}}`)
	refused := d.call(t, d.Ready.MemberToken, http.MethodPost, path+"/stop", "")
	d.must(t, http.StatusOK, http.MethodPost, path+"/stop", "")
	d.must(t, http.StatusOK, http.MethodPost, path+"/stop", "") // changes nothing
	d.must(t, http.StatusConflict, http.MethodPost, path+"/restart", "")
	d.must(t, http.StatusAccepted, http.MethodDelete, path, "")

	var got []string
	found := d.auditEntries(t, id)
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
	e := found[3]
	checkEqual(t, "actor.type of a refused call", e.Actor.Type, "session")
	checkEqual(t, "actor.role of a refused call", e.Actor.Role, "member")
	checkEqual(t, "request_id of a refused call", e.RequestID, refused.header.Get("X-Request-Id"))
	renamed := false
	for _, c := range found[1].Changes {
		renamed = renamed || c.Field == "name" && *c.Old == "audited" && *c.New == "renamed"
	}
	if !renamed {
		t.Errorf("changes of an update = %+v, want the name from audited to renamed", found[1].Changes)
	}
	checkEqual(t, "number of changes of a call without effect", len(found[5].Changes), 0)
	checkAuditExport(t, d, id, began, canary, found)
}

// checkAuditExport reads the same entries from the export, one on each line.
func checkAuditExport(t *testing.T, d deployment, id string, began time.Time, canary string, want []auditEntry) {
	t.Helper()
	query := url.Values{"target_id": {id}, "from": {began.UTC().Format(time.RFC3339)}}
	a := d.must(t, http.StatusOK, http.MethodGet, auditLog+"/export?"+query.Encode(), "")
	lines := strings.Split(strings.TrimSuffix(a.text, "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		var e auditEntry
		return json.Unmarshal([]byte(line), &e) == nil && e.ofRepeats()
	})
	checkEqual(t, "number of exported lines", len(lines), len(want))
	checkEqual(t, "Content-Type of the export", a.header.Get("Content-Type"), "application/x-ndjson")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("exported line is not JSON: %s", line)
		}
		if strings.Contains(line, canary) {
			t.Error("an exported line shows a value of the environment")
		}
	}
}
