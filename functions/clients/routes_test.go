package clients_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"agents.example/controlplane/functions/clients"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

func TestMain(m *testing.M) { functiontest.Main(m) }

// The versions of the test's bucket.
const (
	older   = "1.20260102.0"
	current = "1.20261127.203023"
	baseURL = "https://api.test"
)

// bucket has two releases. The content of a file is its name.
type bucket struct {
	mu       sync.Mutex
	versions []string
	broken   bool
	empty    string        // the name of a file that is lost
	hold     chan struct{} // if it is not nil, files end when it is closed
	calls    []string
}

func newBucket() *bucket { return &bucket{versions: []string{current, older, "not-a-version"}} }

func (b *bucket) call(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, name)
	if b.broken {
		return fault.New(fault.Unavailable, "clients_unavailable", "Retry.")
	}
	return nil
}

// called returns the calls since the last one of called.
func (b *bucket) called() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = nil
	return calls
}

// Versions implements clientrelease.Store.
func (b *bucket) Versions(context.Context) ([]string, error) {
	return slices.Clone(b.versions), b.call("versions")
}

// Release implements clientrelease.Store.
func (b *bucket) Release(_ context.Context, version string) (clientrelease.Release, error) {
	r := clientrelease.Release{Version: version}
	for _, name := range clientrelease.Names(version) {
		sum := sha256.Sum256([]byte(name))
		r.Files = append(r.Files, clientrelease.File{
			Name: name, Object: "object of " + name, SHA256: fmt.Sprintf("%x", sum),
			Size: int64(len(name)),
		})
	}
	return r, b.call("release " + version)
}

// Open implements clientrelease.Store.
func (b *bucket) Open(_ context.Context, f clientrelease.File) (io.ReadCloser, error) {
	if f.Name == b.empty {
		return nil, fault.New(fault.NotFound, "not_found", "Lost.")
	}
	if b.hold != nil {
		return io.NopCloser(readerFunc(func([]byte) (int, error) { <-b.hold; return 0, io.EOF })), b.call(f.Object)
	}
	return io.NopCloser(strings.NewReader(f.Name)), b.call(f.Object)
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func serve(store clientrelease.Store, base string) http.Handler {
	var served []function.Served
	for _, r := range clients.Routes(store, base) {
		served = append(served, r.Served(function.Guard{}))
	}
	return function.Mux(served)
}

func send(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	return send(h, http.MethodGet, path, headers...)
}

func TestFile_EveryFileOfEveryVersionCanBeDownloaded(t *testing.T) {
	t.Parallel()
	h := serve(newBucket(), baseURL)
	for _, version := range []string{older, current} {
		for _, name := range clientrelease.Names(version) {
			w := get(h, "/clients/"+name)
			if w.Code != 200 || w.Body.String() != name {
				t.Errorf("%s: %d %s, want the file", name, w.Code, w.Body)
			}
			if got := w.Header().Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
				t.Errorf("%s: Cache-Control = %q, want that of a file that never changes", name, got)
			}
			if got := w.Header().Get("Content-Length"); got != fmt.Sprint(len(name)) {
				t.Errorf("%s: Content-Length = %q, want %d", name, got, len(name))
			}
		}
	}
}

func TestFile_IsReadOnlyForThoseWhoNeedIt(t *testing.T) {
	t.Parallel()
	b := newBucket()
	h := serve(b, baseURL)
	path := "/clients/" + clientrelease.Tarball(current)
	tag := get(h, path).Header().Get("ETag")
	b.called()
	if w := get(h, path, "If-None-Match", tag); w.Code != 304 || w.Body.Len() != 0 {
		t.Errorf("the present ETag: %d %s, want 304 without a body", w.Code, w.Body)
	}
	w := send(h, http.MethodHead, path)
	if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d %v, want the headers alone", w.Code, w.Header())
	}
	if calls := b.called(); len(calls) > 0 {
		t.Errorf("the bucket was asked for %q, want no call", calls)
	}
}

func TestFile_OnlyPublishedNamesReachTheBucket(t *testing.T) {
	t.Parallel()
	b := newBucket()
	h := serve(b, baseURL)
	get(h, "/clients/"+clientrelease.Tarball(older))
	get(h, "/clients/"+clientrelease.Tarball(current))
	b.called()
	for _, path := range []string{
		"unknown", "agentctl", "agentctl-plan9-amd64", "agents.example-client-1.20261127.1.tgz",
		"agents.example-client-" + current + ".zip", "x-" + current, current, "python.whl", "python/other/",
		"go/agents.example/controlplane/@v/list", "go/agents.example/controlplane/shared/client/@v/main.info",
		"go/agents.example/controlplane/shared/client/@v/v1.2.3.zip", "go/github.com/other/module/@v/list",
		"go/agents.example/controlplane/shared/client/@v/v" + current + ".sh",
		"..%2f..%2freleases%2f" + current + ".json", "../secrets", "%2e%2e/%2e%2e/clients/files/x", "typescript.tgz/",
		strings.Repeat("a", 10_000),
	} {
		w := get(h, "/clients/"+path)
		if w.Code != 404 && w.Code != 422 {
			t.Errorf("%.80s: %d %s, want 404", path, w.Code, w.Body)
		}
	}
	if calls := b.called(); len(calls) > 0 {
		t.Errorf("the bucket was asked for %q, want no call", calls)
	}
}

// TestCatalog_ReadsTheBucketRarely: anyone may call, and the operator pays for each call of the bucket.
func TestCatalog_ReadsTheBucketRarely(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken bool
		status int
		want   []string
	}{
		"a bucket that answers": {status: 200, want: []string{"versions", "release " + current}},
		"a bucket that fails":   {broken: true, status: 503, want: []string{"versions"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket()
			b.broken = c.broken
			h := serve(b, baseURL)
			for range 50 {
				if w := get(h, "/clients"); w.Code != c.status {
					t.Fatalf("status = %d, want %d", w.Code, c.status)
				}
			}
			if calls := b.called(); !slices.Equal(calls, c.want) {
				t.Errorf("50 requests made the calls %q, want %q", calls, c.want)
			}
		})
	}
}

func TestFile_RedirectsToTheVersion(t *testing.T) {
	t.Parallel()
	w := get(serve(newBucket(), baseURL), "/clients/typescript.tgz")
	if w.Code != 302 || w.Header().Get("Location") != clientrelease.Tarball(current) {
		t.Errorf("%d to %q, want 302 to the address with the version", w.Code, w.Header().Get("Location"))
	}
}

func TestFile_ToolsOfThePresentReleaseMustBeRevalidated(t *testing.T) {
	t.Parallel()
	h := serve(newBucket(), baseURL)
	for _, p := range clientrelease.Platforms() {
		w := get(h, "/clients/"+clientrelease.LatestTool(p))
		if w.Code != 200 || w.Body.String() != clientrelease.Tool(current, p) {
			t.Errorf("%v: %d %s, want the tool of the newest release", p, w.Code, w.Body)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%v: Cache-Control = %q, want no-cache: the next release has another file", p, got)
		}
	}
}

func TestFile_ALostFileIsAnError(t *testing.T) {
	t.Parallel()
	b := newBucket()
	b.empty = clientrelease.Tarball(current)
	w := get(serve(b, baseURL), "/clients/"+b.empty)
	if w.Code != 404 || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("ETag") != "" {
		t.Errorf("%d %v, want 404 that no cache keeps", w.Code, w.Header())
	}
}

func TestFile_DownloadsOfOneAddressAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.hold = make(chan struct{})
		h := serve(b, baseURL)
		codes := make(chan int, 21)
		download := func(address string) {
			req := httptest.NewRequest(http.MethodGet, "/clients/"+clientrelease.Tarball(current), nil)
			req.RemoteAddr = address + ":1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			codes <- w.Code
		}
		for range 20 {
			go download("192.0.2.1")
		}
		synctest.Wait()
		if len(codes) != 12 {
			t.Errorf("%d of 20 downloads of one address are refused, want 12", len(codes))
		}
		for range len(codes) {
			if code := <-codes; code != 429 {
				t.Errorf("a download beyond the bound: %d, want 429", code)
			}
		}
		go download("198.51.100.1")
		synctest.Wait()
		if len(codes) != 0 {
			t.Errorf("a download of another address: %d, want it served", <-codes)
		}
		close(b.hold)
		synctest.Wait()
		for range len(codes) {
			if code := <-codes; code != 200 {
				t.Errorf("a download within the bounds: %d, want 200", code)
			}
		}
	})
}

func TestGoProxy_AnswersAsTheProtocolSays(t *testing.T) {
	t.Parallel()
	h := serve(newBucket(), baseURL)
	const module = "/clients/go/agents.example/controlplane/shared/client/"
	for path, want := range map[string]string{
		"@v/list":                    "v" + older + "\nv" + current + "\n",
		"@v/v" + older + ".info":     `{"Version":"v1.20260102.0","Time":"2026-01-02T00:00:00Z"}`,
		"@latest":                    `{"Version":"v1.20261127.203023","Time":"2026-11-27T20:30:23Z"}`,
		"@v/v" + current + ".mod":    clientrelease.GoMod(current),
		"@v/v1.20261127.203024.info": "",
	} {
		w := get(h, module+path)
		if want == "" {
			if w.Code != 404 {
				t.Errorf("%s: %d, want 404", path, w.Code)
			}
			continue
		}
		if w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
}

func TestPythonIndex_LinksTheFilesOfAllVersions(t *testing.T) {
	t.Parallel()
	h := serve(newBucket(), baseURL)
	if w := get(h, "/clients/python/"); w.Code != 200 || !strings.Contains(w.Body.String(), `href="agents-client/"`) {
		t.Errorf("%d %s, want a link to the project", w.Code, w.Body)
	}
	w := get(h, "/clients/python/agents-client/")
	links := regexp.MustCompile(`href="\.\./\.\./([^"#]+)#sha256=([0-9a-f]{64})"`).FindAllStringSubmatch(w.Body.String(), -1)
	if len(links) != 2 {
		t.Fatalf("the page has %d links, want one a version: %s", len(links), w.Body)
	}
	for _, link := range links {
		sum := sha256.Sum256(get(h, "/clients/"+link[1]).Body.Bytes())
		if fmt.Sprintf("%x", sum) != link[2] {
			t.Errorf("%s has the checksum %x, want that of the link, %s", link[1], sum, link[2])
		}
	}
}

func TestPage_SaysHowToInstall(t *testing.T) {
	t.Parallel()
	h := serve(newBucket(), baseURL)
	w := get(h, "/clients", "Accept", "text/html,*/*;q=0.8", "Host", "evil.test", "X-Forwarded-Host", "evil.test")
	page := w.Body.String()
	for _, want := range []string{
		"npm install https://api.test/clients/agents.example-client-" + current + ".tgz",
		"GOPROXY=https://api.test/clients/go,", "go get agents.example/controlplane/shared/client@latest",
		"pip install https://api.test/clients/agents_client-" + current + "-py3-none-any.whl",
		"--index-url https://api.test/clients/python/ agents-client", "https://api.test/clients/agentctl-linux-amd64",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "evil") || strings.Contains(page, "<script") {
		t.Errorf("the page has what a request says, or a script: %s", page)
	}
	if files := strings.Count(page, `<td><a href="https://api.test/clients/`); files != 10 || strings.Contains(page, "{{") {
		t.Errorf("the page links %d files, want 10, or is not filled: %s", files, page)
	}
	odd := get(serve(newBucket(), `https://api.test/"><b>`), "/clients", "Accept", "text/html").Body.String()
	if strings.Contains(odd, "<b>") || !strings.Contains(odd, `href="https://api.test/&#34;&gt;&lt;b&gt;/clients/`) {
		t.Errorf("the page does not escape its address: %s", odd)
	}
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	policy := w.Header().Get("Content-Security-Policy")
	if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
		t.Errorf("the policy is %s, want %s for the page's style", policy, want)
	}
	if !strings.HasPrefix(policy, "default-src 'none'; style-src ") || strings.Contains(policy, "http") {
		t.Errorf("the policy is %s, want one that lets the page load nothing", policy)
	}
}

func TestOverview_ListsTheFilesForPrograms(t *testing.T) {
	t.Parallel()
	var got clients.Overview
	w := get(serve(newBucket(), baseURL), "/clients", "Accept", "application/json")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != current || len(got.Files) != 10 {
		t.Fatalf("version %q with %d files, want %q with 10", got.Version, len(got.Files), current)
	}
	for _, f := range got.Files {
		if f.URL != baseURL+"/clients/"+f.Name || len(f.SHA256) != 64 || f.Size == 0 {
			t.Errorf("%+v, want an address, a checksum and a size", f)
		}
	}
}

func TestRoutes_SayWhatIsNotConfigured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler    http.Handler
		path, want string
	}{
		"no bucket":  {serve(nil, baseURL), "/clients", "CLIENTS_BUCKET"},
		"a file":     {serve(nil, baseURL), "/clients/typescript.tgz", "CLIENTS_BUCKET"},
		"no address": {serve(newBucket(), ""), "/clients", "API_BASE_URL"},
		"no release": {serve(&bucket{}, baseURL), "/clients", "No release has published"},
	} {
		if w := get(c.handler, c.path); w.Code != 404 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want 404 that names %s", name, w.Code, w.Body, c.want)
		}
	}
}
