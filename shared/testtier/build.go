package testtier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

// afterBuild is the time that a build must leave for the tests themselves.
const afterBuild = 2 * time.Minute

// RequireBuilt builds what a test runs if it is not there: needed estimates how long that takes. It fails the test
// immediately when the build would take longer than go test gives the package.
func RequireBuilt(t *testing.T, needed func() (time.Duration, error),
	build func(context.Context, io.Writer) (string, error),
) {
	t.Helper()
	estimate, err := needed()
	if err != nil {
		t.Fatal(err)
	}
	if estimate == 0 {
		return
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		if err := checkTime(estimate, time.Until(deadline)); err != nil {
			t.Fatal(err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-afterBuild),
			errors.New("the build took too long: "+advice))
		defer cancel()
	}
	if _, err := build(ctx, nil); err != nil {
		t.Fatal(err)
	}
}

const advice = "build it once with `go run ./emulators build`, or raise go test's -timeout (to 40m, say)"

// checkTime returns an error if a build that takes about needed does not fit into what is left of a test's time.
func checkTime(needed, left time.Duration) error {
	if needed+afterBuild <= left {
		return nil
	}
	return fmt.Errorf("the test needs a build, which takes up to %s, and go test ends it in %s: %s",
		needed.Round(time.Minute), left.Round(time.Second), advice)
}
