package monitoringemu

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/protobuf/proto"
)

var errBuckets = errors.New("distributions with different buckets can't be combined")

func checkDistribution(d *distribution.Distribution) error {
	if d == nil {
		return errors.New("the point has no distribution")
	}
	var sum int64
	for _, count := range d.GetBucketCounts() {
		sum += count
	}
	if d.GetBucketOptions() == nil || sum != d.GetCount() {
		return fmt.Errorf("the distribution needs buckets whose counts add up to its count: %d, not %d", sum,
			d.GetCount())
	}
	if bounds := len(bounds(d)); len(d.GetBucketCounts()) > bounds+1 {
		return fmt.Errorf("the distribution has %d bucket counts for %d bounds", len(d.GetBucketCounts()), bounds)
	}
	return nil
}

// combine returns a + sign*b, where sign is 1 or -1.
func combine(a, b *distribution.Distribution, sign int64) (*distribution.Distribution, error) {
	if !proto.Equal(a.GetBucketOptions(), b.GetBucketOptions()) {
		return nil, errBuckets
	}
	result := &distribution.Distribution{
		Count: a.GetCount() + sign*b.GetCount(), BucketOptions: a.GetBucketOptions(),
		BucketCounts: make([]int64, max(len(a.GetBucketCounts()), len(b.GetBucketCounts()))),
	}
	copy(result.BucketCounts, a.GetBucketCounts())
	for i, count := range b.GetBucketCounts() {
		result.BucketCounts[i] += sign * count
	}
	if result.Count != 0 {
		sum := a.GetMean()*float64(a.GetCount()) + float64(sign)*b.GetMean()*float64(b.GetCount())
		result.Mean = sum / float64(result.Count)
	}
	return result, nil
}

// bounds returns the limits between buckets: bucket i holds values from bounds[i-1] up to bounds[i].
func bounds(d *distribution.Distribution) []float64 {
	var limits []float64
	switch options := d.GetBucketOptions().GetOptions().(type) {
	case *distribution.Distribution_BucketOptions_ExplicitBuckets:
		return options.ExplicitBuckets.GetBounds()
	case *distribution.Distribution_BucketOptions_LinearBuckets:
		for i := range options.LinearBuckets.GetNumFiniteBuckets() + 1 {
			limits = append(limits, options.LinearBuckets.GetOffset()+options.LinearBuckets.GetWidth()*float64(i))
		}
	case *distribution.Distribution_BucketOptions_ExponentialBuckets:
		for i := range options.ExponentialBuckets.GetNumFiniteBuckets() + 1 {
			growth := math.Pow(options.ExponentialBuckets.GetGrowthFactor(), float64(i))
			limits = append(limits, options.ExponentialBuckets.GetScale()*growth)
		}
	}
	return limits
}

// percentile returns the value below which the share p (0 to 1) lies, assuming evenly spread values in each bucket. The
// first bucket starts at 0, or at its limit if that is negative; the last one ends at its lower limit. Without values
// the result is 0.
func percentile(d *distribution.Distribution, p float64) float64 {
	limits := bounds(d)
	if len(limits) == 0 || d.GetCount() == 0 {
		return d.GetMean()
	}
	rank := p * float64(d.GetCount())
	below := 0.0
	for i, count := range d.GetBucketCounts() {
		if count == 0 || below+float64(count) < rank {
			below += float64(count)
			continue
		}
		lower, upper := min(0, limits[0]), limits[min(i, len(limits)-1)]
		if i > 0 {
			lower = limits[i-1]
		}
		return lower + (upper-lower)*(rank-below)/float64(count)
	}
	return limits[len(limits)-1]
}
