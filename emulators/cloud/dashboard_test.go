package cloud_test

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/cluster"
)

// testDashboardLink opens an agent's dashboard by a link, which works once and for an admin's session only.
func testDashboardLink(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "opened", "resource_plan": "hobby", "public_paths": ["/healthz"]}`)
	d.awaitStatus(t, id, "running")
	good := d.dashboardLink(t, d.Ready.AdminToken, id)
	if good == "" {
		t.Fatal("an admin gets no link")
	}
	checkEqual(t, "link for an API key", d.dashboardLink(t, d.Ready.APIKey, id), "")
	checkEqual(t, "link for a member", d.dashboardLink(t, d.Ready.MemberToken, id), "")
	list := d.call(t, d.Ready.AdminToken, http.MethodGet, "/api/v1/agents", "")
	if strings.Contains(list.text, "token=") {
		t.Error("a list of agents has links")
	}

	status, _ := visit(t, newBrowser(t, d), strings.Split(good, "handoff")[0]+"healthz")
	checkEqual(t, "status of a public path without a credential", status, http.StatusOK)
	status, _ = visit(t, newBrowser(t, d), strings.Split(good, "handoff")[0])
	checkEqual(t, "status of another path without a credential", status, http.StatusUnauthorized)

	checkHostHeader(t, good)
	mine := newBrowser(t, d)
	status, _ = visit(t, mine, good)
	checkEqual(t, "status of the link", status, http.StatusOK)
	status, _ = visit(t, mine, strings.Split(good, "handoff")[0])
	checkEqual(t, "status of the session that the link began", status, http.StatusOK)
	status, _ = visit(t, mine, strings.Split(good, "handoff")[0]+"logout")
	checkEqual(t, "status of the logout", status, http.StatusOK)
	status, _ = visit(t, mine, strings.Split(good, "handoff")[0])
	checkEqual(t, "status of the session after the logout", status, http.StatusUnauthorized)
	_, link, _ := strings.Cut(good, "token=")
	session := d.call(t, "", http.MethodPost, "/api/v1/handoff/introspect", `{"token": "`+link+`"}`)
	checkEqual(t, "the session of the link, for the front", session.text, `{"active":true}`+"\n")
	status, cookies := visit(t, newBrowser(t, d), good)
	checkEqual(t, "status of the link at its second use", status, http.StatusUnauthorized)
	checkEqual(t, "cookies of the link at its second use", cookies, 0)
	fresh := d.dashboardLink(t, d.Ready.AdminToken, id)
	status, _ = visit(t, newBrowser(t, d), fresh[:len(fresh)-4]+"AAAA")
	checkEqual(t, "status of a forged link", status, http.StatusUnauthorized)

	keys := d.call(t, "", http.MethodGet, "/.well-known/jwks.json", "")
	checkEqual(t, "status of the public keys", keys.status, http.StatusOK)
	if !strings.Contains(keys.text, `"ES256"`) || strings.Contains(keys.text, `"d"`) {
		t.Errorf("keys = %s, want ES256 keys without their private part", keys.text)
	}
	checkReachability(t, d, id)
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// checkHostHeader reaches an agent as a program does that cannot resolve names below localhost: by the address of the
// router, with the agent's name in the Host header.
func checkHostHeader(t *testing.T, link string) {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+u.Port()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{u.Host, u.Hostname()} {
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		checkEqual(t, "status with the Host header "+host, res.StatusCode, http.StatusOK)
	}
}

// dashboardLink returns the link that a caller gets, or "". The response must not be stored.
func (d deployment) dashboardLink(t *testing.T, token, id string) string {
	t.Helper()
	a := d.call(t, token, http.MethodGet, "/agents/"+id, "")
	link, _ := a.body["dashboard_handoff_url"].(string)
	checkEqual(t, "Cache-Control of an agent", a.header.Get("Cache-Control"), "no-store")
	return link
}

// newBrowser returns a client that reaches agents and keeps cookies.
func newBrowser(t *testing.T, d deployment) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := *d.Client
	c.Jar = jar
	return &c
}

// visit gets a page, and returns its status and how many cookies it sets.
func visit(t *testing.T, client *http.Client, url string) (status, cookies int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	return res.StatusCode, len(res.Cookies())
}

// reachability is the response about an agent's dashboard.
type reachability struct {
	Reachable bool
	Warming   bool `json:"dashboard_warming"`
	Reason    string
	Status    *int `json:"http_status"`
}

func (d deployment) readReachability(t *testing.T, id string) (r reachability) {
	t.Helper()
	a := d.call(t, d.Ready.MemberToken, http.MethodGet, "/agents/"+id+"/dashboard-reachability", "")
	checkEqual(t, "status of dashboard-reachability", a.status, http.StatusOK)
	if err := json.Unmarshal([]byte(a.text), &r); err != nil {
		t.Fatalf("dashboard-reachability is %s: %v", a.text, err)
	}
	return r
}

// checkReachability checks a dashboard through a restart. Reading does not end the warming; the new pod's answer does.
func checkReachability(t *testing.T, d deployment, id string) {
	t.Helper()
	r := d.readReachability(t, id)
	checkEqual(t, "reachable while running", r.Reachable, true)
	checkEqual(t, "reason while running", r.Reason, "ok")
	if r.Status == nil || *r.Status != http.StatusOK {
		t.Errorf("http_status while running = %v, want 200", r.Status)
	}
	injectPodFault(t, d, id, cluster.NotReady)
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "")
	for range 3 {
		r = d.readReachability(t, id)
		checkEqual(t, "dashboard_warming during a restart", r.Warming, true)
		checkEqual(t, "reason during a restart", r.Reason, "warming")
	}
	injectPodFault(t, d, id, "")
	d.await(t, id, "warm", func(answer) bool {
		r := d.readReachability(t, id)
		return !r.Warming && r.Reason == "ok" && r.Reachable
	})
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	r = d.readReachability(t, id)
	checkEqual(t, "reachable while stopped", r.Reachable, false)
	checkEqual(t, "reason while stopped", r.Reason, "not_running")
	if r.Status != nil {
		t.Errorf("http_status while stopped = %d, want none", *r.Status)
	}
}
