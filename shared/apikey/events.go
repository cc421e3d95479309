package apikey

import (
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/role"
)

type keyData struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Purpose   Purpose   `json:"purpose"`
	Role      role.Role `json:"role"`
	KeyPrefix string    `json:"key_prefix"`
}

func dataOf(k Key) keyData {
	v := k.Show()
	return keyData{ID: v.ID, Name: v.Name, Purpose: v.Purpose, Role: v.Role, KeyPrefix: v.KeyPrefix}
}

// CreatedEvents lists the events of the commit that creates a key.
func CreatedEvents(k Key) []event.Draft {
	return []event.Draft{event.New(event.APIKeyCreated, dataOf(k))}
}

// RevokedEvents lists the events of the commit that revokes keys. The deletion of an expired key has none.
func RevokedEvents(keys ...Key) []event.Draft {
	events := make([]event.Draft, len(keys))
	for i, k := range keys {
		events[i] = event.New(event.APIKeyRevoked, dataOf(k))
	}
	return events
}
