package firebase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"agents.example/controlplane/emulators/firebaseemu"
	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/shared/testtier"
)

// records is the host of the Firestore emulator; missing says why there is no Firebase Authentication emulator, where
// there is none.
var (
	records string
	missing string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	choice, err := gcloudtest.Choice()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	f, err := firestoreemu.Start(context.Background(),
		firestoreemu.Options{Choice: choice, Attach: os.Getenv("FIRESTORE_EMULATOR_HOST")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	records = f.Host
	var e *firebaseemu.Emulator
	attach := os.Getenv(firebaseemu.HostVariable)
	if choice != gcloud.Embedded || attach != "" {
		e, err = firebaseemu.Start(context.Background(), attach)
	} else {
		missing = testtier.Skipped("needs Node.js for the Firebase Authentication emulator")
	}
	switch {
	case missing != "":
	case errors.Is(err, firebaseemu.ErrNotInstalled):
		missing = err.Error()
	case err != nil:
		fmt.Fprintln(os.Stderr, errors.Join(err, f.Close()))
		return 1
	default:
		// The library takes the address from nowhere else.
		_ = os.Setenv(firebaseemu.HostVariable, e.Host)
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
