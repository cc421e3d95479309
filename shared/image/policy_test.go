package image_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/image"
)

func TestMaintenanceWindow_HasItsRules(t *testing.T) {
	t.Parallel()
	good := image.MaintenanceWindow{
		Days: []image.Day{"monday", "sunday"}, Start: "02:30", Hours: 3, Timezone: "Europe/Berlin",
	}
	if broken := good.Check(); len(broken) > 0 {
		t.Errorf("a good window: %v, want nothing", broken)
	}
	for name, c := range map[string]struct {
		change func(w *image.MaintenanceWindow)
		want   string
	}{
		"no day":         {func(w *image.MaintenanceWindow) { w.Days = nil }, "days"},
		"an unknown day": {func(w *image.MaintenanceWindow) { w.Days = []image.Day{"monday", "mon"} }, "days"},
		"too many days": {
			func(w *image.MaintenanceWindow) { w.Days = slices.Repeat([]image.Day{"monday"}, 8) }, "days",
		},
		"no start":        {func(w *image.MaintenanceWindow) { w.Start = "" }, "start"},
		"a short start":   {func(w *image.MaintenanceWindow) { w.Start = "2:30" }, "start"},
		"a late start":    {func(w *image.MaintenanceWindow) { w.Start = "24:00" }, "start"},
		"seconds":         {func(w *image.MaintenanceWindow) { w.Start = "02:30:00" }, "start"},
		"no hours":        {func(w *image.MaintenanceWindow) { w.Hours = 0 }, "hours"},
		"too many hours":  {func(w *image.MaintenanceWindow) { w.Hours = 25 }, "hours"},
		"no zone":         {func(w *image.MaintenanceWindow) { w.Timezone = "" }, "timezone"},
		"an unknown zone": {func(w *image.MaintenanceWindow) { w.Timezone = "Mars/Olympus" }, "timezone"},
		"the machine's":   {func(w *image.MaintenanceWindow) { w.Timezone = "Local" }, "timezone"},
		"a detour":        {func(w *image.MaintenanceWindow) { w.Timezone = "Europe/./Berlin" }, "timezone"},
		"a path":          {func(w *image.MaintenanceWindow) { w.Timezone = "../etc/passwd" }, "timezone"},
	} {
		w := good
		c.change(&w)
		if got := slices.Collect(maps.Keys(w.Check())); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: broken fields %v, want %s", name, got, c.want)
		}
		if w.Timezone == "" && w.Open(time.Now()) {
			t.Errorf("%s: the window is open", name)
		}
	}
}

func TestMaintenanceWindow_IsOpenForItsHours(t *testing.T) {
	t.Parallel()
	night := image.MaintenanceWindow{Days: []image.Day{"saturday"}, Start: "22:30", Hours: 4, Timezone: "Europe/Berlin"}
	whole := image.MaintenanceWindow{Days: []image.Day{"sunday"}, Start: "00:00", Hours: 24, Timezone: "UTC"}
	// On 29 March 2026 the clocks of Berlin go from 02:00 to 03:00, and on 25 October from 03:00 back to 02:00.
	skipped := image.MaintenanceWindow{Days: []image.Day{"sunday"}, Start: "02:30", Hours: 1, Timezone: "Europe/Berlin"}
	for name, c := range map[string]struct {
		window image.MaintenanceWindow
		at     string
		want   bool
	}{
		"before it":                        {window: night, at: "2026-03-07T22:29:59+01:00"},
		"when it begins":                   {window: night, at: "2026-03-07T22:30:00+01:00", want: true},
		"in another zone":                  {window: night, at: "2026-03-07T21:30:00Z", want: true},
		"after midnight":                   {window: night, at: "2026-03-08T02:29:59+01:00", want: true},
		"when it ends":                     {window: night, at: "2026-03-08T02:30:00+01:00"},
		"the night before":                 {window: night, at: "2026-03-07T01:00:00+01:00"},
		"another day":                      {window: night, at: "2026-03-08T23:00:00+01:00"},
		"the first second of a day":        {window: whole, at: "2026-03-08T00:00:00Z", want: true},
		"the last second of a day":         {window: whole, at: "2026-03-08T23:59:59Z", want: true},
		"the next day":                     {window: whole, at: "2026-03-09T00:00:00Z"},
		"an hour that the clocks skip":     {window: skipped, at: "2026-03-29T03:35:00+02:00", want: true},
		"after the skipped hour":           {window: skipped, at: "2026-03-29T04:35:00+02:00"},
		"before the hour that comes twice": {window: skipped, at: "2026-10-25T02:29:00+02:00"},
		"after the hour that comes twice":  {window: skipped, at: "2026-10-25T03:35:00+01:00"},
		"four hours while clocks go back":  {window: longNight(), at: "2026-10-25T03:29:00+01:00", want: true},
		"after four hours of elapsed time": {window: longNight(), at: "2026-10-25T03:31:00+01:00"},
		"an invalid window is never open": {
			window: image.MaintenanceWindow{Days: whole.Days, Start: "x", Hours: 24, Timezone: "UTC"},
			at:     "2026-03-08T12:00:00Z",
		},
		"nor is one of an unknown zone": {
			window: image.MaintenanceWindow{Days: whole.Days, Start: "00:00", Hours: 24, Timezone: "X"},
			at:     "2026-03-08T12:00:00Z",
		},
		"the first of a month, after 22:30": {
			window: image.MaintenanceWindow{Days: []image.Day{"saturday"}, Start: "23:00", Hours: 2, Timezone: "UTC"},
			at:     "2026-03-01T00:30:00Z", want: true,
		},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.window.Open(at); got != c.want {
			t.Errorf("%s: open at %s: %t, want %t", name, c.at, got, c.want)
		}
	}
	once := 0
	for minute := range 180 { // the window opens in one of the two hours only
		at := time.Date(2026, time.October, 24, 23, 30, 0, 0, time.UTC).Add(time.Duration(minute) * time.Minute)
		if skipped.Open(at) {
			once++
		}
	}
	if once != 60 {
		t.Errorf("the window is open for %d minutes in the night in which an hour comes twice, want 60", once)
	}
}

// longNight is a window in which the clocks of Berlin change.
func longNight() image.MaintenanceWindow {
	return image.MaintenanceWindow{Days: []image.Day{"sunday"}, Start: "00:30", Hours: 4, Timezone: "Europe/Berlin"}
}

func TestMaintenanceWindow_HasATextForPeople(t *testing.T) {
	t.Parallel()
	w := &image.MaintenanceWindow{Days: []image.Day{"monday", "sunday"}, Start: "02:30", Hours: 3, Timezone: "UTC"}
	if got, want := w.String(), "monday, sunday 02:30 for 3 h (UTC)"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	if got := (*image.MaintenanceWindow)(nil).String(); got != "" {
		t.Errorf("no window: text = %q, want none", got)
	}
}
