package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/image/imagetest"
)

// apiServer is as much of an API server as the record needs. terraform/images_test.go has a real one.
type apiServer struct {
	mu      sync.Mutex
	data    map[string]string
	version int
	writes  int
	// before is called before a write that is not only tried.
	before func(*apiServer)
	// refuses is the status with which it answers writes, if it is not zero.
	refuses int
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(code int, message string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","code":%d,"message":%q}`, code, message)
	}
	tried := r.URL.Query().Get("dryRun") == "All"
	switch {
	case r.URL.Path != "/api/v1/namespaces/agent-gateway/configmaps/agent-images" || s.data == nil:
		answer(http.StatusNotFound, "not found")
		return
	case r.Method == http.MethodPatch && s.refuses != 0:
		answer(s.refuses, "refused")
		return
	case r.Method == http.MethodPatch:
		if s.before != nil && !tried {
			s.before(s)
		}
		var written configMap
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &written) != nil {
			answer(http.StatusBadRequest, "no object")
			return
		}
		if written.Metadata.ResourceVersion != strconv.Itoa(s.version) {
			answer(http.StatusConflict, "the object has been modified")
			return
		}
		if !tried {
			s.writes++
			s.set(written.Data)
		}
	}
	var present configMap
	present.Metadata.ResourceVersion, present.Data = strconv.Itoa(s.version), s.data
	_ = json.NewEncoder(w).Encode(present)
}

func (s *apiServer) set(data map[string]string) {
	maps.Copy(s.data, data)
	s.version++
}

// get returns the record, and the key of a deployment.
func (s *apiServer) get() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

// start starts API servers and returns the record of their cells, "a", "b" ….
func start(t *testing.T, servers ...*apiServer) *Cells {
	t.Helper()
	var cells []connect.Cell
	for i, s := range servers {
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		cells = append(cells, connect.Cell{
			Name: string(rune('a' + i)), Kubeconfig: kubeconfig(t, server.URL),
		})
	}
	c := New(t.Context(), cells)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func kubeconfig(t *testing.T, address string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"` +
		address + `"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func deployed() *apiServer { return &apiServer{data: map[string]string{"deployed": "image"}} }

// entry is an image with one version. Images with auth dataplane.AuthImage check credentials themselves.
func entry(name, auth string) image.Image {
	return image.Image{
		ID: name, Runtime: image.Runtime{Auth: auth}, Versions: []image.Version{{Reference: reference(name)}},
	}
}

func reference(name string) string { return imagetest.Reference(name, "0") }

// wantRecord compares the record of a cell. The references are given by the names of their images.
func wantRecord(t *testing.T, s *apiServer, catalog, credentials []string) {
	t.Helper()
	join := func(names []string) string {
		var all []string
		for _, name := range names {
			all = append(all, reference(name))
		}
		return strings.Join(all, " ")
	}
	want := map[string]string{"deployed": "image", "catalog": join(catalog), "credentials": join(credentials)}
	if diff := cmp.Diff(want, s.get()); diff != "" {
		t.Errorf("the cell's record (-want +got):\n%s", diff)
	}
}

// list returns what Settle reads the catalog with.
func list(images ...image.Image) func(context.Context) ([]image.Image, error) {
	return func(context.Context) ([]image.Image, error) { return images, nil }
}

func TestAdmit_AddsToWhatEveryCellAdmits(t *testing.T) {
	t.Parallel()
	one, other := deployed(), deployed()
	c := start(t, one, other)
	x, y, a := entry("x", ""), entry("y", dataplane.AuthImage), entry("a", dataplane.AuthFront)
	for _, added := range [][]image.Image{{x, y}, {a}, {x}} {
		if err := c.Admit(t.Context(), added); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*apiServer{one, other} {
		wantRecord(t, s, []string{"a", "x", "y"}, []string{"y"})
		if s.writes != 2 {
			t.Errorf("%d writes, want 2: the last image was admitted before", s.writes)
		}
	}
}

func TestAdmit_AdmitsEveryVersionWhateverItsState(t *testing.T) {
	t.Parallel()
	s := deployed()
	full := imagetest.Full("x")
	if err := start(t, s).Admit(t.Context(), []image.Image{full}); err != nil {
		t.Fatal(err)
	}
	want := full.Versions[0].Reference + " " + full.Versions[1].Reference
	if got := s.get()["catalog"]; got != want {
		t.Errorf("the cell admits %q, want %q", got, want)
	}
}

func TestSettle_TakesOutWhatTheCatalogDoesNotName(t *testing.T) {
	t.Parallel()
	s := deployed()
	c := start(t, s)
	if err := c.Settle(t.Context(), list(entry("x", ""), entry("y", dataplane.AuthImage))); err != nil {
		t.Fatal(err)
	}
	wantRecord(t, s, []string{"x", "y"}, []string{"y"})
	if err := c.Settle(t.Context(), list(entry("x", ""))); err != nil {
		t.Fatal(err)
	}
	wantRecord(t, s, []string{"x"}, nil)
	failed := errors.New("the database does not answer")
	err := c.Settle(t.Context(), func(context.Context) ([]image.Image, error) { return nil, failed })
	if !errors.Is(err, failed) {
		t.Errorf("Settle = %v, want %v", err, failed)
	}
	wantRecord(t, s, []string{"x"}, nil)
}

// TestUpdate_LosesNoOtherWrite has another operator whose write comes between reading and writing.
func TestUpdate_LosesNoOtherWrite(t *testing.T) {
	t.Parallel()
	s := deployed()
	catalog := []image.Image{entry("x", "")}
	s.before = func(s *apiServer) {
		s.before = nil
		s.set(map[string]string{"catalog": reference("other"), "credentials": ""})
		catalog = append(catalog, entry("other", ""))
	}
	c := start(t, s)
	if err := c.Admit(t.Context(), catalog[:1]); err != nil {
		t.Fatal(err)
	}
	wantRecord(t, s, []string{"other", "x"}, nil)
	catalog = catalog[:1]
	s.before = func(s *apiServer) {
		s.before = nil
		s.set(map[string]string{"catalog": reference("late"), "credentials": ""})
		catalog = append(catalog, entry("late", ""))
	}
	if err := c.Settle(t.Context(), func(context.Context) ([]image.Image, error) { return catalog, nil }); err != nil {
		t.Fatal(err)
	}
	wantRecord(t, s, []string{"late", "x"}, nil)
}

// TestAdmit_ChangesNoCellIfOneCannotFollow holds that the error names the cell.
func TestAdmit_ChangesNoCellIfOneCannotFollow(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		broken *apiServer
		want   string
	}{
		"it refuses the write":    {broken: &apiServer{data: map[string]string{}, refuses: 403}, want: "403: refused"},
		"it has no record":        {broken: &apiServer{}, want: "terraform/apply-cells.sh"},
		"others write all along":  {broken: &apiServer{data: map[string]string{}, refuses: 409}, want: "409"},
		"it does not answer":      {want: "does not answer"},
		"its kubeconfig is wrong": {broken: nil, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			well := deployed()
			var c *Cells
			switch {
			case row.broken != nil:
				c = start(t, well, row.broken)
			case row.want != "":
				c = start(t, well)
				c.cells = append(c.cells, New(t.Context(), []connect.Cell{
					{Name: "b", Kubeconfig: kubeconfig(t, "http://127.0.0.1:1")},
				}).cells...)
			default:
				c = start(t, well)
				c.cells = append(c.cells, New(t.Context(), []connect.Cell{{Name: "b", Kubeconfig: "missing"}}).cells...)
			}
			err := c.Admit(t.Context(), []image.Image{entry("x", "")})
			if err == nil || !strings.Contains(err.Error(), `cell "b"`) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("Admit = %v, want an error that names the cell b and %q", err, row.want)
			}
			if well.writes > 0 {
				t.Error("the other cell was written, want no change")
			}
		})
	}
}

func TestCells_NeedACell(t *testing.T) {
	t.Parallel()
	c := New(t.Context(), nil)
	for name, err := range map[string]error{
		"Admit": c.Admit(t.Context(), nil), "Settle": c.Settle(t.Context(), list()),
	} {
		if !errors.Is(err, errNoCells) {
			t.Errorf("%s without cells = %v, want %v", name, err, errNoCells)
		}
	}
}
