package agentctl

import "testing"

func TestEndedRun_TakesNumbersAndFormerValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]endedRun{"1": 1, "5": 5, "true": 1, "false": 0} {
		var got endedRun
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("--previous=%s is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "6", "-1", "x", ""} {
		if err := new(endedRun).Set(text); err == nil {
			t.Errorf("--previous=%s is accepted, want an error", text)
		}
	}
}
