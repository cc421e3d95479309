package agentctl

import (
	"slices"
	"testing"

	"agents.example/controlplane/shared/client"
)

func TestOutcome_OfAValueThatWasNotStoredSaysToSetItAgain(t *testing.T) {
	t.Parallel()
	o := client.SecretOperation{
		ID: "id", Key: "TOKEN", Action: client.SecretOperationActionSet, Stage: client.SecretOperationStageStore,
		Status: client.SecretOperationStatusPending,
	}
	for _, row := range []struct {
		action client.SecretOperationAction
		want   string
	}{
		{client.SecretOperationActionSet, "Set it again: agentctl secrets set agent TOKEN --wait"},
		{client.SecretOperationActionRotate, "Rotate again: agentctl credentials rotate agent --wait"},
	} {
		o.Action = row.action
		err := (&tool{}).outcome("agent", []client.SecretOperation{o}, true)
		want := []string{
			row.want, "Or look for it in the secret store: agentctl secrets reconcile agent id --wait",
		}
		if code, got := exitCode(err), nextSteps(err); code != ExitUnsettled || !slices.Equal(got, want) {
			t.Errorf("exit code %d and %q, want %d and %q", code, got, ExitUnsettled, want)
		}
	}
}
