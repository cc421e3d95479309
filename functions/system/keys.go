package system

import (
	"context"
	"encoding/json"
	"net/http"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
)

// KeySet is the response with the public keys, a JSON Web Key Set.
type KeySet struct {
	Keys []map[string]any `json:"keys" jsonschema:"JSON Web Keys (RFC 7517)."`
}

// Example implements function.Exampler.
func (KeySet) Example() any {
	return KeySet{Keys: []map[string]any{{
		"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "2026-03",
		"x": "...", "y": "...",
	}}}
}

// keyCaching lets agents cache the keys for five minutes. A new key is published at least that long before it signs.
const keyCaching = "public, max-age=300"

// Reply implements function.Reply.
func (s KeySet) Reply(h http.Header) any {
	h.Set("Cache-Control", keyCaching)
	return s
}

// Keys publishes the keys with which agents verify links to their dashboards, and clients verify statements about audit
// logs and receipts of deletions.
func Keys(keys handoff.KeySet) function.Route {
	return function.Route{
		Name: "GetHandoffKeys", Method: http.MethodGet, Path: "/.well-known/jwks.json", Access: function.Public,
		Status: http.StatusOK, Summary: "Get the public keys of signed links and receipts",
		Handle: function.Handle(func(context.Context, function.Empty) (KeySet, error) {
			published := KeySet{Keys: []map[string]any{}}
			b, err := json.Marshal(keys)
			if err == nil {
				err = json.Unmarshal(b, &published)
			}
			return published, err
		}),
	}
}
