package system_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/identity"
)

// handoffKeys are a signer with the keys that verify its links.
func handoffKeys(t *testing.T) (*handoff.Signer, handoff.KeySet) {
	t.Helper()
	key, set, err := handoff.Generate()
	var parsed handoff.Key
	var keys handoff.KeySet
	if err := errors.Join(err, parsed.EnvDecode(key), keys.EnvDecode(set)); err != nil {
		t.Fatal(err)
	}
	return handoff.NewSigner(parsed), keys
}

// linkToken returns the token of a link that an admin, whose session began at a time, got at another one.
func linkToken(t *testing.T, s *handoff.Signer, sessionAt, at time.Time) string {
	t.Helper()
	ada := identity.Caller{
		Type: identity.Session, ID: "user_1", Subject: "ada", OrganizationID: "org_1", Role: identity.RoleAdmin,
		IssuedAt: sessionAt,
	}
	a := agent.Agent{ID: "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9", Status: agent.Running, Routed: true}
	a.OrganizationID, a.Slug = ada.OrganizationID, "research"
	link, err := s.Link(a, ada, agent.Addresses{Domain: "agents.test", Scheme: "https"}, at)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(*link)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("token")
}

// TestIntrospect_EndsWithTheSessionBehindTheLink asks about links before and after the sessions of their user, of
// another one and of the user in another organization were ended.
func TestIntrospect_EndsWithTheSessionBehindTheLink(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	signer, keys := handoffKeys(t)
	foreign, _ := handoffKeys(t)
	route := system.Introspect(b.Directory, keys)
	now := time.Now()
	active := func(token string) bool {
		t.Helper()
		var view system.HandoffSession
		b.Call(t, route, functiontest.Body(map[string]string{"token": token})).Want(t, http.StatusOK, "").
			Decode(t, &view)
		return view.Active
	}
	const hour, tooLong = time.Hour, time.Hour + 70*time.Second
	fresh := linkToken(t, signer, now.Add(-time.Minute), now)
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"a fresh link":                     {fresh, true},
		"a link whose session is an hour":  {linkToken(t, signer, now.Add(-hour), now.Add(-hour)), true},
		"a link whose session is over":     {linkToken(t, signer, now.Add(-hour), now.Add(-tooLong)), false},
		"a link of the future":             {linkToken(t, signer, now, now.Add(time.Minute)), false},
		"a link of another service":        {linkToken(t, foreign, now, now), false},
		"no token of the service":          {"x.y.z", false},
		"a link without its signature":     {fresh[:strings.LastIndexByte(fresh, '.')+1], false},
		"a link of a session without time": {linkToken(t, signer, time.Time{}, now), true},
	} {
		if got := active(c.token); got != c.want {
			t.Errorf("%s: active is %t, want %t", name, got, c.want)
		}
	}
	b.Call(t, route, functiontest.RawBody("{}")).Want(t, http.StatusUnprocessableEntity, "validation_error")

	end := func(organizationID, subject string) {
		if err := b.MemberRecords.EndSessions(t.Context(), organizationID, subject, true); err != nil {
			t.Fatal(err)
		}
	}
	end("org_1", "bob")
	end("org_2", "ada")
	if !active(fresh) {
		t.Error("the end of other sessions ended this one")
	}
	end("org_1", "ada")
	later := time.Now().Add(time.Second)
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"of before":             {fresh, false},
		"of a former release":   {linkToken(t, signer, time.Time{}, now), false},
		"got since, of before":  {linkToken(t, signer, now.Add(-time.Minute), later), false},
		"of a session of after": {linkToken(t, signer, later, later), true},
	} {
		if got := active(c.token); got != c.want {
			t.Errorf("after the sessions were ended, a link %s is active: %t, want %t", name, got, c.want)
		}
	}
}
