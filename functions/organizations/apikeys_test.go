package organizations_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/organizations"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

const unknownID = "00000000-0000-4000-8000-000000000000"

// createAPIKey creates a key and returns the answer.
func createAPIKey(t *testing.T, b *backendtest.Backend, body map[string]any, options ...functiontest.Option,
) functiontest.Response {
	t.Helper()
	options = append([]functiontest.Option{functiontest.AsAdmin("org-1"), functiontest.Body(body)}, options...)
	return b.Call(t, organizations.CreateAPIKey(b.Keys, b.Pepper), options...)
}

func listAPIKeys(t *testing.T, b *backendtest.Backend, as functiontest.Option) []apikey.View {
	t.Helper()
	var views []apikey.View
	b.Call(t, organizations.ListAPIKeys(b.Keys), as).Want(t, http.StatusOK, "").Decode(t, &views)
	return views
}

func TestAPIKeys_AreForAdmins(t *testing.T) {
	t.Parallel()
	for _, r := range []function.Route{
		organizations.ListAPIKeys(nil), organizations.CreateAPIKey(nil, nil), organizations.RevokeAPIKey(nil),
	} {
		functiontest.CheckRefusals(t, r, function.Admin, functiontest.Path("key_id", unknownID))
	}
}

func TestCreateAPIKey_ShowsTheSecretOnce(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	res := createAPIKey(t, b, map[string]any{"name": " CI ", "purpose": "ci", "expires_in_days": 30}).
		Want(t, http.StatusCreated, "")
	secret := res.Text("secret")
	if !apikey.WellFormed(secret) {
		t.Errorf("secret = %q, want a well-formed key", secret)
	}
	if got, want := res.Text("key_prefix"), secret[:apikey.PrefixLength]; got != want {
		t.Errorf("key_prefix = %q, want %q", got, want)
	}
	if res.JSON["expires_at"] == nil {
		t.Error("expires_at is null, want a time in 30 days")
	}
	shown := b.Call(t, organizations.ListAPIKeys(b.Keys), functiontest.AsAdmin("org-1"))
	if strings.Contains(string(shown.Body), secret) {
		t.Error("the list shows the secret")
	}
	keys := listAPIKeys(t, b, functiontest.AsAdmin("org-1"))
	if len(keys) != 1 || keys[0].Name != "CI" || keys[0].Purpose != "ci" {
		t.Errorf("the list is %+v, want the key CI for ci", keys)
	}
}

func TestCreateAPIKey_MakesAKeyThatAuthenticates(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	secret := createAPIKey(t, b, map[string]any{"name": "CI"}).Text("secret")
	res := b.Call(t, organizations.Me(b.Directory), functiontest.WithToken(secret)).Want(t, http.StatusOK, "")
	if got := res.Text("auth_type"); got != "api_key" {
		t.Errorf("auth_type = %q, want api_key", got)
	}
}

func TestCreateAPIKey_MakesAnAdminKeyUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	for _, c := range []struct {
		body map[string]any
		want string
	}{
		{map[string]any{"name": "CI"}, "admin"},
		{map[string]any{"name": "CI", "role": "admin"}, "admin"},
		{map[string]any{"name": "CI", "role": "member"}, "member"},
	} {
		res := createAPIKey(t, b, c.body).Want(t, http.StatusCreated, "")
		if got := res.Text("role"); got != c.want {
			t.Errorf("%v: role = %q, want %q", c.body, got, c.want)
		}
		if keys := listAPIKeys(t, b, functiontest.AsAdmin("org-1")); string(keys[0].Role) != c.want {
			t.Errorf("%v: the list has the role %q, want %q", c.body, keys[0].Role, c.want)
		}
		b.Call(t, organizations.RevokeAPIKey(b.Keys), functiontest.AsAdmin("org-1"),
			functiontest.Path("key_id", res.Text("id")))
	}
	createAPIKey(t, b, map[string]any{"name": "CI", "role": "owner"}).
		Want(t, http.StatusUnprocessableEntity, "validation_error")
}

// TestCreateAPIKey_RepeatsTheRole repeats the creation of a member key, whose answer is stored.
func TestCreateAPIKey_RepeatsTheRole(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	for range 2 {
		res := createAPIKey(t, b, map[string]any{"name": "CI", "role": "member"},
			functiontest.Header(idempotency.Header, "once")).Want(t, http.StatusCreated, "")
		if got := res.Text("role"); got != "member" {
			t.Errorf("role = %q, want member", got)
		}
	}
}

func TestCreateAPIKey_RepeatedWithAnIdempotencyKeyHidesTheSecret(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	key := functiontest.Header(idempotency.Header, "once")
	first := createAPIKey(t, b, map[string]any{"name": "CI"}, key).Want(t, http.StatusCreated, "")
	again := createAPIKey(t, b, map[string]any{"name": "CI"}, key).Want(t, http.StatusCreated, "")
	if again.Text("id") != first.Text("id") {
		t.Errorf("id = %q, want %q", again.Text("id"), first.Text("id"))
	}
	if again.JSON["secret"] != nil {
		t.Error("the repeated answer has a secret, want null")
	}
}

func TestCreateAPIKey_WithAKeyExpiresWithThatKeyAtTheLatest(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	parent := createAPIKey(t, b, map[string]any{"name": "CI", "expires_in_days": 1}).Want(t, http.StatusCreated, "")
	with := functiontest.WithToken(parent.Text("secret"))
	for name, body := range map[string]map[string]any{
		"without end": {"name": "child"},
		"later":       {"name": "child", "expires_in_days": 365},
	} {
		child := b.Call(t, organizations.CreateAPIKey(b.Keys, b.Pepper), with, functiontest.Body(body)).
			Want(t, http.StatusCreated, "")
		if got, want := child.Text("expires_at"), parent.Text("expires_at"); got != want {
			t.Errorf("%s: expires_at = %s, want the creating key's %s", name, got, want)
		}
	}
	endless := createAPIKey(t, b, map[string]any{"name": "CI"}).Text("secret")
	child := b.Call(t, organizations.CreateAPIKey(b.Keys, b.Pepper), functiontest.WithToken(endless),
		functiontest.Body(map[string]any{"name": "child"})).Want(t, http.StatusCreated, "")
	if got := child.JSON["expires_at"]; got != nil {
		t.Errorf("expires_at = %v of a key that an endless key created, want null", got)
	}
}

func TestRevokeAPIKey_EndsDescendantsIfAsked(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id, secret := b.CreateKey(t, "org-1")
	child := b.Call(t, organizations.CreateAPIKey(b.Keys, b.Pepper), functiontest.WithToken(secret),
		functiontest.Body(map[string]any{"name": "child"})).Want(t, http.StatusCreated, "").Text("secret")
	revoke := func(options ...functiontest.Option) functiontest.Response {
		options = append(options, functiontest.AsAdmin("org-1"), functiontest.Path("key_id", id),
			functiontest.Header(idempotency.Header, "once"))
		return b.Call(t, organizations.RevokeAPIKey(b.Keys), options...)
	}
	descendants := functiontest.Query(map[string][]string{"descendants": {"true"}})
	revoke().Want(t, http.StatusNoContent, "")
	b.Call(t, organizations.ListAPIKeys(b.Keys), functiontest.WithToken(child)).Want(t, http.StatusOK, "")
	// The query is part of the request: with the same Idempotency-Key it is another one.
	revoke(descendants).Want(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
	b.Call(t, organizations.ListAPIKeys(b.Keys), functiontest.WithToken(child)).Want(t, http.StatusOK, "")
	with := func(key string) functiontest.Option { return functiontest.Header(idempotency.Header, key) }
	again := func() functiontest.Response {
		return b.Call(t, organizations.RevokeAPIKey(b.Keys), functiontest.AsAdmin("org-1"),
			functiontest.Path("key_id", id), descendants, with("again"))
	}
	again().Want(t, http.StatusNoContent, "")
	again().Want(t, http.StatusNoContent, "")
	b.Call(t, organizations.ListAPIKeys(b.Keys), functiontest.WithToken(child)).
		Want(t, http.StatusUnauthorized, "invalid_token")
}

func TestCreateAPIKey_RefusesMoreKeysThanThePlanHas(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	hobby, err := plan.Get(plan.Hobby)
	if err != nil {
		t.Fatal(err)
	}
	for range hobby.MaxAPIKeys {
		createAPIKey(t, b, map[string]any{"name": "CI"}).Want(t, http.StatusCreated, "")
	}
	createAPIKey(t, b, map[string]any{"name": "CI"}).Want(t, http.StatusConflict, "api_key_limit_reached")
}

func TestListAPIKeys_RefusesTheCursorOfAnotherList(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.Call(t, organizations.ListAPIKeys(b.Keys), functiontest.AsAdmin("org-1"),
		functiontest.Query(map[string][]string{"cursor": {"x"}})).
		Want(t, http.StatusBadRequest, "invalid_cursor")
}

func TestListAPIKeys_ShowsTheOwnOrganizationOnly(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.CreateKey(t, "org-1")
	if keys := listAPIKeys(t, b, functiontest.AsAdmin("org-2")); len(keys) != 0 {
		t.Errorf("org-2 lists %+v, want none", keys)
	}
}

func TestRevokeAPIKey_EndsAKeyImmediately(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id, secret := b.CreateKey(t, "org-1")
	revoke := func(as functiontest.Option, id string) functiontest.Response {
		return b.Call(t, organizations.RevokeAPIKey(b.Keys), as, functiontest.Path("key_id", id))
	}
	revoke(functiontest.AsAdmin("org-2"), id).Want(t, http.StatusNotFound, "api_key_not_found")
	revoke(functiontest.AsAdmin("org-1"), unknownID).Want(t, http.StatusNotFound, "api_key_not_found")
	revoke(functiontest.AsAdmin("org-1"), id).Want(t, http.StatusNoContent, "")
	b.Call(t, organizations.ListAPIKeys(b.Keys), functiontest.WithToken(secret)).
		Want(t, http.StatusUnauthorized, "invalid_token")
	revoke(functiontest.AsAdmin("org-1"), id).Want(t, http.StatusNotFound, "api_key_not_found")
}

// TestRevokeAPIKey_EndsTheKeyThatAsks lets whoever finds a leaked key end it, whatever its role is.
func TestRevokeAPIKey_EndsTheKeyThatAsks(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	other, _ := b.CreateMemberKey(t, "org-1")
	admin, adminSecret := b.CreateKey(t, "org-1")
	member, memberSecret := b.CreateMemberKey(t, "org-1")
	revoke := func(secret, id string) functiontest.Response {
		return b.Call(t, organizations.RevokeAPIKey(b.Keys), functiontest.WithToken(secret),
			functiontest.Path("key_id", id), functiontest.Query(url.Values{"descendants": {"true"}}))
	}
	revoke(memberSecret, other).Want(t, http.StatusForbidden, "role_required")
	revoke(memberSecret, member).Want(t, http.StatusNoContent, "")
	revoke(memberSecret, member).Want(t, http.StatusUnauthorized, "invalid_token")
	revoke(adminSecret, admin).Want(t, http.StatusNoContent, "")
	if left := listAPIKeys(t, b, functiontest.AsAdmin("org-1")); len(left) != 1 || left[0].ID != other {
		t.Errorf("the keys %+v are left, want only %s", left, other)
	}
}
