// Package monitoring reads what was measured of agents from Cloud Monitoring. It knows the metrics that GKE and Managed
// Prometheus write, and how the many series of an agent become one. It does not know what becomes of the values
// (package metrics in shared).
//
// A metric is read with one query for all agents of a cluster, aligned to minutes and reduced by namespace, so that
// calls grow with pages of points and not with agents.
package monitoring

import (
	"context"
	"errors"
	"fmt"
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

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/metrics"
)

const (
	// readTimeout bounds one query with all of its pages and repetitions.
	readTimeout = 2 * time.Minute
	// pageTimeout bounds one page.
	pageTimeout = 30 * time.Second
	// pageSize is the service's own limit, in points.
	pageSize = 100_000
)

// Options say what to read.
type Options struct {
	// ProjectID is the project whose metrics are read: the one of the clusters, or one that has them in its metrics
	// scope.
	ProjectID string
	// Endpoint is the host:port of a Cloud Monitoring on this machine, spoken to without encryption or credentials.
	// Empty is Google's.
	Endpoint string
	// Domain is the domain of agents' hostnames. Requests to other hosts are not read.
	Domain string
	// Cells are the clusters.
	Cells []Cell
	// PageSize is how many points a page has at most; 0 is as many as the service allows.
	PageSize int
}

// Cell is one cluster.
type Cell struct {
	// Name is the cell's, and Cluster and Location are the cluster's as its metrics name them.
	Name, Cluster, Location string
}

// Source implements metrics.Source.
type Source struct {
	client   *client.MetricClient
	project  string // projects/ID
	domain   string
	cells    map[string]Cell
	pageSize int
}

var _ metrics.Source = (*Source)(nil)

// Open makes the client. Nothing is sent yet.
func Open(ctx context.Context, o Options) (*Source, error) {
	if o.ProjectID == "" {
		return nil, errors.New("monitoring: the project must be configured")
	}
	options := []option.ClientOption{option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(count()))}
	if o.Endpoint != "" {
		options = append(options, option.WithEndpoint(o.Endpoint), option.WithoutAuthentication(),
			option.WithTelemetryDisabled(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	c, err := client.NewMetricClient(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open the monitoring client: %w", err)
	}
	c.CallOptions.ListTimeSeries = []gax.CallOption{gax.WithTimeout(pageTimeout), gax.WithRetry(repeat)}
	s := &Source{client: c, project: "projects/" + o.ProjectID, domain: o.Domain, cells: map[string]Cell{},
		pageSize: o.PageSize}
	for _, cell := range o.Cells {
		s.cells[cell.Name] = cell
	}
	if s.pageSize == 0 {
		s.pageSize = pageSize
	}
	return s, nil
}

// repeat has a page read again whose connection broke.
func repeat() gax.Retryer {
	return gax.OnCodes([]codes.Code{codes.Unavailable},
		gax.Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Multiplier: 2})
}

// Close ends the connection.
func (s *Source) Close() error { return s.client.Close() }

// callsKey is where a context carries the number of calls that were made for it.
type callsKey struct{}

// count counts the calls that are sent, repetitions included: each is one that the service's quota counts.
func count() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
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
		return metrics.Usage{}, fmt.Errorf("monitoring: cell %q is not configured: add it to the cells", q.Cell)
	}
	m, ok := sources()[q.Metric]
	if !ok {
		return metrics.Usage{}, fmt.Errorf("monitoring: metric %q is not known", q.Metric)
	}
	var usage metrics.Usage
	for _, filter := range m.filters(cell, s.domain, q.Agents) {
		u, err := s.list(ctx, m, m.request(s.project, filter, q.Span), visit)
		usage = usage.Plus(u)
		if err != nil {
			return usage, translate(fmt.Errorf("read %s of cell %s: %w", m.metric, q.Cell, err))
		}
	}
	return usage, nil
}

// list reads all pages of a request. A series may go on in the next page.
func (s *Source) list(ctx context.Context, m source, r *monitoringpb.ListTimeSeriesRequest,
	visit func(metrics.Sample)) (metrics.Usage, error) {
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
			return u, nil // a metric that nobody has written yet does not exist
		case err != nil:
			return u, err
		}
		u.Series++
		u.Points += len(series.GetPoints())
		m.samples(series, visit)
	}
}

// translate turns an error of the service into one of ours. What a later try may mend is Unavailable; anything else is
// a defect, or a permission that is missing.
func translate(err error) error {
	cause := fmt.Errorf("monitoring: %w", err)
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
		return cause
	default:
		return fault.New(fault.Unavailable, "monitoring_unavailable",
			"What was measured can't be read at the moment. Try again.").WithCause(cause)
	}
}
