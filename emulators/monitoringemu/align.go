package monitoringemu

import (
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"google.golang.org/genproto/googleapis/api/metric"
)

// aligner combines the points of one period into one value.
type aligner struct {
	kinds []metric.MetricDescriptor_MetricKind
	// numbers and distributions report whether it accepts them.
	numbers, distributions bool
	// kind and valueType of the result. If unspecified, they stay as in the series.
	kind      metric.MetricDescriptor_MetricKind
	valueType metric.MetricDescriptor_ValueType
	// value is called with at least one point.
	value func([]point) (value, error)
}

const (
	gauge      = metric.MetricDescriptor_GAUGE
	delta      = metric.MetricDescriptor_DELTA
	cumulative = metric.MetricDescriptor_CUMULATIVE
	double     = metric.MetricDescriptor_DOUBLE
)

// aligners follow Cloud Monitoring's documentation: which series each accepts and what it returns.
func aligners() map[monitoringpb.Aggregation_Aligner]aligner {
	level, flow := []metric.MetricDescriptor_MetricKind{gauge, delta},
		[]metric.MetricDescriptor_MetricKind{delta, cumulative}
	return map[monitoringpb.Aggregation_Aligner]aligner{
		monitoringpb.Aggregation_ALIGN_RATE: {
			kinds: flow, numbers: true, kind: gauge, valueType: double,
			value: rate,
		},
		monitoringpb.Aggregation_ALIGN_DELTA: {
			kinds: flow, numbers: true, distributions: true, kind: delta,
			value: sum,
		},
		monitoringpb.Aggregation_ALIGN_MEAN: {
			kinds: level, numbers: true, kind: gauge, valueType: double,
			value: mean,
		},
		monitoringpb.Aggregation_ALIGN_MAX: {kinds: level, numbers: true, kind: gauge, value: highest},
		monitoringpb.Aggregation_ALIGN_SUM: {
			kinds: level, numbers: true, distributions: true, kind: delta,
			value: sum,
		},
		monitoringpb.Aggregation_ALIGN_NEXT_OLDER: {
			kinds:   []metric.MetricDescriptor_MetricKind{gauge},
			numbers: true, distributions: true, value: newest,
		},
		monitoringpb.Aggregation_ALIGN_PERCENTILE_95: {
			kinds: level, distributions: true, kind: gauge,
			valueType: double, value: percentile95,
		},
	}
}

// align returns one point for each period with points. Periods end at end, at end - period, and so on, after start.
func (a aligner) align(s series, start, end time.Time, period time.Duration) (series, error) {
	isDistribution := s.valueType == metric.MetricDescriptor_DISTRIBUTION
	if !slices.Contains(a.kinds, s.kind) || isDistribution && !a.distributions || !isDistribution && !a.numbers {
		return series{}, fmt.Errorf("the aligner can't be applied to metrics with kind %v and value type %v", s.kind,
			s.valueType)
	}
	points := s.points
	if s.kind == cumulative {
		var err error
		if points, err = increments(points, period); err != nil {
			return series{}, err
		}
	}
	result := series{metric: s.metric, resource: s.resource, kind: s.kind, valueType: s.valueType}
	if a.kind != metric.MetricDescriptor_METRIC_KIND_UNSPECIFIED {
		result.kind = a.kind
	}
	if a.valueType != metric.MetricDescriptor_VALUE_TYPE_UNSPECIFIED {
		result.valueType = a.valueType
	}
	for to := end; to.After(start); to = to.Add(-period) {
		from := to.Add(-period)
		first, last := after(points, from), after(points, to)
		if first == last {
			continue
		}
		v, err := a.value(points[first:last])
		if err != nil {
			return series{}, err
		}
		aligned := point{start: to, end: to, value: v}
		if result.kind == delta {
			aligned.start = from
		}
		result.points = append(result.points, aligned)
	}
	slices.Reverse(result.points)
	return result, nil
}

// after returns the index of the first point that ends after t.
func after(points []point, t time.Time) int {
	at, _ := slices.BinarySearchFunc(points, t, func(p point, t time.Time) int {
		if p.end.After(t) {
			return 1
		}
		return -1
	})
	return at
}

// increments turns running totals into increments since the point before. After a reset or a decrease, the total counts
// as a whole. The first point counts if it covers at most one period; an older total gives no time for its growth.
func increments(points []point, period time.Duration) ([]point, error) {
	var result []point
	for i, p := range points {
		if i == 0 {
			if p.end.Sub(p.start) <= period {
				result = append(result, p)
			}
			continue
		}
		before := points[i-1]
		restarted := !p.start.Before(before.end) || p.value.number < before.value.number ||
			p.value.distribution.GetCount() < before.value.distribution.GetCount()
		if restarted {
			result = append(result, p)
			continue
		}
		added := point{start: before.end, end: p.end, value: value{number: p.value.number - before.value.number}}
		if p.value.distribution != nil {
			var err error
			if added.value.distribution,
				err = combine(p.value.distribution, before.value.distribution, -1); err != nil {
				return nil, err
			}
		}
		result = append(result, added)
	}
	return result, nil
}

func rate(points []point) (value, error) {
	var total, seconds float64
	for _, p := range points {
		total += p.value.number
		seconds += p.end.Sub(p.start).Seconds()
	}
	return value{number: total / seconds}, nil
}

func sum(points []point) (value, error) {
	result := points[0].value
	for _, p := range points[1:] {
		result.number += p.value.number
		if result.distribution != nil {
			var err error
			if result.distribution, err = combine(result.distribution, p.value.distribution, 1); err != nil {
				return value{}, err
			}
		}
	}
	return result, nil
}

func mean(points []point) (value, error) {
	total, err := sum(points)
	if total.distribution != nil {
		return value{number: total.distribution.GetMean()}, err
	}
	return value{number: total.number / float64(len(points))}, err
}

func highest(points []point) (value, error) {
	result := points[0].value
	for _, p := range points[1:] {
		result.number = max(result.number, p.value.number)
	}
	return result, nil
}

func newest(points []point) (value, error) { return points[len(points)-1].value, nil }

func percentile95(points []point) (value, error) {
	total, err := sum(points)
	if err != nil {
		return value{}, err
	}
	return value{number: percentile(total.distribution, 0.95)}, nil
}
