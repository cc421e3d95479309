package wire

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/function"
)

// openWithout opens a selection of functions in a process without the pepper.
func openWithout(t *testing.T, s functions.Selection) error {
	t.Helper()
	o := newClients(t)
	o.config.Issuer = "https://issuer.example"
	_, err := o.service(s, nil)
	return err
}

// TestService_NeedsThePepperIfItAuthenticates opens every function, and every role, without the pepper.
func TestService_NeedsThePepperIfItAuthenticates(t *testing.T) {
	t.Parallel()
	const refusal = "configuration: API_KEY_PEPPER is required: "
	refused := 0
	for _, r := range functions.Routes(functions.Dependencies{}) {
		err := openWithout(t, functions.Selection{Target: r.Name})
		if !r.Access.Authenticates() && err != nil {
			t.Errorf("%s authenticates no one and does not start without the pepper: %v", r.Name, err)
		}
		if !r.Access.Authenticates() {
			continue
		}
		refused++
		if err == nil || !strings.HasPrefix(err.Error(), refusal+r.Name+" ") {
			t.Errorf("%s without the pepper: %v, want %q", r.Name, err, refusal+r.Name)
		}
	}
	if refused == 0 {
		t.Error("no route authenticates its callers")
	}
	for _, role := range []function.Role{function.RoleAPI, function.RoleAccounts} {
		err := openWithout(t, functions.Selection{Roles: []function.Role{role}})
		if err == nil || !strings.HasPrefix(err.Error(), refusal) {
			t.Errorf("all routes of %s without the pepper: %v, want %q", role, err, refusal)
		}
	}
	if err := openWithout(t, functions.Selection{Roles: []function.Role{function.RoleWorker}}); err != nil {
		t.Errorf("the workers do not start without the pepper: %v", err)
	}
}

// TestService_StartsWithThePepper opens all routes.
func TestService_StartsWithThePepper(t *testing.T) {
	t.Parallel()
	o := newClients(t)
	o.config.Issuer, o.settings.Peppers.Present = "https://issuer.example", []byte(strings.Repeat("p", 32))
	if _, err := o.service(functions.Selection{Roles: []function.Role{function.RoleAccounts}}, nil); err != nil {
		t.Error(err)
	}
}

// TestService_TakesAddressesFromItsEdge reads the address of the client from the log line of a call.
func TestService_TakesAddressesFromItsEdge(t *testing.T) { //nolint:paralleltest // the logger is the process's
	const secret, front, client = "secret-of-the-edge-0123456789-abcdef", "192.0.2.1", "198.51.100.1"
	o := newClients(t)
	o.config.Issuer = "https://issuer.example"
	c := config.Routes{
		Common: o.config, Peppers: config.Peppers{Pepper: []byte(strings.Repeat("p", 32))},
		EdgeSecrets: []string{secret},
	}
	o.settings = RouteSettings(c, o.settings.Openers)
	s, err := o.service(functions.Selection{Roles: []function.Role{function.RoleAPI}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := captureLog(t)
	for sent, want := range map[string]string{secret: client, "another": front} {
		log.Reset()
		req := httptest.NewRequest(http.MethodGet, "/nowhere", nil)
		req.Header.Set("X-Forwarded-For", front)
		req.Header.Set(clientip.SecretHeader, sent)
		req.Header.Set(clientip.AddressHeader, client)
		s.Handler.ServeHTTP(httptest.NewRecorder(), req)
		if !strings.Contains(log.String(), `"remoteIp":"`+want+`"`) || strings.Contains(log.String(), secret) {
			t.Errorf("with the secret %q the log has %s, want the address %s and no secret", sent, log.String(), want)
		}
	}
}

// captureLog redirects the process's logger. A test that uses it must not be parallel.
func captureLog(t *testing.T) *strings.Builder {
	t.Helper()
	var log strings.Builder
	former := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(former) })
	return &log
}

// TestService_BoundsTheLinesOfStrangers sends requests to paths that do not exist and to a public route. The test may
// take more than a second on a busy machine, which allows as many lines again.
func TestService_BoundsTheLinesOfStrangers(t *testing.T) { //nolint:paralleltest // the logger is the process's
	o := newClients(t)
	o.config.Issuer, o.settings.Peppers.Present = "https://issuer.example", []byte(strings.Repeat("p", 32))
	s, err := o.service(functions.Selection{Roles: []function.Role{function.RoleAccounts}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/nowhere", "/health/live"} {
		log := captureLog(t)
		const calls = 1000
		for range calls {
			s.Handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		}
		if n := strings.Count(log.String(), "\n"); n == calls {
			t.Errorf("all %d calls of %s have a line", n, path)
		}
	}
}
