package agentctl

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// bytesText shows a number of bytes, as in 1.5 GiB.
func bytesText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return short(n) + " " + units[i]
}

// short shows a number with about three digits.
func short(n float64) string {
	digits := 2
	switch size := math.Abs(n); {
	case size >= 100:
		digits = 0
	case size >= 10:
		digits = 1
	}
	rounding := math.Pow10(digits)
	return strconv.FormatFloat(math.Round(n*rounding)/rounding, 'f', -1, 64)
}

// age shows how long ago a time was.
func (t *tool) age(at time.Time) string { return span(t.app.Now().Sub(at)) }

// span shows a duration in its largest unit.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// moment shows a time and how long ago it was.
func (t *tool) moment(at time.Time) string {
	text := at.UTC().Format("2006-01-02 15:04:05 UTC")
	if d := t.app.Now().Sub(at); d >= 0 {
		text += " (" + span(d) + " ago)"
	}
	return text
}

// elapsed shows how long a step took, as in 40ms, 1.4s, 12s or 3m5s.
func elapsed(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
}
