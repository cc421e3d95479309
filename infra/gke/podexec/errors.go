package podexec

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/fault"
)

// maxStatus is more than the size of an API server's error.
const maxStatus = 64 << 10

// status is how an API server says what became of a request or of a command.
type status struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Details struct {
		Causes []struct {
			Type    string `json:"reason"`
			Message string `json:"message"`
		} `json:"causes"`
	} `json:"details"`
}

// explainRefusal turns the refusal of an API server into the vocabulary of package agentexec:
//
//	404 of the API server     NotRunning: the namespace or the pod is gone
//	400, about a container    NotRunning
//	all others                Unavailable: operators may grant rights later, and nodes come back. A 404 of a proxy
//	                          that does not reach the cluster is one, too.
//
// The texts of a kubelet stay out of errors: they may quote a command. Those of refusals do not.
func explainRefusal(cell string, answer *http.Response, cause error) error {
	if answer == nil {
		return unavailable(fmt.Errorf("call cell %q: %w", cell, cause))
	}
	var s status
	if answer.Body != nil {
		_ = json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&s) // a proxy's error is no JSON
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		if s.Reason == "NotFound" {
			return agentexec.NotRunning()
		}
	case http.StatusBadRequest:
		if strings.Contains(s.Message, "container") || strings.Contains(s.Message, "does not have a host assigned") {
			return agentexec.NotRunning()
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		return unavailable(fmt.Errorf("the API server answers %d: %s", answer.StatusCode, s.Message))
	}
	return unavailable(fmt.Errorf("the API server answers %d %s", answer.StatusCode, s.Reason))
}

// explainEnd returns how a command ended, from the last message of an API server: an *agentexec.Exit, or why there is
// none. Container runtimes have no codes for their errors.
func explainEnd(message []byte) error {
	var s status
	if err := json.Unmarshal(message, &s); err != nil {
		return unavailable(fmt.Errorf("read how a command ended: %w", err))
	}
	if s.Status == "Success" {
		return &agentexec.Exit{}
	}
	for _, cause := range s.Details.Causes {
		if code, err := strconv.Atoi(cause.Message); cause.Type == "ExitCode" && err == nil {
			return &agentexec.Exit{Code: code}
		}
	}
	has := func(texts ...string) bool {
		for _, text := range texts {
			if strings.Contains(s.Message, text) {
				return true
			}
		}
		return false
	}
	switch {
	// runc, gVisor, and the local cloud's pods.
	case has("executable file not found", "no such file or directory", "permission denied", "is a directory",
		"error finding executable", "the image has no program"):
		return agentexec.NotFound()
	// The kubelet, containerd, and the local cloud's pods.
	case has("container not found", "pod does not exist", "no running task found",
		"container is in CONTAINER_EXITED state", "not running", "does not run", "is simulated", "is not available",
		"cannot exec in a"):
		return agentexec.NotRunning()
	}
	return unavailable(fmt.Errorf("a command did not run: %s", s.Reason))
}

// unavailable is an error of the way to the API server, or of the server itself.
func unavailable(cause error) *fault.Error {
	return fault.New(fault.Unavailable, "cluster_unavailable",
		"The agent's cluster is temporarily unavailable. Retry.").WithCause(cause)
}
