package identity_test

import (
	"testing"
	"time"

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
