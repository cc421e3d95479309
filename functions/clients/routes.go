// Package clients serves the clients of the API: packages for Go, TypeScript and Python, and the command line tool. A
// release publishes them in a bucket; this package names them, and sends them from there. It does not make them.
package clients

import (
	"context"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

const (
	// maxDownload bounds one download. In the local cloud, it may have to wait until the file is made.
	maxDownload = 5 * time.Minute

	// Anyone may download, so this bounds the bytes that an instance sends: 1 MiB a second on average, and 1 GiB that
	// were not sent before. That is 84 GiB a day.
	bytesASecond = 1 << 20
	burstBytes   = 1 << 30
)

// slots bound how many downloads an instance sends at the same time, and how many of them to one address.
func slots() ratelimit.SlotLimits {
	return ratelimit.SlotLimits{Caller: 8, Organization: 8, Process: 32}
}

// service is what both routes share.
type service struct {
	catalog *catalog
	// baseURL is the address of this control plane for its clients. It comes from the configuration and never from a
	// request, because people run what they download from it.
	baseURL string
	slots   *ratelimit.Slots
	budget  *rate.Limiter
}

// filePath is the name of a file.
type filePath string

// maxPath is longer than the name of every file.
const maxPath = 200

// JSONSchema implements function.Schemer.
func (filePath) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", MaxLength: new(maxPath), Examples: []any{"agentctl-linux-amd64"},
		Description: "The name of a file, as the list of files has it, or a name that stays the same: " +
			"`typescript.tgz`, `agentctl-linux-amd64` and the like, and what the package managers of Go and Python " +
			"ask for.",
	}
}

// Routes serves the page that says how to install the clients, and their files. Both are public: package managers send
// no token.
func Routes(store clientrelease.Store, baseURL string) []function.Route {
	s := &service{
		catalog: newCatalog(store), baseURL: baseURL, slots: ratelimit.NewSlots(slots()),
		budget: rate.NewLimiter(bytesASecond, burstBytes),
	}
	routes := []function.Route{
		{
			Name: "GetClients", Path: "/clients", Summary: "Get how to install the clients",
			Handle: function.Handle(func(ctx context.Context, _ function.Empty) (Overview, error) {
				return s.overview(ctx)
			}),
		},
		{
			Name: "GetClientFile", Path: "/clients/{path...}", Summary: "Get a file of the clients",
			Holds: maxDownload, Redirects: true, Errors: []fault.Kind{fault.RateLimited},
			Handle: function.Handle(func(ctx context.Context, in fileInput) (Download, error) {
				return s.file(ctx, string(in.Path.Path))
			}),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Method, r.Access, r.Status = http.MethodGet, function.Public, http.StatusOK
		r.Needs = []function.Need{function.ClientsRead}
		r.Errors = append(r.Errors, fault.NotFound, fault.Unavailable)
	}
	return routes
}

type fileInput struct {
	Path struct {
		Path filePath `json:"path"`
	} `json:"path"`
}

func notFound(format string, args ...any) error {
	return fault.New(fault.NotFound, "not_found", format, args...)
}
