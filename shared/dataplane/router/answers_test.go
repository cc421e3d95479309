package router_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/function"
)

func TestRouter_ForwardsToTheAgentThatTheHostNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"one", "two"} {
		a := w.start(name, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
		if res, body := w.get(hostname(a), "/"); res.status != http.StatusOK || body != name {
			t.Errorf("GET / of %s = %d %q, want 200 %q", name, res.status, body, name)
		}
	}
}

func TestRouter_KeepsPathAndQueryAsTheyWereSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, req.RequestURI) })
	for _, uri := range []string{"/a%2Fb/%41?x=1;y=2&%zz", "//double", "/?", "/healthz"} {
		if _, got := w.get(hostname(a), uri); got != uri {
			t.Errorf("the agent got %q, want %q", got, uri)
		}
	}
}

// TestRouter_ErrorsHaveTheShapeOfTheAPI compares the fields with those of the control plane's errors.
func TestRouter_ErrorsHaveTheShapeOfTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	starting := newAgent("starting")
	w.set(starting, router.Endpoint{State: router.NotReady})
	stopped := newAgent("stopped")
	w.set(stopped, router.Endpoint{State: router.Stopped})
	broken := w.start("broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for _, row := range []struct {
		name, host string
		wantStatus int
		wantCode   string
		wantRetry  bool
	}{
		{name: "unknown", host: hostname(newAgent("a")), wantStatus: 404, wantCode: "not_found"},
		{name: "not ready", host: hostname(starting), wantStatus: 503, wantCode: "agent_not_ready", wantRetry: true},
		{name: "stopped", host: hostname(stopped), wantStatus: 503, wantCode: "agent_stopped"},
		{name: "dies before the answer", host: hostname(broken), wantStatus: 502, wantCode: "agent_unreachable"},
	} {
		res, body := w.get(row.host, "/")
		var got function.Problem
		d := json.NewDecoder(strings.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil {
			t.Errorf("%s: body %q: %v", row.name, body, err)
		}
		if res.status != row.wantStatus || got.Status != row.wantStatus || got.Code != row.wantCode {
			t.Errorf("%s: got %d, %+v, want %d and %s", row.name, res.status, got, row.wantStatus, row.wantCode)
		}
		if got.RequestID == "" || got.Title != http.StatusText(row.wantStatus) || got.Detail == "" {
			t.Errorf("%s: got %+v, want a request ID, a title and a detail", row.name, got)
		}
		if retry := res.header.Get("Retry-After") != ""; retry != row.wantRetry {
			t.Errorf("%s: Retry-After is %t, want %t", row.name, retry, row.wantRetry)
		}
		if res.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: Content-Type = %q", row.name, res.header.Get("Content-Type"))
		}
	}
}

func TestRouter_ShowsBrowsersAPageThatReloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := newAgent("a")
	w.set(a, router.Endpoint{State: router.NotReady})
	res, body := w.get(hostname(a), "/x?<script>", "Accept", "text/html,application/xhtml+xml")
	if res.status != http.StatusServiceUnavailable || res.header.Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q, want 503 with one", res.status, res.header.Get("Retry-After"))
	}
	if csp := res.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy = %q, want one that allows no source", csp)
	}
	if !strings.Contains(body, `http-equiv="refresh"`) || strings.Contains(body, "<script") {
		t.Errorf("the page %q does not reload, or has a script", body)
	}
	if res, _ := w.get(hostname(newAgent("a")), "/", "Accept", "text/html"); res.status != http.StatusNotFound {
		t.Errorf("an unknown host: got %d, want 404", res.status)
	}
}

// TestRouter_ReloadsNoPageThatWillNotChange: nothing but its owner starts a stopped agent.
func TestRouter_ReloadsNoPageThatWillNotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := newAgent("a")
	w.set(a, router.Endpoint{State: router.Stopped})
	res, body := w.get(hostname(a), "/", "Accept", "text/html")
	if res.status != http.StatusServiceUnavailable || res.header.Get("Retry-After") != "" {
		t.Errorf("got %d, Retry-After %q, want 503 without one", res.status, res.header.Get("Retry-After"))
	}
	if strings.Contains(body, "refresh") || !strings.Contains(body, "Its owner can start it") {
		t.Errorf("the page %q reloads, or does not say who starts the agent", body)
	}
}

func TestRouter_FindsAgentsUnderOneNameOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a-b", func(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, req.Host) })
	host := hostname(a)
	foreign := a
	foreign.Cell = "us-2"
	lied := a
	lied.Slug = "your-bank"
	id, _, _ := strings.Cut(host, ".")
	for _, row := range []struct {
		name, host string
		wantStatus int
		wantHost   string // what the agent sees
	}{
		{name: "plain", host: host, wantStatus: 200, wantHost: host},
		{name: "with a port", host: host + ":8443", wantStatus: 200, wantHost: host + ":8443"},
		{name: "upper case", host: strings.ToUpper(host), wantStatus: 200, wantHost: host},
		{name: "trailing dot", host: host + ".", wantStatus: 404},
		{name: "another cell", host: hostname(foreign), wantStatus: 404},
		{name: "another slug", host: hostname(lied), wantStatus: 404},
		{name: "no slug", host: strings.TrimPrefix(host, "a-b-"), wantStatus: 404},
		{name: "deeper", host: "x." + host, wantStatus: 404},
		{name: "the domain", host: domain, wantStatus: 404},
		{name: "suffix appended", host: host + ".evil.example", wantStatus: 404},
		{name: "suffix glued", host: id + "x" + domain, wantStatus: 404},
		{name: "IPv4", host: "10.1.2.3", wantStatus: 404},
		{name: "IPv6", host: "[::1]:80", wantStatus: 404},
		{name: "user info", host: "admin@" + host, wantStatus: 404},
		{name: "underscore", host: strings.Replace(host, "-", "_", 1), wantStatus: 404},
		{name: "two ports", host: host + ":80:80", wantStatus: 404},
		{name: "no port number", host: host + ":", wantStatus: 404},
		{name: "long port", host: host + ":000080", wantStatus: 404},
		{name: "port of letters", host: host + ":http", wantStatus: 404},
		{name: "encoded", host: strings.Replace(host, "-", "%2d", 1), wantStatus: 404},
	} {
		res, body := w.get(row.host, "/")
		if res.status != row.wantStatus {
			t.Errorf("%s: Host %q got %d, want %d", row.name, row.host, res.status, row.wantStatus)
		}
		if row.wantStatus == http.StatusOK && body != row.wantHost {
			t.Errorf("%s: the agent saw the host %q, want %q", row.name, body, row.wantHost)
		}
	}
}

func TestRouter_RefusesNamesOfAnIDThatDecodeTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := newAgent("a")
	a.ID = "00000000-0000-4000-8000-000000000000"
	w.startAs(a, func(http.ResponseWriter, *http.Request) {})
	host := hostname(a)
	label, rest, _ := strings.Cut(host, ".")
	if res, _ := w.get(host, "/"); res.status != http.StatusOK {
		t.Fatalf("the hostname: got %d, want 200", res.status)
	}
	if res, _ := w.get(label[:len(label)-1]+"b."+rest, "/"); res.status != http.StatusNotFound {
		t.Errorf("another spelling of the last character: got %d, want 404", res.status)
	}
}

func TestRouter_TellsTheAgentWhereARequestCameFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	headers := make(chan http.Header, 1)
	a := w.start("a", func(_ http.ResponseWriter, req *http.Request) { headers <- req.Header })
	w.get(hostname(a), "/",
		"X-Forwarded-For", "198.51.100.7, 203.0.113.9", "X-Forwarded-For", "35.191.0.1", "X-Forwarded-Proto", "https",
		"X-Forwarded-Host", "evil.example", "Via", "1.1 google")
	got := <-headers
	for name, want := range map[string]string{
		"X-Forwarded-For":   "198.51.100.7, 203.0.113.9, 35.191.0.1, 203.0.113.1",
		"X-Forwarded-Host":  hostname(a),
		"X-Forwarded-Proto": "https",
		"Via":               "1.1 google",
	} {
		if values := got.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s = %q, want %q once", name, values, want)
		}
	}
}

func TestRouter_RemovesIdentityThatClientsSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	headers := make(chan http.Header, 1)
	a := w.start("a", func(_ http.ResponseWriter, req *http.Request) { headers <- req.Header })
	forged := []string{
		"X-Forwarded-User", "x-forwarded-user", "X_Forwarded_User", "X-Forwarded_User", "X.forwarded.user",
		"X-FORWARDED-EMAIL",
		"X-Forwarded-Groups", "Forwarded", "Remote-User", "REMOTE_USER", "X-Remote-User", "X-Auth-Request-Email",
		"X-Goog-Authenticated-User-Email", "X-Goog-IAP-JWT-Assertion", "X-Real-Ip",
	}
	header := []string{"Connection", "X-Forwarded-For, X-Forwarded-User, Authorization-Like", "Authorization-Like", "1"}
	for _, name := range forged {
		header = append(header, name, "admin")
	}
	w.get(hostname(a), "/", append(header, "Authorization", "Bearer key", "Cookie", "a=b", "X-Custom", "kept")...)
	got := <-headers
	for name, values := range got {
		for _, v := range values {
			if v == "admin" {
				t.Errorf("the agent got %s: %s", name, v)
			}
		}
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Custom", "X-Forwarded-For"} {
		if got.Get(name) == "" {
			t.Errorf("the agent did not get %s", name)
		}
	}
	if got.Get("Authorization-Like") != "" {
		t.Error("the agent got a header that Connection declares to be the router's")
	}
}

// TestRouter_AnswersHealthChecksOfTheLoadBalancerOnly keeps the path free for agents.
func TestRouter_AnswersHealthChecksOfTheLoadBalancerOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, row := range []struct {
		host string
		want int
	}{
		{host: w.address, want: 200},
		{host: "10.0.0.7", want: 200},
		{host: "[::1]:80", want: 200},
		{host: hostname(a), want: http.StatusTeapot},
		{host: hostname(newAgent("gone")), want: 404},
		{host: domain, want: 404},
		{host: domain + ".", want: 404},
		{host: strings.ToUpper(hostname(newAgent("gone"))), want: 404},
	} {
		if res, _ := w.get(row.host, "/healthz"); res.status != row.want {
			t.Errorf("GET /healthz of %q = %d, want %d", row.host, res.status, row.want)
		}
	}
}

func TestNew_RefusesIncompleteOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]router.Options{
		"no domain":    {Endpoints: &directory{}},
		"dots":         {Domain: ".agents.example.com", Endpoints: &directory{}},
		"no endpoints": {Domain: domain},
	} {
		if _, err := router.New(o); err == nil {
			t.Errorf("%s: New returned no error", name)
		}
	}
}
