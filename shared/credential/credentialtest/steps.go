package credentialtest

import (
	"testing"

	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
)

const username = "admin"

func ensure(t *testing.T, v fixture, agentID string) (credential.Credentials, int64) {
	t.Helper()
	c, version, err := v.EnsureCredentials(t.Context(), agentID, username)
	if err != nil {
		t.Fatalf("EnsureCredentials: %v", err)
	}
	return c, version
}

func put(t *testing.T, v fixture, agentID, key, value string) int64 {
	t.Helper()
	version, err := v.Put(t.Context(), agentID, key, []byte(value))
	if err != nil {
		t.Fatalf("Put %s: %v", key, err)
	}
	return version
}

func mustRead(t *testing.T, v fixture, agentID, key string, version int64, want string) {
	t.Helper()
	got, err := v.Read(t.Context(), agentID, key, version)
	if err != nil {
		t.Errorf("Read %s version %d: %v", key, version, err)
	} else if string(got) != want {
		t.Errorf("Read %s version %d: the value differs from the one that was put", key, version)
	}
}

func mustMiss(t *testing.T, v fixture, agentID, key string, version int64) {
	t.Helper()
	got, err := v.Read(t.Context(), agentID, key, version)
	if fault.Code(err) != "secret_value_unavailable" || fault.From(err).Kind != fault.BadRequest || len(got) > 0 {
		t.Errorf("Read %s version %d: %d bytes, %v, want secret_value_unavailable as BadRequest", key, version,
			len(got), err)
	}
}

func destroy(t *testing.T, v fixture, agentID string, keys ...string) {
	t.Helper()
	if err := v.Destroy(t.Context(), agentID, keys); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}
