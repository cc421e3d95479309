package monitoringemu

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/genproto/googleapis/api/monitoredres"
)

// reducer combines the points of several series at one time into one value.
type reducer struct {
	// numbers and distributions report whether it accepts them.
	numbers, distributions bool
	// keepsType means that the result has the kind and value type of the series; otherwise it is a GAUGE of DOUBLE.
	keepsType bool
	value     func([]point) (value, error)
}

func reducers() map[monitoringpb.Aggregation_Reducer]reducer {
	return map[monitoringpb.Aggregation_Reducer]reducer{
		monitoringpb.Aggregation_REDUCE_SUM: {
			numbers: true, distributions: true, keepsType: true,
			value: sum,
		},
		monitoringpb.Aggregation_REDUCE_MEAN:          {numbers: true, distributions: true, value: mean},
		monitoringpb.Aggregation_REDUCE_MAX:           {numbers: true, keepsType: true, value: highest},
		monitoringpb.Aggregation_REDUCE_PERCENTILE_95: {distributions: true, value: percentile95},
	}
}

// reduce combines the aligned series that agree in the groupBy fields into one series per group. The result keeps those
// fields, the types and the project.
func (r reducer) reduce(all []series, groupBy []string) ([]series, error) {
	groups := map[string][]series{}
	for _, s := range all {
		isDistribution := s.valueType == metric.MetricDescriptor_DISTRIBUTION
		if isDistribution && !r.distributions || !isDistribution && !r.numbers {
			return nil, fmt.Errorf("the reducer can't be applied to metrics with value type %v", s.valueType)
		}
		key := s.resource.Type
		for _, field := range groupBy {
			text, _ := s.field(field)
			key += "\x00" + text
		}
		if first := groups[key]; len(first) > 0 && (first[0].kind != s.kind || first[0].valueType != s.valueType) {
			return nil, fmt.Errorf("series of %v of %v can't be reduced with those of %v of %v", s.kind, s.valueType,
				first[0].kind, first[0].valueType)
		}
		groups[key] = append(groups[key], s)
	}
	var result []series
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		reduced, err := r.group(groups[key], groupBy)
		if err != nil {
			return nil, err
		}
		result = append(result, reduced)
	}
	return result, nil
}

func (r reducer) group(members []series, groupBy []string) (series, error) {
	first := members[0]
	result := series{
		metric:   &metric.Metric{Type: first.metric.Type, Labels: map[string]string{}},
		resource: &monitoredres.MonitoredResource{Type: first.resource.Type, Labels: map[string]string{}},
		kind:     gauge, valueType: double,
	}
	if r.keepsType {
		result.kind, result.valueType = first.kind, first.valueType
	}
	for _, field := range append(slices.Clone(groupBy), "resource.labels.project_id") {
		of, label := cutLabel(field)
		text, ok := first.field(field)
		switch {
		case !ok || label == "":
		case of == "metric":
			result.metric.Labels[label] = text
		default:
			result.resource.Labels[label] = text
		}
	}
	atTime := map[int64][]point{}
	for _, member := range members {
		for _, p := range member.points {
			atTime[p.end.UnixNano()] = append(atTime[p.end.UnixNano()], p)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(atTime)) {
		v, err := r.value(atTime[at])
		if err != nil {
			return series{}, err
		}
		reduced := point{start: atTime[at][0].start, end: atTime[at][0].end, value: v}
		if result.kind == gauge {
			reduced.start = reduced.end
		}
		result.points = append(result.points, reduced)
	}
	return result, nil
}

// checkGroupBy returns an error for the first field that cannot be grouped by.
func checkGroupBy(fields []string) error {
	for _, field := range fields {
		if !knownField(field) {
			return fmt.Errorf("series can't be grouped by [%s], only by metric.labels.KEY, resource.labels.KEY, %s",
				field, strings.Join([]string{"metric.type", "resource.type", "project"}, ", "))
		}
	}
	return nil
}
