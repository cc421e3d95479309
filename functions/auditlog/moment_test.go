package auditlog_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
)

func TestMoments(t *testing.T) {
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
		"0001-01-01T00:00:00Z":           first, // beyond what is kept
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
		"2026-03-02T09:30:60Z":           {}, // not where a leap second can be
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
			log := &asked{}
			w := get(log, "GET", "enterprise", listPath, url.Values{name: {text}})
			switch {
			case want.IsZero() && (w.Code != http.StatusUnprocessableEntity ||
				!strings.Contains(w.Body.String(), `"loc":["query","`+name+`"]`)):
				t.Errorf("%s=%q: %d %s, want 422", name, text, w.Code, w.Body)
			case !want.IsZero() && (w.Code != http.StatusOK || len(log.filters) != 1 ||
				!of(log.filters[0]).Equal(want)):
				t.Errorf("%s=%q: %d, %+v, want %v", name, text, w.Code, log.filters, want)
			}
		}
	}
}

// FuzzMoment: what is taken for a moment is one that a store takes, and comes back in the link to the next page as the
// same.
func FuzzMoment(f *testing.F) {
	for _, text := range []string{"2016-12-31T23:59:60Z", "2026-03-02t11:30:00.000000001+23:59",
		"0000-01-01T00:00:00-23:59", "9999-12-31T23:59:60-00:01", "2026-03-02t+0:00:00Z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		log := &asked{next: "next"}
		w := get(log, "GET", "enterprise", listPath, url.Values{"from": {text}})
		if w.Code == http.StatusUnprocessableEntity {
			return
		}
		if w.Code != http.StatusOK || log.filters[0].From.Before(time.Time{}.Add(time.Microsecond)) ||
			log.filters[0].From.UTC().Year() > 9999 {
			t.Fatalf("%q: %d, %+v", text, w.Code, log.filters)
		}
		follow(t, log, w)
		if !log.filters[1].From.Equal(log.filters[0].From) {
			t.Errorf("%q: the next page is from %v, this one from %v", text, log.filters[1].From, log.filters[0].From)
		}
	})
}

// follow asks for the page that an answer links to.
func follow(t *testing.T, log audit.Log, w *httptest.ResponseRecorder) {
	t.Helper()
	target, found := strings.CutPrefix(w.Header().Get("Link"), "<")
	target, rest, _ := strings.Cut(target, ">")
	next, err := url.Parse(target)
	if !found || rest != `; rel="next"` || err != nil {
		t.Fatalf("the link %q (%v)", w.Header().Get("Link"), err)
	}
	if again := get(log, "GET", "enterprise", next.Path, next.Query()); again.Code != http.StatusOK {
		t.Fatalf("the link %q leads to %d %s", target, again.Code, again.Body)
	}
}
