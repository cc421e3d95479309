package cloud_test

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/cluster"
)

// opened has an admin open an agent's dashboard by a link, once, and look whether it answers.
func opened(t *testing.T, w world) {
	id := w.create(t, `{"name": "opened", "resource_plan": "hobby"}`)
	w.awaitStatus(t, id, "running")
	link := func(token string) string {
		t.Helper()
		a := w.call(t, token, http.MethodGet, "/agents/"+id, "")
		text, _ := a.body["dashboard_handoff_url"].(string)
		if (text != "") != (a.header.Get("Cache-Control") == "no-store") {
			t.Errorf("a link %t, Cache-Control %q", text != "", a.header.Get("Cache-Control"))
		}
		return text
	}
	if link(w.Ready.APIKey) != "" || link(w.Ready.MemberToken) != "" {
		t.Error("a key or a member has a link")
	}
	good := link(w.Ready.AdminToken)
	if list := w.call(t, w.Ready.AdminToken, http.MethodGet, "/api/v1/agents", ""); strings.Contains(list.text,
		"token=") {
		t.Error("a list has links")
	}
	if good == "" {
		t.Fatal("an admin has no link")
	}
	visit := func(client *http.Client, url string) (status int, cookies int) {
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
	browser := func() *http.Client {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := *w.Client
		c.Jar = jar
		return &c
	}
	mine := browser()
	if status, _ := visit(mine, good); status != http.StatusOK {
		t.Errorf("the link leads to %d", status)
	}
	if status, _ := visit(mine, strings.Split(good, "handoff")[0]); status != http.StatusOK {
		t.Errorf("the session is answered %d", status)
	}
	if status, cookies := visit(browser(), good); status != http.StatusUnauthorized || cookies != 0 {
		t.Errorf("the link is answered %d the second time", status)
	}
	fresh := link(w.Ready.AdminToken)
	if status, _ := visit(browser(), fresh[:len(fresh)-4]+"AAAA"); status != http.StatusUnauthorized {
		t.Errorf("a forged link is answered %d", status)
	}
	if keys := w.call(t, "", http.MethodGet, "/.well-known/jwks.json", ""); keys.status != http.StatusOK ||
		!strings.Contains(keys.text, `"ES256"`) || strings.Contains(keys.text, `"d"`) {
		t.Errorf("keys: %d %s", keys.status, keys.text)
	}
	reach(t, w, id)
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// reach watches a dashboard through a restart: reading clears nothing, the new pod's answer does.
func reach(t *testing.T, w world, id string) {
	t.Helper()
	type reachability struct {
		Reachable bool
		Warming   bool `json:"dashboard_warming"`
		Reason    string
		Status    *int `json:"http_status"`
	}
	look := func() (r reachability) {
		t.Helper()
		a := w.call(t, w.Ready.MemberToken, http.MethodGet, "/agents/"+id+"/dashboard-reachability", "")
		if err := json.Unmarshal([]byte(a.text), &r); err != nil || a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.text)
		}
		return r
	}
	if r := look(); !r.Reachable || r.Reason != "ok" || r.Status == nil || *r.Status != http.StatusOK {
		t.Errorf("an agent that runs: %+v", r)
	}
	breakPods(t, w, id, cluster.NotReady)
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "")
	for range 3 {
		if r := look(); !r.Warming || r.Reason != "warming" {
			t.Errorf("an agent that restarts: %+v", r)
		}
	}
	breakPods(t, w, id, "")
	w.await(t, id, "warm", func(answer) bool { r := look(); return !r.Warming && r.Reason == "ok" && r.Reachable })
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	if r := look(); r.Reachable || r.Reason != "not_running" || r.Status != nil {
		t.Errorf("an agent that is stopped: %+v", r)
	}
}
