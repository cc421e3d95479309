// Package monitoring reads the metrics of agents from Cloud Monitoring. It queries the metrics that GKE and Managed
// Prometheus write and reduces the many series of an agent to one. It does not store or interpret the values (package
// metrics in shared).
//
// One query reads a metric for all agents of a cluster, aligned to minutes and reduced by namespace, or by host for the
// metrics of the router. The number of calls therefore grows with the pages of points and not with the agents.
package monitoring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	client "cloud.google.com/go/monitoring/apiv3/v2"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/infra/lazyconn"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/metrics"
)

const (
	// readTimeout bounds one query with all its pages and retries.
	readTimeout = 2 * time.Minute
	// pageTimeout bounds one page.
	pageTimeout = 30 * time.Second
	// pageSize is the service's limit, in points.
	pageSize = 100_000
)

// Options configure what to read.
type Options struct {
	// ProjectID is the project whose metrics are read: the project of the clusters, or one whose metrics scope includes
	// it.
	ProjectID string
	// Endpoint is the host:port of a local Cloud Monitoring, called without encryption or credentials. Empty means
	// Google's service.
	Endpoint string
	// Domain is the parent domain of the cells' hostnames. Requests to other hosts are not read.
	Domain string
	// RouterNamespace is the namespace of the cells' routers. If empty, it is agent-gateway.
	RouterNamespace string
	// Cells are the clusters to read.
	Cells []Cell
	// PageSize is the maximum number of points in a page. 0 means the service's limit.
	PageSize int
}

// Cell is one cluster.
type Cell struct {
	// Name is the cell's name. Cluster and Location are the cluster's labels in its metrics.
	Name, Cluster, Location string
}

// Source implements metrics.Source.
type Source struct {
	client   *client.MetricClient
	project  string // projects/ID
	cells    map[string]place
	pageSize int
}

var _ metrics.Source = (*Source)(nil)

// Open creates the client. It connects at the first query.
func Open(ctx context.Context, o Options) (*Source, error) {
	if o.ProjectID == "" {
		return nil, errors.New("monitoring: configure the project")
	}
	options := []option.ClientOption{option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(countCalls()))}
	if o.Endpoint != "" {
		options = append(options, option.WithEndpoint(o.Endpoint), option.WithoutAuthentication(),
			option.WithTelemetryDisabled(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	c, err := lazyconn.Open(ctx, client.NewMetricClient, options...)
	if err != nil {
		return nil, fmt.Errorf("open the monitoring client: %w", err)
	}
	c.CallOptions.ListTimeSeries = []gax.CallOption{gax.WithTimeout(pageTimeout), gax.WithRetry(newRetryer)}
	s := &Source{
		client: c, project: "projects/" + o.ProjectID, cells: map[string]place{}, pageSize: o.PageSize,
	}
	for _, cell := range o.Cells {
		s.cells[cell.Name] = place{cell, o.Domain, cmp.Or(o.RouterNamespace, "agent-gateway")}
	}
	if s.pageSize == 0 {
		s.pageSize = pageSize
	}
	return s, nil
}

// newRetryer returns a retryer for broken connections.
func newRetryer() gax.Retryer {
	return gax.OnCodes([]codes.Code{codes.Unavailable},
		gax.Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Multiplier: 2})
}

// Close closes the connection.
func (s *Source) Close() error { return s.client.Close() }

// callsKey is the context key of the number of calls made with the context.
type callsKey struct{}

// countCalls counts the calls sent, retries included, because each one counts against the service's quota.
func countCalls() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if calls, ok := ctx.Value(callsKey{}).(*int); ok {
			*calls++
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// Read implements metrics.Source.
func (s *Source) Read(ctx context.Context, q metrics.Query, visit func(metrics.Sample)) (metrics.Usage, error) {
	cell, ok := s.cells[q.Cell]
	if !ok {
		return metrics.Usage{}, fmt.Errorf("monitoring: cell %q is not configured; add it to the cells", q.Cell)
	}
	from, ok := sources()[q.Metric]
	if !ok {
		return metrics.Usage{}, fmt.Errorf("monitoring: unknown metric %q", q.Metric)
	}
	var usage metrics.Usage
	found := map[string]bool{} // the agents that need no fallback
	for i, m := range from {
		measured := map[string]bool{}
		for _, filter := range m.filters(cell, q.Agents) {
			u, err := s.readPages(ctx, m.request(s.project, filter, q.Span), func(series *monitoringpb.TimeSeries) {
				id, host, ok := m.agentOf(cell, series)
				if !ok || found[id] {
					return
				}
				if i < len(from)-1 {
					measured[id] = true
				}
				m.visitSamples(series, id, host, visit)
			})
			usage = usage.Plus(u)
			if err != nil {
				return usage, faultOf(fmt.Errorf("read %s of cell %s: %w", m.metric, q.Cell, err))
			}
		}
		maps.Copy(found, measured)
	}
	return usage, nil
}

// readPages reads all pages of a request. A series may continue on the next page.
func (s *Source) readPages(ctx context.Context, r *monitoringpb.ListTimeSeriesRequest,
	visit func(*monitoringpb.TimeSeries),
) (metrics.Usage, error) {
	var u metrics.Usage
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, callsKey{}, &u.Calls), readTimeout)
	defer cancel()
	r.PageSize = int32(s.pageSize) //nolint:gosec // at most 100,000
	it := s.client.ListTimeSeries(ctx, r)
	for {
		series, err := it.Next()
		switch {
		case errors.Is(err, iterator.Done):
			return u, nil
		case status.Code(err) == codes.NotFound:
			return u, nil // a metric does not exist until its first point is written
		case err != nil:
			return u, err
		}
		u.Series++
		u.Points += len(series.GetPoints())
		visit(series)
	}
}

// faultOf maps an error of the service to a fault. Errors that a retry may resolve are Unavailable. The others are
// defects or missing permissions.
func faultOf(err error) error {
	cause := fmt.Errorf("monitoring: %w", err)
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
		return cause
	default:
		return fault.New(fault.Unavailable, "monitoring_unavailable",
			"Metrics are temporarily unavailable. Retry.").WithCause(cause)
	}
}
