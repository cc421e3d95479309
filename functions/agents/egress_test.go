package agents_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// egressOf is what an agent may reach, by an answer.
func egressOf(t *testing.T, res functiontest.Response) agent.EgressView {
	t.Helper()
	return fieldOf[agent.EgressView](t, res, "egress")
}

// newRestricted creates an agent that may reach a.example, in an organization with room for more.
func newRestricted(t *testing.T, b *backendtest.Backend) string {
	t.Helper()
	b.SetPlan(t, "org-1", plan.Enterprise)
	return createAgent(t, b, `,"egress":{"mode":"allow_list","allow":["a.example"]}`).
		Want(t, http.StatusCreated, "").Text("id")
}

// TestAgents_HaveEgress: a creation decides what an agent may reach, or else its organization.
func TestAgents_HaveEgress(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	create := func(egress string) agent.EgressView {
		return egressOf(t, createAgent(t, b, egress).Want(t, http.StatusCreated, ""))
	}
	open := agent.EgressView{Mode: egress.Open, Allow: []string{}, Deny: []string{}}
	byDefault := agent.EgressView{Mode: egress.AllowList, Allow: []string{"b.example"}, Deny: []string{}}
	if diff := cmp.Diff(open, create("")); diff != "" {
		t.Errorf("without rules (-want +got):\n%s", diff)
	}
	b.CallNamed(t, "UpdateCurrentOrganization", functiontest.AsAdmin("org-1"),
		functiontest.RawBody(`{"egress":{"mode":"allow_list","allow":["b.example"]}}`)).Want(t, http.StatusOK, "")
	for name, row := range map[string]struct {
		body string
		want agent.EgressView
	}{
		"by default":      {want: byDefault},
		"an explicit one": {body: `,"egress":{"mode":"open"}`, want: open},
		"another list without a mode": {
			body: `,"egress":{"allow":["a.example"]}`,
			want: agent.EgressView{Mode: egress.AllowList, Allow: []string{"a.example"}, Deny: []string{}},
		},
		"one more list without a mode": {
			body: `,"egress":{"deny":["c.b.example"]}`,
			want: agent.EgressView{
				Mode: egress.AllowList, Allow: []string{"b.example"}, Deny: []string{"c.b.example"},
			},
		},
		"lists": {
			body: `,"egress":{"mode":"allow_list","allow":["B.example","a.example","b.example"],"deny":["c.b.example"]}`,
			want: agent.EgressView{
				Mode: egress.AllowList, Allow: []string{"a.example", "b.example"}, Deny: []string{"c.b.example"},
			},
		},
	} {
		if diff := cmp.Diff(row.want, create(row.body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUpdate_ChangesEgress(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := newRestricted(t, b)
	want := agent.EgressView{Mode: egress.AllowList, Allow: []string{"a.example"}, Deny: []string{"b.example"}}
	got := egressOf(t, patchAgent(t, b, id, `{"egress":{"deny":["b.example"]}}`).Want(t, http.StatusOK, ""))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a list (-want +got):\n%s", diff)
	}
	want.Mode = egress.Open
	got = egressOf(t, patchAgent(t, b, id, `{"egress":{"mode":"open"}}`).Want(t, http.StatusOK, ""))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the mode (-want +got):\n%s", diff)
	}
}

func TestEgress_RefusesWhatIsNoName(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := newRestricted(t, b)
	many := `["` + strings.Join(slices.Repeat([]string{"a.example"}, 101), `","`) + `"]`
	long := func(n int) string {
		patterns := make([]string, n)
		for i := range patterns {
			patterns[i] = fmt.Sprintf("%d%s.example", i, strings.Repeat("a", 60))
		}
		return `["` + strings.Join(patterns, `","`) + `"]`
	}
	for name, row := range map[string]struct{ egress, want string }{
		"a URL":              {egress: `{"allow":["a.example","https://b.example"]}`, want: `["body","egress","allow",1]`},
		"an address":         {egress: `{"deny":["127.0.0.1"]}`, want: `["body","egress","deny",0]`},
		"another mode":       {egress: `{"mode":"closed"}`, want: `["body","egress","mode"]`},
		"no list":            {egress: `{"allow":"a.example"}`, want: `["body","egress","allow"]`},
		"too many":           {egress: `{"allow":` + many + `}`, want: `["body","egress","allow"]`},
		"too large":          {egress: `{"allow":` + long(60) + `,"deny":` + long(61) + `}`, want: `["body","egress"]`},
		"a number in a list": {egress: `{"allow":[1]}`, want: `["body","egress","allow",0]`},
	} {
		for route, res := range map[string]functiontest.Response{
			"UpdateAgent": patchAgent(t, b, id, `{"egress":`+row.egress+`}`),
			"CreateAgent": createAgent(t, b, `,"egress":`+row.egress),
			"UpdateCurrentOrganization": b.CallNamed(t, "UpdateCurrentOrganization", functiontest.AsAdmin("org-1"),
				functiontest.RawBody(`{"egress":`+row.egress+`}`)),
		} {
			res.Want(t, http.StatusUnprocessableEntity, "validation_error")
			if got := strings.Count(string(res.Body), `"loc":`); !strings.Contains(string(res.Body), row.want) || got != 1 {
				t.Errorf("%s with %s: %s, want one violation at %s", route, name, res.Body, row.want)
			}
		}
	}
}

// allow adds hosts to what an agent may reach.
func allow(t *testing.T, b *backendtest.Backend, id, body string, options ...functiontest.Option,
) functiontest.Response {
	t.Helper()
	return callAgent(t, b, id, "AllowEgressHosts", append(options, functiontest.RawBody(body))...)
}

func TestAllowEgressHosts_AddsToTheList(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := newRestricted(t, b)
	patchAgent(t, b, id, `{"egress":{"deny":["b.example"]}}`).Want(t, http.StatusOK, "")
	dry := allow(t, b, id, `{"hosts":["b.example"]}`, dryRun()).
		Want(t, http.StatusOK, "")
	if !strings.Contains(string(dry.Body), `"restarts":false`) || len(b.Agent(t, id).Egress.Allow) != 1 {
		t.Errorf("a rehearsal answers %s, want no restart and no change", dry.Body)
	}
	want := agent.EgressView{
		Mode: egress.AllowList, Allow: []string{"*.c.example", "a.example", "b.example"}, Deny: []string{},
	}
	for range 2 {
		got := egressOf(t, allow(t, b, id, `{"hosts":["B.example","*.c.example"]}`).Want(t, http.StatusOK, ""))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the lists (-want +got):\n%s", diff)
		}
	}
	for body, at := range map[string]string{
		`{"hosts":[]}`: `["body","hosts"]`, `{"hosts":["a.example","b"]}`: `["body","hosts",1]`, `{}`: `["body","hosts"]`,
		`{"hosts":["` + strings.Join(slices.Repeat([]string{"a.example"}, 21), `","`) + `"]}`: `["body","hosts"]`,
	} {
		res := allow(t, b, id, body).Want(t, http.StatusUnprocessableEntity, "validation_error")
		if !strings.Contains(string(res.Body), at) {
			t.Errorf("%s: %s, want a violation at %s", body, res.Body, at)
		}
	}
	patchAgent(t, b, id, `{"egress":{"mode":"open"}}`).Want(t, http.StatusOK, "")
	allow(t, b, id, `{"hosts":["d.example"]}`).Want(t, http.StatusConflict, "egress_open")
}

// TestSecrets_StayOutsideTheAgent sets, lists and deletes a brokered secret. The agent has a variable of its name,
// which clients see as they see a secret.
func TestSecrets_StayOutsideTheAgent(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	id := b.RunningAgent(t, "org-1", nil).ID
	put := func() functiontest.Response {
		return callAgent(t, b, id, "PutSecrets",
			functiontest.RawBody(`{"secrets":{"KEY":"v"},"inject":{"KEY":{"hosts":["B.example","a.example"]}}}`))
	}
	put().Want(t, http.StatusConflict, "egress_open")
	patchAgent(t, b, id, `{"egress":{"mode":"allow_list","allow":["*"]}}`).Want(t, http.StatusOK, "")
	b.Reconcile(t, id)
	var changes struct{ Operations []secret.View }
	put().Want(t, http.StatusAccepted, "").Decode(t, &changes)
	if o := changes.Operations; len(o) != 1 || o[0].Key != "KEY" || !o[0].Brokered {
		t.Fatalf("operations %+v, want a brokered one of KEY", o)
	}
	b.Reconcile(t, id)
	want := &secret.Inject{Hosts: []string{"a.example", "b.example"}, Header: "Authorization", Format: "Bearer {value}"}
	if diff := cmp.Diff(want, listed(t, b, id)[0].Inject); diff != "" {
		t.Errorf("the secret is added (-want +got):\n%s", diff)
	}
	view := callAgent(t, b, id, "GetAgent")
	if !strings.Contains(string(view.Body), `"env_vars":{"KEY":"gsm"}`) {
		t.Errorf("the agent has no variable with the placeholder: %s", view.Body)
	}
	patchAgent(t, b, id, `{"env_vars":{"KEY":"gsm"}}`).Want(t, http.StatusOK, "")
	patchAgent(t, b, id, `{"env_vars":{"KEY":"x"}}`).Want(t, http.StatusUnprocessableEntity, "validation_error")
	patchAgent(t, b, id, `{"egress":{"mode":"open"}}`).Want(t, http.StatusConflict, "secrets_brokered")
	callAgent(t, b, id, "DeleteSecret", functiontest.Path("key", "KEY")).Want(t, http.StatusAccepted, "")
	b.Reconcile(t, id)
	if left := listed(t, b, id); len(left) != 0 {
		t.Errorf("secrets after the deletion: %+v", left)
	}
	patchAgent(t, b, id, `{"egress":{"mode":"open"}}`).Want(t, http.StatusOK, "")
}

// listed are an agent's secrets.
func listed(t *testing.T, b *backendtest.Backend, id string) (all []secret.Summary) {
	t.Helper()
	callAgent(t, b, id, "ListSecrets").Want(t, http.StatusOK, "").Decode(t, &all)
	return all
}
