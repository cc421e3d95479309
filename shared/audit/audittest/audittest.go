package audittest

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// TestLog holds an audit.Log to its promises. open makes an empty world.
func TestLog(t *testing.T, open func(*testing.T) World) {
	for name, test := range map[string]func(*testing.T, World){
		"every field is kept":         everyField,
		"the time is filled in":       timeFilledIn,
		"append once":                 appendOnce,
		"append in a race":            appendRace,
		"ids that can't be kept":      badIDs,
		"retention":                   retention,
		"what has expired":            expired,
		"expired among others":        expiredAmongOthers,
		"pages":                       pages,
		"pages while others append":   pagesWhileOthersAppend,
		"filters":                     filters,
		"bounds":                      bounds,
		"pages of what filters leave": filteredPages,
		"bad cursors":                 badCursors,
		"tenancy":                     tenancy,
		"each":                        each,
		"each until an error":         eachUntilError,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// everyField fails when a field is added to the entry and forgotten by a log.
func everyField(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	e := audit.Entry{
		ID: random(), OrganizationID: org.id, CreatedAt: now.Add(-time.Second),
		Actor: identity.Caller{
			Type: identity.APIKey, ID: "k", Email: "ada@example.com", OrganizationID: org.id, Role: identity.RoleMember,
			KeyPrefix: "so_12345678",
		},
		Action: "UpdateAgent", Target: audit.Target{Type: "agent", ID: "a", Name: "Bot"}, Outcome: "agent_deleting",
		Request: audit.Request{Action: "UpdateAgent", RequestID: "r", IP: "192.0.2.1", UserAgent: "suite \uFFFD"},
		Changes: []audit.Change{{Field: "name", Old: "Bat", New: "Bot"}, {Field: "config", New: "changed"}},
	}
	org.append(e)
	got := org.list(org.log, audit.Filter{}, 10)
	if len(got) != 1 {
		t.Fatalf("%d entries, want 1", len(got))
	}
	v := reflect.ValueOf(got[0])
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("the field %s was not kept, or this test doesn't set it", v.Type().Field(i).Name)
		}
	}
	e.ExpiresAt = got[0].ExpiresAt
	if !reflect.DeepEqual(got[0], e) {
		t.Errorf("the entry was not kept:\n got %+v\nwant %+v", got[0], e)
	}
	if stored := org.stored(); !reflect.DeepEqual(stored, got) {
		t.Errorf("what is listed is not what is stored:\n got %+v\nwant %+v", got, stored)
	}
}

func timeFilledIn(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	e := org.entry(0)
	e.CreatedAt, e.ExpiresAt = time.Time{}, now.AddDate(100, 0, 0)
	org.append(e)
	got := org.stored()
	if len(got) != 1 || !got[0].CreatedAt.Equal(now) || !got[0].ExpiresAt.Equal(now.AddDate(0, 0, 30)) {
		t.Errorf("stored %+v, want it to be created at %v and kept for 30 days", got, now)
	}
}

func appendOnce(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	first := org.entry(1)
	second := org.entry(2)
	second.ID, second.Outcome = first.ID, "agent_deleting"
	for _, e := range []audit.Entry{first, second, second} {
		if err := org.log.Append(t.Context(), e); err != nil {
			t.Errorf("append: %v, want a success", err)
		}
	}
	if got := org.stored(); len(got) != 1 || got[0].Outcome != first.Outcome ||
		!got[0].CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("stored %+v, want the first one only", got)
	}
}

func appendRace(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	e := org.entry(1)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = org.log.Append(t.Context(), e) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil || len(org.stored()) != 1 {
		t.Errorf("%d entries, %v; want one, and only successes", len(org.stored()), err)
	}
}

func badIDs(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	for _, id := range []string{"", ".", "a/b", "__x__", "\xff"} {
		e := org.entry(1)
		e.ID = id
		if err := org.log.Append(t.Context(), e); err == nil {
			t.Errorf("the entry %q was appended", id)
		}
		e = org.entry(1)
		e.OrganizationID = id
		if err := org.log.Append(t.Context(), e); err == nil {
			t.Errorf("an entry of the organization %q was appended", id)
		}
	}
	if got := org.stored(); len(got) != 0 {
		t.Errorf("stored %v", ids(got))
	}
}

func tenancy(t *testing.T, w World) {
	owner, other := w.tenant(t, plan.Enterprise), w.tenant(t, plan.Enterprise)
	e := owner.ago(1)[0]
	nobody := other
	nobody.ctx = t.Context()
	for name, n := range map[string]tenant{"another organization": other, "nobody": nobody} {
		for _, f := range []audit.Filter{{}, {TargetID: e.Target.ID},
			{ActorID: e.Actor.ID, From: now.Add(-time.Hour)}} {
			if got := n.list(n.log, f, 10); len(got) != 0 {
				t.Errorf("%s lists %v with the filter %+v", name, ids(got), f)
			}
			if err := n.log.Each(n.ctx, f, func(e audit.Entry) error { return errors.New(e.ID) }); err != nil {
				t.Errorf("%s visits %v with the filter %+v", name, err, f)
			}
		}
	}
}
