package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// dueTimes lists the first due times after a time.
func dueTimes(t *testing.T, expression, zone, after string, n int) (due []string) {
	t.Helper()
	r, broken := newRecurrence(expression, zone)
	if len(broken) > 0 {
		t.Fatalf("%s in %s is refused: %v", expression, zone, broken)
	}
	at, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		at = r.next(at)
		due = append(due, at.Format("2006-01-02T15:04Z"))
	}
	return due
}

func TestRecurrence_IsDueOnceADayWhateverTheClocksDo(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"an ordinary day": {
			expression: "30 9 * * MON-FRI", zone: "Europe/Berlin", after: "2026-07-10T00:00:00Z", // a Friday
			want: []string{"2026-07-10T07:30Z", "2026-07-13T07:30Z"},
		},
		"strictly after": {
			expression: "0 12 * * *", zone: "UTC", after: "2026-07-10T12:00:00Z", want: []string{"2026-07-11T12:00Z"},
		},
		"a time that the clocks skip": { // 02:30 does not exist on March 8: it is shown as 03:30
			expression: "30 2 * * *", zone: "America/New_York", after: "2026-03-07T12:00:00Z",
			want: []string{"2026-03-08T07:30Z", "2026-03-09T06:30Z"},
		},
		"next to a time that the clocks skip": {
			expression: "0,30 1-3 * * *", zone: "America/New_York", after: "2026-03-08T06:00:00Z",
			want: []string{"2026-03-08T06:30Z", "2026-03-08T07:00Z", "2026-03-08T07:30Z", "2026-03-09T05:00Z"},
		},
		"a time that the clocks show twice": { // 01:30 is 05:30Z and 06:30Z on November 1
			expression: "30 1 * * *", zone: "America/New_York", after: "2026-10-31T12:00:00Z",
			want: []string{"2026-11-01T05:30Z", "2026-11-02T06:30Z"},
		},
		"between the two": {
			expression: "30 1 * * *", zone: "America/New_York", after: "2026-11-01T05:30:00Z",
			want: []string{"2026-11-02T06:30Z"},
		},
		"each hour that passes in autumn": {
			expression: "30 * * * *", zone: "America/New_York", after: "2026-11-01T05:00:00Z",
			want: []string{"2026-11-01T05:30Z", "2026-11-01T06:30Z", "2026-11-01T07:30Z"},
		},
		"each hour that passes in spring": {
			expression: "30 * * * *", zone: "America/New_York", after: "2026-03-08T06:00:00Z",
			want: []string{"2026-03-08T06:30Z", "2026-03-08T07:30Z"},
		},
		"each hour of a day without a midnight": { // at the end of April 23 the clocks show 01:00
			expression: "15 * * * FRI", zone: "Africa/Cairo", after: "2026-04-23T12:00:00Z",
			want: []string{"2026-04-23T22:15Z", "2026-04-23T23:15Z"},
		},
		"each hour of a date without a midnight": { // a clock that skips it goes on to 01:00
			expression: "0 * 29 3 *", zone: "Asia/Beirut", after: "2026-03-01T00:00:00Z",
			want: []string{"2026-03-28T22:00Z", "2026-03-28T23:00Z"},
		},
		"each hour of a day with two midnights": { // at 01:00 the clocks show 00:00
			expression: "30 * 1 11 *", zone: "America/Havana", after: "2026-10-31T12:00:00Z",
			want: []string{"2026-11-01T04:30Z", "2026-11-01T05:30Z", "2026-11-01T06:30Z"},
		},
		"clocks that move by half an hour": {
			expression: "15 2 * * *", zone: "Australia/Lord_Howe", after: "2026-10-03T10:00:00Z",
			want: []string{"2026-10-03T15:45Z", "2026-10-04T15:15Z"},
		},
		"a day of each leap year": {
			expression: "0 0 29 2 *", zone: "UTC", after: "2026-01-01T00:00:00Z", want: []string{"2028-02-29T00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := dueTimes(t, row.expression, row.zone, row.after, len(row.want)); !slices.Equal(got, row.want) {
				t.Errorf("due at %v, want %v", got, row.want)
			}
		})
	}
}

// A year of due times is in order, without repeats, and one for each day.
func TestRecurrence_IsDueOnEachDayOfAYear(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"} {
		for hour := range 4 {
			r, _ := newRecurrence(fmt.Sprintf("30 %d * * *", hour), zone)
			at, end := time.Date(2026, 1, 1, 0, 0, 0, 0, r.zone), time.Date(2027, 1, 1, 0, 0, 0, 0, r.zone)
			days := map[string]int{}
			for at = r.next(at); at.Before(end); at = r.next(at) {
				days[at.In(r.zone).Format(time.DateOnly)]++
			}
			if len(days) != 365 || slices.Max(slices.Collect(maps.Values(days))) > 1 {
				t.Errorf("%02d:30 in %s is due on %d days: %v", hour, zone, len(days), days)
			}
		}
	}
}

// An expression without hours is due at its minute of each hour that the clocks of its days show.
func TestRecurrence_IsDueInEachHourOfItsDays(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Africa/Cairo", "Asia/Beirut", "America/Havana", "Australia/Lord_Howe"} {
		for weekday := time.Sunday; weekday <= time.Saturday; weekday++ {
			r, _ := newRecurrence(fmt.Sprintf("30 * * * %d", weekday), zone)
			at, end := time.Date(2026, 1, 1, 0, 0, 0, 0, r.zone), time.Date(2027, 1, 1, 0, 0, 0, 0, r.zone)
			due := r.next(at)
			for ; at.Before(end); at = at.Add(30 * time.Minute) {
				if local := at.In(r.zone); local.Weekday() != weekday || local.Minute() != 30 {
					continue
				}
				if !due.Equal(at) {
					t.Errorf("minute 30 of each hour of each %s in %s is due at %s, want %s", weekday, zone, due, at)
				}
				due = r.next(at)
			}
		}
	}
}

func TestRecurrence_RefusesWhatIsNoExpression(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ expression, zone, field string }{
		"four fields":        {expression: "0 0 * *", zone: "UTC", field: "cron"},
		"six fields":         {expression: "0 0 0 * * *", zone: "UTC", field: "cron"},
		"a word":             {expression: "@hourly", zone: "UTC", field: "cron"},
		"an interval":        {expression: "@every 1h", zone: "UTC", field: "cron"},
		"its own zone":       {expression: "TZ=UTC 0 0 * * *", zone: "UTC", field: "cron"},
		"its own zone only":  {expression: "CRON_TZ=0 0 0 0 0", zone: "UTC", field: "cron"},
		"a zone and a field": {expression: "TZ=0 0 * * *", zone: "UTC", field: "cron"},
		"no number":          {expression: "x 0 * * *", zone: "UTC", field: "cron"},
		"minute 60":          {expression: "60 0 * * *", zone: "UTC", field: "cron"},
		"no such day":        {expression: "0 0 30 2 *", zone: "UTC", field: "cron"},
		"each minute":        {expression: "* * * * *", zone: "UTC", field: "cron"},
		"too often":          {expression: "0,4 9 * * *", zone: "UTC", field: "cron"},
		"too often at night": {expression: "2,57 0,23 * * *", zone: "UTC", field: ""},
		"around midnight":    {expression: "0,58 0,23 * * *", zone: "UTC", field: "cron"},
		"every five minutes": {expression: "*/5 * * * *", zone: "UTC", field: ""},
		"too long":           {expression: "0 0 " + strings.Repeat("1,", 60) + "1 * *", zone: "UTC", field: "cron"},
		"no zone":            {expression: "0 0 * * *", zone: "", field: "timezone"},
		"the machine's zone": {expression: "0 0 * * *", zone: "Local", field: "timezone"},
		"an unknown zone":    {expression: "0 0 * * *", zone: "Mars/Olympus", field: "timezone"},
		"a file":             {expression: "0 0 * * *", zone: "../../etc/passwd", field: "timezone"},
		"a detour":           {expression: "0 0 * * *", zone: "Europe/./Berlin", field: "timezone"},
		"two slashes":        {expression: "0 0 * * *", zone: "Europe//Berlin", field: "timezone"},
	} {
		_, broken := newRecurrence(row.expression, row.zone)
		want := []string{row.field}
		if row.field == "" {
			want = nil
		}
		if got := slices.Collect(maps.Keys(broken)); !slices.Equal(got, want) {
			t.Errorf("%s: %q in %q is refused because of %v, want %q", name, row.expression, row.zone, broken, want)
		}
	}
}
