package apikey_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"agents.example/controlplane/shared/apikey"
)

func TestPepper_IsReadAndNeverPrinted(t *testing.T) {
	t.Parallel()
	canary := bytes.Repeat([]byte("canary--"), apikey.MinPepperBytes/8)
	for value, want := range map[string]string{
		"": "", base64.StdEncoding.EncodeToString(canary): string(canary),
	} {
		var p apikey.Pepper
		if err := p.EnvDecode(value); err != nil || string(p) != want {
			t.Errorf("%d characters: a pepper of %d bytes, %v; want %d", len(value), len(p), err, len(want))
		}
		if text := fmt.Sprintf("%v %+v %#v", p, apikey.Peppers{Previous: p}, p); strings.Contains(text, "canary") {
			t.Error("a printed pepper contains its value")
		}
	}
	for _, value := range []string{"canary!", "Y2FuYXJ5"} {
		var p apikey.Pepper
		if err := p.EnvDecode(value); err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("EnvDecode(%q) = %v, want an error without the value", value, err)
		}
	}
}

func TestPepper_IDTellsPeppersApart(t *testing.T) {
	t.Parallel()
	one, two := apikey.Pepper("1"), apikey.Pepper("2")
	if one.ID() == two.ID() || one.ID() != apikey.Pepper("1").ID() || len(one.ID()) != 16 {
		t.Errorf("ids = %s and %s, want two of 16 characters, the same each time", one.ID(), two.ID())
	}
}
