package simulation

import (
	"errors"
	"fmt"

	"agents.example/controlplane/shared/credential"
)

// addError is the error of adding a version: it says whether the version was certainly not added.
func addError(err error) error {
	var failed *Error
	if errors.As(err, &failed) && failed.unsent() {
		return fmt.Errorf("%w: %w", storeUnavailable(), credential.ErrRefused)
	}
	return portError(err, storeUnavailable)
}
