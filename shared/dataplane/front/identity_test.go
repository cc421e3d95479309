package front_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"agents.example/controlplane/shared/dataplane/front"
)

// identityHeaders returns the headers about who asks that arrived, with the values of each.
func identityHeaders(h http.Header) map[string]string {
	found := map[string]string{}
	for name, values := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			found[strings.TrimPrefix(name, "X-Forwarded-")] = strings.Join(values, "|")
		}
	}
	return found
}

func wantHeaders(t *testing.T, name string, h http.Header, want map[string]string) {
	t.Helper()
	got := identityHeaders(h)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s = %q, want %q", name, key, got[key], value)
		}
	}
	for key, value := range got {
		if _, expected := want[key]; !expected {
			t.Errorf("%s: %s = %q arrived, want none", name, key, value)
		}
	}
}

// open opens a link with claims, and returns what adds its session to requests.
func (f *fixture) open(t *testing.T, i *issuer, claims map[string]any) func(*http.Request) {
	t.Helper()
	res := f.request(t, http.MethodGet, "/handoff?token="+sign(t, jose.ES256, i.key, claims))
	if len(res.Cookies()) != 1 {
		t.Fatalf("the link: status %d and %d cookies, want 1", res.StatusCode, len(res.Cookies()))
	}
	return func(r *http.Request) { r.AddCookie(res.Cookies()[0]) }
}

func TestFront_TellsTheContainerWhoAsks(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := start(t, serveContainer(t, echoRequest), func(o *front.Options) { o.KeysURL = i.url })
	withEmail := func(id string, email any) func(*http.Request) {
		c := claims(f.clock.now(), id)
		c["email"] = email
		return f.open(t, i, c)
	}
	for _, c := range []struct {
		name, path string
		prepare    func(*http.Request)
		want       map[string]string
	}{
		{
			name: "password", path: "/", prepare: basic,
			want: map[string]string{"User": "admin", "Preferred-Username": "admin", "Auth": "basic"},
		},
		{
			name: "key", path: "/v1/models", prepare: bearer,
			want: map[string]string{"User": "api", "Preferred-Username": "api", "Auth": "api"},
		},
		{
			name: "link", path: "/", prepare: withEmail("1", "ada@example.com"),
			want: map[string]string{
				"User": "user_1", "Email": "ada@example.com", "Preferred-Username": "ada@example.com",
				"Auth": "session",
			},
		},
		{
			name: "link of a former release", path: "/", prepare: f.open(t, i, claims(f.clock.now(), "2")),
			want: map[string]string{"User": "user_1", "Preferred-Username": "user_1", "Auth": "session"},
		},
		{
			name: "link with an address of two lines", path: "/",
			prepare: withEmail("3", "a\r\nX-Forwarded-User: root"),
			want:    map[string]string{"User": "user_1", "Preferred-Username": "user_1", "Auth": "session"},
		},
		{
			name: "link with an address that is too long", path: "/", prepare: withEmail("4", strings.Repeat("a", 257)),
			want: map[string]string{"User": "user_1", "Preferred-Username": "user_1", "Auth": "session"},
		},
	} {
		for key, value := range map[string]string{
			"For": "203.0.113.7", "X-Real-Ip": "203.0.113.7", "Host": hostname, "Proto": "https",
		} {
			c.want[key] = value
		}
		wantHeaders(t, c.name, f.arrived(t, c.path, c.prepare).Header, c.want)
	}
}

func TestFront_PassesOneAddressOfTheClient(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, echoRequest), nil)
	for _, c := range []struct{ name, chain, proto, want string }{
		{
			name: "load balancer", chain: "6.6.6.6, 198.51.100.9, 192.0.2.1, 35.191.0.1", proto: "https",
			want: "198.51.100.9",
		},
		{name: "IPv6", chain: "2001:db8::1:2, 192.0.2.1, 35.191.0.1", proto: "https", want: "2001:db8::1:2"},
		{name: "mapped", chain: "::ffff:198.51.100.9", proto: "http", want: "198.51.100.9"},
		{name: "no load balancer", chain: "6.6.6.6,7.7.7.7,8.8.8.8,198.51.100.9", proto: "http", want: "198.51.100.9"},
		{name: "no address", chain: "unknown", proto: "http", want: "127.0.0.1"},
		{
			name: "nothing before the client", chain: ", 198.51.100.9, 192.0.2.1, 35.191.0.1", proto: "https",
			want: "198.51.100.9",
		},
	} {
		got := f.arrived(t, "/", basic, from(c.chain), header("X-Forwarded-Proto", c.proto)).Header
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip"} {
			if values := strings.Join(got[name], "|"); values != c.want {
				t.Errorf("%s: %s = %q, want %q", c.name, name, values, c.want)
			}
		}
		if got.Get("X-Forwarded-Proto") != c.proto {
			t.Errorf("%s: X-Forwarded-Proto = %q, want %q", c.name, got.Get("X-Forwarded-Proto"), c.proto)
		}
	}
}

// TestFront_RemovesIdentityThatClientsSend covers a front that is newer or older than its router.
func TestFront_RemovesIdentityThatClientsSend(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, echoRequest), nil)
	got := f.arrived(t, "/v1/x", bearer, func(r *http.Request) {
		for _, name := range []string{
			"X-Forwarded-User", "X-Forwarded-Email", "X_Forwarded_Email", "X-Forwarded-Preferred-Username",
			"X-Forwarded-Preferred_Username", "X-Forwarded-Auth", "X.Forwarded.Auth", "X-Forwarded-Groups", "X-Real-IP",
			"X_Real_IP", "X-Forwarded-Host", "X-Forwarded-Prefix", "Forwarded", "Remote-User", "X-Remote-User",
			"X-Auth-Request-Email", "X-WebAuth-User", "True-Client-IP",
		} {
			r.Header[name] = []string{"forged"}
		}
		r.Header.Set("Connection", "X-Forwarded-User, X-Forwarded-Auth, X-Real-Ip, X-Forwarded-For")
	})
	for name, values := range got.Header {
		if strings.Join(values, "") == "forged" {
			t.Errorf("%s arrived as the client sent it", name)
		}
	}
	wantHeaders(t, "forged", got.Header, map[string]string{
		"User": "api", "Preferred-Username": "api", "Auth": "api", "For": "203.0.113.7", "X-Real-Ip": "203.0.113.7",
		"Host": hostname, "Proto": "https",
	})
}
