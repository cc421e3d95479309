//go:build unix

package gcloud

import (
	"errors"
	"fmt"
	"testing"
)

func TestChoice_TextForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Choice{"": Embedded, "auto": Auto, "official": Official, "embedded": Embedded} {
		var c Choice
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want {
			t.Errorf("UnmarshalText(%q) = %q, %v; want %q", text, c, err, want)
		}
	}
	var c Choice
	if err := c.UnmarshalText([]byte("java")); err == nil {
		t.Error(`UnmarshalText("java") succeeds, want an error`)
	}
	if text, err := c.MarshalText(); err != nil || string(text) != "embedded" {
		t.Errorf(`MarshalText of the zero value = %q, %v; want "embedded"`, text, err)
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
		{choice: "", official: nil, want: "embedded", err: nil},
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
			t.Errorf("OrEmbedded(%q), official error %v: got %q, %v; want %q, %v", row.choice, row.official, got, err,
				row.want, row.err)
		}
	}
}
