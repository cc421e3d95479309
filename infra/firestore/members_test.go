package firestore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/webhook"
)

// TestListMembers_SeparatesOrganizations records a person in two organizations, and another person in one of them.
func TestListMembers_SeparatesOrganizations(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	members := open(t, "", Options{Now: func() time.Time { return now }}).Members()
	for _, m := range []struct{ organization, subject string }{
		{"org_1", "ada"}, {"org_2", "ada"}, {"org_2", "bob"}, {"org_2", "bob"},
	} {
		must(t, members.RecordMember(t.Context(), m.organization, m.subject))
	}
	must(t, members.EndSessions(t.Context(), "org_2", "ada", true))
	for organization, want := range map[string][]member.Record{
		"org_1": {{ID: "ada"}},
		"org_2": {{ID: "ada", RevocationDue: true, SessionsEnded: now}, {ID: "bob"}},
		"org_3": nil,
	} {
		got, err := members.ListMembers(t.Context(), organization)
		must(t, err)
		slices.SortFunc(got, func(a, b member.Record) int { return strings.Compare(a.ID, b.ID) })
		if !slices.Equal(got, want) {
			t.Errorf("the members of %s are %+v, want %+v", organization, got, want)
		}
	}
}

// TestSessionsEnded_IsReadOnceInTenSeconds asks as whoever has a link can. That a process knows of no end must not keep
// it from creating the record.
func TestSessionsEnded_IsReadOnceInTenSeconds(t *testing.T) {
	t.Parallel()
	clock, recorder := agenttest.Now(), &callRecorder{}
	project := "test-" + uuid.NewString()
	c := open(t, project, Options{Now: func() time.Time { return clock }, Observe: recorder.observe})
	other := open(t, project, Options{Now: func() time.Time { return clock }})
	org, u := newMember()
	want := func(ended time.Time, wantCalls string) {
		t.Helper()
		calls := recorder.during(func() {
			for range 100 {
				got, err := c.Directory().SessionsEnded(t.Context(), org, u.Subject)
				if must(t, err); !got.Equal(ended) {
					t.Fatalf("the sessions were ended at %v, want %v", got, ended)
				}
			}
		})
		if calls != wantCalls {
			t.Errorf("100 questions: calls %q, want %q", calls, wantCalls)
		}
	}
	want(time.Time{}, "read")
	_, err := c.Directory().Ensure(t.Context(), org, u)
	must(t, err)
	ended := clock
	must(t, other.Members().EndSessions(t.Context(), org, u.Subject, true))
	clock = clock.Add(organization.EndsKnown - time.Millisecond)
	want(time.Time{}, "")
	clock = clock.Add(time.Millisecond)
	want(ended, "read")
	clock = clock.Add(time.Second)
	must(t, c.Members().EndSessions(t.Context(), org, u.Subject, true)) // a process knows what it did
	want(clock, "read")
}

// TestEnsure_LearnsThatSessionsWereEnded ends a member's sessions in another process. A process that knows the member
// goes by what it read for organization.EndsKnown.
func TestEnsure_LearnsThatSessionsWereEnded(t *testing.T) {
	t.Parallel()
	clock := agenttest.Now()
	c := open(t, "", Options{Now: func() time.Time { return clock }})
	org, u := newMember()
	ensure := func(c *Client, want time.Time) {
		t.Helper()
		if got, err := c.Directory().Ensure(t.Context(), org, u); err != nil || !got.Equal(want) {
			t.Errorf("at %v the sessions were ended at %v, %v; want %v", clock, got, err, want)
		}
	}
	ensure(c, time.Time{})
	clock = clock.Add(time.Second)
	ended := clock
	must(t, c.Members().EndSessions(t.Context(), org, u.Subject, true))
	clock = clock.Add(organization.EndsKnown - time.Second - time.Millisecond)
	ensure(c, time.Time{})
	clock = clock.Add(time.Millisecond)
	ensure(c, ended)
	ensure(c, ended)
	must(t, c.Members().EndSessions(t.Context(), org, u.Subject, false))
	got, err := c.Directory().SessionsEnded(t.Context(), org, u.Subject)
	if must(t, err); !got.Equal(clock) {
		t.Errorf("the sessions were ended at %v, want %v: ending them again ends those that began since", got, clock)
	}
	for subject, organizationID := range map[string]string{"another": org, u.Subject: "org_other"} {
		if got, err := c.Directory().SessionsEnded(t.Context(), organizationID, subject); err != nil || !got.IsZero() {
			t.Errorf("the sessions of %s in %s were ended at %v, %v; want never", subject, organizationID, got, err)
		}
	}
}

// What a webhook tells its receiver outlives the rights of whoever named the receiver.
func TestWebhooks_AreNotWrittenByASessionThatWasEnded(t *testing.T) {
	t.Parallel()
	clock := agenttest.Now()
	c := open(t, "", Options{Now: func() time.Time { return clock }})
	org := newKeyTenant(t, c)
	subject, issued := "sub-"+agenttest.ID(), clock
	w := newWebhook()
	session := func() context.Context {
		ctx, _ := org.Call()
		return asSession(ctx, subject, issued)
	}
	_, err := c.Webhooks().Create(session(), w)
	must(t, err)
	clock = clock.Add(time.Second)
	must(t, c.Members().EndSessions(t.Context(), org.ID, subject, true))
	if _, err := c.Webhooks().Create(session(), newWebhook()); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("create with a session that was ended: %v, want Unauthenticated", err)
	}
	_, err = c.Webhooks().Change(session(), w.ID, func(w *webhook.Webhook) (*webhook.Delivery, error) {
		w.URL = "https://elsewhere.example.com/"
		return nil, nil
	})
	if !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("change with a session that was ended: %v, want Unauthenticated", err)
	}
	if got, err := c.Webhooks().Get(org.Ctx, w.ID); err != nil || got.URL != w.URL {
		t.Errorf("the webhook sends to %q, %v; want %q", got.URL, err, w.URL)
	}
}
