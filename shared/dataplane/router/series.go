package router

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// fromZero reports each new series about requests as zero once. Managed Prometheus counts from the first value of a
// series, because nothing says over which time that grew, so it would never count an agent's first requests.
type fromZero struct {
	prometheus.Gatherer

	mu sync.Mutex
	// known has the series of the last scrape.
	known map[string]bool
}

// Gather implements prometheus.Gatherer.
func (g *fromZero) Gather() ([]*dto.MetricFamily, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	families, err := g.Gatherer.Gather()
	found := make(map[string]bool, len(g.known))
	for _, f := range families {
		if f.GetName() != requestsName && f.GetName() != durationName {
			continue
		}
		for _, m := range f.GetMetric() {
			key := keyOf(f, m)
			found[key] = true
			if !g.known[key] {
				setZero(m)
			}
		}
	}
	g.known = found
	return families, err
}

func keyOf(f *dto.MetricFamily, m *dto.Metric) string {
	key := f.GetName()
	for _, l := range m.GetLabel() {
		key = strings.Join([]string{key, l.GetValue()}, " ")
	}
	return key
}

func setZero(m *dto.Metric) {
	if c := m.GetCounter(); c != nil {
		c.Value = new(float64)
	}
	if h := m.GetHistogram(); h != nil {
		h.SampleCount, h.SampleSum = new(uint64), new(float64)
		for _, b := range h.GetBucket() {
			b.CumulativeCount = new(uint64)
		}
	}
}

// quietScrapes is how many scrapes without a new request end the series of an agent that does not run. The first of
// them has the values of a series that was new in the scrape before.
const quietScrapes = 2

// noteScrape is called before each scrape. It drops the series of an agent that does not run, because each one costs
// money with every scrape, once all of its requests were scraped. The next request begins them again.
func (a *route) noteScrape(runs bool) {
	a.series.Lock()
	defer a.series.Unlock()
	if n := a.samples.Load(); runs || n != a.scraped {
		a.scraped, a.quiet = n, 0
		return
	}
	if a.quiet++; a.quiet == quietScrapes {
		a.dropSeries()
	}
}

// forget drops the series of an agent that is gone.
func (a *route) forget() {
	a.series.Lock()
	defer a.series.Unlock()
	a.gone = true
	a.dropSeries()
}

// dropSeries drops the agent's series. The caller has locked them.
func (a *route) dropSeries() {
	a.router.metrics.requests.DeletePartialMatch(prometheus.Labels{labelHost: a.host})
	a.router.metrics.duration.DeleteLabelValues(a.host)
	a.counter.Store(nil)
	a.duration.Store(nil)
}
