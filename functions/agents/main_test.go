package agents_test

import (
	"testing"

	"agents.example/controlplane/functions/functiontest"
)

func TestMain(m *testing.M) { functiontest.Main(m) }

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf drops the result of a call that also returns an error.
func errorOf[T any](_ T, err error) error { return err }
