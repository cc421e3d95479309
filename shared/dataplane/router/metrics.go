package router

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agents.example/controlplane/shared/dataplane"
)

// metrics counts requests. Hosts are labels only if an agent has them, and their series end when it sleeps or is gone.
type metrics struct {
	registry    *prometheus.Registry
	scraped     *fromZero
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	unknown     prometheus.Counter
	agentLimit  prometheus.Counter
	routerLimit prometheus.Counter
	// strangerLimit counts requests of clients that the agent has not accepted.
	strangerLimit prometheus.Counter
	// wakesAsked and wakesFailed count calls of the Waker, wakesLimited requests that might not wake their agent.
	wakesAsked, wakesFailed, wakesLimited prometheus.Counter
}

// The metrics of requests to agents, and their labels.
const (
	requestsName = "http_requests_total"
	durationName = "http_request_duration_seconds"

	labelHost = "host"
	labelCode = "code"
)

func newMetrics(r *Router) *metrics {
	rejected := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "router_rejected_requests_total", Help: "Requests refused because of a limit of concurrent requests.",
	}, []string{"limit"})
	wakes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "router_wakes_total",
		Help: "Wakes that were asked for or could not be, and requests that false wakes kept from asking.",
	}, []string{"result"})
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: requestsName,
			Help: "Requests by agent hostname and status, without checks of health. The host is empty if no agent " +
				"has the requested one.",
		}, []string{labelHost, labelCode}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: durationName,
			Help: "Time from a request's header to the last byte of its answer, or until a WebSocket was open, " +
				"without the time for which it waited for its agent to wake.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{labelHost}),
		agentLimit: rejected.WithLabelValues("agent"), routerLimit: rejected.WithLabelValues("router"),
		strangerLimit: rejected.WithLabelValues("stranger"),
		wakesAsked:    wakes.WithLabelValues("asked"), wakesFailed: wakes.WithLabelValues("failed"),
		wakesLimited: wakes.WithLabelValues("limited"),
	}
	m.scraped = &fromZero{Gatherer: m.registry}
	m.unknown = m.requests.WithLabelValues("", strconv.Itoa(http.StatusNotFound))
	m.registry.MustRegister(m.requests, m.duration, rejected, wakes, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "router_requests_in_flight", Help: "Requests that agents are answering, WebSockets included.",
		}, func() float64 { return float64(r.inFlight.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "router_held_requests", Help: "Requests that wait for their agents to wake.",
		}, func() float64 { return float64(r.held.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "router_websockets", Help: "Open WebSockets.",
		}, func() float64 { return float64(r.tunnels.count()) }))
	return m
}

// Metrics serves the metrics in Prometheus' format. It drops the series of agents that are gone or do not run.
func (r *Router) Metrics() http.Handler {
	h := promhttp.HandlerFor(r.metrics.scraped, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.sweep()
		h.ServeHTTP(w, req)
	})
}

func (m *metrics) countUnknown() { m.unknown.Inc() }

// codeCounter is the counter of the last status of a route, which is mostly the next one's, too.
type codeCounter struct {
	code    int
	counter prometheus.Counter
}

// observe counts a request to the agent.
func (a *route) observe(x *exchange, clientGone bool) {
	if x.asleep || isCheck(x.in.URL.Path) {
		return
	}
	code, took := x.outcome(clientGone)
	a.addSample(code, took)
}

// count counts a request that was refused at the start.
func (a *route) count(req *http.Request, code int) {
	if !isCheck(req.URL.Path) {
		a.addSample(code, 0)
	}
}

// isCheck reports whether the front itself answers a path, and says there how the agent is or calls its schedules. The
// control plane asks each agent there. Such a request is no use of the agent, whoever sends it. A header could not tell
// the control plane's requests from others: clients could send it with requests that the agent's container answers.
func isCheck(path string) bool {
	switch path {
	case dataplane.PathReady, dataplane.PathDashboard, dataplane.PathDoor, dataplane.PathAuthCheck, dataplane.PathCalls:
		return true
	}
	return strings.HasPrefix(path, dataplane.PathCalls+"/")
}

func (a *route) addSample(code int, took time.Duration) {
	a.series.RLock()
	defer a.series.RUnlock()
	if a.gone {
		return
	}
	c := a.counter.Load()
	if c == nil || c.code != code {
		c = &codeCounter{code, a.router.metrics.requests.WithLabelValues(a.host, codeLabel(code))}
		a.counter.Store(c)
	}
	a.samples.Add(1)
	c.counter.Inc()
	if took > 0 {
		a.durations().Observe(took.Seconds())
	}
}

// durations returns the series of the agent's durations.
func (a *route) durations() prometheus.Observer {
	if o := a.duration.Load(); o != nil {
		return *o
	}
	o := a.router.metrics.duration.WithLabelValues(a.host)
	a.duration.Store(&o)
	return o
}

// codeLabel returns the label of a status. A tenant's program may answer with any number up to 999; those that are no
// registered status count as the first of their class.
func codeLabel(code int) string {
	if http.StatusText(code) == "" && code != clientClosed {
		code = code / 100 * 100
	}
	return strconv.Itoa(code)
}
