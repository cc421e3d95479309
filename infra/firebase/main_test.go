package firebase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	emulator "agents.example/controlplane/emulators/firebase"
	store "agents.example/controlplane/emulators/firestore"
)

// records is the host of the Firestore emulator; missing says why there is no Firebase Authentication emulator, where there is none.
var (
	records string
	missing string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	f, err := store.Start(context.Background(), store.Options{Attach: os.Getenv("FIRESTORE_EMULATOR_HOST")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	records = f.Host
	e, err := emulator.Start(context.Background(), os.Getenv(emulator.HostVariable))
	switch {
	case errors.Is(err, emulator.ErrNotInstalled):
		missing = err.Error()
	case err != nil:
		fmt.Fprintln(os.Stderr, errors.Join(err, f.Close()))
		return 1
	default:
		// The library takes the address from nowhere else.
		_ = os.Setenv(emulator.HostVariable, e.Host)
	}
	code := m.Run()
	if e != nil {
		err = e.Close()
	}
	if err = errors.Join(err, f.Close()); err != nil && missing == "" {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
