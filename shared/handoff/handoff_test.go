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

func runningAgent() agent.Agent {
	return agent.Agent{
		ID: "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9", OrganizationID: "org_1", Slug: "research",
		Status: agent.Running, Routed: true,
	}
}

func adminSession() identity.Caller {
	return identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: "org_1", Role: identity.RoleAdmin}
}

// generate returns a new key and key set in the form of configuration.
func generate(t *testing.T) (key, set string) {
	t.Helper()
	key, set, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return key, set
}

// decodeKey returns the key in a configuration value.
func decodeKey(t *testing.T, value string) handoff.Key {
	t.Helper()
	var key handoff.Key
	if err := key.EnvDecode(value); err != nil {
		t.Fatal(err)
	}
	return key
}

// publish returns the published form of the key set in a configuration value.
func publish(t *testing.T, value string) []byte {
	t.Helper()
	var set handoff.KeySet
	if err := set.EnvDecode(value); err != nil {
		t.Fatal(err)
	}
	published, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return published
}

// newSigner returns a signer and the published keys that verify its links.
func newSigner(t *testing.T) (*handoff.Signer, jose.JSONWebKeySet) {
	t.Helper()
	key, set := generate(t)
	var verifiers jose.JSONWebKeySet
	if err := json.Unmarshal(publish(t, set), &verifiers); err != nil {
		t.Fatal(err)
	}
	return handoff.NewSigner(decodeKey(t, key)), verifiers
}

func TestGenerate_PublishesOnlyThePublicKey(t *testing.T) {
	t.Parallel()
	_, set := generate(t)
	published := publish(t, set)
	if strings.Contains(string(published), `"d"`) {
		t.Errorf("published set contains a private key: %s", published)
	}
	var parsed jose.JSONWebKeySet
	if err := json.Unmarshal(published, &parsed); err != nil {
		t.Fatalf("published set %s: %v", published, err)
	}
	if len(parsed.Keys) != 1 {
		t.Errorf("published set has %d keys, want 1", len(parsed.Keys))
	}
}

func TestKey_DoesNotPrint(t *testing.T) {
	t.Parallel()
	value, _ := generate(t)
	key := decodeKey(t, value)
	if text := fmt.Sprintf("%v %+v %#v", key, key, key); strings.Contains(text, "EC") {
		t.Errorf("a private key prints as %s", text)
	}
}

// parseLink returns the verified claims in a link to the dashboard of runningAgent.
func parseLink(t *testing.T, link string, verifiers jose.JSONWebKeySet) handoff.Claims {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := u.Scheme+"://"+u.Host+u.Path, "https://"+runningAgent().Hostname(addresses)+
		"/handoff"; got != want {
		t.Fatalf("link leads to %s, want %s", got, want)
	}
	token, err := jwt.ParseSigned(u.Query().Get("token"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var claims handoff.Claims
	if err := token.Claims(verifiers, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestLink_CarriesSignedClaims(t *testing.T) {
	t.Parallel()
	signer, verifiers := newSigner(t)
	now := time.Now()
	seenIDs := map[string]bool{}
	for range 2 {
		link, err := signer.Link(runningAgent(), adminSession(), addresses, now)
		if err != nil {
			t.Fatal(err)
		}
		if link == nil {
			t.Fatal("link = nil, want a link")
		}
		claims := parseLink(t, *link, verifiers)
		expected := jwt.Expected{
			Issuer: handoff.Issuer, Subject: "user_1",
			AnyAudience: jwt.Audience{runningAgent().Hostname(addresses)}, Time: now,
		}
		if err := claims.ValidateWithLeeway(expected, 0); err != nil {
			t.Errorf("claims %+v: %v", claims, err)
		}
		if claims.AgentID != runningAgent().ID {
			t.Errorf("AgentID = %s, want %s", claims.AgentID, runningAgent().ID)
		}
		if claims.OrganizationID != "org_1" {
			t.Errorf("OrganizationID = %s, want org_1", claims.OrganizationID)
		}
		if got := claims.Expiry.Time().Sub(claims.IssuedAt.Time()); got != time.Minute {
			t.Errorf("link is valid for %v, want 1m", got)
		}
		if claims.ID == "" || seenIDs[claims.ID] {
			t.Errorf("jti = %q, want a new one for each link", claims.ID)
		}
		seenIDs[claims.ID] = true
	}
}

// TestLink_NamesTheEmailAddressIfTheFrontReadsIt covers addresses that would make the token longer than fronts accept.
func TestLink_NamesTheEmailAddressIfTheFrontReadsIt(t *testing.T) {
	t.Parallel()
	signer, verifiers := newSigner(t)
	longest := strings.Repeat("a", 242) + "@example.com"
	for email, want := range map[string]string{
		"ada@example.com": "ada@example.com", longest: longest, "a" + longest: "", "": "",
		strings.Repeat("<", 200) + "@example.com": "", "ädä@example.com": "", "a\r\n@example.com": "",
	} {
		caller := adminSession()
		caller.Email, caller.Subject = email, strings.Repeat("s", 255)
		link, err := signer.Link(runningAgent(), caller, addresses, time.Now())
		if err != nil || link == nil {
			t.Fatalf("%q: link %v, %v", email, link, err)
		}
		if got := parseLink(t, *link, verifiers).Email; got != want {
			t.Errorf("%q: the link names %q, want %q", email, got, want)
		}
		if u, _ := url.Parse(*link); len(u.Query().Get("token")) > 2048 {
			t.Errorf("%q: the token has %d bytes, and fronts read 2048", email, len(u.Query().Get("token")))
		}
	}
}

func TestLink_IsOnlyForAdminSessionsAndRunningAgents(t *testing.T) {
	t.Parallel()
	signer, _ := newSigner(t)
	agentWith := func(change func(*agent.Agent)) agent.Agent { a := runningAgent(); change(&a); return a }
	callerWith := func(change func(*identity.Caller)) identity.Caller { c := adminSession(); change(&c); return c }
	for name, c := range map[string]struct {
		signer *handoff.Signer
		agent  agent.Agent
		caller identity.Caller
	}{
		"API key": {
			signer: signer, agent: runningAgent(),
			caller: callerWith(func(c *identity.Caller) { c.Type = identity.APIKey }),
		},
		"member": {
			signer: signer, agent: runningAgent(),
			caller: callerWith(func(c *identity.Caller) { c.Role = identity.RoleMember }),
		},
		"no caller": {signer: signer, agent: runningAgent(), caller: identity.Caller{}},
		"paused agent": {
			signer: signer, agent: agentWith(func(a *agent.Agent) { a.Status = agent.Paused }),
			caller: adminSession(),
		},
		"agent without route": {
			signer: signer, agent: agentWith(func(a *agent.Agent) { a.Routed = false }),
			caller: adminSession(),
		},
		"signer without key": {signer: handoff.NewSigner(handoff.Key{}), agent: runningAgent(), caller: adminSession()},
	} {
		link, err := c.signer.Link(c.agent, c.caller, addresses, time.Now())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if link != nil {
			t.Errorf("%s: link = %s, want nil", name, *link)
		}
	}
}

func TestKey_RefusesInvalidValuesWithoutQuotingThem(t *testing.T) {
	t.Parallel()
	secret, public := generate(t)
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal([]byte(public), &set); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"not JSON":    "secret-canary",
		"public key":  string(set.Keys[0]),
		"other curve": `{"kty":"EC","crv":"P-384"}`,
		"no kid":      strings.Replace(secret, `"kid"`, `"kit"`, 1),
	} {
		var key handoff.Key
		err := key.EnvDecode(value)
		if err == nil {
			t.Errorf("%s: EnvDecode succeeded, want an error", name)
			continue
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error quotes the value: %v", name, err)
		}
		if handoff.NewSigner(key) != nil {
			t.Errorf("%s: the refused key makes a signer", name)
		}
	}
}

func TestKeySet_RefusesPrivateKeys(t *testing.T) {
	t.Parallel()
	secret, _ := generate(t)
	var set handoff.KeySet
	if err := set.EnvDecode(`{"keys": [` + secret + `]}`); err == nil {
		t.Error("EnvDecode accepted a private key")
	}
	published, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(published), `{"keys":[]}`; got != want {
		t.Errorf("published set = %s, want %s", got, want)
	}
}
