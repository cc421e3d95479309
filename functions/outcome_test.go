package functions_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
)

// auditEntries lists the entries of an action, oldest first.
func (s *samples) auditEntries(t *testing.T, action string) []audit.Entry {
	t.Helper()
	return s.lastAuditEntries(t, action, page.MaxLimit)
}

// lastAuditEntries lists at most limit of the newest entries of an action, oldest first.
func (s *samples) lastAuditEntries(t *testing.T, action string, limit int) []audit.Entry {
	t.Helper()
	ctx := call.As(t.Context(), identity.Caller{OrganizationID: org})
	found, err := s.Audit.List(ctx, audit.Filter{Action: action}, page.Request{Limit: limit})
	must(t, err)
	slices.Reverse(found.Items)
	return found.Items
}

// brokenWriter and brokenReader fail with every value, and call during before.
type brokenWriter struct {
	credential.SecretWriter
	during func()
}

func errDown() error { return fault.New(fault.Unavailable, "secret_store_unavailable", "Later.") }

func (w brokenWriter) PutFirst(ctx context.Context, id, key string, value []byte) (int64, error) {
	return w.Put(ctx, id, key, value)
}

func (w brokenWriter) Put(context.Context, string, string, []byte) (int64, error) {
	w.during()
	return 0, errDown()
}

func (w brokenWriter) AddCredentials(context.Context, string, string) (int64, error) {
	w.during()
	return 0, errDown()
}

type brokenReader struct{ during func() }

func (r brokenReader) GetCredentials(context.Context, string, int64) (credential.Credentials, error) {
	r.during()
	return credential.Credentials{}, errDown()
}

// TestAudit_RecordsTheOutcomeOfCallsThatContinueAfterTheirCommit: the entry says begun while the secret store is
// called, as it does if the process dies there, and then what the client was told.
func TestAudit_RecordsTheOutcomeOfCallsThatContinueAfterTheirCommit(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"PutSecrets", "RotateCredentials", "RevealCredentials"} {
		s := newSamples(t)
		during := func() {
			for _, e := range s.auditEntries(t, action) {
				if e.Outcome != audit.Begun {
					t.Errorf("%s: while the secret store is called, outcome = %s, want begun", action, e.Outcome)
				}
			}
		}
		working, reader := s.SecretWriter, s.Credentials
		call := func(wantStatus int, wantCode string) {
			t.Helper()
			options := []functiontest.Option{functiontest.AsAdmin(org), functiontest.Path("agent_id", s.agentID)}
			if action == "PutSecrets" {
				secrets := map[string]string{"B": "value " + wantCode}
				options = append(options, functiontest.Body(map[string]any{"secrets": secrets}))
			}
			s.CallNamed(t, action, options...).Want(t, wantStatus, wantCode)
		}
		s.SecretWriter, s.Credentials = brokenWriter{working, during}, brokenReader{during}
		call(http.StatusServiceUnavailable, "secret_store_unavailable")
		entries := s.auditEntries(t, action)
		if len(entries) != 1 || entries[0].Outcome != "secret_store_unavailable" || entries[0].Target.ID != s.agentID {
			t.Errorf("%s: entries %+v, want one with the outcome secret_store_unavailable", action, entries)
		}
		if action != "RevealCredentials" {
			continue
		}
		s.SecretWriter, s.Credentials = working, reader
		call(http.StatusOK, "")
		if entries := s.auditEntries(t, action); len(entries) != 2 || entries[1].Outcome != audit.Succeeded {
			t.Errorf("%s: entries %+v, want a second with the outcome succeeded", action, entries)
		}
	}
}

// watchedSettings and watchedMembers call before when what they have is about to change.
type watchedSettings struct {
	organization.Settings
	before func()
}

func (s watchedSettings) Choose(ctx context.Context, id string, change func(*organization.Choices) error) error {
	s.before()
	return s.Settings.Choose(ctx, id, change)
}

type watchedMembers struct {
	member.Provider
	before func()
}

func (m watchedMembers) Assign(ctx context.Context, id, organizationID string, role identity.Role) error {
	m.before()
	return m.Provider.Assign(ctx, id, organizationID, role)
}

// TestAudit_HasAnEntryBeforeWhatNoCommitWritesWithIt: if the process dies after such a change, the log has it.
func TestAudit_HasAnEntryBeforeWhatNoCommitWritesWithIt(t *testing.T) {
	t.Parallel()
	for action, body := range map[string]map[string]string{
		"UpdateCurrentOrganization": {"exec": "off"}, "SetMember": {"role": "admin"},
	} {
		s := newSamples(t)
		s.Firebase.Persons["new"] = member.Person{ID: "new"}
		called := 0
		before := func() {
			called++
			found := s.auditEntries(t, action)
			if len(found) != 1 || found[0].Outcome != audit.Begun || len(found[0].Changes) != 1 {
				t.Errorf("%s: before the change, the log has %+v, want an entry that says begun", action, found)
			}
		}
		s.Organizations, s.Members = watchedSettings{s.Organizations, before}, watchedMembers{s.Members, before}
		options := []functiontest.Option{functiontest.AsAdmin(org), functiontest.Body(body)}
		if action == "SetMember" {
			options = append(options, functiontest.Path("user_id", "new"))
		}
		s.CallNamed(t, action, options...).Want(t, http.StatusOK, "")
		if found := s.auditEntries(t, action); called != 1 || len(found) != 1 || found[0].Outcome != audit.Succeeded ||
			len(found[0].Changes) != 1 {
			t.Errorf("%s: after %d changes the log has %+v, want one entry that says succeeded", action, called, found)
		}
	}
}

// TestAudit_MarksReplays: an auditor who counts creations must not count replays.
func TestAudit_MarksReplays(t *testing.T) {
	t.Parallel()
	s := newSamples(t)
	before := len(s.auditEntries(t, "CreateAgent"))
	var id string
	for range 3 {
		id = s.CallNamed(t, "CreateAgent", functiontest.AsAdmin(org), functiontest.Header(idempotency.Header, "key"),
			functiontest.Body(map[string]string{"name": "new", "resource_plan": "hobby"})).
			Want(t, http.StatusCreated, "").Text("id")
	}
	entries := s.auditEntries(t, "CreateAgent")[before:]
	if len(entries) != 3 {
		t.Fatalf("%d entries, want one for each call", len(entries))
	}
	for i, e := range entries {
		if e.Outcome != audit.Succeeded || e.Target.ID != id || e.Replayed != (i > 0) {
			t.Errorf("entry %d = %+v, want the target %s, and replayed for all but the first", i, e, id)
		}
	}
}

// TestMembers_EndSessionsOnTheRepeat: the identity provider takes the role away, and then fails to end the sessions.
func TestMembers_EndSessionsOnTheRepeat(t *testing.T) {
	t.Parallel()
	for action, wantStatus := range map[string]int{"RemoveMember": http.StatusNoContent, "SetMember": http.StatusOK} {
		s := newSamples(t)
		s.Firebase.Persons[userID] = member.Person{ID: userID, OrganizationID: org, Role: identity.RoleAdmin}
		s.Firebase.Persons["other"] = member.Person{ID: "other", OrganizationID: org, Role: identity.RoleAdmin}
		must(t, s.MemberRecords.RecordMember(t.Context(), org, "other"))
		call := func() functiontest.Response {
			options := []functiontest.Option{functiontest.AsAdmin(org), functiontest.Path("user_id", userID)}
			if action == "SetMember" {
				options = append(options, functiontest.Body(map[string]string{"role": "member"}))
			}
			return s.CallNamed(t, action, options...)
		}
		s.Firebase.FailRevoke = fault.New(fault.Unavailable, "identity_provider_unavailable", "Later.")
		call().Want(t, http.StatusServiceUnavailable, "identity_provider_unavailable")
		s.Firebase.FailRevoke = nil
		call().Want(t, wantStatus, "")
		if !slices.Equal(s.Firebase.Revoked, []string{userID}) {
			t.Errorf("%s: the sessions of %v were ended, want those of %s", action, s.Firebase.Revoked, userID)
		}
		entries := s.auditEntries(t, action)
		if len(entries) != 2 || entries[0].Outcome != "identity_provider_unavailable" || len(entries[0].Changes) != 1 ||
			entries[1].Outcome != audit.Succeeded {
			t.Errorf("%s: entries %+v, want the change with its failure, then a success", action, entries)
		}
		for _, e := range entries {
			if e.Target.ID != userID {
				t.Errorf("%s: target %+v, want %s", action, e.Target, userID)
			}
		}
		call()
		if got := len(s.Firebase.Revoked); got != 1 {
			t.Errorf("%s: sessions were ended %d times, want once", action, got)
		}
	}
}
