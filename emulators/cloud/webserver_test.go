package cloud_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/testtier"
)

// webServerImage is the image of a web server that knows nothing of this project.
const webServerImage = "images.example/webserver@sha256:" +
	"1111111111111111111111111111111111111111111111111111111111111111"

// shortTimeouts are the router's timeouts in a test that shows that they do not bound answers.
func shortTimeouts() router.Timeouts {
	const short = 3 * time.Second
	return router.Timeouts{Header: short, Idle: short, AgentIdle: short}
}

// TestAnyWebServerIsAnAgent hosts a web server that only listens on $PORT. The platform adds what makes it an agent.
func TestAnyWebServerIsAnAgent(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "compiles a program")
	dir, err := dataplane.BuildPackages(t.Context(),
		"agents.example/controlplane/emulators/cloud/testdata/webserver/entrypoint")
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, false, func(o *cloud.Options) {
		o.Images = map[string]string{webServerImage: dir}
		o.RouterTimeouts = shortTimeouts()
		o.Environment = func(env map[string]string) error {
			env["AGENT_IMAGE"] = webServerImage
			return nil
		}
	})
	d.tell(t, []storyTest{
		{"its dashboard and API want credentials that it never sees", testWebServerAuthentication},
		{"its variables and secrets are set", testWebServerEnvironment},
		{"its requests are measured", testWebServerMetrics},
		{"an answer may take longer than any timeout", testSlowStream},
		{"WebSockets pass", testWebSocket},
		{"no request is lost while it restarts", testRestartUnderLoad},
	})
}

// hosted is a running agent with its credentials.
type hosted struct {
	id, dashboard, api string
	credentials        credentials
}

// host creates an agent and waits until it runs.
func (d deployment) host(t *testing.T, body string) hosted {
	t.Helper()
	id := d.create(t, body)
	a := d.awaitStatus(t, id, "running")
	dashboard, _ := a.body["dashboard_url"].(string)
	api, _ := a.body["api_url"].(string)
	return hosted{id: id, dashboard: dashboard, api: api, credentials: d.revealCredentials(t, id)}
}

// signIn adds the credentials of the dashboard to a request.
func (h hosted) signIn(req *http.Request) {
	req.SetBasicAuth(h.credentials.user, h.credentials.password)
}

// useKey adds the key of the agent's API to a request.
func (h hosted) useKey(req *http.Request) {
	req.Header.Set("Authorization", "Bearer "+h.credentials.key)
}

// get returns the status and the body of an answer of an agent.
func (d deployment) get(t *testing.T, url string, change func(*http.Request)) (int, string) {
	t.Helper()
	res := d.callAgent(t, http.MethodGet, url, change)
	defer res.Body.Close() //nolint:errcheck // reading is over
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func anonymous(*http.Request) {}

func testWebServerAuthentication(t *testing.T, d deployment) {
	h := d.host(t, `{"name": "web server", "resource_plan": "hobby"}`)
	for _, row := range []struct {
		what, url string
		as        func(*http.Request)
		want      int
	}{
		{what: "dashboard", url: h.dashboard, as: h.signIn, want: http.StatusOK},
		{what: "dashboard without credentials", url: h.dashboard, as: anonymous, want: http.StatusUnauthorized},
		{what: "dashboard with the API's key", url: h.dashboard, as: h.useKey, want: http.StatusUnauthorized},
		{what: "API", url: h.api + "/models", as: h.useKey, want: http.StatusOK},
		{what: "API without credentials", url: h.api + "/models", as: anonymous, want: http.StatusUnauthorized},
		{
			what: "API with the dashboard's credentials", url: h.api + "/models", as: h.signIn,
			want: http.StatusUnauthorized,
		},
		{what: "check of credentials", url: h.dashboard + "auth/check", as: h.signIn, want: http.StatusNoContent},
	} {
		status, _ := d.get(t, row.url, row.as)
		checkEqual(t, "status of the "+row.what, status, row.want)
	}
	forge := func(req *http.Request) {
		h.signIn(req)
		req.Header.Set("X-Forwarded-User", "forged")
	}
	if _, text := d.get(t, h.dashboard, forge); strings.Contains(text, "forged") ||
		!strings.Contains(text, `authorization ""`) || strings.Contains(text, `hello ""`) {
		t.Errorf("the web server sees %q, want the user that the front authenticated, and no credential", text)
	}
	link := d.dashboardLink(t, d.Ready.AdminToken, h.id)
	mine := newBrowser(t, d)
	status, _ := visit(t, mine, link)
	checkEqual(t, "status of a dashboard link", status, http.StatusOK)
	status, _ = visit(t, mine, h.dashboard)
	checkEqual(t, "status of the session that the link began", status, http.StatusOK)
}

func testWebServerEnvironment(t *testing.T, d deployment) {
	h := d.host(t, `{"name": "configured", "resource_plan": "hobby", "env_vars": {"MODE": "fast", "API_TOKEN": "hidden"}}`)
	for name, want := range map[string]string{
		"MODE": "fast", "API_TOKEN": "hidden", "DASHBOARD_PASSWORD": "", "API_SERVER_KEY": "",
	} {
		_, got := d.get(t, h.dashboard+"variable?name="+name, h.signIn)
		checkEqual(t, name+" of the web server", got, want)
	}
	d.must(t, http.StatusAccepted, http.MethodPut, "/agents/"+h.id+"/secrets", `{"secrets": {"API_TOKEN": "replaced"}}`)
	awaitNewest(t, d, h.id)
	_, got := d.get(t, h.dashboard+"variable?name=API_TOKEN", h.signIn)
	checkEqual(t, "API_TOKEN after it was set again", got, "replaced")
}

// testWebServerMetrics calls a web server that exports no metrics, until they show.
func testWebServerMetrics(t *testing.T, d deployment) {
	h := d.host(t, `{"name": "measured", "resource_plan": "hobby"}`)
	d.awaitMetrics(t, "/agents/"+h.id+"/metrics?window=1h", func(a answer) bool {
		status, _ := d.get(t, h.dashboard, h.signIn)
		checkEqual(t, "status of the dashboard", status, http.StatusOK)
		status, _ = d.get(t, h.dashboard+"broken", h.signIn)
		checkEqual(t, "status of a broken page", status, http.StatusInternalServerError)
		ms, ok := a.body["latency_p95_ms"].(float64)
		return ok && ms > 0 && lastValue(pointsOf(a, "requests")) > 0 && lastValue(pointsOf(a, "errors")) > 0
	})
}

func lastValue(points []any) float64 {
	if len(points) == 0 {
		return 0
	}
	point, _ := points[len(points)-1].(map[string]any)
	v, _ := point["v"].(float64)
	return v
}

// testSlowStream reads an endless stream of events for several times the router's timeouts.
func testSlowStream(t *testing.T, d deployment) {
	h := d.host(t, `{"name": "streams", "resource_plan": "hobby"}`)
	res := d.callAgent(t, http.MethodGet, h.dashboard+"events?every=300ms", h.signIn)
	defer res.Body.Close() //nolint:errcheck // the stream does not end
	seen := 0
	lines := bufio.NewScanner(res.Body)
	for end := time.Now().Add(3 * shortTimeouts().Idle); time.Now().Before(end); {
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d events: %v", seen, lines.Err())
		}
		if text := lines.Text(); text != "" {
			checkEqual(t, "event", text, "data: "+strconv.Itoa(seen))
			seen++
		}
	}
}

func testWebSocket(t *testing.T, d deployment) {
	h := d.host(t, `{"name": "talks", "resource_plan": "hobby"}`)
	address, err := url.Parse(h.dashboard + "echo")
	if err != nil {
		t.Fatal(err)
	}
	address.Scheme = "ws"
	config, err := websocket.NewConfig(address.String(), h.dashboard)
	if err != nil {
		t.Fatal(err)
	}
	open := func(as func(*http.Request)) (*websocket.Conn, error) {
		req := &http.Request{Header: http.Header{}}
		as(req)
		config.Header = req.Header
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.Router.Addr)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() })
		return websocket.NewClient(config, conn)
	}
	if _, err := open(anonymous); err == nil {
		t.Error("a WebSocket without credentials opens")
	}
	c, err := open(h.signIn)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hello", strings.Repeat("long ", 20_000), "bye"} {
		if _, err := c.Write([]byte(want)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("echo of %d bytes: %d bytes, %v", len(want), len(got), err)
		}
	}
}

// tally counts answers by status.
type tally struct {
	mu       sync.Mutex
	statuses map[int]int
	problems []string
}

func (c *tally) add(status int, problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.statuses == nil {
		c.statuses = map[int]int{}
	}
	c.statuses[status]++
	if problem != "" {
		c.problems = append(c.problems, problem)
	}
}

// testRestartUnderLoad restarts an agent while clients call it. Each request gets an answer: its own, or one that says
// whether the agent can have seen the request (502) or cannot (503). The router holds requests for an agent that they
// may wake, so none of those gets 503.
func testRestartUnderLoad(t *testing.T, d deployment) {
	for _, sleeps := range []bool{false, true} {
		t.Run(fmt.Sprint("sleeps: ", sleeps), func(t *testing.T) { testRestartOf(t, d, sleeps) })
	}
}

func testRestartOf(t *testing.T, d deployment, sleeps bool) {
	policy := map[bool]string{false: "null", true: "1800"}[sleeps]
	h := d.host(t, `{"name": "busy", "resource_plan": "hobby", "sleep": {"after_seconds": `+policy+`}}`)
	var answers tally
	var clients sync.WaitGroup
	var stop atomic.Bool
	for range 8 {
		clients.Go(func() {
			for !stop.Load() {
				h.load(t, d, &answers)
			}
		})
	}
	before := d.podUID(t, h.id)
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+h.id+"/restart", "")
	d.await(t, h.id, "warm", func(a answer) bool {
		return a.body["dashboard_warming"] == false && a.body["status"] == "running"
	})
	checkEqual(t, "the pod is the former one", d.podUID(t, h.id) == before, false)
	stop.Store(true)
	clients.Wait()
	h.load(t, d, &answers) // the new pod serves
	for _, problem := range answers.problems {
		t.Error(problem)
	}
	refused := answers.statuses[http.StatusServiceUnavailable]
	if answers.statuses[http.StatusOK] == 0 || refused == 0 != sleeps {
		t.Errorf("answers by status = %v, want some 200, and 503 unless the agent sleeps", answers.statuses)
	}
	var figures []string
	for _, status := range slices.Sorted(maps.Keys(answers.statuses)) {
		figures = append(figures, fmt.Sprintf("%d times %d", answers.statuses[status], status))
	}
	t.Log("answers during a restart: " + strings.Join(figures, ", "))
}

// load sends one request, which no client may repeat by itself.
func (h hosted) load(t *testing.T, d deployment, answers *tally) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.dashboard+"slow?for=20ms",
		strings.NewReader("work"))
	if err != nil {
		answers.add(0, err.Error())
		return
	}
	h.signIn(req)
	res, err := d.Client.Do(req)
	if err != nil {
		answers.add(0, "a request got no answer: "+err.Error())
		return
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	body, err := io.ReadAll(res.Body)
	problem := ""
	switch {
	case err != nil:
		problem = "an answer broke off: " + err.Error()
	case res.StatusCode == http.StatusOK && string(body) != "done":
		problem = fmt.Sprintf("an answer with status 200 is %q", body)
	case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "":
		problem = "an answer with status 503 has no Retry-After"
	case res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable &&
		res.StatusCode != http.StatusBadGateway:
		problem = fmt.Sprintf("an answer has status %d: %s", res.StatusCode, body)
	}
	answers.add(res.StatusCode, problem)
}
