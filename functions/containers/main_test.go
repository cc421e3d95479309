package containers_test

import (
	"testing"

	"agents.example/controlplane/functions/functiontest"
)

func TestMain(m *testing.M) { functiontest.Main(m) }
