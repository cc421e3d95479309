package identity_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// TestAuthenticator_UserIDIsOfIssuerAndSubject holds the ids literally: records of former releases name users by them.
func TestAuthenticator_UserIDIsOfIssuerAndSubject(t *testing.T) {
	t.Parallel()
	stores := &fakeStores{sessions: map[string]identity.Claims{
		"ada":           {Issuer: "https://issuer.test", Subject: "ada"},
		"bob":           {Issuer: "https://issuer.test", Subject: "bob"},
		"ada elsewhere": {Issuer: "https://other.test", Subject: "ada"},
	}}
	a := &identity.Authenticator{Sessions: stores, Keys: stores, Directory: stores, Now: time.Now}
	for token, want := range map[string]string{
		"ada":           "ba37c269-82c1-5fe6-b203-30c0f3953c73",
		"bob":           "f72cb0a7-ad63-57b1-8984-6af39ba2328b",
		"ada elsewhere": "98646ca6-3148-514c-94fc-dfe044a58be2",
	} {
		got, _, err := a.Authenticate(t.Context(), identity.Attempt{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != want {
			t.Errorf("the user id of %s is %s, want %s", token, got.ID, want)
		}
	}
}

// TestAuthenticator_RefusesSessionsThatWereEnded holds tokens against the end of their user's sessions.
func TestAuthenticator_RefusesSessionsThatWereEnded(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 3, 1, 12, 0, 0, 300_000_000, time.UTC)
	for name, c := range map[string]struct {
		issuedAt, ended time.Time
		want            string
	}{
		"issued before":             {issuedAt: ended.Add(-time.Hour), ended: ended, want: "invalid_token"},
		"issued in the same second": {issuedAt: ended.Truncate(time.Second), ended: ended, want: "invalid_token"},
		"issued after":              {issuedAt: ended.Truncate(time.Second).Add(time.Second), ended: ended},
		"without a time":            {ended: ended, want: "invalid_token"},
		"never ended":               {issuedAt: ended},
		"no time, never ended":      {},
	} {
		stores := &fakeStores{sessionsEnded: c.ended, sessions: map[string]identity.Claims{
			"jwt": {Issuer: "i", Subject: "s", OrganizationID: "o1", IssuedAt: c.issuedAt},
		}}
		a := &identity.Authenticator{Sessions: stores, Directory: stores, Now: time.Now}
		got, _, err := a.Authenticate(t.Context(), identity.Attempt{Token: "jwt"})
		if fault.Code(err) != c.want || c.want == "" && !got.IssuedAt.Equal(c.issuedAt) {
			t.Errorf("%s: caller %+v, error %v; want %q", name, got, err, c.want)
		}
	}
}
