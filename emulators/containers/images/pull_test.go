package images_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"agents.example/controlplane/emulators/containers/images"
)

// upstream starts a registry, and returns its address.
func upstream(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// push adds an image to a registry.
func push(t *testing.T, reference string, image remote.Taggable) {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Push(ref, image, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestServe_PullsForThisMachine(t *testing.T) {
	t.Parallel()
	addr := upstream(t, nil)
	image := agent(t)
	push(t, addr+"/one:dev", image)
	push(t, addr+"/several:dev", platforms(t, image))
	for _, reference := range []string{addr + "/one:dev", addr + "/several:dev", addr + "/one@" + digest(t, image)} {
		got := pulled(t, images.Source{Reference: reference})
		if got, want := digest(t, got), digest(t, image); got != want {
			t.Errorf("%s: digest %s, want %s", reference, got, want)
		}
	}
}

func TestServe_AReferenceWithoutAHostIsOfTheGivenRegistry(t *testing.T) {
	t.Parallel()
	addr := upstream(t, nil)
	image := agent(t)
	push(t, addr+"/agent:dev", image)
	r, here, err := serve(t, images.Options{
		Insecure: addr, Images: map[string]images.Source{"agent": {Reference: "agent:dev"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := digest(t, pull(t, here, r.References["agent"])), digest(t, image); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestServe_SaysWhyAnImageCannotBePulled(t *testing.T) {
	t.Parallel()
	addr := upstream(t, nil)
	push(t, addr+"/foreign:dev", platformImage(t, otherArch(), v1.Config{User: "1000"}))
	const gone = "127.0.0.1:1" // no program listens on a port of the system
	broken := upstream(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	})
	for _, row := range []struct{ given, reference, want string }{
		{given: "an unknown image", reference: addr + "/none:dev", want: "has no image " + addr + "/none:dev"},
		{given: "another platform", reference: addr + "/foreign:dev", want: "it is for linux/" + otherArch()},
		{given: "no registry", reference: gone + "/agent:dev", want: gone + " or its storage cannot be reached"},
		{given: "a registry that fails", reference: broken + "/agent:dev", want: "answers with status 418"},
		{given: "not a reference", reference: "Agent:dev:dev", want: "could not parse reference"},
	} {
		if got := refused(t, images.Source{Reference: row.reference}); !strings.Contains(got, row.want) {
			t.Errorf("%s: error %q, want one with %q", row.given, got, row.want)
		}
	}
}

const password = "correct-horse" //nolint:gosec // of a registry of this test

// TestServe_UsesTheCredentialsOfDockerLogin is not parallel: it sets the environment.
func TestServe_UsesTheCredentialsOfDockerLogin(t *testing.T) {
	private := func(allowed string) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if _, got, _ := req.BasicAuth(); got != allowed {
					w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
					http.Error(w, "wrong password "+got, http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, req)
			})
		}
	}
	open, closed := upstream(t, private(password)), upstream(t, private("another"))
	dir := t.TempDir()
	login := `{"auths":{"` + open + `":{"username":"u","password":"` + password + `"},
		"` + closed + `":{"username":"u","password":"` + password + `"}}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", dir)
	got := refused(t, images.Source{Reference: open + "/agent:dev"})
	if want := "has no image"; !strings.Contains(got, want) { // so the login was accepted
		t.Errorf("error %q, want one with %q", got, want)
	}
	got = refused(t, images.Source{Reference: closed + "/agent:dev"})
	if want := "docker login " + closed; !strings.Contains(got, want) {
		t.Errorf("error %q, want one with %q", got, want)
	}
	if strings.Contains(got, password) {
		t.Errorf("error %q has the password", got)
	}
}

// Registries send clients to URLs of their storage. Such a URL grants access to who knows it.
func TestServe_ErrorsHaveNoURLThatGrantsAccess(t *testing.T) {
	t.Parallel()
	image := agent(t)
	configuration, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	for given, redirected := range map[string]func(path string) bool{
		"the configuration": func(path string) bool { return strings.HasSuffix(path, configuration.Hex) },
		"the layers":        func(path string) bool { return !strings.HasSuffix(path, configuration.Hex) },
	} {
		addr := upstream(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				blob := req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/")
				if blob && redirected(req.URL.Path) {
					http.Redirect(w, req, "http://127.0.0.1:1/?signature="+password, http.StatusTemporaryRedirect)
					return
				}
				next.ServeHTTP(w, req)
			})
		})
		push(t, addr+"/agent:dev", image)
		got := refused(t, images.Source{Reference: addr + "/agent:dev"})
		if want := "connection refused"; !strings.Contains(got, want) || strings.Contains(got, password) {
			t.Errorf("%s: error %q, want one with %q and without the signature", given, got, want)
		}
	}
}
