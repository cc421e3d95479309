package function_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/function"
)

func TestParseTime_AcceptsRFC3339(t *testing.T) {
	t.Parallel()
	want := time.Date(2017, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{
		"2017-01-01T00:00:00Z", "2017-01-01t00:00:00.000z", "2017-01-01T00:00:00-00:00", "2016-12-31T14:00:00-10:00",
		"2016-12-31T23:59:60Z", "2017-01-01t05:29:60+05:30", // leap seconds
	} {
		got, err := function.ParseTime(text)
		if err != nil {
			t.Errorf("ParseTime(%q): %v", text, err)
			continue
		}
		if !got.Equal(want) {
			t.Errorf("ParseTime(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestParseTime_RefusesOtherForms(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "2017-01-01", "2017-01-01T00:00:00", "2017-01-01 00:00:00Z", "2017-01-01T+0:00:00Z", "2017-01-01T0:00:00Z",
		"2017-01-01T00:00:00,0Z", "2017-01-01T00:00:60Z", "2017-01-01T00:60:00Z", "2017-02-29T00:00:00Z",
		"2017-01-01T24:00:00Z", "2017-01-01T00:00:00+24:00", "2017-01-01T00:00:00Z\n", "２017-01-01T00:00:00Z",
	} {
		if got, err := function.ParseTime(text); err == nil {
			t.Errorf("ParseTime(%q) = %v, want an error", text, got)
		}
	}
}
