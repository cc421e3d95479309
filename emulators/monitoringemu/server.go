// Package monitoringemu provides a local stand-in for Cloud Monitoring that the real metric client connects to.
//
// It stores time series in memory for two days, and lists them with filters, alignment and reduction under Cloud
// Monitoring's rules for metric kinds. Points come from Feed. It does not implement writing by clients, metric
// descriptors, alerts, dashboards or query languages, and answers those with UNIMPLEMENTED and their name.
package monitoringemu

import (
	"context"
	"fmt"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"google.golang.org/grpc"

	"agents.example/controlplane/emulators/rpc"
)

// Options configure Start. The zero value listens on a free port.
type Options struct {
	// Address to listen on, host:port. If empty, a free port of 127.0.0.1.
	Address string
}

// Server is a running Cloud Monitoring. Addr is its address, Calls counts calls by method, Inject makes calls fail,
// ClientOptions configure monitoring.NewMetricClient, and Close stops it.
type Server struct {
	*rpc.Server

	store *store
}

// Start serves a Cloud Monitoring without points. Every project exists. ctx only bounds opening the listener.
func Start(ctx context.Context, options Options) (*Server, error) {
	s := &service{store: newStore()}
	server, err := rpc.Start(ctx, options.Address, func(r grpc.ServiceRegistrar) {
		monitoringpb.RegisterMetricServiceServer(r, s)
	}, resource)
	if err != nil {
		return nil, fmt.Errorf("start the monitoring server: %w", err)
	}
	return &Server{Server: server, store: s.store}, nil
}

// Feed adds points to a project (its id), in any order. A point with the same series and end replaces the earlier one.
// The error names the first invalid sample; the samples before it are stored.
func (s *Server) Feed(project string, samples ...Sample) error {
	for i, sample := range samples {
		series, err := sample.series()
		if err == nil {
			err = s.store.add("projects/"+project, series)
		}
		if err != nil {
			return fmt.Errorf("sample %d of metric %s: %w", i, sample.Metric, err)
		}
	}
	return nil
}

// service implements the API.
type service struct {
	monitoringpb.UnimplementedMetricServiceServer

	store *store
}

// ListTimeSeries selects, aligns and reduces series, and returns a page.
func (s *service) ListTimeSeries(_ context.Context,
	r *monitoringpb.ListTimeSeriesRequest,
) (*monitoringpb.ListTimeSeriesResponse, error) {
	q, err := newQuery(r)
	if err != nil {
		return nil, err
	}
	result, err := q.run(s.store.find(r.GetName(), q.matches))
	if err != nil {
		return nil, err
	}
	return page(result, r)
}

func resource(request any) string {
	if named, ok := request.(interface{ GetName() string }); ok {
		return named.GetName()
	}
	return ""
}
