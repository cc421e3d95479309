package metrics

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// TestRing_BehavesLikeAMap compares a ring with a map, for random values in random order, and across encoding.
func TestRing_BehavesLikeAMap(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		const size = 12
		r, model, newest := NewRing(coarseStep, size), map[int64]float64{}, int64(0)
		begin := int64(1_700_000_000)
		for range random.IntN(60) {
			at := begin + random.Int64N(3*size*300)
			v := random.Float64()
			r.Set(time.Unix(at, 0), v)
			slot := (at + 299) / 300 * 300
			if slot > newest-size*300 {
				model[slot] = v
			}
			newest = max(newest, slot)
			if random.IntN(5) == 0 {
				r = encodeAndDecode(t, r)
			}
		}
		want := []Point{}
		for slot := newest - (size-1)*300; slot <= newest; slot += 300 {
			v, ok := model[slot]
			if got, has := r.At(time.Unix(slot-1, 0)); has != ok || got != v && ok {
				t.Fatalf("At(%d) = %v, %t; want %v, %t", slot, got, has, v, ok)
			}
			if ok {
				want = append(want, Point{T: slot - 300, V: v})
			}
		}
		if got := r.Points(time.Time{}); !reflect.DeepEqual(got, want) {
			t.Fatalf("Points = %v, want %v", got, want)
		}
	}
}

func encodeAndDecode(t *testing.T, r Ring) Ring {
	t.Helper()
	b, err := r.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var again Ring
	if err := again.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	return again
}

func TestRing_SizeIsBounded(t *testing.T) {
	t.Parallel()
	r := NewRing(fineStep, slotsOfHour)
	for i := range 10_000 {
		r.Set(time.Unix(int64(i)*60, 0), 1)
	}
	b, err := r.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if want := ringHeader + slotsOfHour*bytesInValue; len(b) != want {
		t.Errorf("%d bytes, want %d", len(b), want)
	}
	if got := len(r.Points(time.Time{})); got != slotsOfHour {
		t.Errorf("%d points, want %d", got, slotsOfHour)
	}
}

func TestRing_SetIgnoresInvalidValues(t *testing.T) {
	t.Parallel()
	r := NewRing(fineStep, slotsOfHour)
	r.Set(time.Unix(60, 0), 1)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		r.Set(time.Unix(120, 0), v)
		if got, ok := r.At(time.Unix(120, 0)); ok {
			t.Errorf("At = %v after Set(%v), want no value", got, v)
		}
	}
	var zero Ring
	zero.Set(time.Unix(60, 0), 1)
	if got := zero.Points(time.Time{}); len(got) != 0 {
		t.Errorf("Points of the zero ring = %v, want none", got)
	}
}

func TestRing_UnmarshalRefusesInvalidBytes(t *testing.T) {
	t.Parallel()
	good, err := NewRing(fineStep, 3).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"no bytes": nil, "too short": good[:5], "another version": append([]byte{9}, good[1:]...),
		"half a value":           append(good[:len(good):len(good)], 1, 2),
		"more values than slots": append(good[:len(good):len(good)], make([]byte, 4*8)...),
		"no step":                append([]byte{1, 0, 0, 0, 0}, good[5:]...),
		"too many slots":         append([]byte{1, 0, 0, 0, 60, 255, 255, 255, 255}, good[9:]...),
	} {
		var r Ring
		if err := r.UnmarshalBinary(b); err == nil {
			t.Errorf("%s: UnmarshalBinary = nil, want an error", name)
		}
	}
}

// FuzzRing checks that any accepted encoding is encoded to the same bytes again.
func FuzzRing(f *testing.F) {
	r := NewRing(coarseStep, slotsOfDay)
	r.Set(time.Unix(3000, 0), 1.5)
	b, _ := r.MarshalBinary()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Ring
		if r.UnmarshalBinary(b) != nil {
			return
		}
		again, err := r.MarshalBinary()
		if err != nil || string(again) != string(b) {
			t.Errorf("%x was encoded again as %x, %v; want the same bytes", b, again, err)
		}
	})
}
