//go:build unix

package consoletest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/shared/plan"
)

// User is a user of an organization that no other test uses. Methods fail the test.
type User struct {
	// Organization and Role are those of the session, and Token is its session token.
	Organization, Role, Token string

	t     *testing.T
	suite *Suite
}

// Admin creates an organization on a plan and returns its admin.
func (s *Suite) Admin(t *testing.T, on plan.ID) *User {
	t.Helper()
	id := "org_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	token, _, err := s.Cloud(t).AddOrganization(t.Context(), id, on)
	if err != nil {
		t.Fatal(err)
	}
	return &User{Organization: id, Role: "admin", Token: token, t: t, suite: s}
}

// Colleague returns another user of the organization with a role, such as "member".
func (u *User) Colleague(role string) *User {
	u.t.Helper()
	return u.signIn(issuer.Session{
		Subject: "user_" + role + "_of_" + u.Organization, Organization: u.Organization, Role: role,
	})
}

// Expired returns the same user with a session that has ended.
func (u *User) Expired() *User {
	u.t.Helper()
	ended := time.Now().Add(-time.Minute).Unix()
	return u.signIn(issuer.Session{
		Subject: "user_of_" + u.Organization, Organization: u.Organization, Role: u.Role,
		Claims: map[string]any{"exp": ended},
	})
}

func (u *User) signIn(session issuer.Session) *User {
	u.t.Helper()
	token, err := u.suite.Cloud(u.t).Issuer.Session(session)
	if err != nil {
		u.t.Fatal(err)
	}
	return &User{Organization: u.Organization, Role: session.Role, Token: token, t: u.t, suite: u.suite}
}

// Page returns a page on which the user is signed in: see Page.SignIn.
func (u *User) Page(t *testing.T) *Page {
	t.Helper()
	p := u.suite.Guest(t)
	p.SignIn(u.Token)
	return p
}

// Open returns a page on which the user is signed in, at a path.
func (u *User) Open(t *testing.T, path string) *Page {
	t.Helper()
	p := u.Page(t)
	p.Open(path)
	return p
}

// callTimeout bounds a call of the API.
const callTimeout = time.Minute

// Object is a JSON object.
type Object map[string]any

// Call calls the API as the user. It ends the test unless the response has the wanted status. The object is empty for a
// list and for an empty response; list responses are in its field "list".
func (u *User) Call(method, path, body string, want int) Object {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.suite.Cloud(u.t).Ready.BaseURL+path,
		strings.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+u.Token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		u.t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	b, err := io.ReadAll(res.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	if res.StatusCode != want {
		u.t.Fatalf("%s %s: status %d, want %d: %s", method, path, res.StatusCode, want, b)
	}
	var list []any
	if json.Unmarshal(b, &list) == nil {
		return Object{"list": list}
	}
	object := Object{}
	_ = json.Unmarshal(b, &object) // stays empty for an empty response
	return object
}

// CreateAgent creates an agent on the smallest plan with environment variables, which may be nil, and returns its id.
func (u *User) CreateAgent(name string, variables map[string]string) string {
	u.t.Helper()
	fields := map[string]any{"name": name, "resource_plan": plan.Hobby}
	if variables != nil {
		fields["env_vars"] = variables
	}
	request, err := json.Marshal(fields)
	if err != nil {
		u.t.Fatal(err)
	}
	id, _ := u.Call(http.MethodPost, "/api/v1/agents", string(request), http.StatusCreated)["id"].(string)
	return id
}

// AwaitAgent waits until an agent has a status, and returns it.
func (u *User) AwaitAgent(id, status string) Object {
	u.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		agent := u.Call(http.MethodGet, "/api/v1/agents/"+id, "", http.StatusOK)
		if agent["status"] == status {
			return agent
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("timed out after %s waiting for agent %s to be %s: %v", patience, id, status, agent)
		}
		<-tick.C
	}
}

// RunningAgent creates an agent and waits until it runs.
func (u *User) RunningAgent(name string) string {
	u.t.Helper()
	id := u.CreateAgent(name, nil)
	u.AwaitAgent(id, "running")
	return id
}

// settled is how long after Break every pod suffers the fault.
const settled = 2 * time.Second

// UnreadyAgent creates an agent with environment variables, which may be nil, that stays in provisioning: its pod does
// not become ready. Suite.Break with an empty fault repairs it. A fault needs the id of the agent, so on a busy machine
// the pod may be ready first; then another agent is created.
func (u *User) UnreadyAgent(name string, variables map[string]string) string {
	u.t.Helper()
	for range 5 {
		id := u.CreateAgent(name, variables)
		u.suite.Break(u.t, id, cluster.NotReady)
		if u.staysUnready(id, time.Now().Add(settled)) {
			return id
		}
		u.Call(http.MethodDelete, "/api/v1/agents/"+id, "", http.StatusAccepted)
	}
	u.t.Fatalf("the pods of agent %q are ready before they can be made to fail", name)
	return ""
}

// staysUnready waits until an agent is at its last stage, not before a time, and reports whether it is there.
func (u *User) staysUnready(id string, before time.Time) bool {
	u.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		agent := u.Call(http.MethodGet, "/api/v1/agents/"+id, "", http.StatusOK)
		if agent["status"] == "running" {
			return false
		}
		if LastStage(agent)["status"] == "running" && time.Now().After(before) {
			return true
		}
	}
	u.t.Fatalf("timed out after %s waiting for agent %s to be at its last stage", patience, id)
	return false
}

// LastStage returns the last provisioning stage of an agent, which ends when the agent runs.
func LastStage(agent Object) Object {
	config, _ := agent["config"].(map[string]any)
	stages, _ := config["provisioning_stages"].([]any)
	if len(stages) == 0 {
		return Object{}
	}
	last, _ := stages[len(stages)-1].(map[string]any)
	return last
}

// FailingAgent creates an agent whose pods suffer a fault, such as cluster.CrashLoop, and waits until it is in error.
// Suite.Break with an empty fault repairs it.
func (u *User) FailingAgent(name string, fault cluster.Fault) string {
	u.t.Helper()
	id := u.CreateAgent(name, nil)
	u.suite.Break(u.t, id, fault)
	u.AwaitAgent(id, "error")
	return id
}
