package cloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/terraform/cell"
)

// try lets the agent try ways out.
func (p probed) try(t *testing.T, ways []wayOut) []outcome {
	t.Helper()
	attempts := make([]attempt, len(ways))
	for i, w := range ways {
		attempts[i] = w.attempt
	}
	body, err := json.Marshal(attempts)
	if err != nil {
		t.Fatal(err)
	}
	status, text := p.request(t, http.MethodPost, "/attempts", string(body))
	var outcomes []outcome
	if err := json.Unmarshal([]byte(text), &outcomes); err != nil || len(outcomes) != len(ways) {
		t.Fatalf("the probe answers %d %.300q: %v", status, text, err)
	}
	return outcomes
}

// lookup lets the agent look up a name.
func (p probed) lookup(t *testing.T, name string) string {
	t.Helper()
	found, _ := p.ask(t, http.MethodGet, "/lookup?name="+name, "")["addresses"].([]any)
	if len(found) != 1 {
		t.Fatalf("%s has the addresses %v, want one", name, found)
	}
	return fmt.Sprint(found[0])
}

// fetch lets the agent request a URL with the value of a variable, and returns what it got.
func (p probed) fetch(t *testing.T, address, variable string) string {
	t.Helper()
	_, text := p.request(t, http.MethodGet, "/fetch?variable="+variable+"&url="+url.QueryEscape(address), "")
	return text
}

// testWaysOut runs an agent that may reach one host, and one with a brokered secret.
func testWaysOut(t *testing.T, d deployment, runtime string) {
	p := d.probeWith(t, runtime, `"egress": {"mode": "allow_list", "allow": ["`+allowedHost+`"]}`)
	other := d.probe(t, runtime)
	at := places{
		gate: "10.96.0.53", gatePod: d.podAddress(t, cell.GatewayNamespace, "agent-gate"),
		router:   d.podAddress(t, cell.GatewayNamespace, "agent-router"),
		neighbor: d.podAddress(t, "agent-"+other.id), allowed: other.lookup(t, allowedHost),
		refused: other.lookup(t, refusedHost),
	}
	t.Run("what is allowed works", func(t *testing.T) {
		for _, address := range []string{"https://" + allowedHost, "http://" + allowedHost} {
			p.await(t, p.id, "connected with "+address, func(answer) bool {
				return strings.Contains(p.fetch(t, address, ""), reached(allowedHost))
			})
		}
	})
	t.Run("its dashboard opens by a link", func(t *testing.T) { // whose keys the front reads through the gate
		status, cookies := visit(t, newBrowser(t, d), d.dashboardLink(t, d.Ready.AdminToken, p.id))
		if status != http.StatusOK || cookies != 0 { // of the page to which the link leads
			t.Errorf("status %d with %d cookies, want 200 without one", status, cookies)
		}
	})
	t.Run("nothing else leads out", func(t *testing.T) { p.testRefused(t, other, at) })
	t.Run("a host is allowed while the agent runs", p.testAllowed)
	t.Run("a brokered value is outside of the agent", p.testBrokered)
	for _, id := range []string{p.id, other.id} {
		d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
	}
}

// testRefused tries all ways out. An agent that may reach everything shows that those past the gate lead somewhere.
func (p probed) testRefused(t *testing.T, open probed, at places) {
	ways := at.direct()
	for i, o := range open.try(t, ways) {
		if ways[i].open && !ways[i].out(o) {
			t.Errorf("%s %s is no way out of an open agent either: %+v", ways[i].what, ways[i].Address, o)
		}
	}
	for _, more := range [][]wayOut{at.secured(), at.unsecured(), at.names(open.id)} {
		ways = append(ways, more...)
	}
	outcomes := p.try(t, ways)
	var table strings.Builder
	for i, w := range ways {
		o := outcomes[i]
		_, _ = fmt.Fprintf(&table, "%-45s %-4s %-30s connected %-5t %4d bytes %s\n",
			w.what, w.Network, w.Address, o.Connected, len(o.Got), o.Error)
		if w.out(o) {
			t.Errorf("%s %s leads out: %.300q", w.what, w.Address, o.Got)
		}
	}
	t.Logf("%d ways out in %s:\n%s", len(ways), p.runtime, table.String())
	if len(ways) < 100 {
		t.Errorf("tried %d ways out, want at least 100", len(ways))
	}
}

// testAllowed allows a host that was refused.
func (p probed) testAllowed(t *testing.T) {
	before := p.podUID(t, p.id)
	address := "https://" + refusedHost
	if got := p.fetch(t, address, ""); strings.Contains(got, reached(refusedHost)) {
		t.Fatalf("the host is not refused: %s", got)
	}
	p.await(t, p.id, "in the log", func(answer) bool {
		log := p.must(t, http.StatusOK, http.MethodGet, "/api/v1/agents/"+p.id+"/egress-log", "")
		return strings.Contains(log.text, `"`+refusedHost+`"`)
	})
	p.must(t, http.StatusOK, http.MethodPost, "/api/v1/agents/"+p.id+"/egress-hosts", `{"hosts": ["`+refusedHost+`"]}`)
	began := time.Now()
	p.await(t, p.id, "connected", func(answer) bool {
		return strings.Contains(p.fetch(t, address, ""), reached(refusedHost))
	})
	t.Logf("reached %s after the permission", time.Since(began).Round(time.Millisecond))
	p.must(t, http.StatusOK, http.MethodPatch, "/agents/"+p.id, `{"egress": {"allow": ["`+allowedHost+`"]}}`)
	p.await(t, p.id, "disconnected", func(answer) bool {
		return !strings.Contains(p.fetch(t, address, ""), reached(refusedHost))
	})
	if p.podUID(t, p.id) != before {
		t.Error("the pod was replaced")
	}
}

// testBrokered gives the agent a secret that the gate adds to its requests, and looks for the value in all that the
// agent can read. It finds another value that the agent does have.
func (p probed) testBrokered(t *testing.T) {
	const known = "known-value-of-the-agent"
	value := "brokered-" + p.runtime + "-canary"
	p.must(t, http.StatusOK, http.MethodPatch, "/agents/"+p.id,
		`{"env_vars": {"KNOWN": "`+known+`"}, "egress": {"allow": ["`+allowedHost+`", "`+brokerHost+`"]}}`)
	before := p.podUID(t, p.id)
	p.must(t, http.StatusAccepted, http.MethodPut, "/agents/"+p.id+"/secrets", `{"secrets": {"BROKER_KEY": "`+value+`"},
		"inject": {"BROKER_KEY": {"hosts": ["`+brokerHost+`"]}}}`)
	p.await(t, p.id, "in a new pod", func(a answer) bool {
		pod, err := p.cluster.Pods("agent-"+p.id).Get(t.Context(), "agent-0", metav1.GetOptions{})
		return err == nil && pod.UID != before && a.body["status"] == "running" && a.body["dashboard_warming"] == false
	})
	p.await(t, p.id, "connected with the broker's host", func(answer) bool {
		got := p.fetch(t, "https://"+brokerHost, "BROKER_KEY")
		if strings.Contains(got, value) {
			t.Fatalf("the agent got the value: %s", got)
		}
		return strings.Contains(got, reached(brokerHost))
	})
	if keys := p.outside.gotKeys(); len(keys) == 0 || keys[len(keys)-1] != "Bearer "+value {
		t.Errorf("the host got %d keys, and the last is not the value", len(keys))
	}
	for _, s := range []struct {
		what, value string
		found       bool
	}{{what: "the brokered value", value: value}, {what: "a known value", value: known, found: true}} {
		masked := []byte(s.value)
		for i := range masked {
			masked[i] ^= 0x55
		}
		got := p.ask(t, http.MethodPost, "/search", string(masked))
		found := fmt.Sprint(got["found"])
		t.Logf("%s: found in %s; read %v bytes", s.what, found, got["read"])
		for _, place := range []string{"the environment", "/environ", "the process's memory"} {
			if strings.Contains(found, place) != s.found {
				t.Errorf("%s: found in %s = %t, want %t", s.what, place, !s.found, s.found)
			}
		}
		if !s.found && got["found"] != nil {
			t.Errorf("%s: found in %s", s.what, found)
		}
	}
	text := string(p.clusterText(t, "agent-"+p.id))
	secrets, err := p.cluster.Secrets("agent-"+p.id).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets.Items {
		for _, content := range s.Data {
			text += string(content)
		}
	}
	if strings.Contains(text, value) {
		t.Error("an object of the agent's namespace has the brokered value")
	}
}
