package provisioning_test

import (
	"testing"
	"testing/synctest"
)

// A message is delivered again after the agent runs.
func TestReconcile_DuplicateMessageWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		effects := w.Effects
		must(t, w.deliver())
		if got := w.Effects - effects; got != 0 || !settled(w.record()) {
			t.Errorf("a duplicate message had %d effects, want 0; the agent is %s", got, w.record().Status)
		}
	})
}
