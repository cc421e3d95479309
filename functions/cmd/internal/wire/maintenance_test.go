package wire

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/openapi"
	"agents.example/controlplane/functions/openapi/openapitest"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/function"
)

// allFunctions is a process that serves the whole catalogue over a Firestore in this process.
type allFunctions struct {
	store   *embedded.Server
	handler http.Handler
	token   string
}

func serveAll(t *testing.T, maintenance bool) allFunctions {
	t.Helper()
	store, err := embedded.Start(t.Context(), embedded.Options{Indexes: firestore.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, store.Close)
	idp, err := issuer.Start(t.Context(), issuer.Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, idp.Close)
	token, err := idp.Session(issuer.Session{Subject: "ada", Organization: "org_1", Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	o := newClients(t)
	o.config.Issuer, o.config.Local.FirestoreEmulator, o.config.Maintenance = idp.URL(), store.Addr, maintenance
	s, err := All(t.Context(), config.Worker{
		Common: o.config, PushIssuer: idp.URL(), PushAudience: "https://api.test", PushServiceAccount: "push@test",
	}, Settings{Openers: o.settings.Openers, Peppers: apikey.Peppers{
		Present: apikey.Pepper(strings.Repeat("p", 32)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s.Close)
	return allFunctions{store: store, handler: s.Handler, token: token}
}

// call sends a request with a session and an empty object.
func (a allFunctions) call(method, path string) *httptest.ResponseRecorder {
	const id = "00000000-0000-4000-8000-000000000000"
	path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, id)
	req := httptest.NewRequest(method, path, strings.NewReader("{}"))
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, req)
	return w
}

func (a allFunctions) documents(t *testing.T) map[string]string {
	t.Helper()
	documents, err := a.store.Documents("test", "(default)")
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

// TestMaintenance_RefusesWhatUsesAnOutsideSystemAndWritesNothing calls every function of the catalogue. The session
// is the first of its organization, which any authenticated call writes down otherwise.
func TestMaintenance_RefusesWhatUsesAnOutsideSystemAndWritesNothing(t *testing.T) {
	t.Parallel()
	usual := serveAll(t, false)
	if w := usual.call(http.MethodGet, "/api/v1/me"); w.Code != http.StatusOK || len(usual.documents(t)) == 0 {
		t.Fatalf("without maintenance GET /api/v1/me = %d %s, and it wrote %d documents", w.Code, w.Body,
			len(usual.documents(t)))
	}
	closed, refused := serveAll(t, true), 0
	for _, r := range functions.Routes(functions.Dependencies{}) {
		w := closed.call(r.Method, r.Path)
		if len(r.Needs) == 0 {
			if w.Code == http.StatusServiceUnavailable {
				t.Errorf("%s needs no outside system and answers 503", r.Name)
			}
			continue
		}
		refused++
		checkMaintenance(t, r.Name, w)
		checkDescribed(t, r, w)
	}
	for _, wk := range functions.Workers(functions.Dependencies{}) {
		refused++
		checkMaintenance(t, wk.Name, closed.call(http.MethodPost, wk.Path()))
	}
	if refused < 50 {
		t.Errorf("%d functions were refused, want most of the catalogue", refused)
	}
	for _, path := range []string{"/health", "/health/live", "/api/v1/health/live"} {
		if w := closed.call(http.MethodGet, path); w.Code != http.StatusOK {
			t.Errorf("GET %s = %d, want 200: the process is live", path, w.Code)
		}
	}
	if diff := cmp.Diff(map[string]string{}, closed.documents(t)); diff != "" {
		t.Errorf("functions wrote during maintenance (-want +got):\n%s", diff)
	}
}

func checkMaintenance(t *testing.T, name string, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"code":"maintenance"`) {
		t.Errorf("%s = %d %s, want 503 maintenance", name, w.Code, w.Body)
	}
	if after := w.Header().Get("Retry-After"); after != "120" {
		t.Errorf("%s: Retry-After = %q, want 120", name, after)
	}
}

func checkDescribed(t *testing.T, r function.Route, w *httptest.ResponseRecorder) {
	t.Helper()
	text, err := openapi.Describe([]function.Route{r}, openapi.Options{Title: "test"})
	if err != nil {
		t.Fatal(err)
	}
	description, err := openapitest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := description.Check(openapitest.Exchange{
		Method: r.Method, Path: r.Path, Status: w.Code, Header: w.Header(), Body: w.Body.Bytes(),
	}); err != nil {
		t.Errorf("%s: the answer is not described: %v", r.Name, err)
	}
}
