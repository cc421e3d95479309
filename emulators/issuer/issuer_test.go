package issuer_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/issuer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start returns an issuer, and a context that makes go-oidc use a separate HTTP client.
func start(t *testing.T, options issuer.Options) (*issuer.Issuer, context.Context) {
	t.Helper()
	i, err := issuer.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := i.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return i, oidc.ClientContext(context.Background(), &http.Client{Transport: transport})
}

func verifier(ctx context.Context, t *testing.T, i *issuer.Issuer, audience string) *oidc.IDTokenVerifier {
	t.Helper()
	provider, err := oidc.NewProvider(ctx, i.URL())
	if err != nil {
		t.Fatal(err)
	}
	return provider.VerifierContext(ctx, &oidc.Config{SkipClientIDCheck: audience == "", ClientID: audience})
}

func verify(ctx context.Context, t *testing.T, v *oidc.IDTokenVerifier, token string) map[string]any {
	t.Helper()
	verified, err := v.Verify(ctx, token)
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestSession_Claims(t *testing.T) {
	t.Parallel()
	i, ctx := start(t, issuer.Options{TTL: time.Minute, AuthorizedParty: "https://app.example"})
	v := verifier(ctx, t, i, "")
	tests := map[string]struct {
		session issuer.Session
		want    map[string]any // nil means that the claim is absent
	}{
		"admin": {
			session: issuer.Session{Subject: "user_1", Organization: "org_A1", Role: "admin"},
			want: map[string]any{
				"iss": i.URL(), "sub": "user_1", "sts": "active", "v": 2.0, "azp": "https://app.example",
				"email": "user_1@example.com", "name": "user 1",
				"o": map[string]any{"id": "org_A1", "rol": "admin", "slg": "org-a1"},
			},
		},
		"role prefix is removed": {
			session: issuer.Session{Organization: "org_1", Role: "org:admin"},
			want: map[string]any{
				"sub": "user_developer",
				"o":   map[string]any{"id": "org_1", "rol": "admin", "slg": "org-1"},
			},
		},
		"role defaults to member": {
			session: issuer.Session{Organization: "org_1"},
			want:    map[string]any{"o": map[string]any{"id": "org_1", "rol": "member", "slg": "org-1"}},
		},
		"no organization": {session: issuer.Session{Subject: "user_1", Role: "admin"}, want: map[string]any{"o": nil}},
		"claims override": {
			session: issuer.Session{
				Organization: "org_1",
				Claims:       map[string]any{"sts": "pending", "azp": nil, "extra": "x", "o": map[string]any{"id": ""}},
			},
			want: map[string]any{"sts": "pending", "azp": nil, "extra": "x", "o": map[string]any{"id": ""}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			token, err := i.Session(test.session)
			if err != nil {
				t.Fatal(err)
			}
			got := verify(ctx, t, v, token)
			for claim, want := range test.want {
				if diff := cmp.Diff(want, got[claim]); diff != "" {
					t.Errorf("claim %s (-want +got):\n%s", claim, diff)
				}
			}
			if life := got["exp"].(float64) - got["iat"].(float64); life != 60 {
				t.Errorf("exp - iat = %v s, want 60", life)
			}
			if early := got["iat"].(float64) - got["nbf"].(float64); early != 10 {
				t.Errorf("iat - nbf = %v s, want 10", early)
			}
			if sid, _ := got["sid"].(string); !strings.HasPrefix(sid, "sess_") || len(sid) != 37 {
				t.Errorf("sid = %q, want sess_ and 32 characters", sid)
			}
		})
	}
}

func TestMint_SignsInvalidClaims(t *testing.T) {
	t.Parallel()
	i, ctx := start(t, issuer.Options{})
	v := verifier(ctx, t, i, "")
	bad := map[string]map[string]any{
		"expired":        i.Claims(issuer.Session{Claims: map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}}),
		"not yet valid":  i.Claims(issuer.Session{Claims: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}}),
		"another issuer": i.Claims(issuer.Session{Claims: map[string]any{"iss": "https://elsewhere.example"}}),
	}
	for name, claims := range bad {
		token, err := i.Mint(claims)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(ctx, token); err == nil {
			t.Errorf("%s: token verified, want an error", name)
		}
	}
	if _, err := i.Mint(map[string]any{"f": func() {}}); err == nil {
		t.Error("Mint of claims that are not JSON succeeded, want an error")
	}
}

func TestPush_Claims(t *testing.T) {
	t.Parallel()
	i, ctx := start(t, issuer.Options{})
	token, err := i.Push("https://worker.example", "push@project.iam.example")
	if err != nil {
		t.Fatal(err)
	}
	got := verify(ctx, t, verifier(ctx, t, i, "https://worker.example"), token)
	if got["email"] != "push@project.iam.example" {
		t.Errorf("email = %v, want push@project.iam.example", got["email"])
	}
	if got["email_verified"] != true {
		t.Errorf("email_verified = %v, want true", got["email_verified"])
	}
	if life := got["exp"].(float64) - got["iat"].(float64); life != 3600 {
		t.Errorf("exp - iat = %v s, want 3600", life)
	}
	if _, err := verifier(ctx, t, i, "https://other.example").Verify(ctx, token); err == nil {
		t.Error("token verified for another audience, want an error")
	}
}

func TestRotate_KeepsOnePreviousKey(t *testing.T) {
	t.Parallel()
	i, ctx := start(t, issuer.Options{})
	var tokens []string
	for range 3 {
		token, err := i.Session(issuer.Session{})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
		if err := i.Rotate(); err != nil {
			t.Fatal(err)
		}
	}
	// The keys of the tokens are now three, two and one rotations old.
	v := verifier(ctx, t, i, "")
	for n, token := range tokens {
		_, err := v.Verify(ctx, token)
		if valid := n == 2; valid != (err == nil) {
			t.Errorf("token %d: error = %v, want valid %t", n, err, valid)
		}
	}
}

func TestPause_FailsRequestsAndCountsKeyFetches(t *testing.T) {
	t.Parallel()
	i, ctx := start(t, issuer.Options{})
	v := verifier(ctx, t, i, "")
	token, err := i.Session(issuer.Session{})
	if err != nil {
		t.Fatal(err)
	}
	if got := i.KeyFetches(); got != 0 {
		t.Errorf("KeyFetches before the first verification = %d, want 0", got)
	}
	i.Pause()
	if _, err := v.Verify(ctx, token); err == nil {
		t.Error("token verified while paused, want an error")
	}
	if _, err := oidc.NewProvider(ctx, i.URL()); err == nil {
		t.Error("discovery succeeded while paused, want an error")
	}
	if got := i.KeyFetches(); got != 1 {
		t.Errorf("KeyFetches while paused = %d, want 1", got)
	}
	i.Resume()
	for range 3 {
		verify(ctx, t, v, token)
	}
	i.Pause()
	verify(ctx, t, v, token) // the verifier has cached the keys
	if got := i.KeyFetches(); got != 2 {
		t.Errorf("KeyFetches = %d, want 2", got)
	}
}

func TestStart_AddressAndURL(t *testing.T) {
	t.Parallel()
	first, _ := start(t, issuer.Options{URL: "https://issuer.example"})
	if first.URL() != "https://issuer.example" {
		t.Errorf("URL = %q, want https://issuer.example", first.URL())
	}
	if iss := first.Claims(issuer.Session{})["iss"]; iss != "https://issuer.example" {
		t.Errorf("iss = %q, want https://issuer.example", iss)
	}
	second, _ := start(t, issuer.Options{})
	if _, err := issuer.Start(t.Context(),
		issuer.Options{Address: strings.TrimPrefix(second.URL(), "http://")}); err == nil {
		t.Error("Start on an address in use succeeded, want an error")
	}
}

func TestIssuer_IsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	i, ctx := start(t, issuer.Options{})
	v := verifier(ctx, t, i, "")
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 5 {
				token, err := i.Session(issuer.Session{Organization: "org_1"})
				if err == nil {
					_, err = v.Verify(ctx, token)
				}
				if err != nil { // it may have shared a fetch of keys that began before the rotation
					_, err = v.Verify(ctx, token)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := i.Rotate(); err != nil {
		t.Error(err)
	}
	workers.Wait()
	if err := errors.Join(i.Close(), i.Close()); err != nil {
		t.Error(err)
	}
}
