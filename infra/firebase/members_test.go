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
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
)

// world is a project of Firebase's with a database, and the roster over both.
type world struct {
	t       *testing.T
	project string
	members *Members
	store   *firestore.Client
	roster  *member.Service
	admin   context.Context
}

const org = "org_1"

func newWorld(t *testing.T) world {
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
	w := world{t: t, project: project, members: m, store: c,
		roster: &member.Service{Provider: m, Records: c.Members(), Audit: c.AuditLog()}}
	w.admin = identity.With(t.Context(),
		identity.Caller{Type: identity.Session, ID: "caller", OrganizationID: org, Role: identity.RoleAdmin})
	w.admin = audit.With(w.admin, audit.Request{Action: "SetMember", RequestID: "request_1"})
	return w
}

// user makes a user with claims; one with an organization has signed in with it.
func (w world) user(id, organizationID, role string) {
	w.t.Helper()
	ctx := w.t.Context()
	params := (&auth.UserToCreate{}).UID(id).Email(id + "@example.com").DisplayName("The " + id).Password("password-" +
		id)
	if _, err := w.members.users.CreateUser(ctx, params); err != nil {
		w.t.Fatal(err)
	}
	claims := map[string]any{"theirs": "stays"}
	if organizationID != "" {
		claims["o"] = map[string]any{"id": organizationID, "rol": role}
	}
	if err := w.members.users.SetCustomUserClaims(ctx, id, claims); err != nil {
		w.t.Fatal(err)
	}
	if organizationID != "" {
		if err := w.store.Directory().Ensure(ctx, organizationID,
			organization.User{ID: uuid.NewString(), Subject: id}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// roles lists the members as "id role".
func (w world) roles() string {
	w.t.Helper()
	people, err := w.roster.List(w.admin)
	if err != nil {
		w.t.Fatal(err)
	}
	said := make([]string, len(people))
	for i, p := range people {
		said[i] = p.ID + " " + string(p.Role)
		if p.Email != p.ID+"@example.com" || p.Name != "The "+p.ID {
			w.t.Errorf("the member is %+v", p)
		}
	}
	return strings.Join(said, ", ")
}

func TestMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("ada", org, "org:admin")
	w.user("bob", org, "member")
	w.user("eve", "org_2", "admin")
	w.user("new", "", "")
	if got := w.roles(); got != "ada admin, bob member" {
		t.Fatalf("the members are %s", got)
	}
	for _, step := range []struct {
		id   string
		role identity.Role // empty removes
		code string
		want string
	}{
		{id: "bob", role: identity.RoleAdmin, code: "", want: "ada admin, bob admin"},
		{id: "bob", role: identity.RoleAdmin, code: "", want: "ada admin, bob admin"},
		{id: "ada", role: identity.RoleMember, code: "", want: "bob admin, ada member"},
		{id: "bob", role: identity.RoleMember, code: "last_admin", want: "bob admin, ada member"},
		{id: "bob", role: "", code: "last_admin", want: "bob admin, ada member"},
		{id: "new", role: identity.RoleMember, code: "", want: "bob admin, ada member, new member"},
		{id: "ada", role: "", code: "", want: "bob admin, new member"},
		{id: "ada", role: "", code: "member_not_found", want: "bob admin, new member"},
		{id: "eve", role: identity.RoleMember, code: "member_not_found", want: "bob admin, new member"},
		{id: "eve", role: "", code: "member_not_found", want: "bob admin, new member"},
		{id: "nobody", role: identity.RoleAdmin, code: "member_not_found", want: "bob admin, new member"},
		{id: "nobody", role: "", code: "member_not_found", want: "bob admin, new member"},
	} {
		var err error
		if step.role == "" {
			err = w.roster.Remove(w.admin, step.id)
		} else {
			var p member.Person
			if p, err = w.roster.Set(w.admin, step.id, step.role); err == nil &&
				(p.ID != step.id || p.Role != step.role || p.OrganizationID != org) {
				t.Errorf("set %s: %+v", step.id, p)
			}
		}
		if fault.Code(err) != step.code {
			t.Errorf("%s to %q: %v, want %q", step.id, step.role, err, step.code)
		}
		if got := w.roles(); got != step.want {
			t.Errorf("after %s to %q the members are %s; want %s", step.id, step.role, got, step.want)
		}
	}
	w.audited()
}

// audited: every change is one entry, and nothing else is.
func (w world) audited() {
	w.t.Helper()
	entries, err := w.store.AuditLog().List(w.admin, audit.Filter{}, page.Request{})
	if err != nil {
		w.t.Fatal(err)
	}
	var said []string
	for _, e := range slices.Backward(entries.Items) {
		if e.Target.Type != "member" || len(e.Changes) != 1 {
			w.t.Fatalf("the entry is %+v", e)
		}
		said = append(said, e.Target.ID+" "+e.Changes[0].Old+">"+e.Changes[0].New)
	}
	if got := strings.Join(said, ", "); got != "bob member>admin, ada admin>member, new >member, ada member>" {
		w.t.Errorf("the audit log has %s", got)
	}
}

// TestLastAdmin: of two admins who remove each other at once, one remains.
func TestLastAdmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("ada", org, "admin")
	w.user("bob", org, "admin")
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, id := range []string{"ada", "bob"} {
		both.Go(func() {
			for {
				errs[i] = w.roster.Remove(w.admin, id)
				if fault.Code(errs[i]) != "operation_in_progress" {
					return
				}
			}
		})
	}
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) || fault.Code(errs[0])+fault.Code(errs[1]) != "last_admin" {
		t.Errorf("both were removed, or none: %v, %v", errs[0], errs[1])
	}
	if got := w.roles(); got != "ada admin" && got != "bob admin" {
		t.Errorf("the members are %s", got)
	}
}

// TestTokens: the next token says what was set, sessions end with a role that is lost, and claims of others' stay. The
// emulator goes on giving tokens to sessions that have ended, so that only the moment of their end can be seen.
func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("ada", org, "admin")
	w.user("bob", org, "member")
	for _, step := range []struct {
		role identity.Role // empty removes
		ends bool
	}{{role: identity.RoleAdmin, ends: false}, {role: identity.RoleMember, ends: true}, {role: "", ends: true}} {
		before := w.validAfter("bob")
		w.passes(before)
		var err error
		if step.role == "" {
			err = w.roster.Remove(w.admin, "bob")
		} else {
			_, err = w.roster.Set(w.admin, "bob", step.role)
		}
		if err != nil {
			t.Fatal(err)
		}
		if after := w.validAfter("bob"); after > before != step.ends {
			t.Errorf("to %q: sessions are good from %d on, before it was %d; want them to end: %t", step.role, after,
				before, step.ends)
		}
		claims := w.signIn("bob")
		o, _ := claims["o"].(map[string]any)
		role, _ := o["rol"].(string)
		if role != string(step.role) || (o["id"] == org) != (step.role != "") || claims["theirs"] != "stays" {
			t.Errorf("to %q: the next token says %v", step.role, claims)
		}
	}
}

// passes waits until the second of a moment in milliseconds has passed: Firebase tells no smaller ones apart.
func (w world) passes(moment int64) {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Unix() <= moment/1000 {
		<-tick.C
	}
}

func (w world) validAfter(id string) int64 {
	w.t.Helper()
	u, err := w.members.users.GetUser(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return u.TokensValidAfterMillis
}

// signIn signs a user in with the password, as a web app does.
func (w world) signIn(id string) (claims map[string]any) {
	w.t.Helper()
	body, _ := json.Marshal(map[string]any{"email": id + "@example.com", "password": "password-" + id,
		"returnSecureToken": true, "targetProjectId": w.project})
	status, answer := w.post("/identitytoolkit.googleapis.com/v1/accounts:signInWithPassword", body)
	token, _ := answer["idToken"].(string)
	parts := strings.Split(token, ".")
	if status != http.StatusOK || len(parts) != 3 {
		w.t.Fatalf("sign in: %d %v", status, answer)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		w.t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		w.t.Fatal(err)
	}
	return claims
}

func (w world) post(path string, body []byte) (status int, answer map[string]any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+
		os.Getenv(firebaseemu.HostVariable)+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer owner")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = json.Unmarshal(b, &answer) // what is no object has no fields
	return res.StatusCode, answer
}

func TestMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const many = lookupPage + 5
	users := make([]*auth.UserToImport, many)
	for i := range users {
		id := "user-" + uuid.NewString()
		users[i] = (&auth.UserToImport{}).UID(id).Email(id + "@example.com").DisplayName("The " + id).
			CustomClaims(map[string]any{"o": map[string]any{"id": org, "rol": "member"}})
		if err := w.store.Members().RecordMember(t.Context(), org, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.members.users.ImportUsers(t.Context(), users); err != nil {
		t.Fatal(err)
	}
	if people, err := w.roster.List(w.admin); err != nil || len(people) != many {
		t.Errorf("%d members, %v; want %d", len(people), err, many)
	}
}

func TestProject(t *testing.T) {
	t.Parallel()
	for issuer, want := range map[string]string{
		"https://securetoken.google.com/my-project": "my-project", "https://securetoken.google.com/": "",
		"https://clerk.example.com":          "",
		"https://securetoken.google.com/a/b": "", "http://securetoken.google.com/my-project": "",
	} {
		if id, ok := Project(issuer); ok != (want != "") || ok && id != want {
			t.Errorf("%s: %q, %t", issuer, id, ok)
		}
	}
	_, err := (&member.Service{Provider: member.ManagedExternally{Issuer: "https://clerk.example.com"},
		Records: noRecords{}}).Set(t.Context(), "ada", identity.RoleAdmin)
	if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "https://clerk.example.com") {
		t.Errorf("with another issuer: %v, want not found and where", err)
	}
}

// noRecords must not be asked.
type noRecords struct{ member.Records }
