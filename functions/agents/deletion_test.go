package agents_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/handoff"
)

// getDeletion calls the route of a deletion.
func getDeletion(t *testing.T, b *backendtest.Backend, id string, as functiontest.Option) functiontest.Response {
	t.Helper()
	return callAgent(t, b, id, "GetDeletion", as)
}

// readDeletion reads a deletion as an admin of org-1.
func readDeletion(t *testing.T, b *backendtest.Backend, id string) agent.DeletionView {
	t.Helper()
	var v agent.DeletionView
	getDeletion(t, b, id, functiontest.AsAdmin("org-1")).Want(t, http.StatusOK, "").Decode(t, &v)
	return v
}

// publishedKeys returns the keys at the public route.
func publishedKeys(t *testing.T, b *backendtest.Backend) handoff.KeySet {
	t.Helper()
	keys, err := handoff.ParseKeySet(string(b.CallNamed(t, "GetHandoffKeys").Want(t, http.StatusOK, "").Body))
	must(t, err)
	return keys
}

func TestDelete_LocatesTheDeletion(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id, key := b.RunningAgent(t, "org-1", nil).ID, functiontest.Header("Idempotency-Key", uuid.NewString())
	rehearsed := callAgent(t, b, id, "DeleteAgent", dryRun()).Want(t, http.StatusOK, "")
	if got, exists := rehearsed.Header["Location"]; exists {
		t.Errorf("a rehearsal has the Location %q, want none, because no deletion has begun", got)
	}
	getDeletion(t, b, id, functiontest.AsAdmin("org-1")).Want(t, http.StatusNotFound, "deletion_not_found")
	for name, res := range map[string]functiontest.Response{
		"first":                 callAgent(t, b, id, "DeleteAgent", key),
		"repeated with its key": callAgent(t, b, id, "DeleteAgent", key),
		"repeated":              callAgent(t, b, id, "DeleteAgent"),
	} {
		res.Want(t, http.StatusAccepted, "")
		if got, want := res.Header.Get("Location"), "/api/v1/deletions/"+id; got != want {
			t.Errorf("Location of the %s DELETE = %q, want %q", name, got, want)
		}
	}
}

// A repeat neither moves the time of the request nor takes the place of the first caller.
func TestDelete_KeepsWhoRequestedItFirst(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := b.RunningAgent(t, "org-1", nil).ID
	keyID, key := b.CreateKey(t, "org-1")
	before := time.Now().Truncate(time.Microsecond) // as the store keeps times
	callAgent(t, b, id, "DeleteAgent", functiontest.WithToken(key)).Want(t, http.StatusAccepted, "")
	first := readDeletion(t, b, id)
	if first.RequestedBy == nil || *first.RequestedBy != keyID {
		t.Errorf("requested_by = %v, want the key %s", first.RequestedBy, keyID)
	}
	if first.RequestedAt == nil || first.RequestedAt.Before(before) || first.RequestedAt.After(time.Now()) {
		t.Errorf("requested_at = %v, want the time of the call, %v", first.RequestedAt, before)
	}
	callAgent(t, b, id, "DeleteAgent").Want(t, http.StatusAccepted, "")
	if diff := cmp.Diff(first, readDeletion(t, b, id)); diff != "" {
		t.Errorf("a second DELETE changed the deletion (-before +after):\n%s", diff)
	}
}

func TestDeletion_IsSignedOnceEverythingIsGone(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := b.RunningAgent(t, "org-1", map[string]string{"API_KEY": "a secret"}).ID
	callAgent(t, b, id, "DeleteAgent").Want(t, http.StatusAccepted, "")
	d := readDeletion(t, b, id)
	if d.Status != agent.DeletionRuns || d.Receipt != nil || d.CompletedAt != nil {
		t.Errorf("during the deletion: %+v, want no receipt", d)
	}
	b.Reconcile(t, id)
	d = readDeletion(t, b, id)
	if d.Status != agent.DeletionDone || d.Receipt == nil || d.CompletedAt == nil {
		t.Fatalf("after the deletion: %+v, want a receipt", d)
	}
	claims, err := handoff.VerifyReceipt(*d.Receipt, publishedKeys(t, b))
	if err != nil {
		t.Fatalf("the published keys do not verify the receipt: %v", err)
	}
	if diff := cmp.Diff(d.DeletionFacts, claims.DeletionFacts); diff != "" {
		t.Errorf("the receipt differs from the answer (-answer +receipt):\n%s", diff)
	}
	if claims.OrganizationID != "org-1" {
		t.Errorf("the receipt is for %s, want org-1", claims.OrganizationID)
	}
	var names []string
	for _, r := range d.Resources {
		names = append(names, string(r.Name))
		if r.RequestedAt == nil || r.ObservedGoneAt == nil || r.ObservedGoneAt.Before(*r.RequestedAt) ||
			r.ObservedGoneAt.After(*d.CompletedAt) || r.RequestedAt.Before(*d.RequestedAt) {
			t.Errorf("%s: requested at %v and gone at %v, want both between %v and %v", r.Name, r.RequestedAt,
				r.ObservedGoneAt, d.RequestedAt, d.CompletedAt)
		}
	}
	if !slices.Equal(names, agent.ResourceName("").Values()) {
		t.Errorf("resources = %q, want %q", names, agent.ResourceName("").Values())
	}
}

func TestDeletion_IsOnlyForAdminsOfTheOrganization(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := b.RunningAgent(t, "org-1", nil).ID
	_, memberKey := b.CreateMemberKey(t, "org-1")
	_, strangerKey := b.CreateKey(t, "org-2")
	callAgent(t, b, id, "DeleteAgent").Want(t, http.StatusAccepted, "")
	for _, when := range []string{"during the deletion", "after it"} {
		for _, c := range []struct {
			as     functiontest.Option
			status int
			code   string
		}{
			{as: functiontest.AsMember("org-1"), status: http.StatusForbidden, code: "role_required"},
			{as: functiontest.WithToken(memberKey), status: http.StatusForbidden, code: "role_required"},
			{as: functiontest.AsUser(), status: http.StatusForbidden, code: "organization_required"},
			{as: functiontest.AsAdmin("org-2"), status: http.StatusNotFound, code: "deletion_not_found"},
			{as: functiontest.WithToken(strangerKey), status: http.StatusNotFound, code: "deletion_not_found"},
			{as: functiontest.WithToken("so_unknown"), status: http.StatusUnauthorized, code: "invalid_token"},
		} {
			if res := getDeletion(t, b, id, c.as); res.Status != c.status || res.Code() != c.code {
				t.Errorf("%s: answer %d %q, want %d %q", when, res.Status, res.Code(), c.status, c.code)
			}
		}
		b.Reconcile(t, id)
	}
	stranger := getDeletion(t, b, id, functiontest.AsAdmin("org-2"))
	unknown := getDeletion(t, b, uuid.NewString(), functiontest.AsAdmin("org-2"))
	if got, want := stranger.Text("detail"), unknown.Text("detail"); got != want {
		t.Errorf("a stranger reads %q of a deletion that exists, and %q of none", got, want)
	}
}

func TestDeletion_HasNoReceiptWithoutAKey(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.Handoff = nil
	id := b.RunningAgent(t, "org-1", nil).ID
	callAgent(t, b, id, "DeleteAgent").Want(t, http.StatusAccepted, "")
	b.Reconcile(t, id)
	if d := readDeletion(t, b, id); d.Status != agent.DeletionDone || !d.AllGone() || d.Receipt != nil {
		t.Errorf("deletion = %+v, want everything gone and no receipt", d)
	}
	res := getDeletion(t, b, id, functiontest.AsAdmin("org-1"))
	var fields map[string]json.RawMessage
	if res.Decode(t, &fields); string(fields["receipt"]) != "null" {
		t.Errorf("receipt = %s, want null", fields["receipt"])
	}
}
