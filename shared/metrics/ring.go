package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// The two resolutions: an hour by the minute, a day by five minutes.
const (
	fineStep         = time.Minute
	coarseStep       = 5 * time.Minute
	slotsOfHour  = int(time.Hour / fineStep)
	slotsOfDay   = int(Day / coarseStep)
	maxSlots     = 10_000
	ringVersion  = 1
	ringHeader   = 1 + 4 + 4 + 8 // version, step in seconds, slots, end
	bytesInValue = 8
)

// Ring holds one value for each interval of a fixed length, for a fixed number of intervals back from the newest one
// that has a value. An interval may have none: a gap stays one. The zero value takes nothing.
type Ring struct {
	step int64 // seconds
	size int
	// end is when the newest interval ends, in Unix seconds.
	end int64
	// values are the newest ones, the oldest first; NaN is a gap.
	values []float64
}

// NewRing makes an empty ring of a number of intervals.
func NewRing(step time.Duration, size int) Ring {
	return Ring{step: int64(step / time.Second), size: size}
}

// Like reports whether two rings have the same resolution and reach.
func (r Ring) Like(other Ring) bool { return r.step == other.step && r.size == other.size }

// slotEnd answers the end of the interval that holds the second before t.
func (r Ring) slotEnd(t int64) int64 {
	if r.step == 0 {
		return t
	}
	if rest := t % r.step; rest != 0 {
		return t + r.step - rest
	}
	return t
}

// Set sets the value of the interval that ends at or after t. What is older than the ring reaches is dropped; a newer
// interval than all takes the place of the oldest.
func (r *Ring) Set(t time.Time, v float64) {
	if r.size == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	at := r.slotEnd(t.Unix())
	if len(r.values) == 0 {
		r.end, r.values = at, []float64{v}
		return
	}
	if at > r.end {
		r.extendTo(at)
	}
	back := int((r.end - at) / r.step)
	if back >= r.size {
		return
	}
	if missing := back + 1 - len(r.values); missing > 0 {
		r.values = append(gaps(missing), r.values...)
	}
	r.values[len(r.values)-1-back] = v
}

// extendTo makes room for the interval that ends at t.
func (r *Ring) extendTo(t int64) {
	added := (t - r.end) / r.step
	r.end = t
	if added >= int64(r.size) {
		r.values = gaps(1)
		return
	}
	r.values = append(r.values, gaps(int(added))...)
	if over := len(r.values) - r.size; over > 0 {
		r.values = append([]float64(nil), r.values[over:]...)
	}
}

func gaps(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}

// At answers the value of the interval that ends at or after t.
func (r Ring) At(t time.Time) (v float64, ok bool) {
	if len(r.values) == 0 {
		return 0, false
	}
	back := (r.end - r.slotEnd(t.Unix())) / r.step
	if back < 0 || back >= int64(len(r.values)) {
		return 0, false
	}
	if v = r.values[int64(len(r.values))-1-back]; math.IsNaN(v) {
		return 0, false
	}
	return v, true
}

// Points lists the values of the intervals that begin at since or later, the oldest first.
func (r Ring) Points(since time.Time) []Point {
	points := []Point{}
	for i, v := range r.values {
		begin := r.end - int64(len(r.values)-i)*r.step
		if begin >= since.Unix() && !math.IsNaN(v) {
			points = append(points, Point{T: begin, V: v})
		}
	}
	return points
}

// sum adds the values of the intervals that begin at since or later.
func (r Ring) sum(since time.Time) float64 {
	total := 0.0
	for _, p := range r.Points(since) {
		total += p.V
	}
	return total
}

// MarshalBinary implements encoding.BinaryMarshaler. The form is dense, because a snapshot is read whole with every
// request: a version, the length of an interval, how many there may be, the end of the newest, and the values as they
// are in memory.
func (r Ring) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, ringHeader+bytesInValue*len(r.values))
	b = append(b, ringVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(r.step)) //nolint:gosec // minutes, in seconds
	b = binary.BigEndian.AppendUint32(b, uint32(r.size)) //nolint:gosec // hundreds
	b = binary.BigEndian.AppendUint64(b, uint64(r.end))  //nolint:gosec // read back as it is
	for _, v := range r.values {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b, nil
}

var errInvalidRing = errors.New("not a ring of points")

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (r *Ring) UnmarshalBinary(b []byte) error {
	if len(b) < ringHeader || (len(b)-ringHeader)%bytesInValue != 0 {
		return fmt.Errorf("%w: %d bytes", errInvalidRing, len(b))
	}
	if b[0] != ringVersion {
		return fmt.Errorf("%w that this version knows: version %d", errInvalidRing, b[0])
	}
	found := Ring{
		step: int64(binary.BigEndian.Uint32(b[1:])), size: int(binary.BigEndian.Uint32(b[5:])),
		end: int64(binary.BigEndian.Uint64(b[9:])), //nolint:gosec // written from an int64
	}
	n := (len(b) - ringHeader) / bytesInValue
	if found.step == 0 || found.size > maxSlots || n > found.size {
		return fmt.Errorf("%w: %d values of %d, a step of %d s", errInvalidRing, n, found.size, found.step)
	}
	for i := range n {
		found.values = append(found.values,
			math.Float64frombits(binary.BigEndian.Uint64(b[ringHeader+i*bytesInValue:])))
	}
	*r = found
	return nil
}

// Series is one measure at both resolutions.
type Series struct {
	// Hour has a value a minute, Day one for five minutes, which is the mean of the minutes that have one.
	Hour, Day Ring
}

func newSeries() Series {
	return Series{Hour: NewRing(fineStep, slotsOfHour), Day: NewRing(coarseStep, slotsOfDay)}
}

// Minutes are values by the end of their minute, in Unix seconds.
type Minutes map[int64]float64

// merge puts values into their places, whatever stood there. The minutes must hold all that is known of the five-minute
// intervals they are in. Where they have none, nothing changes: a gap stays a gap.
func (s *Series) merge(values Minutes) {
	type mean struct{ total, count float64 }
	means := map[int64]mean{}
	for end, v := range values {
		s.Hour.Set(time.Unix(end, 0), v)
		slot := s.Day.slotEnd(end)
		m := means[slot]
		means[slot] = mean{m.total + v, m.count + 1}
	}
	for end, m := range means {
		s.Day.Set(time.Unix(end, 0), m.total/m.count)
	}
}

// pointsSince lists the points of a window that ends now, at the finest resolution that reaches back as far.
func (s Series) pointsSince(now time.Time, window time.Duration) []Point {
	if window <= time.Hour {
		return s.Hour.Points(now.Add(-window))
	}
	return s.Day.Points(now.Add(-window))
}
