package monitoringemu

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/genproto/googleapis/api/monitoredres"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Sample is one point of a time series, as Feed takes it.
type Sample struct {
	// Metric is the metric type, such as "kubernetes.io/container/cpu/core_usage_time".
	Metric       string
	MetricLabels map[string]string
	// Resource is the monitored resource type, such as "k8s_container".
	Resource       string
	ResourceLabels map[string]string
	// Kind of the metric. Unspecified means GAUGE.
	Kind metric.MetricDescriptor_MetricKind
	// Start and End bound the time that the value covers. Start may be zero, but only for a GAUGE.
	Start, End time.Time
	// Value is an int64, a float64 or a *distribution.Distribution; all points of a series have the same type.
	Value any
}

// series is a time series with its points, oldest first.
type series struct {
	metric    *metric.Metric
	resource  *monitoredres.MonitoredResource
	kind      metric.MetricDescriptor_MetricKind
	valueType metric.MetricDescriptor_ValueType
	points    []point
}

// point covers the time after start up to end. For a GAUGE, start equals end.
type point struct {
	start, end time.Time
	value      value
}

// value is either a number or a distribution.
type value struct {
	number       float64
	distribution *distribution.Distribution
}

func (s Sample) series() (series, error) {
	kind := s.Kind
	if kind == metric.MetricDescriptor_METRIC_KIND_UNSPECIFIED {
		kind = metric.MetricDescriptor_GAUGE
	}
	result := series{
		metric:   &metric.Metric{Type: s.Metric, Labels: maps.Clone(s.MetricLabels)},
		resource: &monitoredres.MonitoredResource{Type: s.Resource, Labels: maps.Clone(s.ResourceLabels)},
		kind:     kind,
	}
	p := point{start: s.Start, end: s.End}
	switch v := s.Value.(type) {
	case int64:
		result.valueType, p.value.number = metric.MetricDescriptor_INT64, float64(v)
	case float64:
		result.valueType, p.value.number = metric.MetricDescriptor_DOUBLE, v
	case *distribution.Distribution:
		result.valueType, p.value.distribution = metric.MetricDescriptor_DISTRIBUTION, proto.CloneOf(v)
	default:
		return series{}, fmt.Errorf("a value of type %T is not supported: give an int64, a float64 or a "+
			"*distribution.Distribution", s.Value)
	}
	if p.start.IsZero() {
		p.start = p.end
	}
	result.points = []point{p}
	return result, result.check()
}

func (s series) check() error {
	p := s.points[0]
	switch {
	case s.metric.Type == "":
		return errors.New("the metric has no type")
	case s.resource.Type == "":
		return errors.New("the resource has no type")
	case p.end.IsZero():
		return errors.New("the point has no end time")
	case s.kind == metric.MetricDescriptor_GAUGE && !p.start.Equal(p.end):
		return errors.New("a point of a GAUGE starts when it ends")
	case s.kind != metric.MetricDescriptor_GAUGE && !p.start.Before(p.end):
		return fmt.Errorf("a point of a %v starts before it ends", s.kind)
	case s.valueType == metric.MetricDescriptor_DISTRIBUTION:
		return checkDistribution(p.value.distribution)
	default:
		return nil
	}
}

// proto returns the series with its points, newest first.
func (s series) proto() *monitoringpb.TimeSeries {
	result := &monitoringpb.TimeSeries{
		Metric: s.metric, Resource: s.resource, MetricKind: s.kind,
		ValueType: s.valueType,
	}
	for i := len(s.points) - 1; i >= 0; i-- {
		p := s.points[i]
		result.Points = append(result.Points, &monitoringpb.Point{
			Interval: &monitoringpb.TimeInterval{StartTime: timestamppb.New(p.start), EndTime: timestamppb.New(p.end)},
			Value:    p.value.proto(s.valueType),
		})
	}
	return result
}

func (v value) proto(of metric.MetricDescriptor_ValueType) *monitoringpb.TypedValue {
	switch of {
	case metric.MetricDescriptor_INT64:
		return &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_Int64Value{Int64Value: int64(math.Round(v.number))}}
	case metric.MetricDescriptor_DISTRIBUTION:
		return &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_DistributionValue{DistributionValue: v.distribution}}
	default:
		return &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_DoubleValue{DoubleValue: v.number}}
	}
}
