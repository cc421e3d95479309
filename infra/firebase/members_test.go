package firebase

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"firebase.google.com/go/v4/auth"
	"github.com/google/uuid"

	"agents.example/controlplane/emulators/firebaseemu"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
)

// fixture is a Firebase project with a database, and the member service that uses both.
type fixture struct {
	t       *testing.T
	project string
	members *Members
	store   *firestore.Client
	service *member.Service
	admin   context.Context
}

const org = "org_1"

func newFixture(t *testing.T) fixture {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
	project := "demo-" + uuid.NewString()
	m, err := Open(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	c, err := firestore.Open(t.Context(), firestore.Options{ProjectID: project, EmulatorHost: records})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	f := fixture{
		t: t, project: project, members: m, store: c,
		service: &member.Service{Provider: m, Records: c.Members(), Audit: c.AuditLog()},
	}
	f.admin = call.As(t.Context(),
		identity.Caller{Type: identity.Session, ID: "caller", OrganizationID: org, Role: identity.RoleAdmin})
	f.admin = call.WithRequest(f.admin, audit.Request{Action: "SetMember", RequestID: "request_1"})
	return f
}

// call returns the context of a call of the admin.
func (f fixture) call() context.Context {
	return call.Derive(f.admin, func(c *call.Call) { c.Entry = audit.NewCallEntry() })
}

// createUser creates a user with claims. A user with an organization has already signed in to it.
func (f fixture) createUser(id, organizationID, role string) {
	f.t.Helper()
	ctx := f.t.Context()
	params := (&auth.UserToCreate{}).UID(id).Email(id + "@example.com").DisplayName("The " + id).Password("password-" +
		id)
	if _, err := f.members.users.CreateUser(ctx, params); err != nil {
		f.t.Fatal(err)
	}
	claims := map[string]any{"theirs": "stays"}
	if organizationID != "" {
		claims["o"] = map[string]any{"id": organizationID, "rol": role}
	}
	if err := f.members.users.SetCustomUserClaims(ctx, id, claims); err != nil {
		f.t.Fatal(err)
	}
	if organizationID != "" {
		if _, err := f.store.Directory().Ensure(ctx, organizationID,
			organization.User{ID: uuid.NewString(), Subject: id}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// listRoles returns the members as "id role".
func (f fixture) listRoles() string {
	f.t.Helper()
	people, err := f.service.List(f.admin)
	if err != nil {
		f.t.Fatal(err)
	}
	members := make([]string, len(people))
	for i, p := range people {
		members[i] = p.ID + " " + string(p.Role)
		if p.Email != p.ID+"@example.com" || p.Name != "The "+p.ID {
			f.t.Errorf("member %s has e-mail %q and name %q", p.ID, p.Email, p.Name)
		}
	}
	return strings.Join(members, ", ")
}

func TestMembers_SetAndRemove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.createUser("ada", org, "org:admin")
	f.createUser("bob", org, "member")
	f.createUser("eve", "org_2", "admin")
	f.createUser("new", "", "")
	if got := f.listRoles(); got != "ada admin, bob member" {
		t.Fatalf("members = %s, want ada admin, bob member", got)
	}
	for _, step := range []struct {
		id          string
		role        identity.Role // empty removes
		wantCode    string
		wantMembers string
	}{
		{id: "bob", role: identity.RoleAdmin, wantCode: "", wantMembers: "ada admin, bob admin"},
		{id: "bob", role: identity.RoleAdmin, wantCode: "", wantMembers: "ada admin, bob admin"},
		{id: "ada", role: identity.RoleMember, wantCode: "", wantMembers: "bob admin, ada member"},
		{id: "bob", role: identity.RoleMember, wantCode: "last_admin", wantMembers: "bob admin, ada member"},
		{id: "bob", role: "", wantCode: "last_admin", wantMembers: "bob admin, ada member"},
		{id: "new", role: identity.RoleMember, wantCode: "", wantMembers: "bob admin, ada member, new member"},
		{id: "ada", role: "", wantCode: "", wantMembers: "bob admin, new member"},
		{id: "ada", role: "", wantCode: "member_not_found", wantMembers: "bob admin, new member"},
		{id: "eve", role: identity.RoleMember, wantCode: "member_not_found", wantMembers: "bob admin, new member"},
		{id: "eve", role: "", wantCode: "member_not_found", wantMembers: "bob admin, new member"},
		{id: "unknown", role: identity.RoleAdmin, wantCode: "member_not_found", wantMembers: "bob admin, new member"},
		{id: "unknown", role: "", wantCode: "member_not_found", wantMembers: "bob admin, new member"},
	} {
		var err error
		if step.role == "" {
			err = f.service.Remove(f.call(), step.id)
		} else {
			var p member.Person
			if p, err = f.service.Set(f.call(), step.id, step.role); err == nil &&
				(p.ID != step.id || p.Role != step.role || p.OrganizationID != org) {
				t.Errorf("Set(%s, %s) = %+v", step.id, step.role, p)
			}
		}
		if fault.Code(err) != step.wantCode {
			t.Errorf("%s to %q: error = %v, want code %q", step.id, step.role, err, step.wantCode)
		}
		if got := f.listRoles(); got != step.wantMembers {
			t.Errorf("after %s to %q: members = %s, want %s", step.id, step.role, got, step.wantMembers)
		}
	}
	f.checkAuditLog()
}

// checkAuditLog checks that each change, and only a change, has one entry.
func (f fixture) checkAuditLog() {
	f.t.Helper()
	entries, err := f.store.AuditLog().List(f.admin, audit.Filter{}, page.Request{})
	if err != nil {
		f.t.Fatal(err)
	}
	var changes []string
	for _, e := range slices.Backward(entries.Items) {
		if e.Target.Type != "member" || len(e.Changes) != 1 {
			f.t.Fatalf("audit entry = %+v, want one change of a member", e)
		}
		changes = append(changes, e.Target.ID+" "+e.Changes[0].Old+">"+e.Changes[0].New)
	}
	const want = "bob member>admin, ada admin>member, new >member, ada member>"
	if got := strings.Join(changes, ", "); got != want {
		f.t.Errorf("audited changes = %s, want %s", got, want)
	}
}

// Two admins remove each other concurrently.
func TestMembers_ConcurrentRemovalKeepsOneAdmin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.createUser("ada", org, "admin")
	f.createUser("bob", org, "admin")
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, id := range []string{"ada", "bob"} {
		both.Go(func() {
			for {
				errs[i] = f.service.Remove(f.call(), id)
				if fault.Code(errs[i]) != "operation_in_progress" {
					return
				}
			}
		})
	}
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("errors = %v, %v; want exactly one", errs[0], errs[1])
	}
	if codes := fault.Code(errs[0]) + fault.Code(errs[1]); codes != "last_admin" {
		t.Errorf("error codes = %q, want last_admin once", codes)
	}
	if got := f.listRoles(); got != "ada admin" && got != "bob admin" {
		t.Errorf("members = %s, want one admin", got)
	}
}

// Claims of other owners stay. The emulator keeps issuing tokens to ended sessions, so the test checks the time from
// which tokens are valid.
func TestMembers_NextTokenCarriesTheRoleAndLostRolesEndSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.createUser("ada", org, "admin")
	f.createUser("bob", org, "member")
	for _, step := range []struct {
		role     identity.Role // empty removes
		wantEnds bool
	}{
		{role: identity.RoleAdmin, wantEnds: false},
		{role: identity.RoleMember, wantEnds: true},
		{role: "", wantEnds: true},
	} {
		before := f.tokensValidAfter("bob")
		f.waitForNextSecondAfter(before)
		var err error
		if step.role == "" {
			err = f.service.Remove(f.call(), "bob")
		} else {
			_, err = f.service.Set(f.call(), "bob", step.role)
		}
		if err != nil {
			t.Fatal(err)
		}
		if after := f.tokensValidAfter("bob"); after > before != step.wantEnds {
			t.Errorf("to %q: tokens are valid after %d, before the change after %d; want sessions to end: %t",
				step.role,
				after, before, step.wantEnds)
		}
		claims := f.signIn("bob")
		o, _ := claims["o"].(map[string]any)
		role, _ := o["rol"].(string)
		if role != string(step.role) {
			t.Errorf("to %q: role in the next token = %q", step.role, role)
		}
		if (o["id"] == org) != (step.role != "") {
			t.Errorf("to %q: organization in the next token = %v", step.role, o["id"])
		}
		if claims["theirs"] != "stays" {
			t.Errorf("to %q: foreign claim in the next token = %v, want it unchanged", step.role, claims["theirs"])
		}
	}
}

// waitForNextSecondAfter waits until the second that contains a time in milliseconds has passed, because Firebase
// rounds times to seconds.
func (f fixture) waitForNextSecondAfter(millis int64) {
	f.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Unix() <= millis/1000 {
		<-tick.C
	}
}

func (f fixture) tokensValidAfter(id string) int64 {
	f.t.Helper()
	u, err := f.members.users.GetUser(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return u.TokensValidAfterMillis
}

// signIn signs a user in with the password, as a web app does.
func (f fixture) signIn(id string) (claims map[string]any) {
	f.t.Helper()
	body, _ := json.Marshal(map[string]any{
		"email": id + "@example.com", "password": "password-" + id,
		"returnSecureToken": true, "targetProjectId": f.project,
	})
	status, answer := f.post("/identitytoolkit.googleapis.com/v1/accounts:signInWithPassword", body)
	token, _ := answer["idToken"].(string)
	parts := strings.Split(token, ".")
	if status != http.StatusOK || len(parts) != 3 {
		f.t.Fatalf("sign in: %d %v", status, answer)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		f.t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		f.t.Fatal(err)
	}
	return claims
}

func (f fixture) post(path string, body []byte) (status int, answer map[string]any) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, "http://"+
		os.Getenv(firebaseemu.HostVariable)+path, bytes.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer owner")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	b, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	_ = json.Unmarshal(b, &answer) // an answer that is no object has no fields
	return res.StatusCode, answer
}

func TestMembers_ListMoreThanOneLookupPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const many = lookupPageSize + 5
	users := make([]*auth.UserToImport, many)
	for i := range users {
		id := "user-" + uuid.NewString()
		users[i] = (&auth.UserToImport{}).UID(id).Email(id + "@example.com").DisplayName("The " + id).
			CustomClaims(map[string]any{"o": map[string]any{"id": org, "rol": "member"}})
		if err := f.store.Members().RecordMember(t.Context(), org, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.members.users.ImportUsers(t.Context(), users); err != nil {
		t.Fatal(err)
	}
	if people, err := f.service.List(f.admin); err != nil || len(people) != many {
		t.Errorf("List returned %d members, %v; want %d", len(people), err, many)
	}
}

func TestProject_AcceptsOnlyFirebaseIssuers(t *testing.T) {
	t.Parallel()
	for issuer, want := range map[string]string{
		"https://securetoken.google.com/my-project": "my-project", "https://securetoken.google.com/": "",
		"https://clerk.example.com":          "",
		"https://securetoken.google.com/a/b": "", "http://securetoken.google.com/my-project": "",
	} {
		if id, ok := ProjectOf(issuer); ok != (want != "") || ok && id != want {
			t.Errorf("Project(%s) = %q, %t; want %q", issuer, id, ok, want)
		}
	}
}

func TestService_NamesTheIssuerThatManagesMembers(t *testing.T) {
	t.Parallel()
	_, err := (&member.Service{
		Provider: member.ManagedExternally{Issuer: "https://clerk.example.com"},
		Records:  unusedRecords{},
	}).Set(t.Context(), "ada", identity.RoleAdmin)
	if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "https://clerk.example.com") {
		t.Errorf("Set returned %v, want kind NotFound and the issuer", err)
	}
}

// unusedRecords panics when it is called.
type unusedRecords struct{ member.Records }
