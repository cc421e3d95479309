package agents_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/rehearsal"
)

// reportEgress reports, as a gate does, that an agent used a host and was refused another.
func reportEgress(t *testing.T, b *backendtest.Backend, id string) (at time.Time) {
	t.Helper()
	at = time.Now().UTC().Truncate(time.Second)
	err := b.EgressLog.Record(t.Context(), "gate-1", egress.Report{
		AgentID: id, Day: at.Format(egress.DayFormat), Hosts: []egress.Count{
			{Host: "a.example", Used: 3, FirstAt: at, LastAt: at},
			{Host: "b.example", Refused: 2, Reason: egress.NotListed, FirstAt: at, LastAt: at, RefusedAt: at},
		},
	})
	must(t, err)
	return at
}

func TestEgressLog_ShowsWhatWasReachedAndRefused(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := newRestricted(t, b)
	at := reportEgress(t, b, id)
	list := func(as functiontest.Option) functiontest.Response {
		return callAgent(t, b, id, "ListEgressLog", as)
	}
	var got egresslog.View
	list(functiontest.AsAdmin("org-1")).Want(t, http.StatusOK, "").Decode(t, &got)
	want := []egresslog.HostView{
		{Host: "b.example", Refused: 2, Reason: new(egress.NotListed), FirstAt: at, LastAt: at, RefusedAt: &at},
		{Host: "a.example", Used: 3, FirstAt: at, LastAt: at, Allowed: true},
	}
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	list(functiontest.AsMember("org-1")).Want(t, http.StatusForbidden, "role_required")
	list(functiontest.AsAdmin("org-2")).Want(t, http.StatusNotFound, "agent_not_found")
	allow(t, b, id, `{"hosts":["b.example"]}`).Want(t, http.StatusOK, "")
	list(functiontest.AsAdmin("org-1")).Want(t, http.StatusOK, "").Decode(t, &got)
	if !got.Items[0].Allowed {
		t.Error("a host that was allowed since it was refused is shown as not allowed")
	}
}

func TestUpdate_RehearsesWhichHostsAreLost(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := newRestricted(t, b)
	at := reportEgress(t, b, id)
	lost, none := []rehearsal.LostHost{{Host: "a.example", Used: 3, LastAt: at}}, []rehearsal.LostHost{}
	for name, row := range map[string]struct {
		body string
		want []rehearsal.LostHost
	}{
		"another list":   {body: `{"egress":{"allow":["c.example"]}}`, want: lost},
		"a denied host":  {body: `{"egress":{"deny":["a.example"]}}`, want: lost},
		"more hosts":     {body: `{"egress":{"allow":["a.example","c.example"]}}`, want: none},
		"no list":        {body: `{"egress":{"mode":"open"}}`, want: none},
		"another change": {body: `{"name":"b"}`, want: none},
	} {
		var got rehearsal.View
		patchAgent(t, b, id, row.body, dryRun()).Want(t, http.StatusOK, "").Decode(t, &got)
		if diff := cmp.Diff(row.want, got.Would.LosesHosts); diff != "" {
			t.Errorf("%s: loses (-want +got):\n%s", name, diff)
		}
	}
}

func TestDiagnosis_NamesHostsThatWereRefused(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := newRestricted(t, b)
	reportEgress(t, b, id)
	var codes []string
	for _, c := range diagnose(t, b, id, functiontest.AsAdmin("org-1")).Causes {
		codes = append(codes, c.Code)
	}
	if diff := cmp.Diff([]string{"egress_refused"}, codes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	allow(t, b, id, `{"hosts":["b.example"]}`).Want(t, http.StatusOK, "")
	if v := diagnose(t, b, id, functiontest.AsAdmin("org-1")); len(v.Causes) != 0 {
		t.Errorf("causes %+v of an agent whose host was allowed, want none", v.Causes)
	}
}
