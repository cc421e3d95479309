package monitoringemu

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	maxPage    = 100_000
	minPeriod  = time.Minute
	maxPeriods = 100_000
)

// query is a validated ListTimeSeries request.
type query struct {
	matches    func(series) bool
	start, end time.Time
	period     time.Duration
	aligner    *aligner // nil returns the points unchanged
	reducer    *reducer // nil returns every series
	groupBy    []string
}

func newQuery(r *monitoringpb.ListTimeSeriesRequest) (query, error) {
	var q query
	switch {
	case !strings.HasPrefix(r.GetName(), "projects/"):
		return q, status.Errorf(codes.InvalidArgument, "The name [%s] is not of the form projects/*.", r.GetName())
	case r.GetOrderBy() != "":
		return q, status.Error(codes.Unimplemented, "The emulator does not implement order_by.")
	case r.GetSecondaryAggregation() != nil:
		return q, status.Error(codes.Unimplemented, "The emulator does not implement secondary_aggregation.")
	case r.GetInterval().GetEndTime() == nil:
		return q, status.Error(codes.InvalidArgument, "Field [interval.end_time] is required.")
	}
	q.end = r.GetInterval().GetEndTime().AsTime()
	q.start = q.end
	if r.GetInterval().GetStartTime() != nil {
		q.start = r.GetInterval().GetStartTime().AsTime()
	}
	if q.start.After(q.end) {
		return q, status.Error(codes.InvalidArgument, "The interval ends before it starts.")
	}
	var err error
	if q.matches, err = parseFilter(r.GetFilter()); err != nil {
		return q, err
	}
	return q, q.setAggregation(r.GetAggregation())
}

func (q *query) setAggregation(a *monitoringpb.Aggregation) error {
	reduces := a.GetCrossSeriesReducer() != monitoringpb.Aggregation_REDUCE_NONE
	if a.GetPerSeriesAligner() == monitoringpb.Aggregation_ALIGN_NONE {
		if reduces {
			return status.Errorf(codes.InvalidArgument, "The reducer %v needs a per_series_aligner.",
				a.GetCrossSeriesReducer())
		}
		return nil
	}
	found, ok := aligners()[a.GetPerSeriesAligner()]
	if !ok {
		return status.Errorf(codes.Unimplemented, "The emulator does not implement the aligner %v.",
			a.GetPerSeriesAligner())
	}
	q.aligner, q.period = &found, a.GetAlignmentPeriod().AsDuration()
	if q.period < minPeriod {
		return status.Errorf(codes.InvalidArgument, "The alignment_period is %v; it must be at least %v.", q.period,
			minPeriod)
	}
	if q.end.Sub(q.start)/q.period > maxPeriods {
		return status.Errorf(codes.InvalidArgument, "The interval has more than %d alignment periods.", maxPeriods)
	}
	if !reduces {
		return nil
	}
	reduce, ok := reducers()[a.GetCrossSeriesReducer()]
	if !ok {
		return status.Errorf(codes.Unimplemented, "The emulator does not implement the reducer %v.",
			a.GetCrossSeriesReducer())
	}
	q.reducer, q.groupBy = &reduce, a.GetGroupByFields()
	if err := checkGroupBy(q.groupBy); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// run returns the series that have points in the interval.
func (q query) run(found []series) ([]series, error) {
	var result []series
	for _, s := range found {
		var err error
		if q.aligner == nil {
			s.points = slices.DeleteFunc(s.points, func(p point) bool { return !q.contains(p.end) })
		} else if s, err = q.aligner.align(s, q.start, q.end, q.period); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "The metric [%s]: %v.", s.metric.GetType(), err)
		}
		if len(s.points) > 0 {
			result = append(result, s)
		}
	}
	if q.reducer == nil {
		return result, nil
	}
	reduced, err := q.reducer.reduce(result, q.groupBy)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reduced, nil
}

// contains reports whether t is after start and not after end, or equals end if start is the same.
func (q query) contains(t time.Time) bool {
	return !t.After(q.end) && (t.After(q.start) || q.start.Equal(q.end) && t.Equal(q.end))
}

// page returns as many points as fit in a page; a series may continue on the next page. The headers view counts series
// instead. The token is the number of points, or series, already returned.
func page(all []series, r *monitoringpb.ListTimeSeriesRequest) (*monitoringpb.ListTimeSeriesResponse, error) {
	room := int(r.GetPageSize())
	if room <= 0 || room > maxPage {
		room = maxPage
	}
	skip, err := decodeToken(r.GetPageToken())
	if err != nil {
		return nil, err
	}
	headers := r.GetView() == monitoringpb.ListTimeSeriesRequest_HEADERS
	response := &monitoringpb.ListTimeSeriesResponse{}
	next := skip + room
	for _, s := range all {
		size := len(s.points)
		if headers {
			size = 1
		}
		from := min(skip, size)
		skip -= from
		taken := min(room, size-from)
		room -= taken
		if taken > 0 {
			part := s.proto()
			part.Points = part.Points[from : from+taken]
			if headers {
				part.Points = nil
			}
			response.TimeSeries = append(response.TimeSeries, part)
		}
		if from+taken < size {
			response.NextPageToken = encodeToken(next)
			break
		}
	}
	return response, nil
}

func encodeToken(offset int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(offset)))
}

func decodeToken(token string) (int, error) {
	if token == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	offset, numberErr := strconv.Atoi(string(text))
	if err != nil || numberErr != nil || offset < 0 {
		return 0, status.Error(codes.InvalidArgument, "The page token is invalid.")
	}
	return offset, nil
}
