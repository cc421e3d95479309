package handoff_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/identity"
)

var addresses = agent.Addresses{Domain: "agents.test", Scheme: "https"}

func running() agent.Agent {
	return agent.Agent{ID: "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9", OrganizationID: "org_1", Slug: "research",
		Status: agent.Running, Routed: true}
}

func admin() identity.Caller {
	return identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: "org_1", Role: identity.RoleAdmin}
}

// keys makes a signer and the keys that are published for it.
func keys(t *testing.T) (*handoff.Signer, jose.JSONWebKeySet) {
	t.Helper()
	secret, public, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	var key handoff.Key
	var set handoff.KeySet
	if err := key.EnvDecode(secret); err != nil {
		t.Fatal(err)
	}
	if err := set.EnvDecode(public); err != nil {
		t.Fatal(err)
	}
	published, err := json.Marshal(set)
	if err != nil || strings.Contains(string(published), `"d"`) {
		t.Fatalf("published %s, %v", published, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", key, key, key); strings.Contains(text, "EC") {
		t.Errorf("a private key prints as %s", text)
	}
	var verifiable jose.JSONWebKeySet
	if err := json.Unmarshal(published, &verifiable); err != nil || len(verifiable.Keys) != 1 {
		t.Fatalf("published %s, %v", published, err)
	}
	return handoff.NewSigner(key), verifiable
}

func TestLinkSaysWhoMayOpenWhat(t *testing.T) {
	t.Parallel()
	signer, published := keys(t)
	now := time.Now()
	seen := map[string]bool{}
	for range 2 {
		link, err := signer.Link(running(), admin(), addresses, now)
		if err != nil || link == nil {
			t.Fatalf("link %v, %v", link, err)
		}
		u, err := url.Parse(*link)
		if err != nil || u.Host != running().Hostname(addresses) || u.Path != "/handoff" || u.Scheme != "https" {
			t.Fatalf("link %s, %v", *link, err)
		}
		token, err := jwt.ParseSigned(u.Query().Get("token"), []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		var claims handoff.Claims
		if err := token.Claims(published, &claims); err != nil {
			t.Fatal(err)
		}
		expected := jwt.Expected{Issuer: handoff.Issuer, Subject: "user_1",
			AnyAudience: jwt.Audience{running().Hostname(addresses)}, Time: now}
		if err := claims.ValidateWithLeeway(expected, 0); err != nil || claims.AgentID != running().ID ||
			claims.OrganizationID != "org_1" {
			t.Errorf("claims %+v, %v", claims, err)
		}
		if life := claims.Expiry.Time().Sub(claims.IssuedAt.Time()); life != time.Minute {
			t.Errorf("the link is good for %v", life)
		}
		if claims.ID == "" || seen[claims.ID] {
			t.Errorf("jti %q", claims.ID)
		}
		seen[claims.ID] = true
	}
}

func TestWhoGetsNoLink(t *testing.T) {
	t.Parallel()
	signer, _ := keys(t)
	with := func(change func(*agent.Agent)) agent.Agent { a := running(); change(&a); return a }
	for name, c := range map[string]struct {
		signer *handoff.Signer
		agent  agent.Agent
		caller identity.Caller
	}{
		"an API key": {signer: signer, agent: running(),
			caller: identity.Caller{Type: identity.APIKey, ID: "k", OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"a member": {signer: signer, agent: running(),
			caller: identity.Caller{Type: identity.Session, ID: "u", OrganizationID: "org_1",
				Role: identity.RoleMember}},
		"nobody": {signer: signer, agent: running(), caller: identity.Caller{}},
		"an agent that is paused": {signer: signer, agent: with(func(a *agent.Agent) { a.Status = agent.Paused }),
			caller: admin()},
		"one without a hostname": {signer: signer, agent: with(func(a *agent.Agent) { a.Routed = false }),
			caller: admin()},
		"no key": {signer: handoff.NewSigner(handoff.Key{}), agent: running(), caller: admin()},
	} {
		if link, err := c.signer.Link(c.agent, c.caller, addresses, time.Now()); link != nil || err != nil {
			t.Errorf("%s: %v, %v", name, link, err)
		}
	}
}

func TestKeysThatAreNone(t *testing.T) {
	t.Parallel()
	secret, public, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal([]byte(public), &set); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"no JSON": "secret-canary", "a public key": string(set.Keys[0]), "another curve": `{"kty":"EC","crv":"P-384"}`,
		"no kid": strings.Replace(secret, `"kid"`, `"kit"`, 1),
	} {
		var key handoff.Key
		if err := key.EnvDecode(value); err == nil || strings.Contains(err.Error(), "canary") ||
			handoff.NewSigner(key) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var published handoff.KeySet
	if err := published.EnvDecode(`{"keys": [` + secret + `]}`); err == nil {
		t.Error("a private key would be published")
	}
	if b, err := json.Marshal(published); err != nil || string(b) != `{"keys":[]}` {
		t.Errorf("nothing is published as %s, %v", b, err)
	}
}
