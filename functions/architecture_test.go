package functions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "agents.example/controlplane/"

// listed is what the go command says about a package: what it imports and, with all that they import, links.
type listed struct{ Imports, Deps []string }

// list lists the packages of the module and their tests by path, once for all tests.
var list = sync.OnceValues(func() (map[string]listed, error) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-json=ImportPath,Imports,Deps", "-test", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	found := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			listed
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		found[strings.TrimPrefix(p.ImportPath, module)] = p.listed
	}
})

// packages returns the packages below some directories, without their tests.
func packages(t *testing.T, dirs ...string) map[string]listed {
	t.Helper()
	all, err := list()
	must(t, err)
	found := map[string]listed{}
	for path, p := range all {
		if under(path, dirs...) && !strings.HasSuffix(path, ".test") && !strings.HasSuffix(path, "]") {
			found[path] = p
		}
	}
	return found
}

// links returns what a package links. It is not empty.
func links(t *testing.T, pkg string) []string {
	t.Helper()
	deps := packages(t, pkg)[pkg].Deps
	if len(deps) == 0 {
		t.Fatalf("%s links nothing: it was not found", pkg)
	}
	return deps
}

// family is the directory of a technology or of a subject, such as infra/gke, whose packages may import each other.
func family(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func under(pkg string, dirs ...string) bool {
	for _, d := range dirs {
		if pkg == d || strings.HasPrefix(pkg, d+"/") {
			return true
		}
	}
	return false
}

// cloudSDKs are the libraries that call outside systems.
func cloudSDKs() []string {
	return []string{
		"cloud.google.com/go", "google.golang.org/api", "google.golang.org/grpc", "k8s.io", "sigs.k8s.io",
		"firebase.google.com/go",
		"github.com/stripe", "github.com/GoogleCloudPlatform", "github.com/coreos/go-oidc",
	}
}

// outputFormats are libraries of formats that are published together with a cloud SDK, and do not call anything.
func outputFormats() []string {
	return []string{"k8s.io/client-go/util/jsonpath", "sigs.k8s.io/json", "sigs.k8s.io/yaml"}
}

// podBinaries are the libraries that no binary in an agent's pod may link.
func podBinaries() []string {
	return append(cloudSDKs(), "go.opentelemetry.io", "github.com/santhosh-tekuri", module+"infra", module+"emulators",
		module+"shared/agent", module+"shared/function")
}

// rule says what packages below some directories may import, and what to do instead.
type rule struct {
	of      []string
	except  []string
	own     []string // directories of this module that may be imported
	sdks    bool     // whether cloud SDKs may be imported
	instead string
}

// TestImports_PointAtShared keeps the direction of imports.
func TestImports_PointAtShared(t *testing.T) {
	t.Parallel()
	rules := []rule{
		{
			of: []string{"shared"}, own: []string{"shared"},
			instead: "define a small port in shared and implement it in infra",
		},
		{
			// lazyconn and publicnet serve clients of several services, and know none.
			of: []string{"infra"}, own: []string{"shared", "infra/lazyconn", "infra/publicnet"}, sdks: true,
			instead: "let the two technologies meet in functions/cmd, through ports of shared",
		},
		{
			of:      []string{"functions"},
			except:  []string{"functions", "functions/cmd", "functions/generate", "functions/backendtest"},
			own:     []string{"shared"},
			instead: "take a port of shared as a parameter, and move what siblings share into shared",
		},
		{
			of: []string{"functions/backendtest"}, own: []string{"emulators", "functions", "infra", "shared"},
			instead: "keep the harness of route tests to parts that run in this process",
		},
		{
			of: []string{"functions/cmd"}, own: []string{"functions", "infra", "shared"}, sdks: true,
			instead: "keep code that only the local cloud needs in emulators",
		},
	}
	for pkg, p := range packages(t, "shared", "infra", "functions") {
		for _, r := range rules {
			if !under(pkg, r.of...) || pkg == "functions" || (len(r.except) > 0 && under(pkg, r.except[1:]...)) {
				continue
			}
			for _, i := range p.Imports {
				own, isOwn := strings.CutPrefix(i, module)
				if isOwn && !under(own, r.own...) && !under(own, family(pkg)) {
					t.Errorf("%s imports %s: %s", pkg, own, r.instead)
				}
				if !isOwn && !r.sdks && under(i, cloudSDKs()...) && !under(i, outputFormats()...) {
					t.Errorf("%s imports %s: %s", pkg, i, r.instead)
				}
			}
		}
	}
}

// TestImports_KeepEachSDKInOnePackage keeps each cloud library in one package of infra.
func TestImports_KeepEachSDKInOnePackage(t *testing.T) {
	t.Parallel()
	homes := map[string]string{
		"cloud.google.com/go/firestore": "infra/firestore", "cloud.google.com/go/pubsub/v2": "infra/pubsub",
		"cloud.google.com/go/secretmanager": "infra/secretmanager",
		"cloud.google.com/go/monitoring":    "infra/monitoring",
		"k8s.io/client-go":                  "infra/gke", "github.com/coreos/go-oidc/v3": "infra/oidc",
		"github.com/GoogleCloudPlatform/opentelemetry-operations-go": "infra/tracing",
		"firebase.google.com/go/v4":                                  "infra/firebase",
	}
	for pkg, p := range packages(t, "shared", "infra", "functions") {
		for _, i := range p.Imports {
			for sdk, home := range homes {
				if under(i, sdk) && !under(pkg, home) && !under(i, outputFormats()...) {
					t.Errorf("%s imports %s, which only %s may import: use a port that it implements", pkg, i, home)
				}
			}
		}
	}
}

// TestRoles_LinkOnlyWhatTheyUse keeps the libraries of one role out of another role's cold start.
func TestRoles_LinkOnlyWhatTheyUse(t *testing.T) {
	t.Parallel()
	denied := map[string][]string{
		"api": {
			"cloud.google.com/go/monitoring", "k8s.io", "sigs.k8s.io", "firebase.google.com/go",
			module + "infra/stripe", "github.com/modelcontextprotocol", module + "emulators",
		},
		// Firebase's library links Cloud Storage's, and that one Cloud Monitoring's. Only infra's package is denied.
		// It sends plain requests for logs to API servers; client-go configures the connection.
		"accounts": {
			module + "infra/monitoring", "k8s.io/api", "k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic",
			"k8s.io/client-go/metadata", "k8s.io/client-go/informers", "k8s.io/client-go/tools/cache",
			"sigs.k8s.io/gateway-api", module + "emulators",
		},
		// It sends plain requests, as accounts does for logs.
		"exec": {
			module + "infra/monitoring", module + "infra/stripe", module + "infra/gke/podlogs",
			"firebase.google.com/go", "k8s.io/api", "k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic",
			"k8s.io/client-go/metadata",
			"k8s.io/client-go/informers", "k8s.io/client-go/tools/cache", "k8s.io/client-go/tools/remotecommand",
			"sigs.k8s.io/gateway-api", "github.com/modelcontextprotocol", module + "emulators",
		},
		// Stripe is linked because EnforceAccounts fetches subscriptions.
		"worker": {
			"firebase.google.com/go", "k8s.io/client-go/kubernetes", "k8s.io/client-go/metadata",
			"github.com/modelcontextprotocol", module + "emulators",
		},
		"notifier": {
			"cloud.google.com/go/firestore", "cloud.google.com/go/monitoring", "firebase.google.com/go",
			module + "infra/stripe", module + "emulators",
		},
		"gate": {
			"cloud.google.com/go/firestore", "cloud.google.com/go/monitoring", "firebase.google.com/go",
			module + "infra/stripe", module + "infra/firestore", module + "emulators",
		},
		// They run in agents' pods, or in the place of one, where every byte of memory counts.
		"front": podBinaries(), "sampleagent": podBinaries(), "placeholder": podBinaries(),
		"router": {
			"cloud.google.com/go", "firebase.google.com/go", module + "infra/stripe", "google.golang.org/grpc",
			module + "emulators", module + "infra/firestore",
		},
		// Users wait for it at every command. It calls only the public API.
		"agentctl": {
			"cloud.google.com/go", "google.golang.org", "firebase.google.com/go", "github.com/stripe",
			"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go/kubernetes", "k8s.io/client-go/rest",
			"go.opentelemetry.io", module + "infra", module + "emulators", module + "shared/function",
		},
		// It sends plain requests for the record of images to API servers, as accounts does for logs.
		"operator": {
			"k8s.io/api", "k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/metadata",
			"k8s.io/client-go/informers", "k8s.io/client-go/tools/cache", "sigs.k8s.io/gateway-api",
			"firebase.google.com/go", "github.com/modelcontextprotocol",
			module + "infra/stripe", module + "emulators",
		},
	}
	everyRole := []string{
		"testing", "net/http/httptest", "net/http/pprof", "github.com/hashicorp",
		"github.com/stripe/stripe-mock",
		"github.com/santhosh-tekuri", // it compiles the metaschemas of JSON Schema before main
	}
	// The front's program also fills volumes from archives. These link the standard library only.
	admitted := map[string][]string{"front": {module + "infra/archiveimport", module + "infra/publicnet"}}
	mains := 0
	for pkg := range packages(t, "functions/cmd") {
		role := strings.TrimPrefix(pkg, "functions/cmd/")
		if _, err := os.Stat("cmd/" + role + "/main.go"); err != nil {
			continue
		}
		if mains++; denied[role] == nil {
			t.Errorf("the %s binary has no list of libraries that it must not link: add one here", role)
		}
	}
	if mains == 0 {
		t.Error("found no binary in functions/cmd")
	}
	for role, refused := range denied {
		refused = append(refused, everyRole...)
		for _, d := range links(t, "functions/cmd/"+role) {
			if under(d, refused...) && !slices.Contains(admitted[role], d) {
				t.Errorf("the %s binary links %s, which slows its cold start: open it in a package that only the "+
					"roles that need it import", role, d)
			}
		}
	}
}

// TestImports_NoTemplates keeps templates out of the services. They look up methods by name, so that the linker keeps
// the exported methods of everything that a program links: it is a sixth larger. cobra, which the tools use, has its
// own.
func TestImports_NoTemplates(t *testing.T) {
	t.Parallel()
	all := packages(t, "functions", "infra", "shared")
	for _, role := range []string{"api", "accounts", "exec", "worker", "notifier", "gate", "router", "front"} {
		for _, d := range links(t, "functions/cmd/"+role) {
			for _, i := range all[strings.TrimPrefix(d, module)].Imports {
				if i == "html/template" || i == "text/template" {
					t.Errorf("%s, which the %s binary links, imports %s: fill a page with strings.NewReplacer and "+
						"html.EscapeString", d, role, i)
				}
			}
		}
	}
}

// TestImports_NoClientset keeps the types and clients of all API groups of Kubernetes out of programs and tests. They
// are about 160 packages, which take more than a minute of CPU to compile, and time in each link.
func TestImports_NoClientset(t *testing.T) {
	t.Parallel()
	all, err := list()
	must(t, err)
	for _, pkg := range []string{"emulators/local", "emulators/cluster.test"} {
		if all[pkg].Deps == nil {
			t.Fatalf("%s was not found", pkg)
		}
	}
	for pkg, p := range all {
		i := slices.IndexFunc(p.Deps, func(d string) bool {
			return under(d, "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers")
		})
		if i >= 0 {
			t.Errorf("%s links %s: use emulators/kubeclient, or a client of package metadata or dynamic", pkg,
				p.Deps[i])
		}
	}
}

// TestEmulators_LinkLittle keeps small what the go command compiles before the first start can show its progress, and
// free of the packages for which it may run a C compiler.
func TestEmulators_LinkLittle(t *testing.T) {
	t.Parallel()
	for _, d := range links(t, "emulators") {
		first, _, _ := strings.Cut(d, "/")
		foreign := strings.Contains(first, ".") && d != module+"emulators/gobuild"
		if foreign || under(d, "net", "os/user", "runtime/cgo") {
			t.Errorf("emulators links %s: use it in emulators/local", d)
		}
	}
}

// TestLocalCloud_LinksOnlyWhatItsStartNeeds keeps out of the first start what only measurements and tests need.
func TestLocalCloud_LinksOnlyWhatItsStartNeeds(t *testing.T) {
	t.Parallel()
	for _, d := range links(t, "emulators/local") {
		if under(d, module+"emulators/bench", module+"emulators/load", "net/http/httptest", "github.com/stripe",
			"github.com/hashicorp", "testing") {
			t.Errorf("emulators/local links %s: use it in a program that is compiled on demand", d)
		}
	}
}

// TestClient_LinksOnlyTheStandardLibrary keeps the client cheap to take into other programs.
func TestClient_LinksOnlyTheStandardLibrary(t *testing.T) {
	t.Parallel()
	for _, d := range links(t, "shared/client") {
		// A path of the standard library has no dot in its first element, and some begin with vendor.
		if first, _, _ := strings.Cut(d, "/"); strings.Contains(first, ".") {
			t.Errorf("shared/client links %s: programs that import the client must not download anything else", d)
		}
	}
}
