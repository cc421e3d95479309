package organizations

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/role"
)

// keyName is a key's display name.
type keyName string

// JSONSchema implements function.Schemer.
func (keyName) JSONSchema() *jsonschema.Schema { return function.Text(1, 80) }

// keyDays is the lifetime of a key.
type keyDays int

// JSONSchema implements function.Schemer.
func (keyDays) JSONSchema() *jsonschema.Schema { return function.Integer(1, 365, nil) }

type createAPIKeyInput struct {
	Body struct {
		Name          keyName        `json:"name" jsonschema:"A name for people, such as the key's user."`
		Purpose       apikey.Purpose `json:"purpose,omitempty" jsonschema:"What the key is for; script by default."`
		Role          role.Role      `json:"role,omitempty" jsonschema:"What the key may do: admin, everything that admins may, which is the default; member, only read."`
		ExpiresInDays *keyDays       `json:"expires_in_days,omitempty" jsonschema:"Null for a key that does not expire. A key that is created with an API key expires with that key at the latest, whatever is requested; expires_at has the result."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (createAPIKeyInput) Example() any {
	var in createAPIKeyInput
	lifetime := keyDays(90)
	in.Body.Name, in.Body.Purpose, in.Body.ExpiresInDays = "Deployments", "ci", &lifetime
	return in
}

// key returns the record of a new key, and its secret.
func (in createAPIKeyInput) key(caller identity.Caller, pepper apikey.Pepper, now time.Time) (apikey.Key, string) {
	secret := apikey.Generate()
	k := apikey.Key{
		ID: uuid.NewString(), OrganizationID: caller.OrganizationID, Name: string(in.Body.Name),
		Prefix: secret[:apikey.PrefixLength], CreatedBy: caller.ID, CreatedAt: now,
	}.HashedWith(pepper, secret)
	k.Purpose, k.Role = cmp.Or(in.Body.Purpose, apikey.DefaultPurpose), cmp.Or(in.Body.Role, apikey.DefaultRole)
	if in.Body.ExpiresInDays != nil {
		k.ExpiresAt = now.AddDate(0, 0, int(*in.Body.ExpiresInDays))
	}
	return k, secret
}

// CreateAPIKey creates a key. Its answer is the only one that shows the secret.
func CreateAPIKey(keys apikey.Store, pepper apikey.Pepper) function.Route {
	return function.Route{
		Name: "CreateAPIKey", Method: http.MethodPost, Path: "/api/v1/api-keys",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.NudgeWebhooks},
		// Conflict: the plan has no room for another key, or the creating key has too many ancestors.
		Status: http.StatusCreated, Summary: "Create an API key", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in createAPIKeyInput) (apikey.CreatedView, error) {
			k, secret := in.key(call.From(ctx).Caller, pepper, time.Now().UTC())
			created, err := keys.Create(ctx, k)
			if err != nil {
				return apikey.CreatedView{}, err
			}
			v := apikey.CreatedView{View: created.Show()}
			// Another id is that of the first of repeated requests, whose secret was not stored.
			if created.ID == k.ID {
				v.Secret = &secret
			}
			return v, nil
		}),
	}
}

type listAPIKeysInput struct {
	Query page.Query `json:"query"`
}

// ListAPIKeys reads a page of the organization's keys, newest first.
func ListAPIKeys(keys apikey.Store) function.Route {
	return function.Route{
		Name: "ListAPIKeys", Method: http.MethodGet, Path: "/api/v1/api-keys",
		Access: function.Admin, Needs: []function.Need{function.Firestore},
		// BadRequest: a cursor of another list.
		Status: http.StatusOK, Summary: "List API keys", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in listAPIKeysInput) (page.Page[apikey.View], error) {
			found, err := keys.List(ctx, in.Query.Request())
			found.Self = &url.URL{Path: "/api/v1/api-keys", RawQuery: in.Query.Values().Encode()}
			return page.Map(found, apikey.Key.Show), err
		}),
	}
}

type revokeAPIKeyInput struct {
	Path struct {
		KeyID function.UUID `json:"key_id" jsonschema:"The API key's id."`
	} `json:"path"`
	Query struct {
		Descendants bool `json:"descendants,omitempty" jsonschema:"Also revoke the keys that were created with this key, with those keys, and so on. The key itself may already be revoked."`
	} `json:"query"`
}

// RevokeAPIKey ends a key immediately: every request that begins after the answer is refused. It can end the keys that
// were created with it, too.
func RevokeAPIKey(keys apikey.Store) function.Route {
	return function.Route{
		Name: "RevokeAPIKey", Method: http.MethodDelete, Path: "/api/v1/api-keys/{key_id}",
		Access: function.Admin, KeyItself: "key_id", Needs: []function.Need{function.Firestore, function.NudgeWebhooks},
		Status: http.StatusNoContent, Summary: "Revoke an API key",
		Handle: function.Handle(func(ctx context.Context, in revokeAPIKeyInput) (function.None, error) {
			// A key without the role admin has created none, so it ends itself alone.
			if in.Query.Descendants && call.From(ctx).Caller.Admin() {
				return function.None{}, keys.RevokeWithDescendants(ctx, string(in.Path.KeyID))
			}
			return function.None{}, keys.Revoke(ctx, string(in.Path.KeyID))
		}),
	}
}
