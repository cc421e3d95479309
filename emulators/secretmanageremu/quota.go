package secretmanageremu

import (
	"context"
	"maps"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Quotas are how many calls a project may make in a minute. Zero is Google's quota for a new project.
type Quotas struct {
	// Reads are the calls that get or list metadata.
	Reads int
	// Writes are the calls that change something.
	Writes int
	// Accesses are the calls that read a value.
	Accesses int
}

// Google's quotas for a new project.
const (
	googleReads    = 600
	googleWrites   = 600
	googleAccesses = 90_000
)

// Times returns Google's quotas for a new project, each multiplied by a factor.
func Times(factor int) Quotas {
	return Quotas{Reads: googleReads * factor, Writes: googleWrites * factor, Accesses: googleAccesses * factor}
}

// quotaKind is what a quota counts.
type quotaKind string

const (
	reads    quotaKind = "reads"
	writes   quotaKind = "writes"
	accesses quotaKind = "accesses"
)

// kindOf is the quota that counts a method.
func kindOf(method string) quotaKind {
	switch {
	case strings.HasPrefix(method, "Access"):
		return accesses
	case strings.HasPrefix(method, "Get"), strings.HasPrefix(method, "List"):
		return reads
	default:
		return writes
	}
}

// quotas counts the calls of each project in the last minute. Google counts in fixed minutes: what these quotas allow,
// Google's allow, too.
type quotas struct {
	now func() time.Time

	mu      sync.Mutex
	limits  map[quotaKind]int
	calls   map[string][]time.Time // by project and kind, oldest first
	refused map[string]int         // by method
}

func newQuotas(q Quotas, now func() time.Time) *quotas {
	limits := map[quotaKind]int{reads: googleReads, writes: googleWrites, accesses: googleAccesses}
	for kind, n := range map[quotaKind]int{reads: q.Reads, writes: q.Writes, accesses: q.Accesses} {
		if n > 0 {
			limits[kind] = n
		}
	}
	return &quotas{now: now, limits: limits, calls: map[string][]time.Time{}, refused: map[string]int{}}
}

// intercept refuses calls over a quota. They do not count.
func (q *quotas) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any,
	error,
) {
	method := path.Base(info.FullMethod)
	if !q.take(method, projectOf(resource(request))) {
		return nil, status.Errorf(codes.ResourceExhausted, "Quota exceeded for quota metric of %s and limit of "+
			"requests per minute of the project.", kindOf(method))
	}
	return handle(ctx, request)
}

// projectOf is the project of a resource's name.
func projectOf(name string) string {
	parts := strings.SplitN(name, "/", 3)
	project, err := projectName(strings.Join(parts[:min(2, len(parts))], "/"))
	if err != nil {
		return name // the service refuses the name
	}
	return project
}

func (q *quotas) take(method, project string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	kind, now := kindOf(method), q.now()
	key := project + " " + string(kind)
	recent := q.calls[key]
	for len(recent) > 0 && !recent[0].After(now.Add(-time.Minute)) {
		recent = recent[1:]
	}
	allowed := len(recent) < q.limits[kind]
	if allowed {
		recent = append(recent, now)
	} else {
		q.refused[method]++
	}
	q.calls[key] = recent
	return allowed
}

// Refused returns the number of calls per method that a quota refused since Start.
func (s *Server) Refused() map[string]int {
	s.service.quotas.mu.Lock()
	defer s.service.quotas.mu.Unlock()
	return maps.Clone(s.service.quotas.refused)
}
