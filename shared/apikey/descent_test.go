package apikey_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/role"
)

func TestMadeWith_CapsTheExpiryAtTheCreators(t *testing.T) {
	t.Parallel()
	at := func(days int) time.Time { return time.Date(2026, 1, days, 0, 0, 0, 0, time.UTC) }
	for name, c := range map[string]struct{ requested, creator, want time.Time }{
		"both without end":            {},
		"creator without end":         {requested: at(3), want: at(3)},
		"requested without end":       {creator: at(2), want: at(2)},
		"requested after the creator": {requested: at(3), creator: at(2), want: at(2)},
		"requested before the creator": {
			requested: at(1), creator: at(2), want: at(1),
		},
	} {
		k, err := apikey.Key{ExpiresAt: c.requested}.MadeWith(apikey.Key{ID: "parent", ExpiresAt: c.creator})
		if err != nil || !k.ExpiresAt.Equal(c.want) {
			t.Errorf("%s: expires at %v (%v), want %v", name, k.ExpiresAt, err, c.want)
		}
	}
}

func TestMadeWith_GivesNoMoreRightsThanTheCreators(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		requested, creator role.Role
		want               string
	}{
		{requested: role.Admin, creator: role.Admin},
		{requested: role.Member, creator: role.Admin},
		{requested: role.Member, creator: role.Member},
		{requested: role.Admin, creator: role.Member, want: "role_required"},
		{requested: role.Admin, creator: "of a later release", want: "role_required"},
	} {
		k, err := apikey.Key{Role: c.requested}.MadeWith(apikey.Key{ID: "parent", Role: c.creator})
		if fault.Code(err) != c.want || k.Role != c.requested {
			t.Errorf("a key with the role %s creates one with %s: role %s, error %v, want code %q",
				c.creator, c.requested, k.Role, err, c.want)
		}
	}
}

func TestMadeWith_RecordsTheAncestors(t *testing.T) {
	t.Parallel()
	parent := apikey.Key{ID: "c", Ancestors: append(make([]string, 0, 8), "a", "b")}
	one, _ := apikey.Key{}.MadeWith(parent)
	other, _ := apikey.Key{}.MadeWith(apikey.Key{ID: "d", Ancestors: parent.Ancestors})
	if want := []string{"a", "b", "c"}; !slices.Equal(one.Ancestors, want) {
		t.Errorf("ancestors = %v, want %v", one.Ancestors, want)
	}
	if want := []string{"a", "b", "d"}; !slices.Equal(other.Ancestors, want) {
		t.Errorf("ancestors = %v, want %v", other.Ancestors, want)
	}
	last := apikey.Key{ID: "last"}
	for i := range apikey.MaxAncestors {
		last.Ancestors = append(last.Ancestors, fmt.Sprint(i))
	}
	if _, err := (apikey.Key{}).MadeWith(last); !fault.Is(err, fault.Conflict) {
		t.Errorf("a key of %d ancestors creates another: %v, want a Conflict", len(last.Ancestors), err)
	}
}

func TestWithDescendants_FollowsCreatorsAndAncestors(t *testing.T) {
	t.Parallel()
	keys := []apikey.Key{
		// c was made by b, which is revoked, and d by c. The list begins with the youngest, as the routes' lists do.
		{ID: "d", CreatedBy: "c", Ancestors: []string{"a", "b", "c"}},
		{ID: "c", CreatedBy: "b", Ancestors: []string{"a", "b"}},
		{ID: "a", CreatedBy: "user"},
		// Keys of an earlier release have no ancestors.
		{ID: "old grandchild", CreatedBy: "old child"},
		{ID: "old child", CreatedBy: "old"},
		{ID: "old", CreatedBy: "user"},
		{ID: "new child of an old one", CreatedBy: "old grandchild", Ancestors: []string{"old grandchild"}},
		{ID: "other", CreatedBy: "user"},
	}
	for id, want := range map[string][]string{
		"a":       {"d", "c", "a"},
		"b":       {"d", "c"},
		"c":       {"d", "c"},
		"d":       {"d"},
		"old":     {"old grandchild", "old child", "old", "new child of an old one"},
		"other":   {"other"},
		"unknown": nil,
	} {
		var got []string
		for _, k := range apikey.WithDescendants(keys, id) {
			got = append(got, k.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("WithDescendants(%q) = %q, want %q", id, got, want)
		}
	}
}
