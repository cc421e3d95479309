package diagnosis

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// choice is a version of an image.
func choice(version string) image.Choice {
	return image.Choice{ID: "assistant", Version: version, Reference: "hidden.registry.test/a@sha256:" + version}
}

// onImage is a running agent with version 1.
func onImage(now time.Time) agent.Agent {
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: plan.Pro}, now)
	a.Image.Choice = choice("1")
	a.BecameReady(now)
	return a
}

func TestOf_NamesTheImageAndAnUpdateThatWasUndone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	former := onImage(now)
	former.Image = agent.Software{}
	if v := Of(Facts{Agent: former, Now: now}); v.Image != nil {
		t.Errorf("image of an agent of a former release = %+v, want none", v.Image)
	}
	a := onImage(now)
	v := Of(Facts{Agent: a, Now: now})
	if i := v.Image; i == nil || i.ID != "assistant" || i.Version != "1" || *i.Digest != "sha256:1" ||
		i.Reverted != nil {
		t.Errorf("image = %+v, want version 1 with its digest", v.Image)
	}
	a.MoveTo("r", choice("2"), now)
	a.GiveUp(agent.Failure{Code: "pod_crash_loop", Message: "It exits."}, now)
	a.BecameReady(now)
	v = Of(Facts{Agent: a, Now: now})
	undone := Reverted{Version: "2", Reason: "pod_crash_loop: It exits."}
	if i := v.Image; i.Version != "1" || i.Reverted == nil || *i.Reverted != undone {
		t.Errorf("image after the update was undone = %+v, want version 1 and the reason", v.Image)
	}
	if len(v.Causes) > 0 || !strings.Contains(v.Summary, "version 2 was undone") {
		t.Errorf("causes %v, summary %q; want no cause, and the update in the summary", v.Causes, v.Summary)
	}
	a.Image.Choice = choice("3")
	if v := Of(Facts{Agent: a, Now: now}); v.Image.Reverted != nil || strings.Contains(v.Summary, "undone") {
		t.Errorf("image after its client took another version = %+v, %q; want nothing undone", v.Image, v.Summary)
	}
	if text, err := json.Marshal(v); err != nil || strings.Contains(string(text), "registry") {
		t.Errorf("the diagnosis names a registry (%v): %s", err, text)
	}
}

func TestTimeline_TellsOfTheImage(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`agent.image_updated {"image":{"id":"a","version":"2"},"previous_version":"1","release_id":null}`: "The agent was " +
			"moved from version 1 of the image a to 2.",
		`agent.image_updated {"image":{"id":"a","version":"2"},"previous_version":"1","release_id":"r"}`: "The agent was " +
			"moved from version 1 of the image a to 2 by a release.",
		`agent.image_updated {"image":{"id":"a","version":"2"},"previous_version":null,"release_id":null}`: "The agent " +
			"took version 2 of the image a.",
		`agent.image_reverted {"image":{"id":"a","version":"1"},"previous_version":"2","release_id":"r","reason":"c: m"}`: "" +
			"The update to version 2 was undone, and the agent runs version 1 again: c: m",
	} {
		typ, text, _ := strings.Cut(data, " ")
		got := Facts{}.momentOf(event.Event{Type: event.Type(typ), Data: json.RawMessage(text)}).Message
		if got != want {
			t.Errorf("%s: %q, want %q", data, got, want)
		}
	}
}
