package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// The two resolutions: an hour in steps of a minute, and a day in steps of five minutes.
const (
	fineStep     = time.Minute
	coarseStep   = 5 * time.Minute
	slotsOfHour  = int(time.Hour / fineStep)
	slotsOfDay   = int(Day / coarseStep)
	maxSlots     = 10_000
	ringVersion  = 1
	ringHeader   = 1 + 4 + 4 + 8 // version, step in seconds, slots, end
	bytesInValue = 8
)

// Ring holds the values of a fixed number of intervals of equal length, up to the newest one that has a value. An
// interval without a value is a gap. The zero Ring holds no values.
type Ring struct {
	step int64 // seconds
	size int
	// end is the end of the newest interval, in Unix seconds.
	end int64
	// values are sorted from old to new, and end with the newest interval; NaN is a gap.
	values []float64
}

// NewRing makes an empty ring of size intervals.
func NewRing(step time.Duration, size int) Ring {
	return Ring{step: int64(step / time.Second), size: size}
}

// Like reports whether two rings have the same interval length and size.
func (r Ring) Like(other Ring) bool { return r.step == other.step && r.size == other.size }

// slotEnd returns the end of the interval that contains the second before t.
func (r Ring) slotEnd(t int64) int64 {
	if r.step == 0 {
		return t
	}
	if rest := t % r.step; rest != 0 {
		return t + r.step - rest
	}
	return t
}

// Set sets the value of the interval that ends at or after t. It drops a value that is too old for the ring. A new
// newest interval replaces the oldest one.
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

// extendTo makes the interval that ends at t the newest one.
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

// At returns the value of the interval that ends at or after t.
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

// Points lists the values of the intervals that begin at or after since, the oldest first.
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

// sum adds the values of the intervals that begin at or after since.
func (r Ring) sum(since time.Time) float64 {
	total := 0.0
	for _, p := range r.Points(since) {
		total += p.V
	}
	return total
}

// MarshalBinary implements encoding.BinaryMarshaler. The format is dense, because each request reads a whole snapshot:
// a version, the interval length, the size, the end of the newest interval, and the values as IEEE 754 bits.
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

var errInvalidRing = errors.New("invalid metrics ring")

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (r *Ring) UnmarshalBinary(b []byte) error {
	if len(b) < ringHeader || (len(b)-ringHeader)%bytesInValue != 0 {
		return fmt.Errorf("%w: %d bytes", errInvalidRing, len(b))
	}
	if b[0] != ringVersion {
		return fmt.Errorf("%w: version %d, want %d", errInvalidRing, b[0], ringVersion)
	}
	found := Ring{
		step: int64(binary.BigEndian.Uint32(b[1:])), size: int(binary.BigEndian.Uint32(b[5:])),
		end: int64(binary.BigEndian.Uint64(b[9:])), //nolint:gosec // written from an int64
	}
	n := (len(b) - ringHeader) / bytesInValue
	if found.step == 0 || found.size > maxSlots || n > found.size {
		return fmt.Errorf("%w: %d values, size %d, step %d s", errInvalidRing, n, found.size, found.step)
	}
	for i := range n {
		found.values = append(found.values,
			math.Float64frombits(binary.BigEndian.Uint64(b[ringHeader+i*bytesInValue:])))
	}
	*r = found
	return nil
}

// Series holds one metric at both resolutions.
type Series struct {
	// Hour has one value per minute. Day has one per five minutes: the mean of the minutes that have a value.
	Hour, Day Ring
}

func newSeries() Series {
	return Series{Hour: NewRing(fineStep, slotsOfHour), Day: NewRing(coarseStep, slotsOfDay)}
}

// Minutes maps the end of a minute, in Unix seconds, to its value.
type Minutes map[int64]float64

// merge sets the values of the given minutes and overwrites old ones. For each five-minute interval, values must hold
// all known minutes, because the mean is computed from them. Other minutes keep their value or gap.
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

// pointsSince lists the points of a window that ends now, at the finest resolution that covers it.
func (s Series) pointsSince(now time.Time, window time.Duration) []Point {
	if window <= time.Hour {
		return s.Hour.Points(now.Add(-window))
	}
	return s.Day.Points(now.Add(-window))
}
