//go:build unix

package gcloud

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestChoice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Choice{"": Auto, "auto": Auto, "official": Official, "embedded": Embedded} {
		var c Choice
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want {
			t.Errorf("%q is %q, %v", text, c, err)
		}
	}
	var c Choice
	if err := c.UnmarshalText([]byte("java")); err == nil {
		t.Error("java is a choice")
	}
	if text, err := c.MarshalText(); err != nil || string(text) != "auto" {
		t.Errorf("no choice is written %q, %v", text, err)
	}
}

func TestOrEmbedded(t *testing.T) {
	t.Parallel()
	missing, broken := fmt.Errorf("java: %w", ErrMissing), errors.New("broken")
	for _, row := range []struct {
		choice   Choice
		official error
		want     string
		err      error
	}{
		{choice: Auto, official: nil, want: "official", err: nil},
		{choice: Auto, official: missing, want: "embedded", err: nil},
		{choice: Auto, official: broken, want: "", err: broken},
		{choice: "", official: missing, want: "embedded", err: nil},
		{choice: Official, official: missing, want: "", err: missing},
		{choice: Embedded, official: nil, want: "embedded", err: nil},
	} {
		got, err := OrEmbedded(row.choice,
			func() (string, error) {
				if row.official != nil {
					return "", row.official
				}
				return "official", nil
			},
			func() (string, error) { return "embedded", nil })
		if got != row.want || !errors.Is(err, row.err) {
			t.Errorf("%+v: %q, %v", row, got, err)
		}
	}
}

// started is an emulator that may not end well.
type started struct {
	choice Choice
	end    error
}

func (s started) String() string { return string(s.choice) }
func (s started) Close() error   { return s.end }

// TestRunTests is not parallel: it changes the environment.
func TestRunTests(t *testing.T) {
	missing, broken := fmt.Errorf("java: %w", ErrMissing), errors.New("broken")
	for name, row := range map[string]struct {
		environment, attach string
		starts              map[Choice]error
		codes               map[Choice]int
		end                 error
		ran                 []Choice
		code                int
	}{
		"both":                 {ran: []Choice{Official, Embedded}},
		"one fails":            {codes: map[Choice]int{Official: 1}, ran: []Choice{Official, Embedded}, code: 1},
		"no official one":      {starts: map[Choice]error{Official: missing}, ran: []Choice{Embedded}},
		"a broken one":         {starts: map[Choice]error{Official: broken}, code: 1},
		"the wanted is broken": {environment: "official", starts: map[Choice]error{Official: missing}, code: 1},
		"embedded":             {environment: "embedded", ran: []Choice{Embedded}},
		"official":             {environment: "official", ran: []Choice{Official}},
		"neither":              {environment: "java", code: 1},
		"attached":             {attach: "127.0.0.1:1", ran: []Choice{Auto}},
		"it ends badly":        {environment: "embedded", end: broken, ran: []Choice{Embedded}, code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, row.environment)
			var ran []Choice
			code := RunTests(row.attach,
				func(c Choice) (started, error) { return started{c, row.end}, row.starts[c] },
				func(s started) int { ran = append(ran, s.choice); return row.codes[s.choice] })
			if code != row.code || !slices.Equal(ran, row.ran) {
				t.Errorf("code %d after %v, want %d after %v", code, ran, row.code, row.ran)
			}
		})
	}
}
