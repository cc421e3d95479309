package gate_test

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/egress"
)

// TestControl_HasTheCallsOfFrontsOnly: an agent cannot use the control plane as a way out, although its front calls it.
func TestControl_HasTheCallsOfFrontsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var got []string
	w.serveTLS(t, "control.example", func(rw http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		got = append(got, req.Method+" "+req.Host+req.RequestURI+" "+req.Header.Get("Authorization")+" "+string(body))
		_, _ = io.WriteString(rw, "from the control plane")
	})
	w.set(agentAddress, agentID, &egress.Policy{Control: "https://control.example", Allow: []string{"a.example"}})
	w.set(otherAddress, otherID, &egress.Policy{Allow: []string{"a.example"}})
	for _, row := range []struct {
		what, method, path string
		address            string
		served             bool
	}{
		{what: "keys", method: "GET", path: dataplane.PathKeys, served: true},
		{what: "a session", method: "POST", path: dataplane.PathIntrospect, served: true},
		{what: "sleep", method: "POST", path: "/api/v1/agents/" + agentID + "/sleep", served: true},
		{what: "keys by another method", method: "PUT", path: dataplane.PathKeys},
		{what: "sleep of another agent", method: "POST", path: "/api/v1/agents/" + otherID + "/sleep"},
		{what: "a new agent", method: "POST", path: "/api/v1/agents"},
		{what: "a path that another server may read differently", method: "GET", path: "/.well-known%2fjwks.json"},
		{what: "a path with dots", method: "POST", path: dataplane.PathIntrospect + "/../../agents"},
		{what: "more of a path", method: "POST", path: dataplane.PathIntrospect + "/"},
		{what: "an agent without a control plane", method: "GET", path: dataplane.PathKeys, address: otherAddress},
	} {
		from := row.address
		if from == "" {
			from = agentAddress
		}
		got = nil
		answer := get(t, w.client(t, from, nil), "http://"+gateAddress+row.path, func(req *http.Request) {
			req.Method = row.method
			req.Header.Set("Authorization", "Bearer key")
		})
		if served := answer.body == "from the control plane"; served != row.served || served != (len(got) == 1) {
			t.Errorf("%s: answer %d %q, and the control plane got %q; want served = %t", row.what, answer.status,
				answer.body, got, row.served)
		}
		want := []string{row.method + " control.example" + row.path + " Bearer key "}
		if row.served && !slices.Equal(got, want) {
			t.Errorf("%s: the control plane got %q, want %q", row.what, got, want)
		}
	}
	if got := get(t, w.client(t, agentAddress, nil), "http://control.example/"); got.status != http.StatusForbidden {
		t.Errorf("the control plane by its name: %d %q, want it refused", got.status, got.body)
	}
	if dials := w.dials("control.example:80"); dials != 0 {
		t.Errorf("the control plane was dialed %d times by its name", dials)
	}
	w.end()
	if c := w.counted(agentID, "control.example"); c.Used != 0 {
		t.Errorf("the control plane is in the agent's log: %+v", c)
	}
}

// TestControl_SaysWhenThereIsNone: a policy of a cell without an address, and a control plane that does not answer.
func TestControl_SaysWhenThereIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, url := range []string{"control.example", "https://", "https://down.example"} {
		w.set(agentAddress, agentID, &egress.Policy{Control: url})
		got := get(t, w.client(t, agentAddress, nil), "http://"+gateAddress+dataplane.PathKeys)
		if got.status != http.StatusBadGateway {
			t.Errorf("%s: %d %q, want 502", url, got.status, got.body)
		}
	}
}
