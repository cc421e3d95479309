package front_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane/front"
)

// TestFront_AcceptsOnlyTheCredentialOfThePath sends each credential to each kind of path.
func TestFront_AcceptsOnlyTheCredentialOfThePath(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}), nil)
	for name, c := range map[string]struct {
		path          string
		authorization string
		want          int
	}{
		"dashboard, password":       {path: "/", want: http.StatusOK},
		"dashboard, none":           {path: "/", authorization: "-", want: http.StatusUnauthorized},
		"dashboard, key":            {path: "/", authorization: "Bearer " + apiKey, want: http.StatusUnauthorized},
		"below dashboard, key":      {path: "/v2/x", authorization: "Bearer " + apiKey, want: http.StatusUnauthorized},
		"like the API, key":         {path: "/v1x", authorization: "Bearer " + apiKey, want: http.StatusUnauthorized},
		"dashboard, password alone": {path: "/", authorization: "Basic " + password, want: http.StatusUnauthorized},
		"API, key":                  {path: "/v1", authorization: "Bearer " + apiKey, want: http.StatusOK},
		"below API, key":            {path: "/v1/models", authorization: "bearer " + apiKey, want: http.StatusOK},
		"encoded API, key":          {path: "/%761/models", authorization: "Bearer " + apiKey, want: http.StatusOK},
		"encoded slash, key":        {path: "/v1%2Fmodels", authorization: "Bearer " + apiKey, want: http.StatusOK},
		"API, none":                 {path: "/v1/models", authorization: "-", want: http.StatusUnauthorized},
		"API, password":             {path: "/v1/models", want: http.StatusUnauthorized},
		"API, part of key": {
			path: "/v1/models", authorization: "Bearer " + apiKey[:8], want: http.StatusUnauthorized,
		},
		"API, longer key": {
			path: "/v1/models", authorization: "Bearer " + apiKey + "x", want: http.StatusUnauthorized,
		},
		"API, empty key":  {path: "/v1/models", authorization: "Bearer ", want: http.StatusUnauthorized},
		"check, password": {path: "/auth/check", want: http.StatusNoContent},
		"check, key": {
			path: "/auth/check", authorization: "Bearer " + apiKey, want: http.StatusNoContent,
		},
		"check, none": {path: "/auth/check", authorization: "-", want: http.StatusUnauthorized},
		"check, other key": {
			path: "/auth/check", authorization: "Bearer other", want: http.StatusUnauthorized,
		},
	} {
		res := f.request(t, http.MethodGet, c.path, from("198.51.100."+fmt.Sprint(len(name))), func(r *http.Request) {
			switch c.authorization {
			case "":
				basic(r)
			case "-":
			default:
				r.Header.Set("Authorization", c.authorization)
			}
		})
		if res.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, c.want)
		}
		if got := res.Header.Get("WWW-Authenticate"); (got != "") != (c.want == http.StatusUnauthorized) {
			t.Errorf("%s: WWW-Authenticate = %q", name, got)
		}
	}
}

func TestFront_RefusesSeveralAuthorizationHeaders(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}), nil)
	got, _ := f.get(t, "/v1/x", func(r *http.Request) {
		r.Header["Authorization"] = []string{"Bearer " + apiKey, "Bearer other"}
	})
	if got != http.StatusUnauthorized {
		t.Errorf("status %d, want 401", got)
	}
}

// TestFront_RefusesPathsThatServersReadDifferently covers paths with which one credential could reach what the
// container serves to the other.
func TestFront_RefusesPathsThatServersReadDifferently(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}), nil)
	for path, want := range map[string]int{
		"/v1/../admin":       http.StatusBadRequest,
		"/v1/..":             http.StatusBadRequest,
		"/v1/%2e%2e/admin":   http.StatusBadRequest,
		"/v1%2f..%2fadmin":   http.StatusBadRequest,
		"/v1/..;x=1/admin":   http.StatusBadRequest,
		`/v1/..%5cadmin`:     http.StatusBadRequest,
		"/a/../v1/models":    http.StatusBadRequest,
		"//v1/models":        http.StatusBadRequest,
		"/v1;x/models":       http.StatusBadRequest,
		"/V1/models":         http.StatusBadRequest,
		"/%561":              http.StatusBadRequest,
		"/v1/a/../models":    http.StatusOK,
		"/v1/models;x=1":     http.StatusOK,
		"/v1/https://x.test": http.StatusOK,
	} {
		got, _ := f.get(t, path, bearer)
		if got != want {
			t.Errorf("%s with the API's key: status %d, want %d", path, got, want)
		}
	}
	if got, _ := f.get(t, "/files//a/../b", basic); got != http.StatusOK {
		t.Errorf("a dashboard's path with dot segments: status %d, want 200", got)
	}
}

// echoRequest answers with the request that arrived.
func echoRequest(w http.ResponseWriter, r *http.Request) {
	_ = json.NewEncoder(w).Encode(map[string]any{"header": r.Header, "host": r.Host, "uri": r.RequestURI})
}

type arrived struct {
	Header http.Header
	Host   string
	URI    string
}

func (f *fixture) arrived(t *testing.T, path string, prepare ...func(*http.Request)) (a arrived) {
	t.Helper()
	status, body := f.get(t, path, prepare...)
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	return a
}

func TestFront_GivesTheContainerTheUserAndNoCredential(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, echoRequest), nil)
	got := f.arrived(t, "/a%2Fb?x=1;y=%zz", basic, func(r *http.Request) {
		r.Header["X-Forwarded-User"] = []string{"root", "root"}
		r.Header["X_Forwarded_User"] = []string{"root"}
		r.Header["X-Forwarded_user"] = []string{"root"}
		r.Header["X.forwarded.user"] = []string{"root"}
		r.Header["X^Forwarded~User"] = []string{"root"}
		r.Header["X-Original-Url"] = []string{"/v1/models"}
		r.Header["X_REWRITE_URL"] = []string{"/v1/models"}
		r.Header.Set("Cookie", "a=1; __Host-agent_session=t; b=2;agent_session=u")
		r.Header.Set("Connection", "X-Forwarded-User, X-Forwarded-For")
	})
	for name, want := range map[string]string{
		"X-Forwarded-User": user, "Authorization": "", "X_forwarded_user": "", "X_Forwarded_User": "",
		"X-Forwarded_user": "", "Cookie": "a=1; b=2", "X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https",
	} {
		if values := strings.Join(got.Header[name], "|"); values != want {
			t.Errorf("%s = %q, want %q", name, values, want)
		}
	}
	for name, values := range got.Header { // however the server writes it
		if forged := values[0]; forged == "root" || forged == "/v1/models" {
			t.Errorf("%s: %s arrived, want it removed", name, forged)
		}
	}
	if got.Host != hostname || got.URI != "/a%2Fb?x=1;y=%zz" {
		t.Errorf("%s%s arrived, want the client's host and path", got.Host, got.URI)
	}
	if got := f.arrived(t, "/v1/models", bearer).Header; got.Get("X-Forwarded-User") != "api" ||
		got.Get("Authorization") != "" {
		t.Errorf("API: user %q, Authorization %q; want api and none", got.Get("X-Forwarded-User"),
			got.Get("Authorization"))
	}
}

func TestFront_ForwardsCredentialsToImagesThatCheckThem(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := start(t, serveContainer(t, echoRequest), func(o *front.Options) {
		o.ForwardCredentials, o.KeysURL = true, i.url
	})
	if got := f.arrived(t, "/v1/x", bearer).Header.Get("Authorization"); got != "Bearer "+apiKey {
		t.Error("the API's key did not arrive")
	}
	cookie := f.request(t, http.MethodGet, i.link(t, f.clock.now(), "1")).Cookies()[0]
	arrived := f.arrived(t, "/", func(r *http.Request) { r.AddCookie(cookie) })
	if name, pass, _ := (&http.Request{Header: arrived.Header}).BasicAuth(); name != user || pass != password {
		t.Error("a session arrived without the dashboard's credential")
	}
	if got, _ := f.get(t, "/"); got != http.StatusUnauthorized {
		t.Errorf("without a credential: status %d, want 401 by the front", got)
	}
}

func TestFront_SendsTheAPIToItsPort(t *testing.T) {
	t.Parallel()
	named := func(name string) int {
		return serveContainer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
	}
	f := start(t, named("dashboard"), func(o *front.Options) { o.APIPort = named("api") })
	if _, got := f.get(t, "/", basic); got != "dashboard" {
		t.Errorf("/ reached %s", got)
	}
	if _, got := f.get(t, "/v1/x", bearer); got != "api" {
		t.Errorf("/v1/x reached %s", got)
	}
}

func TestNew_RefusesIncompleteOptions(t *testing.T) {
	t.Parallel()
	complete := front.Options{
		Port: 3000, Credentials: front.Credentials{Username: user, Password: password, APIKey: apiKey},
	}
	if _, err := front.New(complete); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*front.Options){
		"no port":          func(o *front.Options) { o.Port = 0 },
		"the front's port": func(o *front.Options) { o.Port = 8080 },
		"no user":          func(o *front.Options) { o.Credentials.Username = "" },
		"no password":      func(o *front.Options) { o.Credentials.Password = "" },
		"no key":           func(o *front.Options) { o.Credentials.APIKey = "" },
		"user with colon":  func(o *front.Options) { o.Credentials.Username = "a:b" },
		"user with a line": func(o *front.Options) { o.Credentials.Username = "a\nb" },
	} {
		o := complete
		change(&o)
		if _, err := front.New(o); err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error has a credential: %v", name, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", complete, complete, complete); strings.Contains(text, "canary") {
		t.Errorf("credentials print: %s", text)
	}
}

func TestFront_AnswersCallersOfTheAPIInItsFormat(t *testing.T) {
	t.Parallel()
	f := start(t, refusingPort(t), nil)
	for name, prepare := range map[string]func(*http.Request){
		"authentication_error": func(*http.Request) {}, "server_error": bearer,
	} {
		_, body := f.get(t, "/v1/chat/completions", prepare)
		var got struct {
			Error struct{ Message, Type string }
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error.Type != name || got.Error.Message == "" {
			t.Errorf("%s, %v; want a message of type %s", body, err, name)
		}
	}
}

// A router may know the pod's address as that of another agent for a moment.
func TestFront_ServesOnlyItsOwnHost(t *testing.T) {
	t.Parallel()
	served := 0
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) { served++ }), nil)
	for host, want := range map[string]int{
		hostname: http.StatusOK, strings.ToUpper(hostname) + ":8443": http.StatusOK,
		"other-" + hostname: http.StatusMisdirectedRequest, "127.0.0.9:8080": http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/", "/handoff?token=x", "/auth/check"} {
			res := f.request(t, http.MethodGet, path, basic, func(r *http.Request) { r.Host = host })
			if misdirected := res.StatusCode == http.StatusMisdirectedRequest; misdirected != (want != http.StatusOK) {
				t.Errorf("%s on %s: status %d, want misdirected %t", path, host, res.StatusCode, want != http.StatusOK)
			}
		}
	}
	if served != 2 {
		t.Errorf("the container got %d requests, want 2", served)
	}
}
