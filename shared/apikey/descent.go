package apikey

import (
	"slices"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/role"
)

// MaxAncestors bounds the stored ancestors of a key.
const MaxAncestors = 1000

// MadeWith returns the new key k as a request that authenticates with the key parent may create it: it expires with its
// parent at the latest. Errors: Forbidden if it had more rights than its parent, Conflict if the parent has too many
// ancestors.
func (k Key) MadeWith(parent Key) (Key, error) {
	if k.Role == role.Admin && parent.Role != role.Admin {
		return k, fault.New(fault.Forbidden, "role_required",
			"An API key cannot create a key with more rights than it has. Create the key in an admin's session.")
	}
	if len(parent.Ancestors) >= MaxAncestors {
		return k, fault.New(fault.Conflict, "api_key_chain_too_long",
			"The API key was created by a chain of %d API keys and cannot create another one. "+
				"Create the key in a user's session.", MaxAncestors)
	}
	if !parent.ExpiresAt.IsZero() && (k.ExpiresAt.IsZero() || parent.ExpiresAt.Before(k.ExpiresAt)) {
		k.ExpiresAt = parent.ExpiresAt
	}
	k.Ancestors = append(slices.Clone(parent.Ancestors), parent.ID)
	return k, nil
}

// WithDescendants returns the key with an id, if it is among the keys, and its descendants: the keys that it created,
// those that they created, and so on. keys are the keys of one organization. Keys in between may be revoked.
func WithDescendants(keys []Key, id string) []Key {
	family := map[string]bool{id: true}
	for grown := true; grown; {
		grown = false
		for _, k := range keys {
			// Keys of earlier releases have no ancestors, but know their creator.
			if !family[k.ID] && (family[k.CreatedBy] || slices.ContainsFunc(k.Ancestors, func(a string) bool {
				return family[a]
			})) {
				family[k.ID], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return !family[k.ID] })
}
