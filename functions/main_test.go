package functions_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	if tier, err := testtier.Current(); err == nil && tier == testtier.Embedded {
		if err := flag.Set("rapid.checks", "30"); err != nil { // the command line overrides it
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	functiontest.Main(m)
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
