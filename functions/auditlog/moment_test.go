package auditlog_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/audit"
)

func TestMoments_AreRFC3339InTheRangeOfTheStore(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		m, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first, last := time.Time{}.Add(time.Microsecond), at("9999-12-31T23:59:59Z")
	for text, want := range map[string]time.Time{ // the zero time is refused
		"2026-03-02T09:30:00Z":           at("2026-03-02T09:30:00Z"),
		"2026-03-02t09:30:00z":           at("2026-03-02T09:30:00Z"),
		"2026-03-02T09:30:00.123456Z":    at("2026-03-02T09:30:00.123456Z"),
		"2026-03-02T09:30:00.1234567891": {},
		"2026-03-02T09:30:00.123456789Z": at("2026-03-02T09:30:00.123456789Z"),
		"2026-03-02T11:30:00+02:00":      at("2026-03-02T09:30:00Z"),
		"2026-03-01T23:30:00-10:00":      at("2026-03-02T09:30:00Z"),
		"2024-02-29T00:00:00Z":           at("2024-02-29T00:00:00Z"),
		"2016-12-31T23:59:60Z":           at("2017-01-01T00:00:00Z"), // a leap second
		"2016-12-31T23:59:60.5z":         at("2017-01-01T00:00:00.5Z"),
		"2017-01-01T01:59:60+02:00":      at("2017-01-01T00:00:00Z"),
		"0001-01-01T00:00:00Z":           first, // earlier than the store keeps
		"0000-01-01T00:00:00Z":           first,
		"0001-01-01T00:00:00+10:00":      first,
		"9999-12-31T23:59:59Z":           last,
		"9999-12-31T23:59:59.9Z":         last,
		"9999-12-31T23:59:59-10:00":      last,
		"2026-03-02":                     {},
		"2026-03-02T09:30Z":              {},
		"2026-03-02T09:30:00":            {},
		"2026-03-02 09:30:00Z":           {},
		"2026-03-02T9:30:00Z":            {},
		"2026-03-02T+9:30:00Z":           {},
		"2026-02-29T00:00:00Z":           {},
		"2026-03-02T24:00:00Z":           {},
		"2026-03-02T09:60:00Z":           {},
		"2026-03-02T09:30:60Z":           {}, // no leap second can be here
		"2026-03-02T09:30:61Z":           {},
		"2026-03-02T09:30:00+24:00":      {},
		"2026-03-02T09:30:00+02:60":      {},
		"2026-03-02T09:30:00,5Z":         {},
		"10000-01-01T00:00:00Z":          {},
		"1772443800":                     {},
		"now":                            {},
		" 2026-03-02T09:30:00Z":          {},
		"":                               {},
	} {
		for name, of := range map[string]func(audit.Filter) time.Time{
			"from": func(f audit.Filter) time.Time { return f.From },
			"to":   func(f audit.Filter) time.Time { return f.To },
		} {
			log := &fakeLog{}
			res := get(t, log, listPath, url.Values{name: {text}})
			switch {
			case want.IsZero():
				if res.Status != http.StatusUnprocessableEntity ||
					!strings.Contains(string(res.Body), `"loc":["query","`+name+`"]`) {
					t.Errorf("%s=%q: answer %d %s, want 422 for the parameter", name, text, res.Status, res.Body)
				}
			case res.Status != http.StatusOK || len(log.filters) != 1:
				t.Errorf("%s=%q: answer %d %s, want 200", name, text, res.Status, res.Body)
			case !of(log.filters[0]).Equal(want):
				t.Errorf("%s=%q: read %v, want %v", name, text, of(log.filters[0]), want)
			}
		}
	}
}

// FuzzMoment checks that a moment that is accepted is one that the store keeps, and that the link to the next page has
// the same moment.
func FuzzMoment(f *testing.F) {
	for _, text := range []string{
		"2016-12-31T23:59:60Z", "2026-03-02t11:30:00.000000001+23:59",
		"0000-01-01T00:00:00-23:59", "9999-12-31T23:59:60-00:01", "2026-03-02t+0:00:00Z",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		log := &fakeLog{next: "next"}
		res := get(t, log, listPath, url.Values{"from": {text}})
		if res.Status == http.StatusUnprocessableEntity {
			return
		}
		res.Want(t, http.StatusOK, "")
		if from := log.filters[0].From; from.Before(time.Time{}.Add(time.Microsecond)) || from.UTC().Year() > 9999 {
			t.Fatalf("from=%q is read as %v, which no store keeps", text, from)
		}
		followLink(t, log, res)
		if !log.filters[1].From.Equal(log.filters[0].From) {
			t.Errorf("from=%q: the next page is from %v, want %v", text, log.filters[1].From, log.filters[0].From)
		}
	})
}

// followLink reads the page that an answer links to.
func followLink(t *testing.T, log audit.Log, res functiontest.Response) {
	t.Helper()
	link := res.Header.Get("Link")
	target, found := strings.CutPrefix(link, "<")
	target, rest, _ := strings.Cut(target, ">")
	next, err := url.Parse(target)
	if !found || rest != `; rel="next"` || err != nil {
		t.Fatalf("Link = %q (%v), want a next page", link, err)
	}
	get(t, log, next.Path, next.Query()).Want(t, http.StatusOK, "")
}
