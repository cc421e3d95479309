package handoff_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/handoff"
)

// signed is a receipt with the configuration values of the keys.
type signed struct {
	receipt, private string
	signer           *handoff.Signer
	keys             handoff.KeySet
}

func signReceipt(t *testing.T) signed {
	t.Helper()
	private, public := generate(t)
	s := signed{private: private, signer: handoff.NewSigner(decodeKey(t, private)), keys: decodeKeys(t, public)}
	receipt, err := s.signer.DeletionReceipt(deleted(), time.Now())
	if err != nil || receipt == nil {
		t.Fatalf("receipt = %v, %v", receipt, err)
	}
	s.receipt = *receipt
	return s
}

// claims returns the claims of the receipt, changed.
func (s signed) claims(t *testing.T, change func(map[string]any)) map[string]any {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(s.receipt, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	c := map[string]any{}
	if err := json.Unmarshal(payload, &c); err != nil {
		t.Fatal(err)
	}
	change(c)
	return c
}

func wantRefused(t *testing.T, name, token string, keys handoff.KeySet, want string) {
	t.Helper()
	claims, err := handoff.VerifyReceipt(token, keys)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want one with %q", name, err, want)
	}
	if diff := cmp.Diff(handoff.ReceiptClaims{}, claims); diff != "" {
		t.Errorf("%s: a refused token has claims:\n%s", name, diff)
	}
}

func unchanged(map[string]any) {}

func set(name string, value any) func(map[string]any) {
	return func(c map[string]any) { c[name] = value }
}

// TestVerifyReceipt_RefusesOtherTokens gives it what the same key signed for other purposes, and what it did not sign.
func TestVerifyReceipt_RefusesOtherTokens(t *testing.T) {
	t.Parallel()
	s := signReceipt(t)
	statement, err := s.signer.SealStatement("org_1", seal.Anchor{Sequence: 1, Hash: "x"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	otherPrivate, otherPublic := generate(t)
	same := s.claims(t, unchanged)
	forged := signToken(t, withID(t, otherPrivate, s.private), handoff.ReceiptType, same)
	for name, c := range map[string]struct {
		token string
		keys  handoff.KeySet
		want  string
	}{
		"no token": {token: "x", keys: s.keys, want: "not a token that is signed with ES256"},
		"unsigned": {
			token: "eyJhbGciOiJub25lIn0.e30.", keys: s.keys, want: "not a token that is signed with ES256",
		},
		"a link": {
			token: linkToken(t, s.signer), keys: s.keys, want: `its type is "JWT", not "deletion-receipt+jwt"`,
		},
		"a statement":    {token: *statement, keys: s.keys, want: `its type is "audit-seal+jwt"`},
		"a wrong type":   {token: signToken(t, s.private, "JWT", same), keys: s.keys, want: `its type is "JWT"`},
		"no type":        {token: signToken(t, s.private, "", same), keys: s.keys, want: `its type is ""`},
		"an unknown key": {token: s.receipt, keys: decodeKeys(t, otherPublic), want: "has no key"},
		"no keys":        {token: s.receipt, keys: handoff.KeySet{}, want: "has no key"},
		"another key's":  {token: forged, keys: s.keys, want: "signature is wrong"},
		"a changed payload": {
			token: withPayload(t, s.receipt, s.claims(t, set("name", "cat"))), keys: s.keys, want: "signature is wrong",
		},
	} {
		wantRefused(t, name, c.token, c.keys, c.want)
	}
}

// TestVerifyReceipt_RefusesOtherClaims signs claims that no receipt has.
func TestVerifyReceipt_RefusesOtherClaims(t *testing.T) {
	t.Parallel()
	s := signReceipt(t)
	if _, err := handoff.VerifyReceipt(signToken(t, s.private, handoff.ReceiptType, s.claims(t, unchanged)),
		s.keys); err != nil {
		t.Fatalf("the claims of a receipt are refused: %v", err)
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   string
	}{
		"another issuer": {set("iss", "x"), `its issuer is "x", not "agent-control-plane"`},
		"an audience":    {set("aud", "a.test"), `it has the audience ["a.test"]`},
		"no time":        {set("iat", nil), "does not say when it was signed"},
		"a volume that exists": {func(c map[string]any) {
			resources, _ := c["resources"].([]any)
			volume, _ := resources[1].(map[string]any)
			volume["observed_gone_at"] = nil
		}, "not observed gone"},
		"no resources": {set("resources", nil), "not observed gone"},
	} {
		token := signToken(t, s.private, handoff.ReceiptType, s.claims(t, c.change))
		wantRefused(t, name, token, s.keys, c.want)
	}
}

// signToken signs claims of any kind with a key in a configuration value; an empty type sets none.
func signToken(t *testing.T, private string, kind jose.ContentType, claims any) string {
	t.Helper()
	var key jose.JSONWebKey
	if err := json.Unmarshal([]byte(private), &key); err != nil {
		t.Fatal(err)
	}
	var options jose.SignerOptions
	if kind != "" {
		options.WithType(kind)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, &options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// withID returns a key with the id of another.
func withID(t *testing.T, private, other string) string {
	t.Helper()
	var key, named jose.JSONWebKey
	if err := errors.Join(json.Unmarshal([]byte(private), &key), json.Unmarshal([]byte(other), &named)); err != nil {
		t.Fatal(err)
	}
	key.KeyID = named.KeyID
	text, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// linkToken returns the token in a link to a dashboard.
func linkToken(t *testing.T, signer *handoff.Signer) string {
	t.Helper()
	link, err := signer.Link(runningAgent(), adminSession(), addresses, time.Now())
	if err != nil || link == nil {
		t.Fatalf("link %v, %v", link, err)
	}
	u, err := url.Parse(*link)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("token")
}

// withPayload replaces the claims in a token, and keeps its signature.
func withPayload(t *testing.T, token string, claims any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	parts[1] = base64.RawURLEncoding.EncodeToString(payload)
	return strings.Join(parts, ".")
}
