package gate

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agents.example/controlplane/shared/egress"
)

// outcome is what became of a DNS query.
type outcome int

const (
	outcomeFound   outcome = iota // the gate's address
	outcomeEmpty                  // an allowed name that has no such record
	outcomeRefused                // by the policy
	outcomeLimited                // too many queries
	outcomeUnknown                // from no agent's address
	outcomeOther                  // of a kind that the gate does not serve
	outcomeInvalid                // no query; it gets no answer
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"found", "empty", "refused", "limited", "unknown", "other", "invalid"}[o]
}

// metrics has no label with an agent or a host: the reports have these.
type metrics struct {
	registry *prometheus.Registry
	refused  map[egress.Reason]prometheus.Counter
	queries  [outcomes]prometheus.Counter
	// sent counts bytes from agents, received those to agents.
	sent, received prometheus.Counter
	// unknown counts connections and requests from no agent's address, revoked the connections that a change of a
	// policy ended.
	unknown, revoked   prometheus.Counter
	reads, readsFailed prometheus.Counter
	reportsFailed      prometheus.Counter
}

func newMetrics(g *Gate) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	refused := counters("gate_refused_total", "Connections and requests that were not forwarded.", "reason")
	queries := counters("gate_dns_queries_total", "DNS queries.", "outcome")
	bytes := counters("gate_bytes_total", "Bytes of connections to ports 80 and 443.", "direction")
	reads := counters("gate_value_reads_total", "Reads of values of brokered secrets.", "result")
	m := &metrics{
		registry: prometheus.NewRegistry(), refused: map[egress.Reason]prometheus.Counter{},
		sent: bytes.WithLabelValues("sent"), received: bytes.WithLabelValues("received"),
		unknown: counter("gate_unknown_total", "Connections and requests from addresses that no agent has."),
		revoked: counter("gate_revoked_total", "Connections that a change of policies closed."),
		reads:   reads.WithLabelValues("read"), readsFailed: reads.WithLabelValues("failed"),
		reportsFailed: counter("gate_report_failures_total", "Messages with counts that could not be published."),
	}
	for _, why := range egress.Reason("").Values() {
		m.refused[egress.Reason(why)] = refused.WithLabelValues(why)
	}
	for o := range outcomes {
		m.queries[o] = queries.WithLabelValues(o.String())
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(refused, queries, bytes, reads, m.unknown, m.revoked, m.reportsFailed,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("gate_connections", "Open connections of agents.", func() float64 { return float64(g.links.count()) }),
		gauge("gate_requests_in_flight", "Requests by HTTP that hosts are answering, WebSockets included.",
			func() float64 { return float64(g.requests.Load()) }))
	return m
}

// operator serves what is not for agents: metrics, and whether the gate takes connections.
func (g *Gate) operator() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", g.Metrics())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if g.draining.Load() {
			http.Error(w, "the gate is about to end", http.StatusServiceUnavailable)
		}
	})
	return mux
}

// Metrics serves the metrics in Prometheus' format.
func (g *Gate) Metrics() http.Handler {
	return promhttp.HandlerFor(g.metrics.registry, promhttp.HandlerOpts{})
}
